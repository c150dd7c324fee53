"""What users asked of other libraries, as they wrote it: `jax.grad` and its relatives are exchanged, and nothing else.

Each program takes the derivative functions, and gives a value and a gradient, which are known from mathematics.  The
last ones give function values to `jit`, so that all of `jax` has to be `as_jax`.  The letters are those of the other
files with users' problems.
"""

from collections import namedtuple
from math import cos, exp, sin, sqrt, tanh

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.ode import odeint

import tangents
from tangents import as_jax


def a2_equations_whose_right_side_captured_a_rate(D):
    decay = lambda k: odeint(lambda y, t: -k * y, 1.0, jnp.array([0.0, 1.0]), rtol=1e-9, atol=1e-9)[-1]
    values, slopes = jax.vmap(D.value_and_grad(decay))(jnp.array([0.5, 2.0]))
    return values.sum(), slopes


def a4_fresh_closures_are_static_arguments(D):
    call = jax.jit(lambda f, x: f(x), static_argnums=0)
    return D.value_and_grad(lambda a: sum(call(lambda x, k=k: a[k] * x, 2.0) for k in range(5)))(jnp.arange(1.0, 6.0))


def a6_one_of_two_pullbacks_is_chosen(D):
    @jax.jit
    def slope(x, of_sine):
        pull = lax.cond(of_sine, lambda: D.vjp(jnp.sin, x)[1], lambda: D.vjp(jnp.cos, x)[1])
        return pull(1.0)[0]

    return D.value_and_grad(slope)(0.8, True)


def b1_newton_s_square_root(D):
    step = lambda a: lambda x: 0.5 * (x + a / x)
    root = lambda a: lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-13, step(a), jnp.ones_like(a))
    return D.value_and_grad(root)(2.0)


def b2_the_number_of_steps_depends_on_the_input(D):
    return D.value_and_grad(lambda x: lax.while_loop(lambda x: x < 100, lambda x: 2 * x, x))(1.3)


def b5_a_loop_with_a_bound_that_is_not_reached(D):
    def step(state, _):
        i, x = state
        return lax.cond(i < 10, lambda: (i + 1, 1.01 * x), lambda: (i, x)), None

    return jax.jit(D.value_and_grad(lambda x: lax.scan(step, (0, x), None, length=100)[0][1]))(1.0)


def c3_one_network_on_trees_of_two_shapes(D):
    def state(p, tree):
        if not isinstance(tree, tuple):
            return tree
        return jnp.tanh(p["left"] * state(p, tree[0]) + p["right"] * state(p, tree[1]))

    loss = lambda p, a, b: jax.jit(state)(p, a) + jax.jit(state)(p, b)
    value, (by_p, by_a, by_b) = D.value_and_grad(loss, (0, 1, 2))({"left": 2.0, "right": 0.5}, (0.3, 0.4), 0.7)
    return value, [by_p["left"], by_p["right"], *by_a, by_b]


def d4_a_scan_that_captured_an_array(D):
    z = jnp.ones((4, 4))
    f = lambda x, ys: jnp.mean(lax.scan(lambda c, y: (c + x * (y + z), None), jnp.zeros_like(z), ys)[0])
    return D.value_and_grad(f, (0, 1))(1.7, jnp.array([0.5, -1.0, 2.0]))


def d5_a_fresh_closure_for_each_scan(D):
    run = lambda k: lax.scan(lambda c, x: (c + k * k, None), 0.0, jnp.arange(5.0))[0]
    return D.value_and_grad(lambda ks: sum(run(k) for k in ks))(jnp.array([0.1, 0.2, 0.3]))


def f1_perturbations_are_not_confused(D):
    d = D.grad
    return D.value_and_grad(lambda x: x * d(lambda y: x * y)(1.0) + x * d(lambda y: x + y)(1.0))(4.0)


def f2_from_a_lagrangian_to_its_hamiltonian(D):
    def legendre(f, w):
        z = jnp.zeros_like(w)
        v = jnp.linalg.solve(D.hessian(f)(z), w - D.grad(f)(z))
        return w @ v - f(v)

    lagrangian = lambda q, v: jnp.dot(v, v) / 2 - 9.8 * q[1]
    energy = lambda q: legendre(lambda v: lagrangian(q, v), jnp.array([5.0, 6.0]))
    return D.value_and_grad(energy)(jnp.array([1.0, 2.0]))


def f4_the_second_derivative_of_a_root(D):
    def newton(f, x):
        return lax.while_loop(lambda x: jnp.abs(f(x)) > 1e-14, lambda x: x - f(x) / D.grad(f)(x), x)

    root = lambda y: lax.custom_root(lambda x: x**3 + x - y, 0.5, newton, lambda g, b: b / g(1.0))
    return D.value_and_grad(D.grad(root))(2.0)


def f8_a_parameter_that_both_problems_of_a_minimax_captured(D):
    def descend(f, start):
        slope = D.grad(f)
        return lax.while_loop(lambda x: jnp.abs(slope(x)) > 1e-10, lambda x: x - 0.3 * slope(x), start)

    def saddle(theta):
        f = lambda x, y: x * x / 2 + theta * x * y - y * y / 2 + x
        best = lambda x: descend(lambda y: -f(x, y), 0.0)
        x = descend(lambda x: f(x, lax.stop_gradient(best(x))), 0.0)
        return f(x, best(x))

    return D.value_and_grad(saddle)(0.8)


def f9_the_second_derivative_through_a_loop_that_ends_by_time(D):
    def solve(k):
        def step(state):
            t, y = state
            half = y - k * y / 128
            return t + 1 / 64, y - k * half / 64  # the midpoint rule

        return lax.while_loop(lambda state: state[0] < 1.0, step, (0.0, jnp.ones_like(k)))[1]

    return D.value_and_grad(D.grad(solve))(0.5)


