"""What a function changes is changed once in a call, also where it is run again with one of its inputs as code.

Every function is linear in x, so its slope is its value at 1, which plain Python gives.
"""

from collections import OrderedDict
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import UnsupportedError
from compile_ccc import function
from tangents import grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")
LOOKUP = {1: 1.0}  # a number that is looked up has to be code
MAKERS = {}
calls = 0
last = 0.0


def maker(make):
    MAKERS[make.__name__] = make
    return make


@maker
def a_counter_in_a_list():
    c = [0]

    def f(x, n):
        c[0] += 1
        return x * c[0] * LOOKUP[n]

    return f, lambda: c


@maker
def a_counter_in_a_cell():
    k = 0

    def f(x, n):
        nonlocal k
        k += 1
        return x * k * LOOKUP[n]

    return f, lambda: k


@maker
def a_counter_in_the_module():
    global calls
    calls = 0

    def f(x, n):
        global calls
        calls += 1
        return x * calls * LOOKUP[n]

    return f, lambda: calls


@maker
def an_attribute_and_the_class_of_a_number():
    class State:
        n = 0

    state = State()

    def f(x, n):
        state.n += 1
        return x * state.n if type(n) is int else x

    return f, lambda: state.n


@maker
def what_is_left_of_a_list():
    left = [3.0, 2.0, 1.0]

    def f(x, n):
        return x * left.pop() * LOOKUP[n]

    return f, lambda: left


@maker
def containers_in_containers():
    held = {"n": 0, "all": [], "seen": set()}

    def f(x, n):
        held["n"] += 1
        held["all"].append(n)
        held["seen"].add(held["n"])
        return x * held["n"] * len(held["all"]) * len(held["seen"]) * LOOKUP[n]

    return f, lambda: held


@maker
def entries_in_an_order():
    held = OrderedDict(a=1)

    def f(x, n):
        held[f"k{len(held)}"] = n
        held.move_to_end("a")
        return x * sum(i * v for i, v in enumerate(held.values())) * LOOKUP[n]

    return f, lambda: held


@maker
def a_number_that_a_loop_asks_for():
    c, w = [0], 3.0

    def f(x, n):
        c[0] += 1
        k = c[0]
        return lax.scan(lambda s, _: (s * k if w > 2 else s, None), x, None, length=1)[0]

    return f, lambda: c


@pytest.mark.parametrize("name", MAKERS)
def test_changes_are_made_once_in_a_call(name):
    (f, state), times = MAKERS[name](), 3
    with jax.disable_jit():
        right = [float(f(1.0, 1)) for _ in range(times)], repr(state())
    f, state = MAKERS[name]()
    derivative = grad(f)
    assert ([float(derivative(2.0, 1)) for _ in range(times)], repr(state())) == right


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def summed(x, k):
    return x * k.sum()


summed.defvjp(lambda x, k: (summed(x, k), None), lambda k, _, g: (g * np.asarray(k).sum(),))
KNOWN = jnp.array([2.0, 3.0])  # which has to be known where the rule is called


def in_a_list_of_the_program(x):
    seen = []

    def step(y):
        seen.append(y)
        return summed(y, KNOWN) * len(seen)

    return function(step, C.Tensor())(x)


def in_a_variable_of_the_program(x):
    count = 0.0

    def step(y):
        nonlocal count
        count += 1.0
        return summed(y, KNOWN) * count

    return function(step, C.Tensor())(x)


def in_the_module(x):
    def step(y):
        global calls
        calls += 1
        return summed(y, KNOWN) * calls

    return function(step, C.Tensor())(x)


@pytest.mark.parametrize("f", [in_a_list_of_the_program, in_a_variable_of_the_program, in_the_module])
def test_so_are_changes_of_a_function_value(f):
    global calls
    calls = 0
    assert grad(f)(1.0) == KNOWN.sum()
    assert calls == (f is in_the_module)


def test_a_variable_that_is_only_set_is_set_by_each_call():
    def f(x):
        global last
        last = x * 2.0
        return x * x

    def g(x):
        global last
        last = 1 if x > 0 else 2
        return x * x

    derivative, by_sign, seen = grad(f), grad(g), []
    for x in (1.0, 2.0, 1.0):
        derivative(x)
        seen.append(last)
    for x in (1.0, 2.0, -1.0, 3.0):
        by_sign(x)
        seen.append(last)
    assert seen == [2.0, 4.0, 2.0, 1, 1, 2, 1]


def test_an_argument_that_is_left_somewhere_is_its_value():
    held, log, previous = {}, [], 1.0

    def f(x):
        nonlocal previous
        step, previous = x - previous, x
        held["x"] = x
        log.append({"x": x})
        return step * step

    derivative = grad(f)
    assert [float(derivative(x)) for x in (2.0, 5.0, 6.0)] == [2.0, 6.0, 2.0]
    assert (held, log, previous) == ({"x": 6.0}, [{"x": 2.0}, {"x": 5.0}, {"x": 6.0}], 6.0)


class Switches:
    """What a user turns on between two calls."""

    counts = asks = False
    count = 0


MANY = [2.0] * 100_001  # more than can be looked at at each call


def test_what_was_still_and_now_runs_again():
    """A program that is traced at each call is looked at once more only if it asks; what it changes then is told."""
    switches = Switches()

    def f(x, n):
        if switches.counts:
            switches.count += 1
        return x * MANY[0] * (LOOKUP[n] if switches.asks else 0.5)

    assert [grad(f)(1.0, 1) for _ in range(3)] == [1.0] * 3
    switches.counts = True
    assert grad(f)(1.0, 1) == 1.0 and switches.count == 1
    switches.counts, switches.asks = False, True
    assert grad(f)(1.0, 1) == 2.0 and switches.count == 1


def test_what_was_still_and_changes_something_when_it_runs_again_is_refused():
    switches = Switches()

    def f(x, n):
        if switches.counts:
            switches.count += 1
        return x * MANY[0] * (LOOKUP[n] if switches.asks else 0.5)

    assert [grad(f)(1.0, 1) for _ in range(3)] == [1.0] * 3
    switches.counts = switches.asks = True
    with pytest.raises(UnsupportedError, match="has to run once more") as caught:
        grad(f)(1.0, 1)
    assert caught.value.line.startswith("test_run_again.py:")
