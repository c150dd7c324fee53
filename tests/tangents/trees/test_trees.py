"""Folds over trees: their values and derivatives are those of recursion, whatever the schedule."""

import dataclasses
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcurry import C, function, grad, jvp, value_and_grad, vjp

TREE = C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Tensor(), C.Rec))


@pytest.fixture(params=["environment", "list"])
def functions(request):
    return request.param


def close(got, expected, rtol=1e-6):
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-9)


def of_tree(payloads, forest, type=TREE):
    """The trees with other payloads, such as cotangents."""
    return type.decode(dataclasses.replace(forest, payloads=payloads.payloads))


# Paper 000: a leaf gives the argument, and a node the product of its value and of what is below it


def product(x, forest):
    return C.cata(TREE)({"leaf": lambda _: x, "node": lambda left, v, right: left * right * v}, forest)


def test_the_tree_of_paper_000(functions):
    leaf = ("leaf", 0.0)
    tree = ("node", ("node", leaf, 5.0, leaf), 3.0, ("node", leaf, 4.0, leaf))  # 60 x^4
    value, slope = value_and_grad(lambda x, f: product(x, f)[0], functions=functions)(10.0, TREE.encode([tree]))
    close(value, 60 * 10.0**4)
    close(slope, 240 * 10.0**3)


def test_one_result_for_each_tree_and_payloads_have_cotangents():
    leaf = lambda x: ("leaf", x)
    forest = TREE.encode([("node", leaf(3.0), 2.0, leaf(5.0)), leaf(7.0)])
    f = lambda forest: C.cata(TREE)({"leaf": lambda x: x * x, "node": lambda a, v, b: a * v + b}, forest)
    values, pullback = vjp(f, forest)
    close(values, [9.0 * 2.0 + 25.0, 49.0])
    (g,) = pullback(jnp.array([1.0, 10.0]))
    assert of_tree(g, forest) == [("node", leaf(12.0), 9.0, leaf(10.0)), leaf(140.0)]
    assert jax.tree.structure(g) == jax.tree.structure(forest)
    discrete = [x for x in jax.tree.leaves(g) if not jnp.issubdtype(x.dtype, jnp.floating)]
    assert len(discrete) == 1 and not any(np.any(x) for x in discrete)
    for name, rows in (("leaf", g.payloads["leaf"]), ("node", g.payloads["node"][1])):
        assert not np.any(np.where(forest.valid[name], 0.0, rows)), "rows that are no node"


# Random trees of several constructors, against recursion in Python and central differences


def drawn(rng, numbers, leaves):
    if leaves == 1:
        x = {"x": numbers.normal(size=2), "word": rng.randrange(3)}
        return ("nil",) if rng.random() < 0.2 else ("leaf", x)
    if rng.random() < 0.3:
        return ("neg", drawn(rng, numbers, leaves))
    left = rng.randrange(1, leaves)
    return ("mix", drawn(rng, numbers, left), numbers.normal(size=2), drawn(rng, numbers, leaves - left))


def algebra(p, np):
    return {
        "nil": lambda: (p["b"], p["b"][:1]),
        "leaf": lambda q: (np.tanh(p["A"] @ q["x"]) + p["words"][q["word"]], q["x"][:1]),
        "neg": lambda s: (-s[0], np.sin(s[1])),
        "mix": lambda s, x, t: (np.tanh(p["A"] @ s[0] - x * t[0] + p["b"]), s[1] * t[0][:1]),
    }


def recursively(p, tree, every=None):
    name, *parts = tree
    result = algebra(p, np)[name](*[recursively(p, x, every) if isinstance(x, tuple) else x for x in parts])
    if every is not None:
        every.append(result)
    return result


def weighed(results, np):
    return sum(np.sum(a @ np.array([1.0, 3.0])) + np.sum(b**2) for a, b in results)


def differences(f, p):
    def at(name, index, step):
        moved = {k: v.copy() for k, v in p.items()}
        moved[name][index] += step
        return f(moved)

    slope = lambda name, index: (at(name, index, 1e-6) - at(name, index, -1e-6)) / 2e-6
    return {k: np.array([slope(k, i) for i in np.ndindex(v.shape)]).reshape(v.shape) for k, v in p.items()}


