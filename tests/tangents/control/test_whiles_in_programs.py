"""Whiles in programs: of functions made outside of the loops around, in solvers and equations."""

from __future__ import annotations

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
from tangents import grad

SPACES = ["environment", "list"]
F32 = C.Tensor()
choice = C.case(lambda e, _: e[1] * e[1], lambda e, _: e[0](e[1]))


@pytest.mark.parametrize("functions", SPACES)
def test_a_function_that_is_made_outside_of_the_loops_around(functions):
    def loss(a, b):
        f = function(lambda x: a * x + b, F32)

        def step(s, e):
            grown = lax.while_loop(lambda z: z < 3.0, lambda z: f(z), s)
            return lax.cond(e > 0.5, lambda: 0.1 * grown, lambda: s), ()

        return lax.scan(step, jnp.float32(0.5), jnp.array([1.0, 0.0, 1.0], jnp.float32))[0]

    def plain(a, b):
        s = 0.5
        for taken in (True, False, True):
            z = s
            while z < 3.0:
                z = a * z + b
            s = 0.1 * z if taken else s
        return s

    h = 1e-6
    expected = [
        (plain(1.5 + h, 0.4) - plain(1.5 - h, 0.4)) / (2 * h),
        (plain(1.5, 0.4 + h) - plain(1.5, 0.4 - h)) / (2 * h),
    ]
    np.testing.assert_allclose(grad(loss, (0, 1), functions=functions)(1.5, 0.4), expected, rtol=1e-4)


@pytest.mark.parametrize("functions", SPACES)
def test_both_problems_of_a_minimax_capture_the_parameter(functions):
    """The saddle value of x²/2 + θxy - y²/2 + x is -1/(2 (1 + θ²))."""

    def descend(f, x):
        return lax.while_loop(lambda x: jnp.abs(grad(f)(x)) > 1e-5, lambda x: x - 0.3 * grad(f)(x), x)

    def value(theta):
        f = lambda x, y: x * x / 2 + theta * x * y - y * y / 2 + x
        best = lambda x: descend(lambda y: -f(x, y), 0.0 * theta)
        x = descend(lambda x: f(x, lax.stop_gradient(best(x))), 0.0 * theta)
        return f(x, best(x))

    np.testing.assert_allclose(grad(value, functions=functions)(0.8), 0.8 / (1 + 0.64) ** 2, rtol=1e-4)


def test_a_second_derivative_through_an_equation_that_is_solved_step_by_step():
    """y' = -k y, y(0) = 1: y(1) = exp(-k), and its second derivative by k is the same."""

    def solve(k):
        slope = lambda y: -k * y

        def step(now):
            t, y = now
            k1 = slope(y)
            k2 = slope(y + k1 / 32)
            k3 = slope(y + k2 / 32)
            k4 = slope(y + k3 / 16)
            return t + 1 / 16, y + (k1 + 2 * k2 + 2 * k3 + k4) / 96

        return lax.while_loop(lambda now: now[0] < 1.0, step, (0.0, jnp.ones_like(k)))[1]

    np.testing.assert_allclose(grad(grad(solve))(0.5), np.exp(-0.5), rtol=1e-5)


def _at_most(f, x):
    return C.terms.While(5)(lambda s: s < 50.0, f, x)


def test_a_bound_comes_through_the_trace():
    """f as long as x < 50, five times at most, of λx. w x: without a bound the calls of f would have no list."""
    double = function(lambda x, w=2.0: w * x, F32)
    assert "while[5]" in C.show(ccc(_at_most).trace(double, jnp.float32(1.0)).term)
    for start, calls in ((1.0, 5), (10.0, 3), (60.0, 0)):
        of_f, of_x = grad(_at_most, (0, 1), functions="list")(double, start)
        assert of_x == 2.0**calls
        assert sorted((float(x), float(g)) for x, g in of_f) == [
            (start * 2**i, 2.0 ** (calls - 1 - i)) for i in range(calls)
        ]
        by_w, _ = grad(_at_most, (0, 1))(double, start)
        assert by_w.environment[0] == calls * start * 2.0 ** (calls - 1)


def test_lanes_of_a_loop_with_a_bound():
    slope = jax.vmap(grad(lambda x, w: _at_most(lambda s: w * s, x), (0, 1)), (0, None))
    of_x, of_w = slope(jnp.array([1.0, 10.0, 60.0]), 2.0)
    np.testing.assert_allclose(of_x, [32.0, 8.0, 1.0])
    np.testing.assert_allclose(of_w, [80.0, 120.0, 0.0])


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize(("max_steps", "calls"), [(None, 6), (20, 6), (3, 3)])
def test_the_while_loop_of_equinox(functions, max_steps, calls):
    def loss(w, x):
        step = lambda s: (w * s[0], s[1] + 1)
        return eqxi.while_loop(lambda s: s[0] < 50.0, step, (x, 0), max_steps=max_steps, kind="lax")[0]

    got = grad(loss, (0, 1), functions=functions)(2.0, 1.0)
    np.testing.assert_allclose(got, [calls * 2.0 ** (calls - 1), 2.0**calls])


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize("xs", [[0.3, -0.2, 0.5], [-0.3, -0.2]])
def test_a_function_that_is_called_in_some_branches_only(functions, xs):
    """Σ a/c for x > 0, else c², over xs: the calls of λy. a/y in a while are used up, and count for a where it ran."""

    def loss(a, c):
        f = function(lambda y: a / y, F32)
        thrice = function(lambda y: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, f(s[1])), (0, y))[1], F32)
        one = lambda x: choice(((thrice, c), C.tag(2)(x > 0.0)))
        return jnp.sum(lax.map(one, jnp.array(xs, jnp.float32)))

    ran = sum(x > 0.0 for x in xs)
    of_a, of_c = grad(loss, (0, 1), functions=functions)(1.5, 0.75)
    np.testing.assert_allclose(of_a, ran / 0.75, rtol=1e-6)
    np.testing.assert_allclose(of_c, (len(xs) - ran) * 2.0 * 0.75 - ran * 1.5 / 0.75**2, rtol=1e-6)
