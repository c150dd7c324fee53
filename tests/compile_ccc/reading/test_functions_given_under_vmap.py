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