@pytest.fixture
def problem(x64):
    rng, numbers = random.Random(2), np.random.default_rng(2)
    type = C.Inductive(
        nil=(), leaf={"x": C.Tensor(2), "word": C.Tensor((), jnp.int32)}, neg=C.Rec, mix=(C.Rec, C.Tensor(2), C.Rec)
    )
    trees = [drawn(rng, numbers, leaves) for leaves in (1, 2, 5, 8)]
    p = {"A": (2, 2), "b": 2, "words": (3, 2)}
    return type, trees, {name: numbers.normal(size=shape) for name, shape in p.items()}


@pytest.mark.parametrize("width", [1, 3])
def test_random_trees_are_those_of_recursion(problem, width):
    type, trees, p = problem
    forest = type.encode(trees, width=width)
    loss = lambda p, forest: weighed([C.cata(type)(algebra(p, jnp), forest)], jnp)
    truth = lambda p: weighed([recursively(p, tree) for tree in trees], np)
    expected = differences(truth, p)
    for functions in ("environment", "list"):
        value, g = value_and_grad(loss, functions=functions)(p, forest)
        close(value, truth(p), 1e-12)
        jax.tree.map(lambda got, wanted: close(got, wanted, 1e-6), g, expected)
    direction = jax.tree.map(lambda x: np.cos(1.0 + np.arange(x.size)).reshape(x.shape), p)
    _, slope = jvp(lambda p: loss(p, forest), (p,), (direction,))
    close(slope, sum(np.sum(direction[k] * expected[k]) for k in p), 1e-6)


def test_every_node_has_its_result(problem):
    type, trees, p = problem
    forest = type.encode(trees, width=2)

    def loss(p):
        payloads = C.annotate(type)(algebra(p, jnp), forest).payloads
        return weighed([result for _, result in payloads.values()], jnp)

    def truth(p):
        every = []
        for tree in trees:
            recursively(p, tree, every)
        return weighed(every, np)

    value, g = value_and_grad(loss)(p)
    close(value, truth(p), 1e-12)
    jax.tree.map(lambda got, wanted: close(got, wanted, 1e-6), g, differences(truth, p))
    result = C.annotate(type)(algebra(p, jnp), forest)
    annotated = type.annotated((C.Tensor(2), C.Tensor(1)))
    for tree, found in zip(trees, annotated.decode(result), strict=True):
        parts, root = found[1:]
        close(root[0], recursively(p, tree)[0], 1e-12)
        assert parts == () if tree[0] == "nil" else True


def test_payloads_go_through_annotate(x64):
    type = C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Tensor(), C.Rec))
    forest = type.encode([("node", ("leaf", 3.0), 2.0, ("leaf", 5.0))])

    def loss(forest):
        after = C.annotate(type)({"leaf": lambda x: x**2, "node": lambda a, v, b: a * b * v}, forest)
        (_, v, _), y = after.payloads["node"]
        x, z = after.payloads["leaf"]
        return jnp.sum(v**3) + jnp.sum(y) + jnp.sum(jnp.where(forest.valid["leaf"], x * z, 0.0))

    # v^3 + v x^2 y^2 + x^3 + y^3 at v = 2, x = 3, y = 5
    (root,) = of_tree(grad(loss)(forest), forest, type)
    leaf = lambda x, y: 2 * 2 * x * y**2 + 3 * x**2
    np.testing.assert_allclose([root[1][1], root[2], root[3][1]], [leaf(3, 5), 12 + 9 * 25, leaf(5, 3)], rtol=1e-12)


# Other uses


def test_derivatives_of_derivatives(x64):
    type = C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Tensor(), C.Rec))
    leaf = ("leaf", 1.0)
    forest = type.encode([("node", ("node", leaf, 5.0, leaf), 3.0, leaf)], width=2)  # 15 x^3
    f = lambda x: C.cata(type)({"leaf": lambda _: x, "node": lambda a, v, b: a * b * v}, forest)[0]
    close(grad(grad(f))(2.0), 180.0)
    close(jvp(grad(f), (2.0,), (1.0,))[1], 180.0)
    close(jax.vmap(grad(f))(jnp.array([1.0, 2.0])), [45.0, 180.0])
    close(grad(lambda x: jvp(f, (x,), (1.0,))[1])(2.0), 180.0)


