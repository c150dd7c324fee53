"""Solvers with implicit derivatives against closed forms and central differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import ccc, function
from tangents import argmin, fixed_point, grad, hessian, hvp, jacobian, jvp, odeint, root, value_and_grad

pytestmark = pytest.mark.usefixtures("x64")
both = pytest.mark.parametrize("functions", ["environment", "list"])


def square_root(a):
    return root(lambda x: x * x - a, 1.0)


def differences(f, x, size=1e-5):
    x = np.asarray(x, float)
    steps = np.eye(x.size).reshape((x.size, *x.shape)) * size
    return np.array([(f(x + s) - f(x - s)) / (2 * size) for s in steps]).reshape(x.shape)


@both
def test_a_root_by_what_its_function_captured(functions):
    value, gradient = value_and_grad(square_root, functions=functions)(2.0)
    np.testing.assert_allclose([value, gradient], [np.sqrt(2.0), 0.5 / np.sqrt(2.0)], rtol=1e-12)


def test_all_derivatives_of_a_root():
    second, third = grad(grad(square_root))(2.0), grad(grad(grad(square_root)))(2.0)
    np.testing.assert_allclose([second, third], [-0.25 * 2.0**-1.5, 0.375 * 2.0**-2.5], rtol=1e-10)
    cubic = lambda y: root(lambda x: x**3 + x - y, 0.5)  # case F4 of users' problems
    np.testing.assert_allclose(value_and_grad(grad(cubic))(2.0), (1 / 4, -6 / 64), rtol=1e-12)


def test_nested_minima():
    """Case F8 of users' problems: min over x of max over y; each inner problem is a closure over the parameter."""

    def saddle(t):
        f = lambda x, y: x * x / 2 + t * x * y - y * y / 2 + x
        best = lambda x: argmin(lambda y: -f(x, y), 0.0)
        x = argmin(lambda x: f(x, best(x)), 0.0)
        return f(x, best(x))

    value, gradient = value_and_grad(saddle)(0.8)
    np.testing.assert_allclose([value, gradient], [-1 / (2 * 1.64), 0.8 / 1.64**2], rtol=1e-10)


def test_forward_mode_of_a_root():
    np.testing.assert_allclose(jvp(square_root, (2.0,), (1.0,))[1], 0.5 / np.sqrt(2.0), rtol=1e-12)


def test_a_root_anywhere():
    a = jnp.array([2.0, 3.0, 4.0])
    by_a = 0.5 / np.sqrt(a)
    np.testing.assert_allclose(jax.vmap(square_root)(a), np.sqrt(a), rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(grad(square_root)))(a), by_a, rtol=1e-12)
    np.testing.assert_allclose(grad(lambda a: jnp.sum(jax.vmap(square_root)(a)))(a), by_a, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(ccc(square_root))(2.0), by_a[0], rtol=1e-12)
    step = function(lambda s, x: root(lambda t: t**3 + t - s * x, 0.5), C.Tensor(), C.Tensor())
    chain = lambda xs: C.fold(step, 1.0, xs)
    np.testing.assert_allclose(grad(chain)(a), differences(ccc(chain), a), rtol=1e-7)


@both
def test_unknowns_are_trees(functions):
    def solution(a):
        start = {"x": jnp.ones(2), "y": 1.0}
        found = root(lambda t: {"x": t["x"] ** 2 - a["x"] * t["y"], "y": t["y"] * a["y"] - 3.0}, start)
        return jnp.sum(found["x"])

    gradient = grad(solution, functions=functions)({"x": jnp.array([2.0, 3.0]), "y": 1.5})
    x = np.sqrt(np.array([2.0, 3.0]) * 2.0)  # x² = a 3 / b
    np.testing.assert_allclose(gradient["x"], 0.5 * 2.0 / x, rtol=1e-10)
    np.testing.assert_allclose(gradient["y"], np.sum(-0.5 * x / 1.5), rtol=1e-10)


