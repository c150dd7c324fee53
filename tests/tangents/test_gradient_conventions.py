"""Gradients at kinks and poles, by numbers of Python, and by several arguments: what JAX takes them to be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tangents import grad, jacobian

KINKS = {
    "relu": (jax.nn.relu, 0.0),
    "abs": (jnp.abs, 0.0),
    "max at a tie": (lambda x: jnp.maximum(x, 2.0 * x), 0.0),
    "max with a constant": (lambda x: jnp.maximum(x, 1.0), 1.0),
    "min with a constant": (lambda x: jnp.minimum(x, 1.0), 1.0),
    "max of itself": (lambda x: jnp.maximum(x, x) * x, 3.0),
    "reduce_max": (lambda x: jnp.max(x), np.array([1.0, 3.0, 3.0, 3.0])),
    "reduce_min": (lambda x: jnp.sum(jnp.min(x, 0)), np.zeros((3, 2))),
    "sort": (lambda x: jnp.sort(x)[0], np.array([1.0, 1.0, 2.0])),
    "clip": (lambda x: jnp.clip(x, -1.0, 1.0), 1.0),
    "leaky_relu": (jax.nn.leaky_relu, 0.0),
    "norm": (jnp.linalg.norm, np.zeros(3)),
    "sqrt": (jnp.sqrt, 0.0),
    "power zero": (lambda x: x**0, 0.0),
    "power of zero": (lambda x: x**2.0 + x**3, 0.0),
    "zero to a variable": (lambda x: jnp.power(0.0, x), 2.0),
    "where around a pole": (lambda x: jnp.where(x > 0.0, jnp.sqrt(x), 0.0), -1.0),
    "x / x": (lambda x: x / x, 0.0),
    "sign": (lambda x: jnp.sign(x) * x, 0.0),
    "logsumexp of infinities": (jax.nn.logsumexp, np.array([-np.inf, -np.inf, 0.0])),
}


@pytest.mark.parametrize("name", KINKS)
def test_at_kinks_and_poles_the_convention_is_jaxs(name, x64):
    f, x = KINKS[name]
    np.testing.assert_array_equal(*jax.jit(lambda x: [derivative(f)(x) for derivative in (grad, jax.grad)])(x))


@pytest.mark.parametrize(
    "f",
    [lambda s: s**2, lambda s: jnp.sum(s * jnp.ones(3)), lambda s: jnp.sum(jnp.ones(3)), lambda s: {"s": s}["s"] * 2.0],
    ids=["square", "product", "unused", "twice"],
)
def test_the_gradient_by_a_python_number_promotes_as_jaxs_does(f):
    ours, jaxs = grad(f)(3.0), jax.grad(f)(3.0)
    assert (ours.dtype, ours.weak_type) == (jaxs.dtype, jaxs.weak_type) == (jnp.float32, True)
    assert (ours * jnp.bfloat16(2)).dtype == jnp.bfloat16
    assert not grad(lambda x: jnp.sum(x**2))(jnp.ones(3)).weak_type


def test_argnums_may_be_a_list():
    found = grad(lambda x, y: x * y, [1, 0])(2.0, 5.0)
    assert isinstance(found, tuple) and found == (2.0, 5.0)
    assert jacobian(lambda x, y: x * y, [0])(2.0, 5.0) == (5.0,)
