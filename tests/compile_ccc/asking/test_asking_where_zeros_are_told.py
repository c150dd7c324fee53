"""Rules that are told which tangents or cotangents are zeros ask for values, too: `symbolic_zeros=True`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import SymbolicZero

from tangents import grad, hessian, jvp


@jax.custom_jvp
def power(x, y):
    return x**y


def power_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    if x < 0:
        return power(x, y), 100.0 * dx
    total = 0.0
    if not isinstance(dx, SymbolicZero):
        total += y * x ** (y - 1) * dx
    if not isinstance(dy, SymbolicZero):
        total += jnp.log(x) * x**y * dy  # no number at x = 0
    return power(x, y), total


power.defjvp(power_jvp, symbolic_zeros=True)


@jax.custom_vjp
def both(x, y):
    return x * y, x + y


def both_fwd(x, y):
    assert x.perturbed
    return both(x.value, y.value), (x.value, y.value, 1.0 if x.value > 0 else -1.0)


def both_bwd(kept, cotangents):
    (x, y, sign), (a, b) = kept, cotangents
    sign = sign * 2 if y > 1 else sign
    return sign * (a * y + b), a * x + b


both.defvjp(both_fwd, both_bwd, symbolic_zeros=True)


@pytest.mark.parametrize(
    ("slope_of", "right"),
    [
        (lambda: grad(power)(0.0, 2.0), 0.0),
        (lambda: grad(power)(-1.0, 2.0), 100.0),
        (lambda: grad(power, 1)(2.0, 3.0), 8 * np.log(2)),
        (lambda: grad(power, (0, 1))(2.0, 3.0), (12.0, 8 * np.log(2))),
        (lambda: jvp(lambda x: power(x, 3.0), (2.0,), (10.0,))[1], 120.0),
        (lambda: jvp(lambda x: power(x, 2.0), (0.0,), (10.0,))[1], 0.0),
        (lambda: hessian(power)(2.0, 3.0), 12.0),
        (lambda: grad(lambda x: grad(lambda y: power(x, y))(3.0))(2.0), 3 * 4 * np.log(2) + 4),
        (lambda: grad(lambda y: grad(lambda x: power(x, y))(3.0))(2.0), 3 + 2 * 3 * np.log(3)),
        (lambda: grad(lambda x, y: sum(both(x, y)), (0, 1))(2.0, 3.0), (8.0, 3.0)),
        (lambda: grad(lambda x, y: sum(both(x, y)), (0, 1))(-2.0, 0.5), (-1.5, -1.0)),
    ],
)
def test_the_rule_takes_the_path_of_its_values(slope_of, right):
    np.testing.assert_allclose(slope_of(), right, rtol=1e-6)


def test_each_argument_is_zero_in_its_own_derivative():
    f = lambda x, y: power(x, y)
    for _ in range(2):
        np.testing.assert_allclose(grad(f)(2.0, 3.0), 12.0)
        np.testing.assert_allclose(grad(f, 1)(2.0, 3.0), 8 * np.log(2), rtol=1e-6)
        assert grad(f)(0.0, 3.0) == 0.0


def test_an_integer_has_no_tangent():
    @jax.custom_jvp
    def times(x, n):
        return x * n

    def rule(primals, tangents):
        (x, n), (dx, dn) = primals, tangents
        assert isinstance(dn, SymbolicZero)
        return x * n, (n if n > 2 else 100.0) * dx

    times.defjvp(rule, symbolic_zeros=True)
    assert [float(grad(times)(2.0, n)) for n in (3, 1)] == [3.0, 100.0]
