"""States that are passed down trees, alone and with folds: values and derivatives are those of recursion."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcurry import C, grad, jvp, value_and_grad
from tests.tangents.control.test_loops_compiled import copies


def tree_type():
    return C.Inductive(leaf=C.Tensor(), neg=C.Rec, node={"left": C.Rec, "x": C.Tensor(), "right": C.Rec})


def leaf(x):
    return ("leaf", x)


def node(left, x, right):
    return ("node", {"left": left, "x": x, "right": right})


TREES = [
    node(node(leaf(1.0), 0.7, ("neg", leaf(-0.4))), 1.3, ("neg", ("neg", leaf(0.5)))),
    leaf(0.3),
    ("neg", node(leaf(0.2), -0.6, leaf(0.9))),
]
P, START = {"a": np.array(0.8), "b": np.array(-0.3)}, np.array([0.4, -1.1, 0.6])


def close(got, expected, rtol=1e-6):
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-9)


def passed(p, np):
    return {
        "neg": lambda s, _: np.sin(p["b"] * s),
        "node": lambda s, parts: {"left": p["a"] * s * parts["x"], "x": None, "right": s + parts["x"] * p["b"]},
    }


def recursively(p, state, tree):
    """The sum of (own payload + 2) times the square of the state, over all nodes."""
    name, parts = tree
    if name == "leaf":
        return (parts + 2.0) * state**2
    below = passed(p, np)[name](state, parts)
    if name == "neg":
        return 2.0 * state**2 + recursively(p, below, parts)
    sides = [recursively(p, below[side], parts[side]) for side in ("left", "right")]
    return (parts["x"] + 2.0) * state**2 + sum(sides)


def truth(p, start, trees=TREES):
    return sum(recursively(p, state, tree) for state, tree in zip(start, trees, strict=True))


def loss(p, start, forest):
    at = C.inherit(tree_type())(passed(p, jnp), start, forest).payloads
    own = {"leaf": at["leaf"][0], "neg": 0.0 * at["neg"][1], "node": at["node"][0]["x"]}
    return sum(jnp.sum((own[name] + 2.0) * s**2) for name, (_, s) in at.items())


def slope(f, step=1e-6):
    return (f(step) - f(-step)) / (2.0 * step)


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("functions", ["environment", "list"])
def test_states_are_those_of_recursion(x64, width, functions):
    forest = tree_type().encode(TREES, width=width)
    value, (of_p, of_start, of_forest) = value_and_grad(loss, (0, 1, 2), functions=functions)(P, START, forest)
    close(value, truth(P, START), 1e-12)
    for name in P:
        close(of_p[name], slope(lambda e, name=name: truth({**P, name: P[name] + e}, START)))
    for i in range(3):
        close(of_start[i], slope(lambda e, i=i: truth(P, START + e * (np.arange(3) == i))))
    first = tree_type().decode(dataclasses.replace(forest, payloads=of_forest.payloads))[0]
    moved = lambda e: node(node(leaf(1.0), 0.7 + e, ("neg", leaf(-0.4))), 1.3, ("neg", ("neg", leaf(0.5))))
    close(first[1]["left"][1]["x"], slope(lambda e: truth(P, START[:1], [moved(e)])))
    _, along = jvp(lambda p, s: loss(p, s, forest), (P, START), ({"a": 1.0, "b": -2.0}, np.ones(3)))
    close(along, of_p["a"] - 2.0 * of_p["b"] + np.sum(of_start))


def test_more_derivatives(x64):
    forest = tree_type().encode(TREES, width=2)
    f = lambda a, start: loss({**P, "a": a}, start, forest)
    g = lambda e: slope(lambda d: truth({**P, "a": 0.8 + e + d}, START), 1e-4)
    close(grad(grad(f))(0.8, START), slope(g, 1e-4), 1e-5)
    close(jvp(lambda a: grad(f)(a, START), (0.8,), (1.0,))[1], slope(g, 1e-4), 1e-5)
    several = jax.jit(jax.vmap(grad(f), (None, 0)))(0.8, np.stack([START, 2.0 * START]))
    close(several, [slope(lambda e, s=s: truth({**P, "a": 0.8 + e}, s)) for s in (START, 2.0 * START)])


def test_integers_and_numbers_are_one_state():
    """The depth of a node, and 2 to its power: 2 x^2 at a depth of 1, and 4 x^2 at one of 2."""
    forest = tree_type().encode([node(leaf(3.0), 5.0, ("neg", leaf(7.0)))])
    start = lambda w: {"depth": jnp.zeros(1, int), "weight": w[None]}
    deeper = lambda s, _: {"depth": s["depth"] + 1, "weight": 2.0 * s["weight"]}
    down = {"neg": deeper, "node": lambda s, p: {"left": deeper(s, p), "x": None, "right": deeper(s, p)}}

    def weighed(w):
        x, s = C.inherit(tree_type())(down, start(w), forest).payloads["leaf"]
        return jnp.sum(x * s["depth"].astype(float) * s["weight"])

    assert value_and_grad(weighed)(jnp.array(1.0)) == (3.0 * 2.0 + 7.0 * 2 * 4.0,) * 2
    annotated = C.inherit(tree_type())(down, start(jnp.array(1.0)), forest)
    (found,) = tree_type().annotated({"depth": C.Tensor((), int), "weight": C.Tensor()}).decode(annotated)
    assert found[2] == {"depth": 0, "weight": 1.0} and found[1]["right"][2]["depth"] == 1
    assert found[1]["right"][1][2] == {"depth": 2, "weight": 4.0}


# Both ways


def plain():
    return C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Rec))


def test_up_and_then_down(x64):
    """The sum of all leaves before each: sums go up, and those of the left sides down to the right."""
    tree = ("node", ("node", ("leaf", 1.0), ("leaf", 20.0)), ("node", ("leaf", 300.0), ("leaf", 4000.0)))

    type, sums_type = plain(), plain().annotated((C.Tensor(), C.Tensor()))

    def before(forest):
        up = {"leaf": lambda x: (x, 0.0 * x), "node": lambda left, right: (left[0] + right[0], left[0])}
        sums = C.annotate(type)(up, forest)
        down = {"node": lambda s, parts: ((s, s + parts[1][1]), None)}
        return C.inherit(sums_type)(down, jnp.zeros(1), sums)

    forest = type.encode([tree])
    (found,) = sums_type.annotated(C.Tensor()).decode(before(forest))
    ((left, right), _), _ = found[1], found[2]
    assert [x[2] for x in (*left[1][0], *right[1][0])] == [0.0, 1.0, 21.0, 321.0]
    weighed = lambda forest: jnp.sum(jnp.where(forest.valid["leaf"], before(forest).payloads["leaf"][1], 0.0) ** 2)
    (g,) = type.decode(dataclasses.replace(forest, payloads=grad(weighed)(forest).payloads))
    numbers = [x[1] for side in g[1:] for x in side[1:]]
    close(numbers, [2.0 * (1.0 + 21.0 + 321.0), 2.0 * (21.0 + 321.0), 2.0 * 321.0, 0.0])


def test_down_and_then_up(x64):
    """Each leaf times w to its depth: 2 w x + 2 w^2 y."""
    forest = plain().encode([("node", ("leaf", 3.0), ("node", ("leaf", 5.0), ("leaf", 7.0)))])

    def total(w):
        weights = C.inherit(plain())({"node": lambda s, _: (w * s, w * s)}, jnp.ones(1), forest)
        up = {"leaf": lambda x, s: x * s, "node": lambda parts, s: parts[0] + parts[1]}
        return C.cata(plain().annotated(C.Tensor()))(up, weights)[0]

    close(value_and_grad(total)(0.5), (0.5 * 3.0 + 0.25 * 12.0, 3.0 + 2 * 0.5 * 12.0))


# What is compiled


SIZE = 32
BIG = C.Inductive(leaf=(), node=(C.Rec, C.Rec))


def chain(nodes):
    tree = ("leaf",)
    for _ in range(nodes):
        tree = ("node", tree, ("leaf",))
    return tree


def vectors(w, forest):
    down = {"node": lambda s, _: (jnp.tanh(s @ w), jnp.tanh(s))}
    return jnp.sum(C.inherit(BIG)(down, jnp.ones((forest.count, SIZE)), forest).payloads["leaf"][1])


@pytest.mark.parametrize("width", [1, 4])
def test_no_step_copies_the_states_of_all_nodes(width):
    forest = BIG.encode([chain(70)] * 2, width=width)
    text = jax.jit(grad(vectors)).lower(jnp.ones((SIZE, SIZE)), forest).compile().as_text()
    assert max(copies(text), default=0) <= SIZE * SIZE
    assert text.count("body=") == 2, "one loop down, and one up"


def test_a_program_does_not_grow_with_its_tree(compilations):
    program, w = jax.jit(grad(vectors)), 0.1 * jnp.ones((SIZE, SIZE))
    program(w, BIG.encode([chain(60)], room={"leaf": 64, "node": 64}))
    compilations.new()
    program(w, BIG.encode([chain(3)], room={"leaf": 64, "node": 64}))
    assert compilations.new() == 0


# Errors


def test_errors_say_which_state():
    forest = plain().encode([("node", ("leaf", 1.0), ("leaf", 2.0))])
    with pytest.raises(C.errors.LoopError, match="the function of the constructor 'node'"):
        C.inherit(plain())({"node": lambda s, _: (s, 1)}, jnp.zeros(1), forest)
    with pytest.raises(C.errors.LoopError, match="the function of the constructor 'node'"):
        C.inherit(plain())({"node": lambda s, _: s}, jnp.zeros(1), forest)
    with pytest.raises(C.errors.CompositionError, match="there are 1 trees"):
        C.inherit(plain())({"node": lambda s, _: (s, s)}, 0.0, forest)
    with pytest.raises(C.errors.CompositionError, match="one for 'leaf'"):
        C.inherit(plain())({"node": lambda s, _: (s, s), "leaf": lambda s, _: None}, jnp.zeros(1), forest)