def g1_a_sum_with_itself_forty_times(D):
    def f(x):
        for _ in range(40):
            x = x + x
        return x

    return D.value_and_grad(f)(1.5)


def g4_twice_of_twice_of_twice(D):
    twice = lambda f: lambda x: f(f(x))
    return D.value_and_grad(twice(twice(twice(lambda x: x * x))))(1.01)


def h1_the_tangent_of_an_integer(D):
    return D.jvp(lambda x, n: n * x**n, (1.2, 3), (1.0, 0))


def h2_a_step_on_parameters_with_an_integer(D):
    p = {"w": 2.0, "steps": 3}
    value, g = D.value_and_grad(lambda p: p["steps"] * p["w"] ** 2, allow_int=True)(p)
    new = jax.tree.map(lambda p, g: p - 0.1 * g, p, g)
    return value, [new["w"], new["steps"]]


def h4_a_rule_for_more_arguments_than_are_asked_for(D):
    f = jax.custom_vjp(lambda x, a: x * jnp.sum(a))
    f.defvjp(lambda x, a: (f(x, a), (x, a)), lambda kept, g: (g * kept[1].sum(), g * kept[0] * jnp.ones_like(kept[1])))
    return D.value_and_grad(f)(2.0, jnp.arange(3.0))


def a3_a_function_is_returned_from_compiled_code(D):
    @D.jit
    def make(a):
        return lambda x: jnp.sin(a * x)

    return D.value_and_grad(lambda a, x: make(a)(x), (0, 1))(2.0, 3.0)


def a11_a_record_of_functions_is_an_argument_of_compiled_code(D):
    Optimiser = namedtuple("Optimiser", "init update")
    descent = lambda rate: Optimiser(lambda w: w, lambda g, w: w - rate * g)

    @D.jit
    def train(optimiser, w):
        w = optimiser.init(w)
        for _ in range(5):
            w = optimiser.update(D.grad(lambda w: (2 * w - 3) ** 2)(w), w)
        return w

    return D.value_and_grad(lambda rate: train(descent(rate), 1.0))(0.05)


def tree():
    """The chain rule through tanh(2 · 0.3 + 0.4 / 2); the other tree is a leaf."""
    h = tanh(0.8)
    s = 1 - h * h
    return h + 0.7, [0.3 * s, 0.4 * s, 2.0 * s, 0.5 * s, 1.0]


def midpoint():
    """The loop takes r = 1 - k/64 + k²/8192 to the 64th power; the first and the second derivative of that by k."""
    k, n = 0.5, 64
    r, first, second = 1 - k / n + k * k / (2 * n * n), -1 / n + k / n**2, 1 / n**2
    return n * r ** (n - 1) * first, n * (n - 1) * r ** (n - 2) * first**2 + n * r ** (n - 1) * second


SWAPPED = {
    a2_equations_whose_right_side_captured_a_rate: (exp(-0.5) + exp(-2), [-exp(-0.5), -exp(-2)]),
    a4_fresh_closures_are_static_arguments: (30.0, [2.0] * 5),
    a6_one_of_two_pullbacks_is_chosen: (cos(0.8), -sin(0.8)),
    b1_newton_s_square_root: (sqrt(2), 0.5 / sqrt(2)),
    b2_the_number_of_steps_depends_on_the_input: (1.3 * 128, 128.0),
    b5_a_loop_with_a_bound_that_is_not_reached: (1.01**10, 1.01**10),
    c3_one_network_on_trees_of_two_shapes: tree(),
    d4_a_scan_that_captured_an_array: (1.7 * 4.5, (4.5, [1.7] * 3)),
    d5_a_fresh_closure_for_each_scan: (5 * 0.14, [1.0, 2.0, 3.0]),
    f1_perturbations_are_not_confused: (20.0, 9.0),
    f2_from_a_lagrangian_to_its_hamiltonian: (61 / 2 + 19.6, [0.0, 9.8]),
    f4_the_second_derivative_of_a_root: (1 / 4, -6 / 64),
    f8_a_parameter_that_both_problems_of_a_minimax_captured: (-1 / (2 * 1.64), 0.8 / 1.64**2),
    f9_the_second_derivative_through_a_loop_that_ends_by_time: midpoint(),
    g1_a_sum_with_itself_forty_times: (1.5 * 2.0**40, 2.0**40),
    g4_twice_of_twice_of_twice: (1.01**256, 256 * 1.01**255),
    h1_the_tangent_of_an_integer: (3 * 1.2**3, 9 * 1.2**2),
    h2_a_step_on_parameters_with_an_integer: (12.0, [0.8, 3]),
    h4_a_rule_for_more_arguments_than_are_asked_for: (6.0, 3.0),
}
WITH_JIT = {
    a3_a_function_is_returned_from_compiled_code: (sin(6), (3 * cos(6), 2 * cos(6))),
    a11_a_record_of_functions_is_an_argument_of_compiled_code: (1.5 - 0.5 * 0.6**5, 20 * 0.6**4),
}


def close(got, expected):
    numbers = [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]) for tree in (got, expected)]
    np.testing.assert_allclose(*numbers, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("program", SWAPPED, ids=lambda program: program.__name__)
def test_a_program_is_right_with_our_derivatives(program, x64):
    with jax.numpy_dtype_promotion("standard"):
        close(program(tangents), SWAPPED[program])


@pytest.mark.parametrize("program", SWAPPED | WITH_JIT, ids=lambda program: program.__name__)
def test_a_program_is_right_where_jax_is_as_jax(program, x64):
    with jax.numpy_dtype_promotion("standard"):
        close(program(as_jax), (SWAPPED | WITH_JIT)[program])
