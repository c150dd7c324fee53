"""Arrows under JAX's own transformations: the oracle is JAX's value, gradient and Hessian of the Python function."""

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from diffcurry import C, ccc, custom, function, grad, hvp, jvp, lower, value_and_grad, vjp

pytestmark = pytest.mark.usefixtures("x64")
v = np.array([0.5, -1.0, 2.0])
both = np.stack([v, 2.0 * v])


def f(x):
    return jnp.sum(jnp.sin(x) * x**2)


def g(x):
    return jnp.tanh(x) * x[0]


def total(tree):
    return sum(map(jnp.sum, jax.tree.leaves(tree)))


def closure(x):
    return function(f, C.Tensor(3))(x)


squares = C.primitive("sin") >> C.prod(C.id, C.id) >> C.primitive("mul") >> C.primitive("reduce_sum", axes=(0,))
ARROWS = {
    "an arrow": (ccc(f), f),
    "a closure": (closure, f),
    "a term": (lower(squares), lambda x: jnp.sum(jnp.sin(x) ** 2)),
    "a gradient": (lambda x: jnp.sum(grad(f)(x)), lambda x: jnp.sum(jax.grad(f)(x))),
    "a gradient by calls": (lambda x: jnp.sum(grad(f, functions="list")(x)), lambda x: jnp.sum(jax.grad(f)(x))),
    "value and gradient": (lambda x: total(value_and_grad(f)(x)), lambda x: total(jax.value_and_grad(f)(x))),
    "a pullback": (lambda x: jnp.sum(vjp(g, x)[1](x)[0]), lambda x: jnp.sum(jax.vjp(g, x)[1](x)[0])),
    "a pushforward": (lambda x: jnp.sum(jvp(g, (x,), (x,))[1]), lambda x: jnp.sum(jax.jvp(g, (x,), (x,))[1])),
    "a Hessian product": (lambda x: hvp(f, (x,), (x,)) @ x, lambda x: x @ jax.hessian(f)(x) @ x),
    "a rule": (custom(f, lambda primals, y, c: (c * jax.grad(f)(primals[0]),)), f),
}  # fmt: skip
# Each with what it gives of a function whose values, gradients and Hessians are known. What takes a derivative of a
# derivative, or many values of one, is compiled as a whole: operation by operation it is a hundred programs for XLA.
REVERSE = {
    "the value": (lambda f: f(v), lambda f: f.value(v)),
    "jit": (lambda f: jax.jit(f)(v), lambda f: f.value(v)),
    "grad": (lambda f: jax.grad(f)(v), lambda f: f.gradient(v)),
    "value_and_grad": (lambda f: jax.jit(jax.value_and_grad(f))(v), lambda f: (f.value(v), f.gradient(v))),
    "vjp": (lambda f: jax.vjp(f, v)[1](1.0), lambda f: (f.gradient(v),)),
    "jacrev": (lambda f: jax.jacrev(f)(v), lambda f: f.gradient(v)),
    "jacrev of jacrev": (lambda f: jax.jit(jax.jacrev(jax.jacrev(f)))(v), lambda f: f.hessian(v)),
    "vmap": (lambda f: jax.vmap(f)(both), lambda f: f.values),
    "vmap of grad": (lambda f: jax.jit(jax.vmap(jax.grad(f)))(both), lambda f: f.gradients),
    "grad of vmap": (lambda f: jax.jit(jax.grad(lambda x: jnp.sum(jax.vmap(f)(x))))(both), lambda f: f.gradients),
    "checkpoint": (lambda f: jax.jit(jax.grad(jax.checkpoint(f)))(v), lambda f: f.gradient(v)),
    "map": (lambda f: lax.map(f, both), lambda f: f.values),
    "scan": (
        lambda f: jax.jit(jax.grad(lambda x: lax.scan(lambda s, x: (s * f(x), s), 1.0, x)[0]))(both),
        lambda f: f.gradients * f.values[::-1, None],
    ),
    "fori_loop": (
        lambda f: lax.fori_loop(0, 3, lambda i, x: x + 0.01 * f(x), v),
        lambda f: repeated(lambda x: x + 0.01 * f.value(x), lambda i, _: i < 3),
    ),
    "while_loop": (
        lambda f: lax.while_loop(lambda x: (f(x) < 20.0) & (x[2] < 20.0), lambda x: 1.5 * x, v),
        lambda f: repeated(lambda x: 1.5 * x, lambda _, x: f.value(x) < 20.0 and x[2] < 20.0),
    ),
    "cond": (
        lambda f: jax.jit(jax.grad(lambda x: lax.cond(x[0] > 0.0, f, lambda x: x[1], x)))(v),
        lambda f: f.gradient(v),
    ),
    "export": (lambda f: jax.export.export(jax.jit(f))(v).call(v), lambda f: f.value(v)),
    "export of grad": (lambda f: jax.export.export(jax.jit(jax.grad(f)))(v).call(v), lambda f: f.gradient(v)),
    "export for any batch": (lambda f: exported(jax.vmap(f), "b, 3").call(both), lambda f: f.values),
    "compiled ahead": (lambda f: jax.jit(f).lower(v).compile()(v), lambda f: f.value(v)),
}
FORWARD = {
    "jvp": (lambda f: jax.jvp(f, (v,), (v * v,)), lambda f: (f.value(v), f.gradient(v) @ (v * v))),
    "linearize": (lambda f: jax.linearize(f, v)[1](v), lambda f: f.gradient(v) @ v),
    "jacfwd": (lambda f: jax.jacfwd(f)(v), lambda f: f.gradient(v)),
    "jacfwd of jacfwd": (lambda f: jax.jit(jax.jacfwd(jax.jacfwd(f)))(v), lambda f: f.hessian(v)),
    "hessian": (lambda f: jax.jit(jax.hessian(f))(v), lambda f: f.hessian(v)),
}


