"""Lambdas mean in combinators what they mean in Python: one table of programs, run eagerly by JAX and as arrows.

In the reference run `function(f, domain)` is f itself, so nothing of ours takes part in it.
"""

import functools
import operator
import sys
from collections import namedtuple
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
import compile_ccc
from compile_ccc import ccc, function

F32 = C.Tensor()
VEC = C.Tensor((3,))
v = np.array([0.5, -1.0, 2.0], np.float32)
M = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Fun:
    """A function-valued argument of a program."""

    python: object
    domain: tuple

    def __call__(self, *arguments):
        return self.python(*arguments)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layer:
    W: object
    b: object

    def __call__(self, x):
        return jnp.tanh(x @ self.W + self.b)


@jax.custom_jvp
def smooth(x):
    return jnp.abs(x)


smooth.defjvp(lambda primals, tangents: (smooth(*primals), tangents[0]))


@jax.custom_vjp
def clip(x):
    return x


clip.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1.0, 1.0),))
scale = 3.0  # a global that programs read
double = Fun(lambda x: 2.0 * x, (F32,))
mean_square = Fun(lambda x: jnp.mean(x**2), (VEC,))
plus = Fun(lambda x, y: x + y, (F32, F32))
layer = Layer(M, np.ones(4, np.float32))


def captured_three_deep(a):
    def one(b):
        def two(c):
            def three(d):
                return a + b * c * d

            return three(a) * c

        return two(b) - a

    return one(a)


def shadowing(x):
    f = function(lambda x: function(lambda x: x * 2.0, F32)(x + 1.0) + x, F32)
    return f(x) - x


def factorial(n, x):
    return x if n == 0 else n * factorial(n - 1, x)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def mutual_recursion_in_cells(x):
    def ping(n):
        return x if n == 0 else 1.5 * pong(n - 1)

    def pong(n):
        return x if n == 0 else 0.5 + ping(n - 1)

    return ping(5)


def twice(f):
    return lambda x: f(f(x))


def curried(a):
    return function(lambda b: function(lambda c: a * b + c, F32), F32)


def composed(fs, x):
    return functools.reduce(lambda value, f: f(value), fs, x)


def function_of_functions(h, x):
    return h(function(lambda y: jnp.sin(y) * x, F32)) + x


def with_defaults(x, y=2.0, *, z=0.25):
    return x * y + z


def loop_in_loop(x, xs):
    return lax.scan(lambda s, a: lax.scan(lambda t, b: (t * x + a * b, t), s, xs), x, xs)


def jitted_inside(x):
    return jax.jit(lambda y: jnp.sin(y) + x)(x) * jax.jit(jnp.cos)(x)


def printing(x):
    jax.debug.print("x = {}", x)
    return x + 1.0


def attention(q, k):
    return jax.nn.softmax(q @ k.T / jnp.sqrt(jnp.float32(q.shape[-1])), axis=-1) @ k


def unused(x, y, z):
    w = jnp.exp(y)  # noqa: F841
    return x


