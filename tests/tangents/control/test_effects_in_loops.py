"""What prints or calls back in a loop does so once for each step, whatever the gradient works out again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from tangents import grad

notes = []


def noted(v):
    jax.debug.callback(lambda v: notes.append(float(v)), v)


def counted_up(w):
    def step(i, h):
        noted(i)
        return jnp.sin(h * w)

    return lax.fori_loop(0, 3, step, 1.0)


def over_rows(w):
    def step(h, x):
        noted(x)
        return jnp.sin(h * w), None

    return lax.scan(step, 1.0, jnp.arange(3.0))[0]


def of_a_constant(w):
    def step(h, x):
        noted(2.0 * jnp.float32(0.5))
        return jnp.sin(h * w), None

    return lax.scan(step, 1.0, jnp.arange(3.0))[0]


def mapped(w):
    def row(x):
        noted(x)
        return jnp.sin(x * w)

    return jnp.sum(lax.map(row, jnp.arange(3.0)))


def nested(w):
    inner = lambda h, x: (noted(x), (jnp.sin(h * w), None))[1]
    return lax.fori_loop(0, 1, lambda i, h: lax.scan(inner, h, jnp.arange(3.0))[0], 1.0)


def now_and_then(w):
    def step(i, h):
        lax.cond(i % 2 == 0, lambda: noted(i), lambda: None)
        return jnp.sin(h * w)

    return lax.fori_loop(0, 3, step, 1.0)


def in_a_call(w):
    def step(i, h):
        jax.jit(noted)(i)
        return jnp.sin(h * w)

    return lax.fori_loop(0, 3, step, 1.0)


SEEN = {
    counted_up: [0.0, 1.0, 2.0],
    over_rows: [0.0, 1.0, 2.0],
    of_a_constant: [1.0] * 3,
    mapped: [0.0, 1.0, 2.0],
    nested: [0.0, 1.0, 2.0],
    now_and_then: [0.0, 2.0],
    in_a_call: [0.0, 1.0, 2.0],
}


@pytest.mark.parametrize("functions", ["environment", "list"])
@pytest.mark.parametrize("f", SEEN, ids=lambda f: f.__name__)
def test_each_step_calls_back_once(f, functions):
    notes.clear()
    slope = grad(f, functions=functions)(1.1)
    jax.effects_barrier()
    assert sorted(notes) == SEEN[f]
    h = 1e-2
    assert np.isclose(slope, (f(1.1 + h) - f(1.1 - h)) / (2 * h), rtol=1e-2)


def test_a_call_without_a_result():
    notes.clear()
    assert grad(lambda x: (jax.jit(noted)(x), x * x)[1])(2.0) == 4.0
    jax.effects_barrier()
    assert notes == [2.0]


@jax.custom_vjp
def clipped(x, most):
    return x


clipped.defvjp(lambda x, most: (x, most), lambda most, g: (jnp.clip(g, -most, most), None))


@pytest.mark.parametrize("most", [0.1, jnp.float32(0.1)], ids=["a number", "an array"])
def test_a_rule_with_a_constant_in_a_loop(most):
    """The cotangent 1 is clipped to 0.1 in the last step, and stays so at w = 1; each of three steps adds h g = 0.1."""
    step = lambda h, w: clipped(h * w, most)
    assert np.isclose(grad(lambda w: lax.scan(lambda h, _: (step(h, w), None), 1.0, None, length=3)[0])(1.0), 0.3)
    assert np.isclose(grad(lambda w: lax.fori_loop(0, 3, lambda i, h: step(h, w), 1.0))(1.0), 0.3)
    assert np.isclose(grad(lambda w: jnp.sum(lax.map(lambda x: clipped(x * w, most), jnp.arange(3.0))))(1.0), 0.3)
    assert np.isclose(grad(lambda w: C.fold(lambda h, _: step(h, w), 1.0, jnp.zeros(3)))(1.0), 0.3)


def test_a_rule_of_jax_with_a_constant_in_a_loop():
    """xlogy(2, y) = 2 log y, so one step is h ↦ 2 log(h w + 1), with the slope 2 h / (h w + 1) by w."""
    f = lambda w: lax.scan(lambda h, _: (jax.scipy.special.xlogy(2.0, h * w + 1.0), None), 0.7, None, length=1)[0]
    assert np.isclose(grad(f)(0.9), 2 * 0.7 / (0.7 * 0.9 + 1))
