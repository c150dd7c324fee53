"""Loops that end when a condition says so: values, both tangents, forward mode, and what they keep."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import errors as E
from combinators.memo import clear_caches
from compile_ccc import ccc, function
from tangents import grad, jvp, represent
from tangents.control import whiles

SPACES = ["environment", "list"]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two rows and two slots, so that short loops drop states, and run steps again."""
    clear_caches()
    monkeypatch.setattr(whiles, "_LEAST", 2)
    monkeypatch.setattr(whiles, "_MOST", 2)
    yield
    clear_caches()


def newton(a, x):
    """The square root of a: its derivative is that of the limit once the loop has converged."""
    return lax.while_loop(lambda s: jnp.abs(s * s - a) > 1e-6 * a, lambda s: 0.5 * (s + a / s), x)


def times(w, n, x):
    """sin(w sin(w ... x)), n times for a traced n."""
    return lax.fori_loop(0, n, lambda _, s: jnp.sin(w * s), x)


def unrolled(w, n, x):
    """The value of `times`, and its derivatives by w and x, by the chain rule in float64."""
    w, x, by_w, by_x = np.float64(w), np.float64(x), 0.0, 1.0
    for _ in range(n):
        slope = np.cos(w * x)
        by_w, by_x, x = slope * (x + w * by_w), slope * w * by_x, np.sin(w * x)
    return x, by_w, by_x


@pytest.mark.parametrize("functions", SPACES)
def test_the_derivative_of_an_iteration_that_has_converged_is_that_of_its_limit(functions):
    by_a = grad(newton, functions=functions)(jnp.float32(7.0), jnp.float32(3.0))
    np.testing.assert_allclose(by_a, 0.5 / np.sqrt(7.0), rtol=1e-5)


@pytest.mark.parametrize("functions", SPACES)
def test_one_compilation_serves_every_number_of_steps(functions, few):
    traced = []

    def loss(w, n, x):
        traced.append(None)
        return times(w, n, x)

    g = jax.jit(grad(loss, (0, 2), functions=functions))
    for n in (0, 1, 2, 3, 4, 5, 8, 9, 16, 21):  # in blocks of two: none, half a block, full slots, dropped ones
        _, *expected = unrolled(1.3, n, 0.7)
        np.testing.assert_allclose(g(jnp.float32(1.3), jnp.int32(n), jnp.float32(0.7)), expected, rtol=2e-5)
    assert len(traced) == 1


def test_a_long_loop_keeps_a_fixed_number_of_states():
    n, x = 300_000, jnp.full(3, 0.5, jnp.float32)  # more than all slots hold at first
    loss = lambda a, n: jnp.sum(lax.fori_loop(0, n, lambda _, s: s + a * 1e-5, x))
    compiled = jax.jit(grad(loss)).lower(jnp.float32(1.0), jnp.int32(n)).compile()
    np.testing.assert_allclose(compiled(jnp.float32(1.0), jnp.int32(n)), 3 * n * 1e-5, rtol=2e-3)
    assert compiled.memory_analysis().temp_size_in_bytes < 100_000


def test_second_derivatives_in_every_order(few):
    f = lambda x: times(x, jnp.int32(5), jnp.float32(0.7))
    along = lambda f: lambda x: jvp(f, (x,), (jnp.ones_like(x),))[1]
    h = 1e-5
    expected = (unrolled(1.3 + h, 5, 0.7)[1] - unrolled(1.3 - h, 5, 0.7)[1]) / (2 * h)
    for outer in (grad, along):
        for inner in (grad, along):
            np.testing.assert_allclose(outer(inner(f))(jnp.float32(1.3)), expected, rtol=1e-4)


def test_each_lane_stops_by_itself(few):
    ns, xs = jnp.array([0, 3, 7, 1], jnp.int32), jnp.array([0.7, 0.2, -0.4, 1.0], jnp.float32)
    got = jax.vmap(grad(times, (0, 2)), (None, 0, 0))(jnp.float32(1.3), ns, xs)
    expected = np.array([unrolled(1.3, int(n), float(x))[1:] for n, x in zip(ns, xs, strict=True)]).T
    np.testing.assert_allclose(got, expected, rtol=2e-5)
    assert np.isfinite(got).all()
    inside = grad(lambda w: jnp.sum(jax.vmap(partial(times, w))(ns, xs)))(jnp.float32(1.3))
    np.testing.assert_allclose(inside, expected[0].sum(), rtol=2e-5)


