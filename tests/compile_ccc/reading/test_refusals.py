"""Primitives without a derivative: the error says which, where in the user's code, and what to do instead."""

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir

from combinators.errors import NotDifferentiableError
from compile_ccc import ccc
from tangents import define, grad

scalar = jax.ShapeDtypeStruct((), np.float32)
mine = jex.Primitive("mine")
mine.def_impl(jnp.sin)
mine.def_abstract_eval(lambda x: x)
mlir.register_lowering(mine, mlir.lower_fun(jnp.sin, multiple_results=False))


def small(s):
    return s < 10.0


def twice(s):
    return 2.0 * s


def few(s):
    return s[0] < 3


def step(s):
    return s[0] + 1, 2.0 * s[1]


def doubling(s):
    return lax.while_loop(small, twice, s)


def calls_host(x):
    return jax.pure_callback(np.sin, scalar, x)


# The program, on one line; the primitive; words of the hint
REFUSED = {
    "a callback": (lambda x: jax.pure_callback(np.sin, scalar, x), "pure_callback", "jax.custom_vjp"),
    "a primitive of one's own": (lambda x: mine.bind(x), "mine", "define(name, meaning, pullbacks)"),
    "pmax": (lambda x: jax.vmap(lambda a: lax.pmax(a, "i"), axis_name="i")(x[None])[0], "pmax", "all_gather"),
    "schur": (lambda x: jax.scipy.linalg.schur(jnp.eye(2) * x)[0].sum(), "schur", "jax.custom_vjp"),
    "a solver one way": (
        lambda x: lax.custom_linear_solve(lambda u: x * u, x, lambda _, b: b / x),
        "solve",
        "transpose_solve",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_error_names_the_primitive_and_the_line_and_what_to_do(name):
    f, primitive, words = REFUSED[name]
    assert np.isfinite(ccc(f)(jnp.float32(0.5)))
    with pytest.raises(NotDifferentiableError) as caught:
        grad(f)(jnp.float32(0.5))
    message, line = str(caught.value), f.__code__.co_firstlineno
    assert message.startswith(f"{primitive} has no reverse-mode derivative")
    assert f"at: test_refusals.py:{line}" in message or name.endswith("one way")
    assert words in caught.value.hint


# The program, and its derivative at 0.5, where doubling gives 16
HELD = {
    "a held while": (lambda x: x * lax.stop_gradient(doubling(x)), 16.0),
    "a held callback": (lambda x: x * lax.stop_gradient(calls_host(x)), np.sin(0.5)),
    "a while of which a part is used": (lambda x: x * lax.while_loop(few, step, (0, x))[0], 3.0),
    "a held one in a scan": (
        lambda x: lax.scan(lambda s, _: (s * lax.stop_gradient(doubling(s)), None), x, None, length=2)[0],
        256.0,
    ),
    "a sign of one": (lambda x: x * jnp.sign(mine.bind(x)), 1.0),
}


@pytest.mark.parametrize("name", HELD)
def test_only_a_cotangent_that_arrives_is_refused(name):
    """The value of such a primitive may be used where its derivative is not asked for."""
    f, derivative = HELD[name]
    np.testing.assert_allclose(grad(f)(jnp.float32(0.5)), derivative, rtol=1e-6)


def test_a_derivative_for_a_primitive_of_ones_own():
    """The hint of the error works: a primitive that is defined with a pullback has a derivative."""
    sine = define("sine_of_ones_own", jnp.sin, lambda g, y, x: g * jnp.cos(x))
    np.testing.assert_allclose(grad(sine)(jnp.float32(0.5)), np.cos(np.float32(0.5)), rtol=1e-6)