@both
def test_the_argmin_of_a_captured_quadratic(functions):
    """Case A1 of users' problems: the objective captures the parameter."""

    def loss(y):
        x = argmin(lambda x: jnp.sum(x**2) - jnp.sum(x * y), jnp.zeros(2))
        return jnp.sum(x**2)

    value, gradient = value_and_grad(loss, functions=functions)(jnp.array([3.0, -1.0]))
    np.testing.assert_allclose(value, 2.5, rtol=1e-12)
    np.testing.assert_allclose(gradient, [1.5, -0.5], rtol=1e-12)


def test_the_argmin_of_a_function_argument():
    def objective(w, b):
        return function(lambda x: jnp.exp(x - w) - b * x, C.Tensor())

    f = objective(2.0, 3.0)  # the minimum is at w + log b
    by_f = f.gradient(grad(lambda f: argmin(f, 2.5) ** 2)(f))
    at = 2.0 + np.log(3.0)
    np.testing.assert_allclose([by_f["w"], by_f["b"]], [2 * at, 2 * at / 3.0], rtol=1e-9)
    np.testing.assert_allclose(grad(lambda w: argmin(objective(w, 3.0), 2.5))(2.0), 1.0, rtol=1e-9)
    with pytest.raises(C.errors.ArgumentError, match='functions="environment"'):
        grad(lambda f: argmin(f, 2.5), functions="list")(f)


@both
def test_a_fixed_point(functions):
    def equilibrium(w):
        return jnp.sum(fixed_point(lambda z: jnp.tanh(w @ z + 1.0), jnp.zeros(3)))

    w = jnp.array([[0.2, -0.1, 0.3], [0.0, 0.4, -0.2], [0.1, 0.1, 0.1]])
    gradient = grad(equilibrium, functions=functions)(w)
    flat = lambda v: ccc(equilibrium)(jnp.asarray(v.reshape(3, 3)))
    np.testing.assert_allclose(gradient, differences(flat, w.ravel()).reshape(3, 3), rtol=1e-6)


def test_the_calls_of_a_root():
    f = function(lambda x: x * x - 2.0, C.Tensor())
    ((x, g),) = grad(lambda f: root(f, 1.0), functions="list")(f)
    np.testing.assert_allclose([x, g], [np.sqrt(2.0), -0.5 / np.sqrt(2.0)], rtol=1e-12)


@both
def test_an_ode_by_all_of_its_arguments(functions):
    decay = lambda k, y0, t0, t1: odeint(lambda y, t: -k * y, y0, t0, t1)
    value, gradient = value_and_grad(decay, (0, 1, 2, 3), functions=functions)(0.5, 1.0, 0.0, 1.0)
    y = np.exp(-0.5)
    np.testing.assert_allclose([value, *gradient], [y, -y, y, 0.5 * y, -0.5 * y], rtol=1e-8)


def test_odes_in_a_batch_and_again():
    """Case A2 of users' problems, and the second derivative of it."""
    solution = lambda k: odeint(lambda y, t: -k * y, 1.0, 0.0, 1.0)
    ks = jnp.array([0.5, 2.0])
    np.testing.assert_allclose(grad(lambda ks: jnp.sum(jax.vmap(solution)(ks)))(ks), -np.exp(-ks), rtol=1e-6)
    np.testing.assert_allclose(grad(grad(solution))(0.5), np.exp(-0.5), rtol=1e-8)


def test_an_ode_of_a_tree_and_of_time():
    def end(w):
        start = {"p": jnp.ones(2), "q": jnp.zeros(2)}
        field = lambda y, t: {"p": w[0] * y["q"], "q": -y["p"] * jnp.cos(w[1] * t)}
        return jnp.sum(odeint(field, start, 0.0, 2.0)["p"])

    w = jnp.array([0.7, 1.3])
    np.testing.assert_allclose(grad(end)(w), differences(ccc(end), w), rtol=1e-6)


