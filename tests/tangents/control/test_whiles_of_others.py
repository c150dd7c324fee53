"""Loops on which others show that they differentiate whiles: Lantern's, from paper 000, section 4.3, and Myia's."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tangents import grad

SPACES = ["environment", "list"]


@pytest.mark.parametrize("functions", SPACES)
def test_halving_until_no_more_than_one(functions):
    """Lantern's: 0.5ⁿ x, of a slope that is a step function of x."""
    slope = grad(lambda x: lax.while_loop(lambda t: t > 1.0, lambda t: t * 0.5, x), functions=functions)
    for x, n in ((0.7, 0), (1.5, 1), (13.0, 4), (1000.0, 10)):
        np.testing.assert_allclose(slope(x), 0.5**n)


@pytest.mark.parametrize("functions", SPACES)
def test_squaring_while_below_a_hundred(functions):
    """From 4, 4, 16, 256: x⁴; from 1.5, x¹⁶."""
    slope = grad(lambda x: lax.while_loop(lambda t: t < 100.0, lambda t: t * t, x), functions=functions)
    for x, p in ((4.0, 4), (1.5, 16), (100.0, 1)):
        np.testing.assert_allclose(slope(x), p * x ** (p - 1), rtol=1e-5)


@pytest.mark.parametrize("functions", SPACES)
def test_what_decides_alone_when_a_loop_ends_has_no_slope(functions):
    """z is added as often as y goes into x: of x and y the result is a step function."""

    def times(x, y, z):
        return lax.while_loop(lambda s: s[0] > -0.1, lambda s: (s[0] - y, s[1] + z), (x, jnp.zeros_like(z)))[1]

    slope = grad(times, (0, 1, 2), functions=functions)
    for x, y, n in ((4.0, 5.0, 1), (17.0, 5.0, 4), (-1.0, 5.0, 0)):
        np.testing.assert_allclose(slope(x, y, 2.0), (0.0, 0.0, n))


@pytest.mark.parametrize("functions", SPACES)
def test_the_tenth_power_by_loops_in_loops(functions):
    def power(x):
        def three(s):
            return lax.while_loop(lambda t: t[0] < 3, lambda t: (t[0] + 1, t[1] * x), (0, s[1]))[1]

        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, three(s)), (0, x))[1]

    np.testing.assert_allclose(grad(power, functions=functions)(2.0), 10 * 2.0**9)


@pytest.mark.parametrize("functions", SPACES)
def test_the_product_of_a_list(functions):
    def product(xs):
        return lax.while_loop(lambda s: s[0] < len(xs), lambda s: (s[0] + 1, s[1] * xs[s[0]]), (0, 1.0))[1]

    xs = np.array([2.0, 4.0, 6.0, 0.0], np.float32)  # the others' product, also where the product itself is zero
    expected = [np.prod(np.delete(xs, i)) for i in range(4)]
    np.testing.assert_allclose(grad(product, functions=functions)(jnp.asarray(xs)), expected)
