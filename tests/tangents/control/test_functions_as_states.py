"""Functions in the state of a loop: which one it is depends on the number of steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import errors as E
from compile_ccc import function
from tangents import grad

SPACES = ["environment", "list"]


def flipped(f, x, n, loop):
    """f and λx. x² take turns on x, n times; then the next one, the other one and the next one again."""
    square = function(lambda x: x * x, C.Tensor())
    if loop == "while":
        flip = lambda s: (s[0] + 1, s[2], s[1], s[1](s[3]))
        _, f, g, x = lax.while_loop(lambda s: s[0] < n, flip, (0, f, square, x))
    else:
        (f, g, x), _ = lax.scan(lambda s, _: ((s[1], s[0], s[0](s[2])), ()), (f, square, x), length=n)
    return f(g(f(x)))


def powers(n):
    """The powers of a and of x in what `flipped` gives for f = λx. a x."""
    a, x = 0, 1
    for step in (*range(n), n, n + 1, n + 2):
        a, x = (a + 1, x) if step % 2 == 0 else (2 * a, 2 * x)
    return a, x


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize(("loop", "numbers"), [("while", (0, 1, 2)), ("scan", (3,))])
def test_functions_that_take_turns(functions, loop, numbers):
    def loss(a, x, n):
        return flipped(function(lambda x: a * x, C.Tensor()), x, n, loop)

    g = grad(loss, (0, 1), functions=functions)
    for n in numbers:
        p, q = powers(n)
        expected = p * 1.5 ** (p - 1) * 0.8**q, q * 1.5**p * 0.8 ** (q - 1)
        np.testing.assert_allclose(g(jnp.float32(1.5), jnp.float32(0.8), n), expected, rtol=1e-5)


@pytest.mark.parametrize("loop", ["while", "scan"])
def test_the_calls_of_a_function_that_is_state_have_no_list(loop):
    times = function(lambda x, a=1.5: a * x, C.Tensor())
    p, q = powers(1)
    by_a = grad(flipped)(times, jnp.float32(0.8), 1, loop).environment[0]
    np.testing.assert_allclose(by_a, p * 1.5 ** (p - 1) * 0.8**q, rtol=1e-5)
    with pytest.raises(E.UnsupportedError, match="leave a loop"):
        grad(flipped, functions="list")(times, jnp.float32(0.8), 1, loop)


@pytest.mark.parametrize("functions", SPACES)
def test_functions_that_give_functions_are_called_after_the_loop(functions):
    """The calls of what a function of the state gives are part of its own calls: a b x, a² b x, ..."""

    def loss(a, b):
        scaled = lambda by: lambda y: function(lambda x: by * y * x, C.Tensor())
        first, second = (function(scaled(by), C.Tensor()) for by in (a, a * a))
        flip = lambda s: (s[0] + 1, s[2], s[1])
        _, f, _ = lax.while_loop(lambda s: s[0] < 1, flip, (0, first, second))
        return f(b)(3.0)

    np.testing.assert_allclose(grad(loss, (0, 1), functions=functions)(2.0, 5.0), (2 * 2 * 5 * 3, 4 * 3))


def test_lanes_with_functions_of_their_own_are_mapped_by_map():
    """Under jax.vmap there is one loop for all lanes, whose state would be an array of functions."""
    ns, xs = jnp.arange(3), jnp.array([0.8, 0.9, 1.1], jnp.float32)

    def loss(a, mapped):
        of_lane = lambda n, x: flipped(function(lambda x: a * x, C.Tensor()), x, n, "while")
        return jnp.sum(mapped(of_lane)(ns, xs))

    by_map = lambda f: lambda *xs: C.map(lambda x: f(*x), xs)
    terms = ((*powers(int(n)), float(x)) for n, x in zip(ns, xs, strict=True))
    expected = sum(p * 1.5 ** (p - 1) * x**q for p, q, x in terms)
    np.testing.assert_allclose(grad(loss)(jnp.float32(1.5), by_map), expected, rtol=1e-5)
    with pytest.raises(E.UnsupportedError, match="3 functions") as caught:
        grad(loss)(jnp.float32(1.5), jax.vmap)
    assert "C.map" in str(caught.value)