def test_the_calls_of_an_ode():
    f = function(lambda y, t: -0.5 * y, C.Tensor(), C.Tensor())
    calls = grad(lambda f: odeint(f, 1.0, 0.0, 1.0, steps=10), functions="list")(f)
    assert len(calls) == 40
    along = sum(g * jnp.cos(t) for (_, t), g in calls)  # the derivative along f + h cos t
    bent = lambda h: odeint(lambda y, t: -0.5 * y + h * jnp.cos(t), 1.0, 0.0, 1.0)
    np.testing.assert_allclose(along, grad(bent)(0.0), rtol=1e-5)


def test_whole_numbers_are_no_unknowns():
    with pytest.raises(C.errors.ArgumentError, match="whole numbers"):
        root(lambda x: x * x - 2.0, 1)


def test_over_no_time_nothing_moves():
    assert odeint(lambda y, t: -y, 2.0, 1.0, 1.0) == 2.0
    assert grad(lambda k: odeint(lambda y, t: -k * y, 1.0, 1.0, 1.0))(2.0) == 0.0
    assert grad(lambda y: odeint(lambda y, t: -y, y, 1.0, 1.0))(2.0) == 1.0


CUBIC = lambda y: root(lambda x: x**3 + x - y, 0.5)  # x(2) = 1, x' = 1 / (3 x² + 1), x'' = -6 x x'³
SECOND = {
    "hessian": lambda f: hessian(f)(2.0),
    "hvp": lambda f: hvp(f, (2.0,), (1.0,)),
    "grad of grad": lambda f: grad(grad(f))(2.0),
    "jacobian of grad": lambda f: jacobian(grad(f))(2.0),
    "jvp of jvp": lambda f: jvp(lambda y: jvp(f, (y,), (1.0,))[1], (2.0,), (1.0,))[1],
    "grad of jvp": lambda f: grad(lambda y: jvp(f, (y,), (1.0,))[1])(2.0),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_of_a_root_in_every_nesting(name):
    assert float(SECOND[name](CUBIC)) == pytest.approx(-6 / 64, rel=1e-12)


def test_a_third_derivative_of_a_root():
    """x''' = -6 x'⁴ + 108 x² x'⁵ at x = 1, x' = 1/4"""
    assert float(grad(hessian(CUBIC))(2.0)) == pytest.approx(-6 / 4**4 + 108 / 4**5, rel=1e-12)


def test_hessians_of_other_solvers():
    """cos(a x) = x, by differences of its first derivative; y(1) = exp(-k), by an adjoint equation."""
    f = lambda a: fixed_point(lambda x: jnp.cos(a * x), 0.5)
    at = lambda a: float(f(a))
    slope = lambda a: -at(a) * np.sin(a * at(a)) / (1 + a * np.sin(a * at(a)))
    assert float(grad(f)(0.8)) == pytest.approx(slope(0.8), rel=1e-9)
    h = 1e-4
    assert float(hessian(f)(0.8)) == pytest.approx((slope(0.8 + h) - slope(0.8 - h)) / (2 * h), rel=1e-6)
    decay = lambda k: odeint(lambda y, t: -k * y, 1.0, 0.0, 1.0)
    assert float(hessian(decay)(0.5)) == pytest.approx(np.exp(-0.5), rel=1e-8)
    assert float(jvp(decay, (0.5,), (1.0,))[1]) == pytest.approx(-np.exp(-0.5), rel=1e-8)


def test_the_author_of_a_custom_vjp_gets_forward_mode():
    @jax.custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, g: (3.0 * x * g,))  # three, so that it is seen which rule is used
    f = lambda x: square(jnp.sin(x))
    assert float(jvp(f, (0.3,), (2.0,))[1]) == pytest.approx(2.0 * 3.0 * np.sin(0.3) * np.cos(0.3), rel=1e-6)
    assert float(hessian(f)(0.3)) == pytest.approx(3.0 * np.cos(0.6), rel=1e-6)
