"""Kinds of errors: what catches JAX's error for a mistake catches ours."""

import jax
import jax.extend
import jax.numpy as jnp
import pytest

from combinators.errors import DiffcurryError
from tangents import as_jax

left = []


def uses_another(x):
    left.clear()
    jax.jit(lambda y: left.append(y))(x)
    return x + left[0]


without_rule = jax.custom_jvp(lambda x: x)
without_derivative = jax.extend.core.Primitive("without_derivative")
without_derivative.def_impl(lambda x: x)
without_derivative.def_abstract_eval(lambda x: x)
MISTAKES = {
    "a cotangent of another shape": (ValueError, lambda of: of.vjp(jnp.sin, 1.0)[1](jnp.ones(3))),
    "no derivative": (NotImplementedError, lambda of: of.grad(without_derivative.bind)(1.0)),
    "no rule": (AttributeError, lambda of: of.grad(without_rule)(1.0)),
    "a branch in jit": (
        jax.errors.ConcretizationTypeError, lambda of: of.grad(jax.jit(lambda x: x if x > 0 else -x))(1.0)
    ),
    "a tracer that left its program": (jax.errors.UnexpectedTracerError, lambda of: of.grad(uses_another)(1.0)),
    "no scalar": (TypeError, lambda of: of.grad(lambda x: (x, x))(1.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_an_error_is_of_the_kind_that_jax_raises(name):
    kind, mistake = MISTAKES[name]
    with pytest.raises(kind):
        mistake(jax)
    with pytest.raises(DiffcurryError) as ours:
        mistake(as_jax)
    assert isinstance(ours.value, kind)
