"""Python asks for values in functions with rules of derivatives, and in the rules: as when JAX runs them at once."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from combinators.errors import DetachedWarning, TracedBranchError
from tangents import grad, hessian, hvp, jvp, linearize, value_and_grad, vjp


@jax.custom_jvp
def bent(x):
    return x**3 if x > 0 else -3.0 * x


@bent.defjvp
def bent_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return bent(x), 3 * x**2 * t if x > 0 else -3.0 * t


@jax.custom_vjp
def scaled(x, n):
    return n * x**3 if x > 0 else -3.0 * x


def scaled_bwd(kept, g):
    x, n = kept
    return (3 * n * x**2 * g if float(x) > 0 else -3.0 * g), None


scaled.defvjp(lambda x, n: (scaled(x, n), (x, n)), scaled_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def power(x, n):
    return x**n


@power.defjvp
def power_jvp(n, primals, tangents):
    (x,), (t,) = primals, tangents
    return power(x, n), (n * x ** (n - 1) if np.asarray(x) > 1 else 100.0) * t


PATHS = {  # a function, and its derivative at 2, -1 and 1/2
    "a forward rule": (lambda x: 2 * bent(x), (24.0, -6.0, 1.5)),
    "a reverse rule": (lambda x: 2 * scaled(x, 2), (48.0, -6.0, 3.0)),
    "at what is computed": (lambda x: scaled(3 * jnp.square(x), 1), (5184.0, -162.0, 5.0625)),
    "an argument that is no part of the derivative": (lambda x: power(2 * x, 2), (16.0, 200.0, 200.0)),
    "rules within each other": (lambda x: bent(bent(x)), (2304.0, -81.0, 9 * 0.5**8)),
    "beside questions of the function": (lambda x: bent(x) if bent(x) > 1 else bent(-x), (12.0, -3.0, 3.0)),
}


@pytest.mark.parametrize("name", PATHS)
def test_each_call_takes_its_path(name):
    f, slopes = PATHS[name]
    derivative = grad(f)
    for x, slope in [*zip((2.0, -1.0, 0.5), slopes, strict=True)] * 2:
        np.testing.assert_allclose(derivative(x), slope, rtol=1e-6)


@pytest.mark.parametrize(
    "slope_of",
    [
        lambda f, x: value_and_grad(f)(x)[1],
        lambda f, x: vjp(f, x)[1](1.0)[0],
        lambda f, x: jvp(f, (x,), (1.0,))[1],
        lambda f, x: linearize(f, x)[1](1.0),
    ],
)
def test_so_does_every_way_to_ask_for_a_derivative(slope_of):
    for x, slope in ((2.0, 24.0), (-1.0, -6.0)):
        np.testing.assert_allclose(slope_of(lambda x: 2 * bent(x), x), slope, rtol=1e-6)


@pytest.mark.parametrize("second", [hessian, lambda f: grad(grad(f)), lambda f: lambda x: hvp(f, (x,), (1.0,))])
def test_rules_that_need_themselves_for_second_derivatives(second):
    derivative = second(lambda x: bent(bent(x)))
    np.testing.assert_allclose([derivative(-1.0), derivative(2.0)], [162.0, 72 * 2.0**7], rtol=1e-6)


@jax.custom_jvp
def cube(x):
    return x**3


@cube.defjvp
def cube_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube(x), (3.0 if x > 0 else -3.0) * cube(x) / x * t


@pytest.mark.parametrize("f", [cube, lambda x: cube(x) + x])
def test_a_rule_whose_derivative_needs_the_rule(f):
    second, third = grad(grad(f)), grad(grad(grad(f)))
    found = [second(2.0), second(-2.0), third(2.0), hessian(f)(2.0)]
    right = [6 * 2.0, -3 * (-3 * -2.0 - -2.0), 6.0, 6 * 2.0]  # below 0, -3 c(x) / x with c' = -3 x^2
    np.testing.assert_allclose(found, right, rtol=1e-6)


def test_the_same_path_is_not_traced_again():
    runs = []

    @jax.custom_jvp
    def f(x):
        return x * x

    @f.defjvp
    def rule(primals, tangents):
        runs.append(1)
        (x,), (t,) = primals, tangents
        return x * x, (5.0 if x > 0 else 7.0) * t

    derivative = grad(lambda x: f(x))
    assert [float(derivative(x)) for x in (1.0, -1.0, 2.0, -2.0)] == [5.0, 7.0, 5.0, 7.0]
    before = len(runs)
    assert [float(derivative(x)) for x in (3.0, -3.0, 4.0)] == [5.0, 7.0, 5.0]
    assert len(runs) == before


def test_a_number_that_a_rule_is_told_is_no_loss_until_the_rule_is_derived():
    @jax.custom_jvp
    def f(x):
        return x * x

    f.defjvp(lambda x, t: (f(x[0]), 2.0 * float(x[0]) * t[0]))
    np.testing.assert_allclose([grad(f)(3.0), grad(f)(4.0)], [6.0, 8.0])
    for second in (lambda: hessian(f)(3.0), lambda: grad(grad(f))(3.0)):
        with pytest.warns(DetachedWarning):
            second()


def test_a_cotangent_has_no_value_while_the_program_is_traced():
    @jax.custom_vjp
    def f(x):
        return 2.0 * x

    f.defvjp(lambda x: (2.0 * x, None), lambda _, g: (g if g > 0 else 2.0 * g,))
    with pytest.raises(TracedBranchError):
        grad(lambda x: f(x))(1.0)


def test_one_cotangent_for_several_numbers_is_still_refused():
    @jax.custom_vjp
    def f(x):
        return x["a"] * x["b"]

    f.defvjp(lambda x: (x["a"] * x["b"], x), lambda x, g: (g * (1.0 if x["a"] > 0 else 2.0),))
    with pytest.raises(TypeError, match="one cotangent for the 2 numbers"):
        grad(f)({"a": 2.0, "b": 3.0})


def test_integers_in_the_call_of_a_function_with_a_rule_stay_what_they_are():
    through = jax.custom_jvp(jnp.round)  # whose decimals jnp has as code
    through.defjvp(lambda primals, tangents: (jnp.round(*primals), tangents[0]))
    scaling = jax.custom_vjp(jnp.round)
    scaling.defvjp(lambda x, n, out: (jnp.round(x, n), n), lambda n, g: ((n + 1) * g, None, None))
    np.testing.assert_allclose(grad(lambda x: through(x) * x)(2.34), 2.0 + 2.34, rtol=1e-6)
    np.testing.assert_allclose(jvp(lambda x: through(x, 1) * x, (2.34,), (1.0,))[1], 2.3 + 2.34, rtol=1e-6)
    np.testing.assert_allclose(grad(lambda x, n: through(x, n) * x)(2.34, 1), 2.3 + 2.34, rtol=1e-6)
    np.testing.assert_allclose(grad(lambda x: scaling(x, 1) * x)(2.34), 2.3 + 2 * 2.34, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(grad(lambda x: scaling(x, 2) * x))(2.346), 2.35 + 3 * 2.346, rtol=1e-6)
