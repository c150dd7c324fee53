"""What users asked of other libraries about loops, as `test_user_problems.py` has it for functions and sums."""

from functools import partial
from math import exp

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from diffcurry import C, fix, function, grad, value_and_grad

R = C.Tensor()


@pytest.fixture(params=["environment", "list"])
def functions(request):
    return request.param


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def close(got, expected, rtol=1e-9):
    jax.tree.map(partial(np.testing.assert_allclose, rtol=rtol, atol=1e-12), got, expected)


def test_b1_newton_s_square_root(functions, x64):
    def sqrt(a):
        return lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-13, lambda x: 0.5 * (x + a / x), jnp.ones_like(a))

    close(value_and_grad(sqrt, functions=functions)(2.0), (2**0.5, 0.5 / 2**0.5))


def test_b2_the_number_of_steps_depends_on_the_input(functions):
    traced = []

    def doubled(x):
        traced.append(None)
        return lax.while_loop(lambda x: x < 100, lambda x: 2 * x, x)

    program = jax.jit(value_and_grad(doubled, functions=functions))
    for x, factor in ((1.3, 128.0), (60.0, 2.0), (250.0, 1.0)):
        close(program(x), (factor * x, factor), 1e-6)
    assert len(traced) == 1


taken = []


def test_b5_the_gradient_takes_the_steps_that_were_taken(functions):
    taken.clear()

    def grown(x):
        def step(s):
            jax.debug.callback(lambda _: taken.append(1), s[0])
            return s[0] + 1, 1.01 * s[1]

        return lax.while_loop(lambda s: s[0] < 10, step, (0, x))[1]

    close(value_and_grad(grown, functions=functions)(1.0), (1.01**10, 1.01**10), 1e-5)
    jax.effects_barrier()
    assert len(taken) == 10


def test_c1_a_recursion_that_ends_where_a_value_says_so(functions, compilations):
    def falling(x, n):
        f = lambda self, x, n: lax.cond(n == 0, lambda: 1.0, lambda: x * self(x - 1, n - 1))
        return fix(f, R, C.Tensor((), int))(x, n)

    slope = jax.jit(value_and_grad(falling, functions=functions))
    close(slope(5.0, 3), (60.0, 47.0), 1e-6)
    compilations.new()
    close([slope(5.0, n) for n in (0, 1, 4)], [(1.0, 0.0), (5.0, 1.0), (120.0, 154.0)], 1e-6)
    assert compilations.new() == 0


def test_d1_a_function_as_the_state(functions):
    def train(w0):
        def step(f, _):
            slope = grad(lambda w: (function(lambda x: w * x, R)(2.0) - 3.0) ** 2)(f(1.0))
            w = f(1.0) - 0.05 * slope
            return function(lambda x: w * x, R), None

        return lax.scan(step, function(lambda x: w0 * x, R), None, length=5)[0](1.0)

    if functions == "list":  # a function in the state has a list of calls that grows with every step
        with pytest.raises(C.errors.UnsupportedError, match="grows with every step"):
            grad(train, functions=functions)(1.0)
        return
    close(value_and_grad(train)(1.0), (1.5 + 0.6**5 * (1 - 1.5), 0.6**5), 1e-5)


def test_d3_a_fold_over_layers_that_are_functions(functions):
    layers, x = [(1.2, 0.1), (-0.7, 0.3), (0.5, -0.2)], 0.9

    def loss(layers, x):
        fs = [function(lambda x, w=w, b=b: jnp.tanh(w * x + b), R) for w, b in layers]
        stacked = jax.tree.map(lambda *fs: jnp.stack(fs), *fs)
        return lax.scan(lambda x, f: (f(x), None), x, stacked)[0]

    steps, value = [], x
    for w, b in layers:
        steps.append((w, value, 1 - np.tanh(w * value + b) ** 2))
        value = np.tanh(w * value + b)
    g, expected = 1.0, []
    for w, before, slope in reversed(steps):
        expected.insert(0, (g * slope * before, g * slope))
        g = g * slope * w
    close(value_and_grad(loss, (0, 1), functions=functions)(layers, x), (value, (expected, g)), 1e-5)


def test_d5_a_fresh_closure_for_each_call(compilations, functions):
    traced = []

    def run(k):
        def body(c, x):
            traced.append(None)
            return c + k, None

        return lax.scan(body, 0.0, jnp.arange(5.0))[0]

    fresh = lambda k: value_and_grad(lambda k: run(k), functions=functions)
    close(fresh(0)(0.1), (0.5, 5.0), 1e-6)
    compilations.new()
    traced.clear()
    for k in (0.2, 0.3, 0.4):
        close(fresh(k)(k), (5 * k, 5.0), 1e-6)
    assert (len(traced), compilations.new()) == (0, 0)


def test_f8_a_parameter_that_both_problems_of_a_minimax_captured(functions, x64):
    def descend(f, x0):
        return lax.while_loop(lambda x: jnp.abs(grad(f)(x)) > 1e-10, lambda x: x - 0.3 * grad(f)(x), x0)

    def value(th):
        f = lambda x, y: x * x / 2 + th * x * y - y * y / 2 + x
        best = lambda x: descend(lambda y: -f(x, y), 0.0)
        x = descend(lambda x: f(x, lax.stop_gradient(best(x))), 0.0)
        return f(x, best(x))

    th = 0.8
    expected = -1 / (2 * (1 + th**2)), th / (1 + th**2) ** 2
    close(value_and_grad(value, functions=functions)(th), expected, 1e-7)


def test_f9_a_second_derivative_through_a_loop_with_a_step_size(functions, x64):
    def solve(k):
        rhs = lambda y: -k * y

        def step(c):
            t, y = c
            h = 1 / 64
            k1 = rhs(y)
            k2 = rhs(y + h / 2 * k1)
            k3 = rhs(y + h / 2 * k2)
            k4 = rhs(y + h * k3)
            return t + h, y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        return lax.while_loop(lambda c: c[0] < 1.0, step, (0.0, jnp.ones_like(k)))[1]

    second = value_and_grad(grad(solve, functions=functions), functions=functions)
    close(second(0.5), (-exp(-0.5), exp(-0.5)), 1e-7)
