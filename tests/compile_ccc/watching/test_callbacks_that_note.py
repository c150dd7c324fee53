"""Functions that compiled code calls, and that change what they captured: it is that of their own function, each time.

What is right is what Python does: a callback runs once for each call, and sees the variables that it captured.
"""

import jax
import jax.numpy as jnp
import pytest

from tangents import grad


def appends(out):
    return lambda x: (jax.debug.callback(lambda v: out.append(float(v)), x), x * x)[1]


def appends_to_a_part(out):
    books = {"notes": out}
    return lambda x: (jax.debug.callback(lambda v: books["notes"].append(float(v)), x), x * x)[1]


def is_called_for_a_value(out):
    def noted(v):
        out.append(float(v))
        return v

    return lambda x: jax.pure_callback(noted, jax.ShapeDtypeStruct((), jnp.float32), jax.lax.stop_gradient(x)) * x


def appends_in_a_loop(out):
    def step(state, x):
        jax.debug.callback(lambda v: out.append(float(v)), state)
        return state * x, None

    return lambda x: jax.lax.scan(step, x, jnp.ones(1))[0]


NOTING = [appends, appends_to_a_part, is_called_for_a_value, appends_in_a_loop]


def run(derivative, *values):
    for value in values:
        derivative(value)
    jax.effects_barrier()


@pytest.mark.parametrize("noting", NOTING, ids=lambda noting: noting.__name__)
def test_each_function_notes_in_its_own_list(noting):
    first, second = [], []
    run(grad(noting(first)), 1.0)
    run(grad(noting(second)), 2.0)
    run(grad(noting(second)), 3.0)
    assert (first, second) == ([1.0], [2.0, 3.0])


@pytest.mark.parametrize("noting", NOTING, ids=lambda noting: noting.__name__)
def test_one_function_notes_at_each_call(noting):
    out = []
    run(grad(noting(out)), 1.0, 2.0, 3.0)
    assert out == [1.0, 2.0, 3.0]


def test_notes_inside_of_jit():
    first, second = [], []
    run(jax.jit(grad(appends(first))), 1.0)
    run(jax.jit(grad(appends(second))), 2.0, 3.0)
    assert (first, second) == ([1.0], [2.0, 3.0])


def counter_in_a_variable():
    count = 0

    def counted(_):
        nonlocal count
        count += 1

    return lambda x: (jax.debug.callback(counted, x), x * x)[1], lambda: count


def counter_in_a_dictionary():
    counts = {"calls": 0}

    def counted(_):
        counts["calls"] += 1

    return lambda x: (jax.debug.callback(counted, x), x * x)[1], lambda: counts["calls"]


def largest_in_a_dictionary():
    largest = {"value": 0.0}

    def f(x):
        def compared(v):
            largest["value"] = max(largest["value"], float(v))

        jax.debug.callback(compared, x)
        return x * x

    return f, lambda: largest["value"]


@pytest.mark.parametrize("counter", [counter_in_a_variable, counter_in_a_dictionary], ids=lambda make: make.__name__)
def test_each_function_counts_for_itself(counter):
    (first, counted_first), (second, counted_second) = counter(), counter()
    run(grad(first), 1.0)
    run(grad(second), 1.0, 2.0)
    assert (counted_first(), counted_second()) == (1, 2)


def test_numbers_that_a_callback_changes():
    f, largest = largest_in_a_dictionary()
    found = []
    for value in (1.0, 3.0, 2.0):
        run(grad(f), value)
        found.append(largest())
    assert found == [1.0, 3.0, 3.0]