def test_a_lane_that_has_ended_does_not_disturb_what_all_captured(few):
    """Where a lane ends, at 1, the derivative of its next step is infinite."""
    f = lambda a, x: lax.while_loop(lambda s: s > 1.0, lambda s: jnp.sqrt(a * (s - 1.0)), x)
    xs, expected = (1.0, 2.0, 10.0), 0.0  # 1; 2, 1; and 10, 3, 1.41, 0.64
    for x in xs:
        by_a = 0.0
        while x > 1.0:
            y = np.sqrt(x - 1.0)
            by_a, x = (x - 1.0 + by_a) / (2.0 * y), y
        expected += by_a
    loss = lambda a: jnp.sum(jax.vmap(partial(f, a))(jnp.array(xs, jnp.float32)))
    np.testing.assert_allclose(grad(loss)(jnp.float32(1.0)), expected, rtol=1e-5)


@pytest.mark.parametrize("functions", SPACES)
def test_loops_in_loops_in_scans_and_in_branches(functions, few):
    def inner(w, x):
        return lax.while_loop(lambda s: s < 3.0, lambda s: w * s + 0.5, x)

    def loss(w, x, n):
        looped = lax.fori_loop(0, n, lambda _, s: 0.1 * inner(w, s), x)
        scanned, _ = lax.scan(lambda s, e: (0.1 * inner(w, s) + e, ()), looped, jnp.arange(3.0, dtype=jnp.float32))
        return lax.cond(n > 1, lambda: inner(w, scanned), lambda: 0.0 * w)

    def plain(w, x, n):
        def inner(x):
            while x < 3.0:
                x = w * x + 0.5
            return x

        for _ in range(n):
            x = 0.1 * inner(x)
        for e in range(3):
            x = 0.1 * inner(x) + e
        return inner(x) if n > 1 else 0.0

    w, x, h = 1.37, 0.25, 1e-6
    differences = [
        (plain(w + h, x, 3) - plain(w - h, x, 3)) / (2 * h),
        (plain(w, x + h, 3) - plain(w, x - h, 3)) / (2 * h),
    ]
    got = grad(loss, (0, 1), functions=functions)(jnp.float32(w), jnp.float32(x), jnp.int32(3))
    np.testing.assert_allclose(got, differences, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("functions", SPACES)
def test_what_a_function_of_the_program_captured(functions):
    def loss(a, b):
        outer = function(lambda x: a * x, C.Tensor())
        inner = function(lambda x: outer(x) + b, C.Tensor())
        return lax.while_loop(lambda s: s < 50.0, lambda s: inner(s) + outer(1.0), jnp.float32(1.0))

    # s' = a s + (a + b), until it is at least 50, at a = 2, b = 1: 1, 5, 13, 29, 61
    s, by_a, by_b = 1.0, 0.0, 0.0
    while s < 50.0:
        s, by_a, by_b = 2 * s + 3.0, 2 * by_a + s + 1, 2 * by_b + 1
    got = grad(loss, (0, 1), functions=functions)(jnp.float32(2.0), jnp.float32(1.0))
    np.testing.assert_allclose(got, (by_a, by_b), rtol=1e-6)


def _applied(f, x):
    return lax.while_loop(lambda s: s < 50.0, lambda s: f(s), x)


def test_calls_that_leave_a_loop_without_a_bound_are_refused():
    double = function(lambda x, w=2.0: w * x, C.Tensor())
    assert grad(_applied)(double, jnp.float32(1.0)).environment[0] == 6 * 2.0**5
    with pytest.raises(E.UnsupportedError, match="leave a loop") as caught:
        grad(_applied, functions="list")(double, jnp.float32(1.0))
    assert "max_steps" in str(caught.value)
    with pytest.raises(E.UnsupportedError, match="leave a loop"):  # it captured nothing, and is called all the same
        grad(_applied, functions="list")(function(lambda x: 2.0 * x, C.Tensor()), jnp.float32(1.0))


def test_calls_that_leave_a_loop_with_a_bound_have_a_list():
    """λ(f, x). f as long as x < 50, five times at most, of λx. w x"""
    double = function(lambda x, w=2.0: w * x, C.Tensor())
    goes_on = C.curry(C.proj(1) >> _below(50.0))
    term = C.prod(goes_on, C.proj(0), C.proj(1)) >> C.terms.While(5)
    for start, calls in ((1.0, 5), (10.0, 3), (60.0, 0)):
        y, pullback = represent(term, "list")(double, jnp.float32(start))
        of_f, of_x = pullback(jnp.float32(1.0))
        assert (y, of_x) == (start * 2.0**calls, 2.0**calls)
        expected = [(start * 2.0**i, 2.0 ** (calls - 1 - i)) for i in range(calls)]
        assert sorted((float(x), float(g)) for x, g in of_f) == expected


@pytest.mark.parametrize("functions", SPACES)
def test_prints_once_for_each_step(functions, capfd, few):
    def loss(x):
        def step(s):
            jax.debug.print("step {}", s)
            return 2.0 * s

        return lax.while_loop(lambda s: s < 50.0, step, x)

    assert jax.block_until_ready(grad(loss, functions=functions)(jnp.float32(1.0))) == 64.0
    jax.effects_barrier()
    assert capfd.readouterr().out.count("step") == 6


def test_a_step_that_was_not_taken_does_not_exist():
    """The root of what is left would be of a negative number in the next step."""
    f = lambda x: lax.while_loop(lambda s: s > 1.0, lambda s: jnp.sqrt(s - 1.0), x)
    np.testing.assert_allclose(grad(f)(jnp.float32(1.0)), 1.0)
    np.testing.assert_allclose(grad(f)(jnp.float32(1.5)), 0.5 / np.sqrt(0.5), rtol=1e-6)


def _repeat(max_steps=None):
    goes_on, step = C.curry(C.proj(1) >> _below(50.0)), C.curry(C.prod(C.proj(1), C.proj(1)) >> C.primitive("add"))
    return C.prod(goes_on, step, C.id) >> C.terms.While(max_steps)


def _below(limit):
    return C.prod(C.id, C.const(limit)) >> C.primitive("lt")


@pytest.mark.parametrize("functions", SPACES)
def test_a_loop_with_a_bound_takes_no_more_steps(functions):
    for max_steps, factor in ((None, 64.0), (3, 8.0), (6, 64.0), (9, 64.0)):
        y, pullback = represent(_repeat(max_steps), functions)(jnp.float32(1.0))
        assert (y, pullback(jnp.float32(1.0))) == (factor, factor)


def test_what_is_no_loop_is_refused():
    with pytest.raises(E.ArgumentError, match="max_steps"):
        C.terms.While(0)
    half = C.curry(C.const((np.float32(1.0), np.int32(2))))
    state = (C.Tensor(), C.Tensor())
    with pytest.raises(E.LoopError) as caught:
        C.infer(C.prod(C.curry(C.const(np.bool_(True))), half, C.id) >> C.while_, state)
    assert "[1] is f32[], then i32[]" in str(caught.value)
    with pytest.raises(E.LoopError, match="truth value"):
        C.infer(C.prod(C.curry(C.proj(1)), C.curry(C.proj(1)), C.id) >> C.while_, C.Tensor())


def test_it_is_read_as_a_while():
    assert "while" in C.show(ccc(newton).trace(jnp.float32(7.0), jnp.float32(3.0)).term)
    assert not any(
        isinstance(f, C.terms.Primitive) and f.name == "while"
        for f in _all(ccc(newton).trace(jnp.float32(7.0), jnp.float32(3.0)).term)
    )


def _all(term):
    return [term, *(inner for part in C.terms.parts(term) for inner in _all(part))]
