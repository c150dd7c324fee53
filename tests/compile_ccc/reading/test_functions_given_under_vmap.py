"""Functions that an application under `jax.vmap` gives: one for each lane, applied inside.

The functions of two variables are y²·z and, with a number beside the function, y²·z + y; right is what calculus says.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
from tangents import grad, hessian, jvp

pytestmark = pytest.mark.usefixtures("x64")
X = np.array([0.5, -1.0, 2.0])
SPACES = ("environment", "list")
N = lambda: C.Tensor()
total = jnp.sum


def curried(y, z):
    return function(lambda y: function(lambda z: y * y * z, N()), N())(y)(z)


def with_a_number(y, z):
    u, g = function(lambda y: (y, function(lambda z: y * y * z, N())), N())(y)
    return g(z) + u


def thrice(y, z):
    make = function(lambda y: function(lambda a: function(lambda b: y * a * b, N()), N()), N())
    return make(y)(y)(z)


def applied_twice(y, z):
    """y·z of y·z."""
    g = function(lambda y: function(lambda z: y * z, N()), N())(y)
    return g(g(z))


def chosen(y, z):
    f = lax.cond(y > 0.0, lambda: function(lambda z: y * y * z, N()), lambda: function(lambda z: z * y * y, N()))
    return function(lambda s: function(lambda z: f(z) * s, N()), N())(1.0 + 0.0 * y)(z)


def in_a_loop(y, z):
    g = function(lambda y: function(lambda z: y * z, N()), N())(y)
    return lax.fori_loop(0, 2, lambda i, s: g(s), z)


ALIKE = [curried, thrice, applied_twice, chosen, in_a_loop]


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize("f", ALIKE)
def test_each_lane_has_its_own(f, functions):
    derivative = lambda g: grad(g, functions=functions)(X)
    np.testing.assert_allclose(ccc(lambda x: jax.vmap(f)(x, x))(X), X**3)
    np.testing.assert_allclose(derivative(lambda x: total(jax.vmap(f)(x, x))), 3 * X**2)
    np.testing.assert_allclose(derivative(lambda x: total(jax.vmap(lambda y: f(y, 0.7))(x))), 1.4 * X)
    np.testing.assert_allclose(derivative(lambda x: total(jax.vmap(lambda z: f(x[2], z))(x))), [4, 4, 4 + 4 * X.sum()])
    every_pair = lambda x: total(jax.vmap(lambda y: jax.vmap(lambda z: f(y, z))(x))(x))
    np.testing.assert_allclose(derivative(every_pair), 2 * X * X.sum() + (X**2).sum())


@pytest.mark.parametrize("functions", SPACES)
def test_numbers_beside_a_function(functions):
    derivative = lambda g: grad(g, functions=functions)(X)
    np.testing.assert_allclose(derivative(lambda x: total(jax.vmap(with_a_number)(x, x))), 3 * X**2 + 1)
    every_pair = lambda x: total(jax.vmap(lambda y: jax.vmap(lambda z: with_a_number(y, z))(x))(x))
    np.testing.assert_allclose(derivative(every_pair), 2 * X * X.sum() + (X**2).sum() + 3)


@pytest.mark.parametrize("f", ALIKE)
def test_second_derivatives_and_forward_mode(f):
    lanes = lambda x: jax.vmap(f)(x, x)
    np.testing.assert_allclose(hessian(lambda x: total(lanes(x)))(X), np.diag(6 * X))
    np.testing.assert_allclose(jvp(lanes, (X,), (np.ones(3),))[1], 3 * X**2)
    np.testing.assert_allclose(jax.jit(grad(lambda x: total(lanes(x))))(X), 3 * X**2)


def test_what_the_function_captured_is_shared_by_the_lanes():
    def loss(w, x):
        make = function(lambda y: function(lambda z: w * y * z, N()), N())
        return total(jax.vmap(lambda y: make(y)(2.0))(x))

    by_w, by_x = grad(loss, (0, 1))(3.0, X)
    np.testing.assert_allclose(by_w, 2 * X.sum())
    np.testing.assert_allclose(by_x, [6.0, 6.0, 6.0])


def by_cond(a, y, z):
    """2·y·z for a above 0, else y·sin z, of functions that only their captured numbers tell apart in each lane."""
    f = lax.cond(a > 0.0, lambda: function(lambda z: 2 * y * z, N()), lambda: function(lambda z: y * jnp.sin(z), N()))
    return f(z)


def by_switch_with_a_number(a, y, z):
    """The same, as one of two results of the choice, of which one is a number of each lane."""
    branches = [
        lambda: (y, function(lambda z: jnp.sin(z), N())),
        lambda: (2 * y, function(lambda z: z + 0.0 * y, N())),
    ]
    u, f = lax.switch(jnp.int32(a > 0.0), branches)
    return u * f(z)


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize("f", [by_cond, by_switch_with_a_number])
def test_one_choice_for_all_lanes_of_functions_that_differ(f, functions):
    lanes = lambda a, x: total(jax.vmap(lambda y: f(a, y, y))(x))
    pairs = lambda a, x: total(jax.vmap(lambda y: jax.vmap(lambda z: f(a, y, z))(x))(x))
    for a, one, two in (
        (1.0, 4 * X, 4 * X.sum()),
        (-1.0, np.sin(X) + X * np.cos(X), np.sin(X).sum() + np.cos(X) * X.sum()),
    ):
        np.testing.assert_allclose(grad(lanes, 1, functions=functions)(a, X), one)
        np.testing.assert_allclose(grad(pairs, 1, functions=functions)(a, X), two + 0 * X)


def test_a_choice_for_each_square_of_functions():
    """The choice is made inside of two maps, and gives functions for both."""
    f = lambda a, x: total(jax.vmap(lambda y: jax.vmap(lambda z: by_cond(a, y * z, z))(x))(x))
    np.testing.assert_allclose(grad(f, 1)(1.0, X), 2 * (X**2).sum() + 4 * X * X.sum())
