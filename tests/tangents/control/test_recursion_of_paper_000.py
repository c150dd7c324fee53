"""Paper 000, section 4.4: FUN makes a recursive function of a program in direct style, and TREE walks a tree by it.

    def TREE(init)(t)(b) = {
        def f = FUN { tree => IF (tree.notEmpty) { b(f(tree.left), f(tree.right)) } { init } }
        f(t)
    }
    def snippet(tree, in) = grad(x => TREE(x)(tree) { (l, r) => l * r * tree.value })(in)

FUN is `fix`, and IF is `lax.cond`.  The paper's program, reduced, multiplies by the value of the node that it is at.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import fix, function
from tangents import grad, hvp, jvp, value_and_grad

PLACE = C.Tensor((), jnp.int32)
ROOT = np.int32(0)
SPACES = ["environment", "list"]
pytestmark = pytest.mark.usefixtures("x64")


@dataclass(frozen=True)
class Tree:
    """A node of a tree, whose nodes are rows of arrays: their children, -1 for the empty tree, and their values."""

    lefts: Any
    rights: Any
    values: Any
    place: Any = ROOT

    def at(self, place):
        return Tree(self.lefts, self.rights, self.values, place)

    not_empty = property(lambda self: self.place >= 0)
    left = property(lambda self: self.lefts[self.place])
    right = property(lambda self: self.rights[self.place])
    value = property(lambda self: self.values[self.place])


def TREE(init: Any) -> Callable[[Tree], Callable[[Any], Any]]:
    def of(t: Tree) -> Callable[[Any], Any]:
        def by(b: Any) -> Any:
            def f(f, place):
                tree = t.at(place)
                return lax.cond(tree.not_empty, lambda: b(f(tree.left), f(tree.right), tree.value), lambda: init)

            return fix(f, PLACE)(t.place)

        return by

    return of


def binary():
    return C.Inductive(empty=(), node=(C.Rec, C.Tensor(), C.Rec))


def CATA(init):
    """The same as a fold over the forest of the tree."""
    return lambda forest: (
        lambda b: C.cata(binary())({"empty": lambda: init, "node": lambda l, value, r: b(l, r, value)}, forest)[0]
    )


product = lambda l, r, value: l * r * value
LEAF = ("empty",)
NESTED = ("node", ("node", LEAF, 5.0, ("node", LEAF, 4.0, LEAF)), 3.0, ("node", LEAF, 0.5, LEAF))
LEFTS, RIGHTS = jnp.array([1, -1, -1, -1], jnp.int32), jnp.array([2, 3, -1, -1], jnp.int32)
VALUES = np.array([3.0, 5.0, 0.5, 4.0])
ENDS = 5  # how often `init` is there

WAYS = {
    "fix": lambda x: TREE(x)(Tree(LEFTS, RIGHTS, jnp.array(VALUES)))(product),
    "cata": lambda x: CATA(x)(binary().encode([NESTED]))(product),
}


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize("way", WAYS)
def test_the_snippet(way, functions):
    """x^5 Π v, whose derivative is 5 x^4 Π v."""
    snippet = lambda x: grad(WAYS[way], functions=functions)(x)
    np.testing.assert_allclose(snippet(1.5), ENDS * 1.5 ** (ENDS - 1) * np.prod(VALUES), rtol=1e-12)
    np.testing.assert_allclose(WAYS[way](1.5), 1.5**ENDS * np.prod(VALUES), rtol=1e-12)


def test_the_snippet_forwards_twice_and_in_lanes():
    f, n, v, x = WAYS["fix"], ENDS, np.prod(VALUES), 1.5
    np.testing.assert_allclose(jvp(f, (x,), (2.0,)), (x**n * v, 2 * n * x ** (n - 1) * v), rtol=1e-12)
    np.testing.assert_allclose(hvp(f, (x,), (1.0,)), n * (n - 1) * x ** (n - 2) * v, rtol=1e-12)
    xs = np.array([0.5, 1.0, -2.0])
    np.testing.assert_allclose(jax.jit(jax.vmap(grad(f)))(xs), n * xs ** (n - 1) * v, rtol=1e-12)


def by_hand(init, tree, b):
    """TREE, by Python's recursion."""
    if tree.place < 0:
        return init
    left, right = (by_hand(init, tree.at(place), b) for place in (tree.left, tree.right))
    return b(left, right, tree.value)


def drawn(rng, size):
    """A random tree of so many nodes, its root first."""
    rows: list[list[int]] = []

    def of(size):
        if size == 0:
            return -1
        rows.append([0, 0])
        place, before = len(rows) - 1, int(rng.integers(size))
        rows[place] = [of(before), of(size - 1 - before)]
        return place

    of(size)
    return Tree(*np.array(rows, np.int32).T, rng.uniform(0.5, 1.5, size))


@pytest.mark.parametrize("functions", SPACES)
def test_random_trees_and_a_function_that_captured_a_weight(functions, compilations):
    """One program for all shapes; its weight, the start and the values at the nodes have cotangents."""
    rng, size, h = np.random.default_rng(0), 12, 1e-6
    b = lambda w, np: lambda l, r, v: np.sin(w * l) + np.cos(r * v)

    @jax.jit
    def found(w, x, values, lefts, rights):
        def loss(w, x, values):
            return TREE(x)(Tree(lefts, rights, values))(function(b(w, jnp), x, x, x))

        return value_and_grad(loss, (0, 1, 2), functions=functions)(w, x, values)

    def central(of, x):
        return (of(x + h) - of(x - h)) / (2 * h)

    def check(tree):
        loss = lambda w, x, values: by_hand(x, Tree(tree.lefts, tree.rights, values), b(w, np))
        moved = lambda i: lambda v: loss(0.7, 0.4, np.where(np.arange(size) == i, v, tree.values))
        value, slopes = found(0.7, 0.4, tree.values, tree.lefts, tree.rights)
        by_w = central(lambda w: loss(w, 0.4, tree.values), 0.7)
        by_x = central(lambda x: loss(0.7, x, tree.values), 0.4)
        by_values = [central(moved(i), v) for i, v in enumerate(tree.values)]
        np.testing.assert_allclose(value, loss(0.7, 0.4, tree.values), rtol=1e-12)
        for slope, expected in zip(slopes, (by_w, by_x, by_values), strict=True):
            np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-8)

    check(drawn(rng, size))
    compilations.new()
    check(drawn(rng, size))
    check(drawn(rng, size))
    assert compilations.new() == 0
