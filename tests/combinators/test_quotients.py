"""Derivatives of quotients, differences, choices, and of loops that JAX's rule pushes: right, and nothing twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from benchmarks.equations import equations
from tangents import grad, hessian, jvp

POINTS = [(3.0, 2.0), (-1.5, 0.5), (0.0, -4.0)]


@pytest.mark.parametrize("point", POINTS)
def test_a_quotient_by_either_argument_and_by_both(point):
    a, b = point
    quotient = lambda a, b: a / b
    by_a, by_b = 1 / b, -a / b**2
    assert np.allclose(grad(quotient, (0, 1))(a, b), (by_a, by_b), rtol=1e-6)
    assert np.allclose(grad(quotient, 0)(a, b), by_a, rtol=1e-6)
    assert np.allclose(grad(quotient, 1)(a, b), by_b, rtol=1e-6)
    assert np.allclose(jvp(quotient, (a, b), (2.0, 3.0))[1], 2 * by_a + 3 * by_b, rtol=1e-6)
    assert np.allclose(jvp(lambda b: a / b, (b,), (3.0,))[1], 3 * by_b, rtol=1e-6)
    assert np.allclose(hessian(quotient, 1)(a, b), 2 * a / b**3, rtol=1e-6)


def test_a_quotient_in_float16_whose_denominator_has_no_square_there():
    b = jnp.float16(300)
    for derivative in (grad(lambda b: 1 / b)(b), jvp(lambda b: 1 / b, (b,), (jnp.float16(1),))[1]):
        assert np.allclose(derivative.astype(float), -1 / 300**2, rtol=1e-2)


def test_quotients_and_differences_of_sizes_that_are_broadcast():
    a, b = jnp.array([[1.0, 2.0, 4.0]]), jnp.array([[2.0], [-1.0]])
    ones = jnp.ones_like
    assert np.allclose(grad(lambda b: jnp.sum(lax.div(a, b)))(b), -7 / b**2)
    assert np.allclose(grad(lambda a, b: jnp.sum(lax.div(a, b)), (0, 1))(a, b)[1], -7 / b**2)
    assert np.allclose(jvp(lax.div, (a, b), (ones(a), ones(b)))[1], 1 / b - a / b**2)
    assert np.allclose(jvp(lambda b: lax.div(a, b), (b,), (ones(b),))[1], -a / b**2)
    assert np.allclose(jvp(lax.sub, (a, b), (ones(a), 3 * ones(b)))[1], np.full((2, 3), -2.0))
    assert np.allclose(jvp(lax.max, (a, b), (ones(a), 3 * ones(b)))[1], np.where(a > b, 1.0, np.where(a < b, 3.0, 2.0)))


def count(f, *arguments):
    return equations(jax.make_jaxpr(f)(*arguments).jaxpr)


def test_a_quotient_divides_once_more_and_a_difference_is_one_operation():
    a, b = jnp.ones((1, 3)), jnp.ones((3, 3))
    of_quotient = lambda a, b: jvp(lax.div, (a, b), (a, b))[1]
    assert str(jax.make_jaxpr(of_quotient)(a, b)).count(" div ") == 2  # the value is one of them
    assert count(of_quotient, a, b) == 4
    assert count(lambda a, b: jvp(lax.sub, (a, b), (a, b))[1], a, b) == 1


def counted(x, y):
    """A loop that JAX's rule differentiates, in whose state y does not depend on x."""
    start = jnp.int32(0), x, y
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2, s[2] * 3), start)


def test_a_tangent_that_jax_s_rule_finds_to_be_zero_is_not_there():
    _, t = jvp(lambda x: counted(x, 0.0)[1] + jnp.sqrt(counted(x, 0.0)[2]), (2.0,), (1.0,))
    assert t == 8.0  # and no nan from the root's slope at 0


def test_what_such_a_tangent_would_need_is_dead():
    f = lambda x: x**2 - lax.while_loop(lambda s: s[0] < x, lambda s: (s[0] + x, s[1] * 3), (x, 1.0))[1]
    slope = lambda x: jvp(f, (x,), (1.0,))[1]
    assert slope(2.0) == 4.0
    assert count(slope, 2.0) == 3  # x * 2, times the tangent, as weak a type as that of x: no loop


@pytest.mark.parametrize("index", [-7, 0, 1, 2, 9])
def test_the_number_of_a_branch_is_brought_into_range_once(index):
    powers = [lambda x: x, lambda x: x**2, lambda x: x**3]
    f = lambda i, x: lax.switch(i, powers, x)
    n = min(max(index, 0), 2) + 1
    assert grad(f, 1)(index, 2.0) == n * 2.0 ** (n - 1)
    assert str(jax.make_jaxpr(grad(f, 1))(index, 2.0)).count("clamp") == 1
    g = lambda x: lax.cond(x > 1, *powers[:2], x)
    assert (grad(g)(2.0), grad(g)(0.5)) == (1.0, 1.0)
    assert "clamp" not in str(jax.make_jaxpr(grad(g))(2.0))
