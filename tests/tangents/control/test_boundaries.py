"""Functions that are not known yet cross every boundary of JAX inside a lambda: each program against plain JAX.

A program takes a function value and a number; in the reference the function is a Python function, applied in place.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
from tangents import jvp, value_and_grad
from tests.counted import all_equations

pytestmark = pytest.mark.usefixtures("x64")
x, w = 0.7, 1.3


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    f: object
    scale: object


def wave(w):
    return lambda y: jnp.sin(w * y) * y


def value(w):
    return function(wave(w), C.Tensor())


def composed(f, g):
    return function(lambda y: f(g(y)), C.Tensor())


def scaled(f):
    return lambda a: function(lambda z: f(z) * a, C.Tensor())


def stacked(*fs):
    return jax.tree.map(lambda *f: jnp.stack(f), *fs)


def replaced(f, s):
    return lax.cond(s[1] > 1.0, lambda: composed(f, f), lambda: s[0]), s[1] + s[0](s[1])


PROGRAMS = {  # ours, and what it means
    "jit": (lambda f, y: jax.jit(lambda f, y: f(y) * y)(f, y), lambda f, y: f(y) * y),
    "a result of jit": (lambda f, y: jax.jit(lambda f: composed(f, f))(f)(y), lambda f, y: f(f(y))),
    "checkpoint": (lambda f, y: jax.checkpoint(lambda f, y: f(jnp.sin(y)) * y)(f, y), lambda f, y: f(jnp.sin(y)) * y),
    "captured by checkpoint": (lambda f, y: jax.checkpoint(lambda y: f(y) * y)(y), lambda f, y: f(y) * y),
    "a result of checkpoint": (
        lambda f, y: jax.checkpoint(lambda y: function(lambda z: f(z) * y, C.Tensor()))(y)(2.0),
        lambda f, y: f(2.0) * y,
    ),
    "vmap": (lambda f, y: jnp.sum(jax.vmap(f)(y * jnp.arange(3.0))), lambda f, y: sum(f(y * i) for i in range(3))),
    "functions made by vmap": (
        lambda f, y: jnp.sum(jax.vmap(lambda g, z: g(z))(jax.vmap(scaled(f))(jnp.arange(3.0) * y), jnp.ones(3))),
        lambda f, y: sum(f(1.0) * a * y for a in range(3)),
    ),
    "the carry of scan": (
        lambda f, y: lax.scan(lambda s, z: ((s[0], s[0](s[1]) * z), s[1]), (f, y), jnp.arange(1.0, 4.0))[0][1],
        lambda f, y: f(f(f(y)) * 2.0) * 3.0,
    ),
    "elements of scan": (
        lambda f, y: lax.scan(lambda s, g: (g(s), s), y, stacked(f, composed(f, f), f))[0],
        lambda f, y: f(f(f(f(y)))),
    ),
    "functions made by vmap, as elements of scan": (
        lambda f, y: lax.scan(
            lambda s, g: (g(s), s), y, jax.vmap(lambda a: function(lambda z: f(z) + a, C.Tensor()))(jnp.arange(2.0))
        )[0],
        lambda f, y: f(f(y)) + 1.0,
    ),
    "fori_loop": (lambda f, y: lax.fori_loop(0, 3, lambda _, s: f(s), y), lambda f, y: f(f(f(y)))),
    "cond": (lambda f, y: lax.cond(y > 0, lambda f: f(y), lambda f: y, f), lambda f, y: f(y)),
    "a result of switch": (
        lambda f, y: lax.switch(jnp.int32(1), [lambda: f, lambda: composed(f, f)])(y), lambda f, y: f(f(y))
    ),
    "a dict": (lambda f, y: jax.jit(lambda p: p["f"](p["y"]))({"f": f, "y": y}), lambda f, y: f(y)),
    "a dataclass": (
        lambda f, y: lax.scan(lambda p, _: (Layer(p.f, p.f(p.scale)), p.scale), Layer(f, y), None, length=2)[0].scale,
        lambda f, y: f(f(y)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_crosses(name):
    ours, meaning = PROGRAMS[name]
    plain, f = lambda w, y: meaning(wave(w), y), value(w)
    np.testing.assert_allclose(ccc(ours)(f, x), plain(w, x), rtol=1e-12)
    found, (of_f, of_x) = value_and_grad(ours, (0, 1))(f, x)
    expected, (of_w, slope) = jax.value_and_grad(plain, (0, 1))(w, x)
    np.testing.assert_allclose((found, f.gradient(of_f)["w"], of_x), (expected, of_w, slope), rtol=1e-11)
    direction = jax.tree.map(lambda _: jnp.asarray(0.5), f)
    np.testing.assert_allclose(jvp(ours, (f, x), (direction, 2.0)), jax.jvp(plain, (w, x), (0.5, 2.0)), rtol=1e-11)


WHILE = {
    "captured by while": (
        lambda f, y: lax.while_loop(lambda s: f(s) < 2.0, lambda s: s + jnp.abs(f(s)), y),
        lambda f, y: lax.while_loop(lambda s: f(s) < 2.0, lambda s: s + jnp.abs(f(s)), y),
    ),
    "the carry of while": (
        lambda f, y: lax.while_loop(lambda s: s[1] < 2.0, lambda s: replaced(f, s), (f, y))[1],
        lambda f, y: lax.while_loop(
            lambda s: s[1] < 2.0, lambda s: (s[1] > 1.0, s[1] + jnp.where(s[0], f(f(s[1])), f(s[1]))), (False, y)
        )[1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHILE)
def test_a_function_crosses_while_forward(name):
    ours, meaning = WHILE[name]
    plain, f = lambda w, y: meaning(wave(w), y), value(w)
    np.testing.assert_allclose(ccc(ours)(f, x), plain(w, x), rtol=1e-12)
    direction = jax.tree.map(lambda _: jnp.asarray(0.5), f)
    np.testing.assert_allclose(jvp(ours, (f, x), (direction, 2.0)), jax.jvp(plain, (w, x), (0.5, 2.0)), rtol=1e-11)


def test_what_applies_a_function_is_rematerialised():
    ours = lambda f, y: jax.checkpoint(lambda y: jnp.sin(jnp.sin(f(y))))(y)
    names = [eqn.primitive.name for eqn in all_equations(lambda f, y: value_and_grad(ours, (0, 1))(f, y), value(w), x)]
    plain = lambda w, y: jax.checkpoint(lambda y: jnp.sin(jnp.sin(wave(w)(y))))(y)
    expected = [eqn.primitive.name for eqn in all_equations(jax.value_and_grad(plain, (0, 1)), w, x)]
    assert names.count("sin") == expected.count("sin") == 3 + 2  # the last sine is not needed again
