"""Folds over trees, compiled: once for all shapes of a size class, for deep and for wide trees, without copies."""

import math
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcurry import C, ccc, grad, value_and_grad
from tests.tangents.control.test_loops_compiled import copies

TREE = C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Rec))


def close(got, expected, rtol=1e-5):
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-6)


# The problem of users of many libraries: one compilation for each shape of tree


def encoded(tree):
    return ("node", encoded(tree[0]), encoded(tree[1])) if isinstance(tree, tuple) else ("leaf", tree)


def by_hand(p, tree):
    """The value, and the pullback to weights and leaves."""
    if not isinstance(tree, tuple):
        return tree, lambda g: ({"l": 0.0, "r": 0.0, "b": 0.0}, encoded(g))
    (left, of_left), (right, of_right) = by_hand(p, tree[0]), by_hand(p, tree[1])
    h = math.tanh(p["l"] * left + p["r"] * right + p["b"])

    def pullback(g):
        u = g * (1 - h * h)
        (a, left_tree), (b, right_tree) = of_left(u * p["l"]), of_right(u * p["r"])
        own = {"l": u * left, "r": u * right, "b": u}
        return {k: own[k] + a[k] + b[k] for k in own}, ("node", left_tree, right_tree)

    return h, pullback


def leaves(tree):
    return [tree[1]] if tree[0] == "leaf" else leaves(tree[1]) + leaves(tree[2])


def test_c3_one_compilation_for_all_shapes(compilations):
    p = {"l": 0.6, "r": -0.4, "b": 0.1}

    def loss(p, forest):
        node = lambda a, b: jnp.tanh(p["l"] * a + p["r"] * b + p["b"])
        return jnp.sum(C.cata(TREE)({"leaf": lambda x: x, "node": node}, forest))

    program = jax.jit(value_and_grad(loss, (0, 1)))
    for number, tree in enumerate(
        (((0.5, -1.0), 2.0), (1.0, (0.3, (0.7, -0.2))), (1.0, 2.0), ((1.0, 2.0), (3.0, 4.0)))
    ):
        forest = TREE.encode([encoded(tree)])
        compilations.new()
        value, (g, g_leaves) = program(p, forest)
        assert compilations.new() == (number == 0)
        expected, pullback = by_hand(p, tree)
        weights, of_leaves = pullback(1.0)
        close(value, expected)
        jax.tree.map(close, g, weights)
        (found,) = TREE.decode(replace(forest, payloads=g_leaves.payloads))
        close(leaves(found), leaves(of_leaves))


def test_one_compilation_for_each_size_class(compilations):
    """Leaves of both trees are one array, so their numbers are of one class or another together."""

    def chain(nodes):
        return ("leaf", 0.5) if nodes == 0 else ("node", chain(nodes - 1), ("leaf", 1.0))

    node = lambda a, b: jnp.sin(a) * b
    program = jax.jit(grad(lambda w, forest: jnp.sum(C.cata(TREE)({"leaf": lambda x: w * x, "node": node}, forest))))
    found = []
    for nodes in (5, 6, 7, 8, 12, 15, 7, 20, 30, 12):  # rooms for 8, 16 and 32 of each
        forest = TREE.encode([chain(nodes)], width=1)
        compilations.new()
        program(2.0, forest)
        found.append(compilations.new())
    assert found == [1, 0, 0, 1, 1, 0, 0, 1, 0, 0]  # 8 nodes have 9 leaves: a class of their own


# Deep and wide trees


DEEP = C.Inductive(end=C.Tensor(), up=(C.Rec, C.Tensor()))


def test_ten_thousand_levels():
    """x_{i+1} = w x_i + 1 tends to 1 / (1 - w), whose derivative is 1 / (1 - w)^2."""
    deep = ("end", 0.0)
    for _ in range(10_000):
        deep = ("up", deep, 1.0)
    forest = DEEP.encode([deep])
    f = lambda w: C.cata(DEEP)({"end": lambda x: x, "up": lambda s, one: w * s + one}, forest)[0]
    value, slope = jax.jit(value_and_grad(f))(0.5)
    close((value, slope), (2.0, 4.0))


def test_a_thousand_children():
    """Each child is weighed by w^place: 1 + w + w^2 + ..., with the siblings after it."""
    rose = C.Inductive(nil=(), cons=(C.Tensor(), C.Rec, C.Rec))
    siblings = ("nil",)
    for _ in range(1000):
        siblings = ("cons", 1.0, ("nil",), siblings)
    forest = rose.encode([("cons", 3.0, siblings, ("nil",))])
    f = lambda w: C.cata(rose)(
        {"nil": lambda: 0.0 * w, "cons": lambda x, children, after: x + children + w * after}, forest
    )[0]
    close(jax.jit(value_and_grad(f))(0.5), (5.0, 4.0))


# What is compiled


SIZE = 32
BIG = C.Inductive(leaf=C.Tensor(SIZE), node=(C.Rec, C.Rec))


def vectors(w, forest):
    node = lambda a, b: jnp.tanh(a @ w + b)
    return jnp.sum(C.cata(BIG)({"leaf": lambda x: x, "node": node}, forest))


def chain(nodes):
    tree = ("leaf", np.ones(SIZE))
    for _ in range(nodes):
        tree = ("node", tree, ("leaf", np.ones(SIZE)))
    return tree


@pytest.mark.parametrize("width", [1, 4])
def test_no_step_copies_the_results_of_all_nodes(width):
    forest = BIG.encode([chain(70)] * 2, width=width)
    text = jax.jit(grad(vectors)).lower(jnp.ones((SIZE, SIZE)), forest).compile().as_text()
    found = copies(text)
    assert max(found, default=0) <= SIZE * SIZE, found
    bodies = re.findall(r"body=", text)
    assert len(bodies) == 2, "one loop forwards, and one backwards"


def test_a_program_does_not_grow_with_its_tree():
    def equations(nodes):
        w, forest = jnp.ones((SIZE, SIZE)), BIG.encode([chain(nodes)])
        return str(jax.make_jaxpr(grad(vectors))(w, forest)).count(" = ")

    assert equations(5) == equations(500) > 20


def test_a_fold_is_one_operation_of_its_program():
    forest = TREE.encode([encoded((1.0, 2.0))])
    f = ccc(lambda w, forest: C.cata(TREE)({"leaf": lambda x: w * x, "node": lambda a, b: a - b}, forest))
    text = str(f.trace(1.0, forest).term)
    assert "cata(Inductive(" in text and "while" not in text and "scan" not in text