PROGRAMS = {
    "identity": (lambda x: x, v),
    "constant": (lambda x: jnp.ones(2), v),
    "a Python number": (lambda x: 2.0, v),
    "no arguments": (lambda: jnp.arange(3.0),),
    "arithmetic": (lambda x, y: (x + y) * (x - y) / 2.0 - -x, v, 2 * v),
    "powers": (lambda x: x**2 + x**3 + 2.0**x, v),
    "comparison": (lambda x: (x > 0.0) & (x <= 0.5), v),
    "elementwise": (lambda x: jnp.sin(jnp.exp(-jnp.abs(x))) + jnp.log1p(x * x) + jnp.tanh(x), v),
    "where": (lambda x: jnp.where(x > 0.0, x, 0.1 * x), v),
    "relu": (lambda x: jax.nn.relu(x), v),
    "gelu": (lambda x: jax.nn.gelu(x), v),
    "softmax": (lambda x: jax.nn.softmax(x), v),
    "logsumexp": (lambda x: jax.nn.logsumexp(x), v),
    "norm": (lambda x: jnp.linalg.norm(x), v),
    "reductions": (lambda x: (jnp.sum(x, 0), jnp.max(x, 1), jnp.mean(x), jnp.argmax(x), jnp.prod(x)), M),
    "cumulative": (lambda x: (jnp.cumsum(x, 1), jnp.sort(-x, 0)), M),
    "matmul": (lambda x, w: x @ w, v, M),
    "einsum": (lambda x, y: jnp.einsum("ij,kj->ik", x, y), M, M),
    "indexing": (lambda x: (x[1], x[:, ::2], x[-1, 1:3], x[np.array([2, 0])]), M),
    "indexing by a value": (lambda x, i: x[i], M, np.int32(2)),
    "update": (lambda x: x.at[1].set(0.0).at[:, 2].add(1.0), M),
    "shapes": (lambda x: (x.T.reshape(2, 6), jnp.concatenate([x, x], 1), jnp.stack([x, x]), x[None]), M),
    "attention": (attention, M, M),
    "a dict": (lambda p, x: {"y": x @ p["W"] + p["b"], "x": x}, {"W": M, "b": np.zeros(4, np.float32)}, v),
    "a namedtuple": (lambda p: Point(p.y, p.x * 2.0), Point(v, 2 * v)),
    "nested data": (lambda t: (t[0][1], {"a": [t[1]["b"], None]}), ((v, 2 * v), {"b": M})),
    "a callable dataclass as argument": (lambda layer, x: layer(x), layer, v),
    "a callable dataclass captured": (lambda x: layer(x), v),
    "a callable dataclass itself": (layer, v),
    "a bound method": (layer.__call__, v),
    "a partial application": (functools.partial(lambda a, x, b: a * x + b, 2.0, b=1.5), v),
    "a partial of a partial": (functools.partial(functools.partial(lambda a, b, x: a * x - b, 2.0), 3.0), v),
    "a function of jnp": (jnp.sin, v),
    "an operator": (operator.mul, v, v),
    "defaults": (with_defaults, v),
    "capture": (lambda x: x * scale, v),
    "captured three deep": (captured_three_deep, np.float32(1.5)),
    "captures in containers": ((lambda data: lambda x: data["w"][0] * x + data["w"][1][0])({"w": (2.0, [v])}), v),
    "shadowing": (shadowing, np.float32(1.5)),
    "unused": (unused, v, v, v),
    "recursion": (lambda x: factorial(4, x), v),
    "recursion over code": (lambda x: x if even(6) else -x, v),
    "recursion through cells": (mutual_recursion_in_cells, v),
    "curried by Python": (lambda a, b, c: (lambda b: lambda c: a * b - c)(b)(c), v, v, v),
    "twice, twice": (lambda x: twice(twice(lambda y: y + 0.1 * y * y))(x), v),
    "curried": (lambda a, b, c: curried(a)(b)(c), np.float32(2), np.float32(3), np.float32(5)),
    "a function argument": (lambda f, x: f(f(x)), double, np.float32(3)),
    "a function of two arguments": (lambda f, x, y: f(x, f(y, x)), plus, np.float32(3), np.float32(4)),
    "a function of vectors": (lambda f, x: x * f(x), mean_square, v),
    "functions in a dict": (lambda d, x: d["f"](d["g"](x)), {"f": double, "g": double}, np.float32(3)),
    "a list of functions": (composed, [double, Fun(lambda x: x - 1.0, (F32,)), double], np.float32(3)),
    "a function of functions": (
        function_of_functions,
        Fun(lambda f: f(jnp.float32(0.3)) + f(jnp.float32(0.7)), (C.Function(F32, F32),)),
        np.float32(2),
    ),
    "a function captured by a function": (
        lambda f, x: function(lambda y: f(y) + f(x), F32)(x * x), double, np.float32(3),
    ),
    "a function that is captured unused": (lambda f, x: function(lambda y: y, F32)(x), double, np.float32(3)),
    "a function passed on by Python": (lambda f, x: twice(f)(x), double, np.float32(3)),
    "vmap": (lambda x: jax.vmap(lambda row: row @ row)(x), M),
    "vmap of an application": (lambda f, x: jax.vmap(f)(x), double, v),
    "vmap over the second argument": (lambda f, x, y: jax.vmap(f, (None, 0))(x, y), plus, np.float32(3), v),
    "vmap with axes": (lambda f, x: jax.vmap(f, 1, 0)(x), mean_square, M),
    "nested vmap of an application": (lambda f, x: jax.vmap(jax.vmap(f))(x), double, M),
    "nested vmap over two arguments": (
        lambda f, x, y: jax.vmap(lambda a: jax.vmap(lambda b: f(a, b))(y))(x), plus, v, 2 * v,
    ),
    "vmap of an abstraction": (lambda x: jax.vmap(lambda a: function(lambda b: a * b, F32)(a))(x), v),
    "vmap of an abstraction that captures": (
        lambda x, k: jax.vmap(lambda a: function(lambda b: a * b + k, F32)(2.0 * a))(x), v, np.float32(2),
    ),
    "nested vmap of an abstraction": (
        lambda x, y: jax.vmap(lambda a: jax.vmap(lambda b: function(lambda c: a * b - c, F32)(b))(y))(x), v, 2 * v,
    ),
    "vmap of an abstraction applied twice": (
        lambda x: jax.vmap(lambda a: twice(function(lambda b: a + b, F32))(a))(x), v,
    ),
    "scan": (lambda x: lax.scan(lambda s, a: (0.5 * s + a, s * a), jnp.float32(0.0), x), v),
    "scan of a function": (
        lambda f, xs: lax.scan(lambda s, x: (f(s, x), s * x), xs[0], xs), Fun(lambda s, x: 0.5 * s - x, (F32, F32)), v,
    ),
    "scan in scan": (loop_in_loop, np.float32(0.5), v),
    "scan with a state of many": (
        lambda x: lax.scan(lambda s, a: ({"n": s["n"] + 1, "s": s["s"] * a}, None), {"n": 0, "s": x[0]}, x), v,
    ),
    "scan from the last": (lambda x: lax.scan(lambda s, a: (s + a, s), jnp.float32(0), x, reverse=True), v),
    "scan without elements": (lambda x: lax.scan(lambda s, _: (s * 1.5, None), x, None, length=4)[0], v),
    "scan of nothing": (lambda x: lax.scan(lambda s, a: (s + a, s), jnp.float32(2), x), v[:0]),
    "fori_loop": (lambda x: lax.fori_loop(0, 4, lambda i, s: s * 0.5 + i.astype(jnp.float32), x), v),
    "fori_loop of a function": (lambda f, x: lax.fori_loop(0, 3, lambda i, s: f(s), x), double, np.float32(1)),
    "while_loop": (lambda x: lax.while_loop(lambda s: jnp.sum(s) < 50.0, lambda s: s * 2.0, x), v),
    "lax.map": (lambda f, x: lax.map(f, x), double, v),
    "cond": (lambda x: lax.cond(x[0] > 0.0, jnp.sin, jnp.cos, x), v),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), np.int32(2), v),
    "jit": (jitted_inside, v),
    "jit of a function": (lambda f, x: jax.jit(lambda y: f(y) + f(x))(x), double, np.float32(3)),
    "custom_jvp": (lambda x: smooth(x), v),
    "custom_vjp": (lambda x: clip(x) * 2.0, v),
    "checkpoint": (lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x), v),
    "stop_gradient": (lambda x: x * lax.stop_gradient(x), v),
    "debug.print": (printing, v),
    "a random key": (lambda key, x: x + jax.random.normal(jax.random.split(key)[1], x.shape), jax.random.key(3), v),
    "a raw random key": (lambda key, x: x + jax.random.uniform(key, x.shape), jax.random.PRNGKey(3), v),
    "integers": (lambda n, x: (n * 2 + 1, x + n.astype(jnp.float32), n // 2), np.array([1, 2, 3], np.int32), v),
    "a Python integer": (lambda n, x: n * x, 3, v),
    "booleans": (lambda b: (~b, jnp.any(b), jnp.where(b, 1.0, 2.0)), np.array([True, False])),
    "bfloat16": (lambda x: jnp.tanh(x) * jnp.bfloat16(2), jnp.asarray(v, jnp.bfloat16)),
    "complex": (lambda z: (z * z.conj(), jnp.abs(z), z.real), np.array([1 + 2j, 3 - 1j], np.complex64)),
    "size zero": (lambda x: (jnp.sum(x), x * 2.0, jnp.concatenate([x, x])), np.zeros((0, 3), np.float32)),
    "gradient by JAX": (lambda x: jax.grad(lambda y: jnp.sum(jnp.sin(y) * x))(x), v),
    "linear algebra": (lambda x: jnp.linalg.solve(x @ x.T + jnp.eye(3), v), M),
}  # fmt: skip


def given(arguments):
    """The arguments as we take them: function values in place of Python functions."""
    make = lambda leaf: function(leaf.python, *leaf.domain) if isinstance(leaf, Fun) else leaf
    return jax.tree.map(make, arguments, is_leaf=lambda leaf: isinstance(leaf, Fun))


def meaning(monkeypatch, f, arguments):
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[__name__], "function", lambda f, *domain: f)
        return f(*jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, arguments))


def same(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (jnp.shape(a), jnp.result_type(a)) == (jnp.shape(b), jnp.result_type(b))
        np.testing.assert_allclose(np.asarray(a, complex), np.asarray(b, complex), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_lambda_keeps_its_meaning(name, monkeypatch, capfd):
    f, *arguments = PROGRAMS[name]
    expected = meaning(monkeypatch, f, arguments)
    arrow = ccc(f)
    same(arrow(*given(arguments)), expected)
    same(jax.jit(arrow)(*given(arguments)), expected)
    translation = compile_ccc.trace(f, *given(arguments))
    assert translation.codomain == C.type_of(expected)
    argument = given(arguments)
    same(C.evaluate(translation.term, argument[0] if len(argument) == 1 else tuple(argument)), expected)
