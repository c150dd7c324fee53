"""What a function appends to lists, and what a derivative inside leaves behind: each call's own values."""

from collections import deque
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tangents import grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")


@pytest.mark.parametrize("inside", [False, True])
def test_values_that_a_function_appends_are_those_of_each_call(inside):
    metrics, last = [], deque(maxlen=2)

    def f(x, y):
        metrics.append(jnp.sum(y))
        last.append({"y": 2.0 * y[0], "text": "seen"})
        return jnp.sum(x * y)

    def step(x, y):
        start = len(metrics)
        return grad(f)(x, y), metrics[start:], [note["y"] for note in last]

    step = jax.jit(step) if inside else step
    for i in range(4):
        gradient, own, lasts = step(jnp.ones(2), jnp.full(2, float(i)))
        np.testing.assert_array_equal(gradient, [i, i])
        assert [float(v) for v in own] == [2.0 * i] and float(lasts[-1]) == 2.0 * i
    assert inside or [float(v) for v in metrics] == [0.0, 2.0, 4.0, 6.0]


def test_notes_of_what_is_no_value_of_the_program_cost_no_trace():
    shapes = []

    def f(x):
        shapes.append(x.shape)
        return jnp.sum(x * x)

    derivative = grad(f)
    for _ in range(3):
        derivative(jnp.ones(2))
    assert shapes == [(2,)]


def test_a_list_that_a_helper_appends_to_is_the_one_that_is_read():
    kept = [1.0]

    def log(v):
        kept.append(v)

    def f(x, y):
        log(5.0 * y)
        return x * kept[-1]

    assert [grad(f)(1.0, y) for y in (2.0, 3.0, 2.0)] == [10.0, 15.0, 10.0]
    assert kept == [1.0, 10.0, 15.0, 10.0]


@pytest.mark.parametrize("build", [lambda f: f, jax.jit])
def test_what_a_derivative_inside_leaves_behind_depends_on_what_is_varied(build):
    state, thing, kept = {}, SimpleNamespace(), []

    def inner(x, y):
        state["s"], thing.v = 2.0 * y, 3.0 * y
        kept.append(5.0 * y)
        return x * y

    def outer(x, y):
        return grad(inner)(x, y) * x * state["s"] * thing.v * kept[-1]  # 30 x y⁴

    for y in (2.0, 3.0, 2.0):
        assert np.isclose(build(grad(outer, 1))(1.0, y), 120 * y**3)
        assert np.isclose(build(grad(outer))(1.0, y), 30 * y**4)
    if build is not jax.jit:
        assert [float(v) for v in kept] == [10.0, 10.0, 15.0, 15.0, 10.0, 10.0]