class Known:
    """A function of vectors, with its derivatives: by JAX, in one program that is compiled once."""

    def __init__(self, f):
        self.all = jax.jit(lambda x: (f(x), jax.grad(f)(x), jax.hessian(f)(x)))

    def value(self, x):
        return np.asarray(self.all(x)[0])

    def gradient(self, x):
        return np.asarray(self.all(x)[1])

    def hessian(self, x):
        return np.asarray(self.all(x)[2])

    @property
    def values(self):
        return np.stack([self.value(x) for x in both])

    @property
    def gradients(self):
        return np.stack([self.gradient(x) for x in both])


@functools.cache
def known(arrow):
    return Known(ARROWS[arrow][1])


def repeated(step, goes_on):
    x, i = v, 0
    while goes_on(i, x):
        x, i = step(x), i + 1
    return x


def exported(f, shape):
    return jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape), float))


def same(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (np.shape(a), a.dtype) == (np.shape(b), b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("transformation", [*REVERSE, *FORWARD])
@pytest.mark.parametrize("arrow", ARROWS)
def test_transformations_of_arrows(arrow, transformation):
    transform, expected = (REVERSE | FORWARD)[transformation]
    ours, _ = ARROWS[arrow]
    if arrow == "a rule" and transformation in FORWARD:  # a `jax.custom_vjp` for JAX
        with pytest.raises(TypeError, match="custom_vjp"):
            transform(ours)
    else:
        same(transform(ours), expected(known(arrow)))


# A closure is itself a function for JAX


CALLABLE = {
    "jit": jax.jit,
    "vmap": lambda f: lambda x: jnp.sum(jax.vmap(f)(x[None])),
    "grad": lambda f: jax.jit(jax.grad(f)),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "export": lambda f: lambda x: jax.export.export(jax.jit(f))(x).call(x),
    "eval_shape": lambda f: lambda x: np.zeros(jax.eval_shape(f, x).shape),
}


@pytest.mark.parametrize("name", CALLABLE)
def test_a_closure_is_a_function_of_jax(name):
    w = 0.5
    plain = lambda x: w * f(x)
    same(CALLABLE[name](function(plain, C.Tensor(3)))(v), CALLABLE[name](plain)(v))


# What JAX keeps of a function that makes functions


def makes(a):
    return function(lambda x: jnp.sin(a * x), C.Tensor())


def folds(a):
    return C.fold(function(lambda s, x: s * x * a, C.Tensor(), C.Tensor()), a, jnp.ones(3))


def body(s, x):
    return function(lambda t: t * x, C.Tensor())(s), None


def fresh(f):
    """The function as another one, of which JAX has kept nothing yet."""
    return lambda *xs: f(*xs)


KEPT = {
    "a jitted function that returns one": (
        lambda: jax.jit(fresh(makes)), lambda f: lambda a: f(a)(3.0), lambda a: jnp.sin(3.0 * a),
    ),
    "a jitted arrow that returns one": (
        lambda: jax.jit(ccc(fresh(makes))), lambda f: lambda a: f(a)(3.0), lambda a: jnp.sin(3.0 * a),
    ),
    "a jitted fold": (lambda: jax.jit(fresh(folds)), lambda f: f, lambda a: a**4),
    "the body of a scan": (
        lambda: fresh(body), lambda f: lambda a: lax.scan(f, a, a * jnp.ones(3))[0], lambda a: a**4,
    ),
}  # fmt: skip
PLACES = {
    "ours": lambda f: grad(f)(0.3),
    "ours, of another program": lambda f: grad(lambda a: 1.0 * f(a))(0.3),
    "an arrow's": lambda f: jax.grad(ccc(f))(0.3),
    "JAX's": lambda f: jax.grad(f)(0.3),
    "JAX's, jitted": lambda f: jax.jit(jax.grad(f))(0.3),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("first", PLACES)
def test_a_function_that_makes_functions_is_traced_in_one_place_and_used_in_another(name, first):
    """JAX traces a jitted function once; inside our traces functions travel in another way than outside of them."""
    make, program, plain = KEPT[name]
    f, expected = make(), jax.grad(plain)(0.3)
    for place in (first, *PLACES):
        np.testing.assert_allclose(PLACES[place](program(f)), expected, rtol=1e-9)