def test_functions_may_be_arguments(functions):
    forest = TREE.encode([("node", ("leaf", 3.0), 2.0, ("leaf", 5.0))])
    w = 0.5
    leaf = function(lambda x: w * x, C.Tensor())
    node = function(lambda a, v, b: a * v + b, C.Tensor(), C.Tensor(), C.Tensor())

    def inside(w):
        scaled = function(lambda x: w * x, C.Tensor())
        return C.cata(TREE)({"leaf": lambda x: scaled(x), "node": lambda a, v, b: a * v + b}, forest)[0]

    close(grad(inside, functions=functions)(0.5), 3.0 * 2.0 + 5.0)
    by_leaf = grad(lambda leaf: C.cata(TREE)({"leaf": leaf, "node": node}, forest)[0])(leaf)
    close(by_leaf.environment[0], 11.0)


def test_calls_that_leave_a_fold_have_no_list():
    forest, w = TREE.encode([("leaf", 3.0)]), 2.0
    f = lambda leaf: C.cata(TREE)({"leaf": leaf, "node": lambda a, v, b: a * v + b}, forest)[0]
    for leaf in (lambda x: w * x, lambda x: 2.0 * x):
        with pytest.raises(C.errors.UnsupportedError, match="calls of a function leave a loop"):
            grad(f, functions="list")(function(leaf, C.Tensor()))


LIST = C.Inductive(nil=(), cons=(C.Tensor(), C.Rec))


def test_lists_are_an_inductive_type_whose_cata_is_fold(functions):
    values = [0.3, -1.2, 0.7, 2.0]
    encoded = ("nil",)
    for x in reversed(values):
        encoded = ("cons", x, encoded)
    forest, xs = LIST.encode([encoded]), jnp.array(values)
    by_cata = lambda w, f: C.cata(LIST)({"nil": lambda: w, "cons": lambda x, s: jnp.sin(s * x + w)}, f)[0]
    by_fold = lambda w, xs: C.terms.Fold(reverse=True)(lambda s, x: jnp.sin(s * x + w), w, xs)
    value, (g, g_list) = value_and_grad(by_cata, (0, 1), functions=functions)(0.4, forest)
    wanted, (g_fold, g_xs) = value_and_grad(by_fold, (0, 1), functions=functions)(0.4, xs)
    close(value, wanted)
    close(g, g_fold)
    (found,), numbers = of_tree(g_list, forest, LIST), []
    while found != ("nil",):
        numbers, found = [*numbers, found[1]], found[2]
    close(numbers, g_xs, 1e-5)


def test_a_constructor_without_nodes_costs_no_nan():
    """No tree has a nil here, and the function of nil is not differentiable where its room is."""
    type = C.Inductive(nil=C.Tensor(), leaf=C.Tensor(), node=(C.Rec, C.Rec))
    forest = type.encode([("node", ("leaf", 4.0), ("leaf", 9.0))], width=3)
    f = lambda w: C.cata(type)(
        {"nil": lambda x: jnp.sqrt(w * x), "leaf": lambda x: jnp.sqrt(w * x), "node": lambda a, b: a / b}, forest
    )[0]
    g = lambda w: C.cata(type)(
        {"nil": lambda x: w / x, "leaf": lambda x: w * jnp.sqrt(x), "node": lambda a, b: a + 1 / b}, forest
    )[0]
    assert abs(grad(f)(1.0)) < 1e-6
    close(grad(g)(1.0), 2.0 - 1 / 3)


def test_results_may_be_empty_arrays():
    forest = TREE.encode([("node", ("leaf", 4.0), 2.0, ("leaf", 9.0))])
    f = {"leaf": lambda x: (jnp.zeros(0) * x, x), "node": lambda a, v, b: (a[0] * b[0], a[1] * b[1] * v)}
    loss = lambda forest: jnp.sum(C.cata(TREE)(f, forest)[0]) + jnp.sum(C.cata(TREE)(f, forest)[1])
    assert of_tree(grad(loss)(forest), forest) == [("node", ("leaf", 18.0), 36.0, ("leaf", 8.0))]


# Errors
