"""Derivatives under switches of JAX: `debug_nans`, `checking_leaks`, and those for other implementations of rules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
from tangents import custom, grad, hessian, hvp, jacobian, jvp, odeint, represent, root, value_and_grad, vjp

x, zeros = np.array([1.0, 2.0, 3.0], "float32"), np.zeros(2, "float32")
product = lambda x: jnp.sqrt(x) * jnp.sqrt(x)  # at 0, the slope is 0 * inf
whole = lambda x: jnp.sum(product(x))
real = C.Tensor()

UNDEFINED = {
    "grad": lambda: grad(product)(0.0),
    "list": lambda: grad(product, functions="list")(0.0),
    "value_and_grad": lambda: value_and_grad(whole)(zeros),
    "vjp": lambda: vjp(product, zeros)[1](jnp.ones(2)),
    "jvp": lambda: jvp(product, (zeros,), (jnp.ones(2),)),
    "jacobian": lambda: jacobian(product)(zeros),
    "hessian": lambda: hessian(whole)(zeros),
    "hvp": lambda: hvp(whole, (zeros,), (zeros,)),
    "jit": lambda: jax.jit(grad(whole))(zeros),
    "jit inside": lambda: grad(lambda x: jax.jit(lambda y: jnp.sum(jax.jit(product)(y)))(x) * 2.0)(zeros),
    "vmap": lambda: jax.vmap(grad(product))(zeros),
    "function value": lambda: grad(lambda x: function(product, real)(x))(0.0),
    "closure": lambda: function(jnp.log, real)(-1.0),
    "arrow": lambda: ccc(lambda x: jax.jit(jnp.log)(x))(-1.0),
    "term": lambda: C.primitive("log")(-1.0),
}


@pytest.mark.parametrize("program", UNDEFINED)
def test_a_nan_is_an_error_that_names_the_operation(program):
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"encountered in (div|mul|log)") as raised:
        UNDEFINED[program]()
    assert type(raised.value) is FloatingPointError


def test_a_nan_in_a_loop_and_an_infinity():
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="scan"):
        grad(lambda x: lax.scan(lambda c, _: (product(c), None), x, None, length=2)[0])(0.0)
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match="inf"):
        grad(jnp.sqrt)(0.0)


def test_what_has_no_nan_has_its_derivative():
    with jax.debug_nans(True), jax.debug_infs(True):
        assert grad(lambda x: x**2)(3.0) == 6.0
        np.testing.assert_allclose(grad(lambda x: jax.jit(lambda y: jnp.sum(y * y))(x) * 2.0)(x), 4 * x)
        np.testing.assert_allclose(hessian(lambda x: jnp.sum(x**3))(x), np.diag(6 * x))


w = 3.0
squares = jax.custom_vjp(lambda x: x * x)
squares.defvjp(lambda x: (x * x, x), lambda x, g: (2.0 * x * g,))
cubes = jax.custom_jvp(lambda x: x**3)
cubes.defjvp(lambda x, dx: (cubes(*x), 3.0 * x[0] ** 2 * dx[0]))
times = lambda x: function(lambda t: t * x, real)
choice = lambda x: lax.cond(x > 0.0, lambda: times(x), lambda: function(lambda t: t, real))(x)

WITHOUT_LEAKS = {
    "function value": (lambda: grad(lambda x: times(x)(x))(3.0), 6.0),
    "list": (lambda: grad(lambda x: times(x)(x), functions="list")(3.0), 6.0),
    "argument": (lambda: grad(lambda f, x: f(f(x)), argnums=1)(times(2.0), 3.0), 4.0),
    "captured": (lambda: grad(lambda x: cubes(x) * w)(2.0), 36.0),
    "result": (lambda: ccc(times)(3.0)(2.0), 6.0),
    "fold": (lambda: grad(lambda a: C.fold(function(lambda s, t: s * t * a, real, real), 1.0, x))(2.0), 72.0),
    "scan": (lambda: grad(lambda a: jnp.sum(lax.scan(lambda c, t: (c * t * a, c), 1.0, x)[1]))(2.0), 9.0),
    "while": (lambda: jvp(lambda a: lax.while_loop(lambda c: c < 10.0, lambda c: c * a, a), (2.0,), (1.0,))[1], 32.0),
    "cond": (lambda: grad(lambda a: lax.cond(a > 0.0, lambda y: y * a, lambda y: y, a))(2.0), 4.0),
    "cond of functions": (lambda: grad(choice)(2.0), 4.0),
    "checkpoint": (lambda: grad(jax.checkpoint(lambda a: times(a)(a)))(2.0), 4.0),
    "jit": (lambda: jax.jit(grad(jax.jit(lambda a: times(a)(a))))(2.0), 4.0),
    "vmap": (lambda: jax.vmap(grad(lambda a: times(a)(a)))(x), 2 * x),
    "vmap inside": (lambda: grad(lambda a: jnp.sum(jax.vmap(lambda u: times(u * a)(u))(x)))(2.0), 14.0),
    "jvp": (lambda: jvp(lambda a: times(a)(a), (3.0,), (1.0,))[1], 6.0),
    "vjp": (lambda: vjp(lambda a: times(a)(a), 3.0)[1](1.0)[0], 6.0),
    "hessian": (lambda: hessian(lambda a: times(a)(a))(3.0), 2.0),
    "hvp": (lambda: hvp(lambda a: jnp.sum(a**3), (x,), (x,)), 6 * x**2),
    "jacobian": (lambda: jacobian(lambda a: a**2)(x), np.diag(2 * x)),
    "grad of grad": (lambda: grad(grad(lambda a: a * times(a)(a)))(2.0), 12.0),
    "grad inside": (lambda: grad(lambda a: a * grad(lambda y: y * a * y)(a))(2.0), 24.0),
    "rules": (lambda: grad(lambda a: squares(a) + cubes(a))(3.0), 33.0),
    "custom": (
        lambda: grad(lambda a: custom(lambda f, x: f(x), lambda p, y, g: ([(p[1], g)], g))(times(a), 3.0))(2.0),
        3.0,
    ),
    "represent": (lambda: represent(C.primitive("sin"))(0.0)[1](1.0), 1.0),
    "root": (lambda: grad(lambda a: root(lambda y: y * y - a, 1.0))(4.0), 0.25),
    "odeint": (lambda: grad(lambda a: odeint(lambda y, t: -a * y, 1.0, 0.0, 1.0))(1.0), -np.exp(-1.0)),
}


@pytest.mark.parametrize("program", WITHOUT_LEAKS)
def test_no_tracer_outlives_its_trace(program):
    run, right = WITHOUT_LEAKS[program]
    with jax.checking_leaks():
        np.testing.assert_allclose(run(), right, rtol=1e-5)


def test_a_tracer_that_the_user_keeps_is_still_found():
    kept, values = [], []
    with jax.checking_leaks(), pytest.raises(Exception, match="Leaked"):
        grad(lambda a: lax.scan(lambda s, _: (kept.append(s) or s * a, None), a, length=2)[0])(3.0)
    with jax.checking_leaks():
        grad(lambda a: values.append(a) or a * a)(3.0)
    assert values == [3.0]  # what is known is no tracer


def _seven_times_five():
    """Functions equal to the identity, with the derivative 5·h(x), and that of h is 7."""
    h = jax.custom_jvp(lambda x: x * 1.0)
    h.defjvp(lambda x, dx: (h(*x), 7.0 * dx[0]))
    f = jax.custom_jvp(lambda x: x * 1.0)
    f.defjvp(lambda x, dx: (f(*x), 5.0 * h(*x) * dx[0]))
    g = jax.custom_vjp(lambda x: x * 1.0)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (5.0 * h(x) * ct,))
    return f, g


@pytest.mark.parametrize("switch", ["jax_custom_jvp3", "jax_custom_vjp3"])
def test_rules_are_kept_where_jax_writes_their_functions_down_otherwise(switch):
    before = getattr(jax.config, switch)
    jax.config.update(switch, True)
    try:
        for f in _seven_times_five():
            assert grad(f)(2.0) == 10.0
            assert grad(grad(f))(2.0) == hessian(f)(2.0) == 35.0
            assert jacobian(jacobian(f, mode="reverse"), mode="reverse")(2.0) == 35.0
            assert grad(lambda x, f=f: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])(2.0) == 100.0
            assert grad(lambda x, f=f: function(lambda t: f(t) * t, real)(x))(2.0) == 22.0
    finally:
        jax.config.update(switch, before)
