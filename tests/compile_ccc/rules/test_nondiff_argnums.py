"""Arrays in `nondiff_argnums` of users' rules: where JAX can have them, and for `jax.custom_jvp` in loops and jit too.

The function is x³·m, with the derivative 3·x²·m by x, and m stands in `nondiff_argnums`.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import CapturedError, DiffcurryError, NeedsValueError
from compile_ccc import ccc, function
from tangents import grad, hessian, jacobian, jvp, value_and_grad, vjp

x, m = np.array([1.0, 2.0], "float32"), np.array([2.0, 5.0], "float32")
slopes = 3 * x**2 * m


def by_jvp():
    f = partial(jax.custom_jvp, nondiff_argnums=(1,))(lambda x, m: x**3 * m)
    f.defjvp(lambda m, x, dx: (f(x[0], m), 3.0 * x[0] ** 2 * m * dx[0]))
    return f


def by_jvp_of_the_first():
    f = partial(jax.custom_jvp, nondiff_argnums=(0,))(lambda m, x: x**3 * m)
    f.defjvp(lambda m, x, dx: (x[0] ** 3 * m, 3.0 * x[0] ** 2 * m * dx[0]))
    return lambda x, m: f(m, x)


def by_jvp_with_zeros():
    f = partial(jax.custom_jvp, nondiff_argnums=(1,))(lambda x, m: x**3 * m)
    f.defjvp(lambda m, x, dx: (x[0] ** 3 * m, 3.0 * x[0] ** 2 * m * dx[0]), symbolic_zeros=True)
    return f


def by_vjp():
    f = partial(jax.custom_vjp, nondiff_argnums=(1,))(lambda x, m: x**3 * m)
    f.defvjp(lambda x, m: (x**3 * m, x), lambda m, x, g: (3.0 * x**2 * m * g,))
    return f


FORWARD = [by_jvp, by_jvp_of_the_first, by_jvp_with_zeros]
made = lambda: jnp.arange(2.0) * 3.0 + 2.0
captured = jnp.array(m)
total = jnp.sum
twice = lambda f: lambda v: lax.scan(lambda c, _: (f(c), None), v, None, length=1)[0]

ANYWHERE = {  # where the array is known before the program runs
    "captured": lambda f, v: grad(lambda v: total(f(v, captured)))(v),
    "NumPy": lambda f, v: grad(lambda v: total(f(v, m)))(v),
    "whole numbers": lambda f, v: grad(lambda v: total(f(v, jnp.array([2, 5]).astype(v.dtype))))(v),
    "made inside": lambda f, v: grad(lambda v: total(f(v, made())))(v),
    "made of what is captured": lambda f, v: grad(lambda v: total(f(v, captured * 2.0 - captured)))(v),
    "argument": lambda f, v: grad(lambda v, m: total(f(v, m)))(v, captured),
    "argument of NumPy": lambda f, v: grad(lambda v, m: total(f(v, m)))(v, m),
    "first argument": lambda f, v: grad(lambda m, v: total(f(v, m)), argnums=1)(m, v),
    "keyword": lambda f, v: grad(lambda v, m: total(f(v, m)))(v, m=m),
    "value": lambda f, v: value_and_grad(lambda v, m: total(f(v, m)))(v, m)[1],
    "argnums as a tuple": lambda f, v: grad(lambda v, m: total(f(v, m)), argnums=(0,))(v, m)[0],
    "pullback": lambda f, v: vjp(lambda v: f(v, captured), v)[1](jnp.ones(2))[0],
    "scan": lambda f, v: grad(lambda v: total(twice(lambda c: f(c, captured))(v)))(v),
    "jit": lambda f, v: grad(jax.jit(lambda v: total(f(v, captured))))(v),
    "jit inside": lambda f, v: grad(lambda v: total(jax.jit(lambda u: f(u, captured))(v)))(v),
    "jit around": lambda f, v: jax.jit(grad(lambda v: total(f(v, captured))))(v),
    "vmap": lambda f, v: grad(lambda v: total(jax.vmap(lambda row: f(row, captured))(v[None])))(v),
    "jit under vmap": lambda f, v: grad(lambda v: total(jax.vmap(jax.jit(lambda row: f(row, captured)))(v[None])))(v),
    "scan under vmap": lambda f, v: grad(lambda v: total(jax.vmap(twice(lambda c: f(c, captured)))(v[None])))(v),
    "cond under vmap": lambda f, v: grad(
        lambda v: total(jax.vmap(lambda u: lax.cond(u[0] > 0.0, lambda: f(u, captured), lambda: u))(v[None]))
    )(v),
    "checkpoint": lambda f, v: grad(lambda v: total(jax.checkpoint(lambda u: f(u, captured))(v)))(v),
    "cond": lambda f, v: grad(lambda v: lax.cond(v[0] > 0.0, lambda u: total(f(u, captured)), total, v))(v),
    "fori_loop": lambda f, v: grad(lambda v: total(lax.fori_loop(0, 1, lambda i, c: f(c, captured), v)))(v),
    "in a while loop": lambda f, v: jvp(
        lambda v: lax.while_loop(lambda s: s[1] < 1, lambda s: (f(s[0], captured), s[1] + 1), (v, 0))[0],
        (v,),
        (jnp.ones(2),),
    )[1],
    "function value": lambda f, v: grad(lambda v: total(function(lambda u: f(u, captured), C.Tensor(2))(v)))(v),
    "list tangent": lambda f, v: grad(
        lambda v: total(function(lambda u: f(u, captured), C.Tensor(2))(v)), functions="list"
    )(v),
    "fold": lambda f, v: grad(
        lambda v: total(C.fold(function(lambda s, t: f(s, captured) * t, C.Tensor(2), C.Tensor()), v, jnp.ones(1)))
    )(v),
}

WITH_A_TRACER = {  # where only a rule that JAX runs forwards can have it
    "scan over it": lambda f, v: grad(
        lambda v: total(lax.scan(lambda c, row: (f(c, row), None), v, captured[None])[0])
    )(v),
    "made in a scan": lambda f, v: grad(lambda v: total(twice(lambda c: f(c, made()))(v)))(v),
    "made under checkpoint": lambda f, v: grad(lambda v: total(jax.checkpoint(lambda u: f(u, made()))(v)))(v),
    "jit of the argument": lambda f, v: grad(jax.jit(lambda v, m: total(f(v, m))))(v, m),
    "jit around the argument": lambda f, v: jax.jit(grad(lambda v, m: total(f(v, m))))(v, m),
    "mapped": lambda f, v: grad(lambda v: total(jax.vmap(f)(v, captured)))(v),
    "mapped alone": lambda f, v: grad(lambda v: total(jax.vmap(f, (None, 0))(v, captured[None])))(v),
    "mapped twice": lambda f, v: grad(
        lambda v, m: total(jax.vmap(jax.vmap(f))(v[None], m[None]))
    )(v, captured),
    "mapped around": lambda f, v: jax.vmap(grad(lambda v, m: f(v, m)))(v, captured),
    "both": lambda f, v: sum(grad(lambda v, m: total(f(v, m)), argnums=(0, 1))(v, captured)),
}  # fmt: skip


@pytest.mark.parametrize("place", ANYWHERE)
@pytest.mark.parametrize("make", [*FORWARD, by_vjp])
def test_a_known_array_is_no_obstacle(make, place):
    np.testing.assert_allclose(ANYWHERE[place](make(), x), slopes, rtol=1e-6)


@pytest.mark.parametrize("place", WITH_A_TRACER)
@pytest.mark.parametrize("make", FORWARD)
def test_a_rule_of_custom_jvp_takes_what_the_program_computes(make, place):
    np.testing.assert_allclose(WITH_A_TRACER[place](make(), x), slopes, rtol=1e-6)


@pytest.mark.parametrize("place", [p for p in WITH_A_TRACER if not p.startswith("made")])
def test_a_rule_of_custom_vjp_that_cannot_have_it_is_one_error_of_ours(place):
    with pytest.raises(DiffcurryError) as raised:
        WITH_A_TRACER[place](by_vjp(), x)
    assert isinstance(raised.value, NeedsValueError)
    assert "test_nondiff_argnums.py" in str(raised.value) and "nondiff_argnums" in str(raised.value)


@pytest.mark.parametrize("around", [lambda f: jax.vmap(jax.jit(f)), lambda f: jax.jit(jax.vmap(f))])
def test_what_is_mapped_around_or_inside_of_jit_is_one_error_of_ours(around):
    """A function with the rule is written down for all lanes, and the rule for one of them, which is over."""
    f = by_jvp()
    np.testing.assert_allclose(ccc(lambda v: around(f)(v, captured))(x), x**3 * m)
    with pytest.raises(CapturedError, match="got: a value that was mapped") as raised:
        grad(lambda v: total(around(f)(v, captured)))(x)
    assert "test_nondiff_argnums.py" in str(raised.value) and "nondiff_argnums" in str(raised.value)


@pytest.mark.parametrize("make", [by_jvp, by_vjp])
def test_second_derivatives(make):
    f, right = make(), 6 * x * m
    one = lambda v: total(f(v, captured))
    np.testing.assert_allclose(hessian(one)(x), np.diag(right), rtol=1e-6)
    np.testing.assert_allclose(hessian(lambda v, m: total(f(v, m)))(x, m), np.diag(right), rtol=1e-6)
    np.testing.assert_allclose(grad(lambda v: total(grad(one)(v)))(x), right, rtol=1e-6)
    np.testing.assert_allclose(grad(lambda v, m: total(grad(lambda v: total(f(v, m)))(v)))(x, m), right, rtol=1e-6)


def test_jacobians_and_a_derivative_by_the_same_array():
    f = by_jvp()
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(jacobian(f, mode=mode)(x, m), np.diag(slopes), rtol=1e-6)
    np.testing.assert_allclose(grad(lambda v: total(f(v, v)))(x), 3 * x**3, rtol=1e-6)  # f's m has no derivative
    np.testing.assert_allclose(ccc(lambda v: f(v, captured))(x), x**3 * m)


@pytest.mark.parametrize("make", [by_jvp, by_vjp])
def test_the_array_is_read_anew_at_each_call(make):
    f, arrays = make(), [m, 2 * m, m]
    for now in arrays:
        here = jnp.array(now)
        np.testing.assert_allclose(grad(lambda v, here=here: total(f(v, here)))(x), 3 * x**2 * now, rtol=1e-6)
        np.testing.assert_allclose(grad(lambda v, m: total(f(v, m)))(x, now), 3 * x**2 * now, rtol=1e-6)


def test_what_else_is_captured_stays_environment():
    """A weight beside the array keeps its gradient."""
    f, weight = by_jvp(), 3.0
    g = function(lambda v: weight * f(v, m), C.Tensor(2))
    by_weight = g.gradient(grad(lambda g: total(g(x)))(g))["weight"]
    np.testing.assert_allclose(by_weight, np.sum(x**3 * m))
