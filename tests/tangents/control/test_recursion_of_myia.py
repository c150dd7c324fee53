"""The recursive programs among Myia's tests of its language, its types and its gradient, with `fix` and `mutual`."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import errors as E
from compile_ccc import fix, function, mutual
from tangents import grad, value_and_grad

I = C.Tensor((), jnp.int32)
SPACES = ["environment", "list"]
cond = lax.cond
pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("functions", SPACES)
def test_a_factorial_of_a_number_that_is_no_integer(functions):
    """4.1 · 3.1 · 2.1 · 1.1, whose derivative is the value times the sum of the reciprocals."""
    f = lambda x: fix(lambda fact, n: cond(n <= 1.0, lambda: 1.0, lambda: n * fact(n - 1.0)), C.Tensor())(x)
    factors = np.array([4.1, 3.1, 2.1, 1.1])
    value = np.prod(factors)
    np.testing.assert_allclose(value_and_grad(f, functions=functions)(4.1), (value, value * np.sum(1 / factors)))


@pytest.mark.parametrize("functions", SPACES)
def test_a_recursion_that_gives_what_it_captured(functions):
    f = lambda x: fix(lambda f, y: cond(y <= 0, lambda: x, lambda: f(y - 1)), I)(np.int32(7))
    assert value_and_grad(f, functions=functions)(4.3) == (4.3, 1.0)


@pytest.mark.parametrize("functions", SPACES)
def test_a_recursion_that_ends_below_zero(functions):
    f = lambda x: fix(lambda f, x: cond(x >= 0.0, lambda: f(x - 1.0), lambda: x), C.Tensor())(x)
    assert value_and_grad(f, functions=functions)(10.0) == (-1.0, 1.0)
    assert value_and_grad(f, functions=functions)(-0.25) == (-0.25, 1.0)


def test_two_functions_that_captured_where_they_start():
    def even(start, n):
        return mutual(
            (lambda even, odd, n: cond(n == start, lambda: True, lambda: odd(n - 1)), I),
            (lambda even, odd, n: cond(n == start, lambda: False, lambda: even(n - 1)), I),
        )[0](n)

    assert even(np.int32(0), np.int32(8)) and not even(np.int32(3), np.int32(8))


ENDLESS = {
    "ouroboros": lambda: fix(lambda f, x: f(x - 1), I),
    "two branches": lambda: fix(lambda f, x: cond(x < 0, lambda: f(x - 1), lambda: f(x + 1)), I),
    "ping and pong": lambda: mutual((lambda ping, pong: pong(),), (lambda ping, pong: ping(),)),
    "one after the other": lambda: mutual((lambda f, g, y: g(y - 1), I), (lambda f, g, y: f(y - 1), I)),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_recursion_without_an_end_has_no_type(name):
    with pytest.raises(E.UntypedFunctionError, match="whichever branches"):
        ENDLESS[name]()


# Pair(Pair(1, 2), Pair(2, 3)) as rows: the children of a node, or -1 for a leaf; and the numbers at the leaves.
LEFT = jnp.array([1, 3, 5, -1, -1, -1, -1], jnp.int32)
RIGHT = jnp.array([2, 4, 6, -1, -1, -1, -1], jnp.int32)


def reduced(combine, leaves):
    """The tree, with a function in the place of Pair, which is handed on to the subtrees."""
    numbers = jnp.concatenate([jnp.zeros(3), leaves])
    real = C.Tensor()

    def reduce(self, combine, node):
        both = lambda: combine(self(combine, LEFT[node]), self(combine, RIGHT[node]))
        return cond(LEFT[node] < 0, lambda: numbers[node], both)

    return fix(reduce, C.Function((real, real), real), I)(combine, np.int32(0))


@pytest.mark.parametrize("functions", SPACES)
def test_a_tree_that_is_reduced_by_a_function(functions):
    real, leaves = C.Tensor(), np.array([1.0, 2.0, 2.0, 3.0])
    add, mul = (function(f, real, real) for f in (lambda x, y: x + y, lambda x, y: x * y))
    assert (reduced(add, leaves), reduced(mul, leaves)) == (8.0, 12.0)
    np.testing.assert_allclose(grad(reduced, 1, functions=functions)(mul, leaves), 12.0 / leaves)
    scaled = lambda w: reduced(function(lambda x, y: w * x + y, real, real), leaves)
    # (w·1 + 2) w + w·2 + 3, so 2 w + 4
    np.testing.assert_allclose(value_and_grad(scaled, functions=functions)(0.5), (5.25, 5.0))
