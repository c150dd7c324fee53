"""Derivatives inside programs, of functions that are not known yet: arguments, captured, chosen and made ones.

Each program takes a function value f and a number; the reference is the program by JAX, on plain functions.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
import tangents as T
from compile_ccc import ccc, function

pytestmark = pytest.mark.usefixtures("x64")
x, w = 0.7, 1.3


def wave(w):
    return lambda y: jnp.sin(w * y) * y


def value(w):
    return function(wave(w), C.Tensor())


def maml(d, f, y):
    """One step of gradient descent inside, on a loss that holds f, and the loss there."""
    loss = lambda z: (f(z) - 1.0) ** 2
    return loss(y - 0.1 * d.grad(loss)(y))


def hamiltonian(d, f, y):
    """The Legendre transform at y of the function v ↦ v²/2 + f(y) v, which captures f."""
    g = lambda v: v * v / 2.0 + f(y) * v
    v = (y - d.grad(g)(0.0)) / d.hessian(g)(0.0)
    return y * v - g(v)


PROGRAMS = {
    "grad": lambda d, f, y: d.grad(f)(y) * y,
    "grad of grad": lambda d, f, y: d.grad(d.grad(f))(y),
    "grad of grad of grad": lambda d, f, y: d.grad(d.grad(d.grad(f)))(y),
    "value_and_grad": lambda d, f, y: sum(d.value_and_grad(f)(y)),
    "grad of a lambda that captures f": lambda d, f, y: d.grad(lambda z: f(z * y) * z)(2.0),
    "hessian": lambda d, f, y: d.hessian(f)(y),
    "jacobian": lambda d, f, y: jnp.sum(d.jacobian(lambda z: f(z) * jnp.arange(3.0))(y)),
    "jvp": lambda d, f, y: d.jvp(f, (y,), (2.0,))[1],
    "jvp of grad": lambda d, f, y: d.jvp(d.grad(f), (y,), (2.0,))[1],
    "grad of jvp": lambda d, f, y: d.grad(lambda z: d.jvp(f, (z,), (z,))[1])(y),
    "hvp": lambda d, f, y: d.hvp(f, (y,), (3.0,)),
    "vjp": lambda d, f, y: d.vjp(f, y)[1](2.0)[0],
    "a pullback used twice": lambda d, f, y: (lambda pb: pb(1.0)[0] * pb(y)[0])(d.vjp(f, y)[1]),
    "vmap of grad": lambda d, f, y: jnp.sum(jax.vmap(d.grad(f))(y * jnp.arange(3.0))),
    "grad in a loop": lambda d, f, y: lax.fori_loop(0, 3, lambda _, z: z - 0.1 * d.grad(f)(z), y),
    "grad in a branch": lambda d, f, y: lax.cond(y > 0, lambda: d.grad(f)(y), lambda: f(y)),
    "maml": maml,
    "legendre": hamiltonian,
    "perturbation confusion": lambda d, f, y: y * d.grad(lambda z: y * f(z))(1.0) + y * d.grad(lambda z: y + f(z))(1.0),
}


class JAX:
    """The same names from JAX."""

    grad, value_and_grad, hessian, jvp, vjp = jax.grad, jax.value_and_grad, jax.hessian, jax.jvp, jax.vjp
    jacobian = jax.jacfwd

    @staticmethod
    def hvp(f, primals, tangents):
        return jax.jvp(jax.grad(f), primals, tangents)[1]


@functools.cache
def known(name):
    """The value and the gradient of a program of JAX's, and its derivative in a direction."""
    theirs = lambda w, y: PROGRAMS[name](JAX, wave(w), y)
    both = lambda w, x: (jax.value_and_grad(theirs, (0, 1))(w, x), jax.jvp(theirs, (w, x), (0.5, 2.0)))
    return jax.jit(both)(w, x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_derivative_of_a_function_argument(name):
    ours = lambda f, y: PROGRAMS[name](T, f, y)
    f = value(w)
    found, (of_f, of_x) = T.value_and_grad(ours, (0, 1))(f, x)
    expected, (of_w, slope) = known(name)[0]
    np.testing.assert_allclose(ccc(ours)(f, x), expected, rtol=1e-12)
    np.testing.assert_allclose((found, f.gradient(of_f)["w"], of_x), (expected, of_w, slope), rtol=1e-11)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_through_a_derivative_of_a_function_argument(name):
    ours = lambda f, y: PROGRAMS[name](T, f, y)
    direction = jax.tree.map(lambda _: jnp.asarray(0.5), value(w))
    found = T.jvp(ours, (value(w), x), (direction, 2.0))
    np.testing.assert_allclose(found, known(name)[1], rtol=1e-11)


def test_a_pullback_by_a_function_argument():
    """Its cotangent is a function of the program, and where that ends, a closure over cotangents of the same code."""
    f = value(w)
    at = lambda f, y: f(y) * y
    of_f, of_y = ccc(lambda f, y: T.vjp(at, f, y)[1](2.0))(f, x)
    expected = jax.jit(jax.grad(lambda w, y: 2.0 * wave(w)(y) * y, (0, 1)))(w, x)
    assert jax.tree.structure(of_f) == jax.tree.structure(f)
    np.testing.assert_allclose((f.gradient(of_f)["w"], of_y), expected, rtol=1e-12)
    through = T.grad(lambda f, y: T.vjp(at, f, y)[1](2.0)[1], (0, 1))(f, x)
    expected = jax.jit(jax.grad(jax.grad(lambda w, y: 2.0 * wave(w)(y) * y, 1), (0, 1)))(w, x)
    np.testing.assert_allclose((f.gradient(through[0])["w"], through[1]), expected, rtol=1e-11)


def test_a_function_that_captures_what_is_differentiated_outside():
    made = lambda d, make: lambda w, y: d.grad(make(wave(w)))(y) * w
    inner = lambda f: function(lambda y: f(y) * y, C.Tensor())
    program = lambda w, y: ccc(lambda f, y: T.grad(inner(f))(y) * w)(value(w), y)
    expected = jax.jit(jax.value_and_grad(made(JAX, lambda f: lambda y: f(y) * y), (0, 1)))(w, x)
    np.testing.assert_allclose(T.value_and_grad(program, (0, 1))(w, x)[1], expected[1], rtol=1e-12)


def test_a_derivative_of_a_chosen_function():
    def program(w, y, c):
        f = lax.cond(c, lambda: value(w), lambda: function(lambda z: jnp.exp(w * z), C.Tensor()))
        return T.grad(f)(y) + T.hessian(f)(y)

    plain = lambda f: lambda w, y: jax.grad(f(w))(y) + jax.hessian(f(w))(y)
    for c, f in ((True, wave), (False, lambda w: lambda z: jnp.exp(w * z))):
        found = T.value_and_grad(program, (0, 1))(w, x, c)
        expected = jax.jit(jax.value_and_grad(plain(f), (0, 1)))(w, x)
        np.testing.assert_allclose(jax.tree.leaves(found), jax.tree.leaves(expected), rtol=1e-12)


def test_a_derivative_by_a_record_that_holds_arrays_and_by_several_arguments():
    f = function(lambda p, y: jnp.sin(p["a"] * y) + p["b"] @ p["b"], {"a": C.Tensor(), "b": C.Tensor(2)}, C.Tensor())
    p = {"a": 1.5, "b": np.array([1.0, -2.0])}
    program = lambda f, p, y: T.grad(lambda q, z: f(q, z), (0, 1))(p, y)
    of_p, of_y = ccc(program)(f, p, x)
    np.testing.assert_allclose((of_p["a"], of_y), (x * np.cos(1.5 * x), 1.5 * np.cos(1.5 * x)), rtol=1e-12)
    np.testing.assert_allclose(of_p["b"], [2.0, -4.0])


def test_the_program_of_a_derivative_is_that_of_the_known_function():
    """What a derivative inside costs: as many equations as if the function had been written there."""
    count = lambda f, *x: len(jax.make_jaxpr(f)(*x).jaxpr.eqns[0].params["jaxpr"].eqns)
    late = count(jax.jit(lambda f, y: T.grad(lambda f, y: T.grad(f)(y), 1)(f, y)), value(w), x)
    early = count(jax.jit(lambda w, y: T.grad(lambda y: T.grad(wave(w))(y))(y)), w, x)
    assert late <= early


def test_a_vmap_over_functions_of_one_code():
    ws, ys = jnp.array([0.5, 1.0, 2.0]), jnp.array([0.1, 0.2, 0.3])
    fs = jax.vmap(value)(ws)
    found = jax.vmap(T.grad(lambda f, y: T.grad(f)(y), (0, 1)))(fs, ys)
    expected = jax.jit(jax.vmap(jax.grad(lambda w, y: jax.grad(wave(w))(y), (0, 1))))(ws, ys)
    np.testing.assert_allclose(found[0].environment[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


def test_the_loss_of_a_physics_informed_network():
    """u'' + u = 0 with u(0) = 1, at points; u is a function value, and what is trained is what it captured."""
    rng = np.random.default_rng(0)
    parameters = {"W": rng.normal(size=8), "b": rng.normal(size=8), "v": rng.normal(size=8)}
    network = lambda p: lambda t: p["v"] @ jnp.tanh(p["W"] * t + p["b"])
    ts = jnp.linspace(0.0, 1.0, 5)

    def loss(d, u):
        residual = jax.vmap(lambda t: d.hessian(u)(t) + u(t))(ts)
        return jnp.mean(residual**2) + (u(0.0) - 1.0) ** 2

    u = function(network(parameters), C.Tensor())
    value, of_u = T.value_and_grad(lambda u: loss(T, u))(u)
    expected, gradient = jax.jit(jax.value_and_grad(lambda p: loss(JAX, network(p))))(parameters)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    found = T.grad(lambda p: ccc(lambda u: loss(T, u))(function(network(p), C.Tensor())))(parameters)
    jax.tree.map(lambda g, h: np.testing.assert_allclose(g, h, rtol=1e-10), found, gradient)
    leaves = sorted(float(jnp.sum(leaf)) for leaf in jax.tree.leaves(of_u))
    np.testing.assert_allclose(leaves, sorted(float(jnp.sum(leaf)) for leaf in gradient.values()), rtol=1e-10)
