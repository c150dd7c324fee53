"""Gradients of programs in both tangent spaces, in float64, against JAX and against central differences.

In JAX's run `function(f, domain)` is f itself, so nothing of ours takes part in it.
"""

import sys
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
from tangents import grad, value_and_grad

v = np.array([0.5, -1.0, 2.0])
u = np.array([1.5, 0.25, -0.75])
M = np.linspace(-1.0, 1.0, 12).reshape(3, 4)
A = np.linspace(0.1, 1.0, 9).reshape(3, 3) + np.eye(3)
params = {"W": M, "b": np.full(4, 0.1), "n": 3, "deep": [(2.0, True), None]}


def R(*shape):
    """A type of reals, of the precision that is on."""
    return C.Tensor(shape, float)


@dataclass(frozen=True)
class Fun:
    """A function-valued argument of a program, and the shapes of its arguments."""

    python: object
    shapes: tuple

    def __call__(self, *arguments):
        return self.python(*arguments)


@jax.custom_jvp
def wrong_jvp(x):
    return x * x


wrong_jvp.defjvp(lambda primals, tangents: (wrong_jvp(*primals), 7.0 * tangents[0]))


@jax.custom_vjp
def wrong_vjp(x, y):
    return x * y


wrong_vjp.defvjp(lambda x, y: (x * y, y), lambda y, g: (5.0 * g * y, jnp.zeros_like(y)))

double = Fun(lambda x: 2.0 * x + jnp.sin(x), ((),))
length = Fun(lambda x: jnp.sqrt(jnp.sum(x * x)), ((3,),))
cell = Fun(lambda s, x: jnp.tanh(0.5 * s - x), ((), ()))


def mlp(p, x):
    return jnp.sum(jax.nn.softmax(jnp.tanh(x @ p["W"] + p["b"])) ** p["n"]) * p["deep"][0][0]


def rnn(w, s, xs):
    return lax.scan(lambda s, x: (jnp.tanh(w @ s + x), None), s, xs)[0].sum()


def rnn_with_outputs(w, s, xs):
    last, outputs = lax.scan(lambda s, x: (jnp.tanh(w @ s + x), s * x), s, xs, reverse=True)
    return last.sum() + (outputs**2).sum()


def scan_in_scan(x, xs):
    inner = lambda s, a: lax.scan(lambda t, b: (jnp.sin(t * x) + a * b, t), s, xs)
    return lax.scan(lambda s, a: (inner(s, a)[0], inner(s, a)[1]), x, xs)[1].sum()


def curried(a, b):
    return function(lambda x: function(lambda y: a * jnp.sin(x * y), R())(b) + x, R())(a * b)


def returned(a, b):
    make = function(lambda x: function(lambda y: x * y + a, R()), R())
    f = make(b)
    return f(a) * f(b)


def functions_of_functions(a, b):
    twice = lambda f: function(lambda x: f(f(x)), R())
    return twice(twice(function(lambda x: a * x + b, R())))(b)


def captured_function(f, x):
    g = function(lambda y: f(y) * x, R())
    return g(x) + f(g(2.0 * x))


def fold_of_function(f, s, xs):
    return lax.scan(lambda s, x: (f(s, x), None), s, xs)[0]


def fold_of_captured_parameters(w, xs):
    step = function(lambda s, x: jnp.tanh(w * s + x), R(), R())
    return lax.scan(lambda s, x: (step(s, x), None), w, xs)[0]


def map_of_abstraction(k, xs):
    return jnp.sum(jax.vmap(lambda a: function(lambda b: jnp.sin(a * b * k), R())(a + k))(xs))


def norm_of_rows(x):
    return jnp.sum(jnp.linalg.norm(x, axis=1))


def attention(q, k):
    return jnp.sum((jax.nn.softmax(q @ k.T / 2.0, axis=-1) @ k) ** 2)


PROGRAMS = {
    "identity": (lambda x: x, 0, 3.0),
    "constant": (lambda x: jnp.float64(2.0), 0, 3.0),
    "linear": (lambda x: 3.0 * x - x / 2.0, 0, 3.0),
    "powers": (lambda x: x**3 + x**-2 + 2.0**x + x**2.5, 0, 3.0),
    "elementwise": (lambda x: jnp.sum(jnp.sin(x) * jnp.exp(x) - jnp.cos(x) / (1.0 + x * x)), 0, v),
    "logarithms": (lambda x: jnp.sum(jnp.log(jnp.abs(x)) + jnp.log1p(x * x) + jnp.expm1(x)), 0, v),
    "roots": (lambda x: jnp.sum(jnp.sqrt(jnp.abs(x)) + lax.rsqrt(x * x) + jnp.cbrt(x)), 0, v),
    "less common functions": (lambda x: jnp.sum(jax.scipy.special.erf(x) + jnp.arctan(x) + jnp.sinh(x)), 0, v),
    "relu and friends": (lambda x: jnp.sum(jax.nn.relu(x) + jax.nn.gelu(x) + jax.nn.softplus(x)), 0, v),
    "where": (lambda x: jnp.sum(jnp.where(x > 0.0, x * x, jnp.sin(x))), 0, v),
    "max and min": (lambda x, y: jnp.sum(jnp.maximum(x, y) * jnp.minimum(x, 0.3)), (0, 1), v, u),
    "clip, sign, floor": (lambda x: jnp.sum(jnp.clip(x, -0.8, 1.0) * jnp.sign(x) + jnp.floor(x)), 0, v),
    "two arguments": (lambda x, y: jnp.sum(x * y), (0, 1), v, u),
    "the second of two": (lambda x, y: jnp.sum(x * jnp.sin(y)), 1, v, u),
    "the last, counted from the end": (lambda x, y: jnp.sum(x * jnp.sin(y)), -1, v, u),
    "in another order": (lambda x, y, z: jnp.sum(x * y) * z, (2, 0), v, u, 2.0),
    "an argument twice": (lambda x: jnp.dot(x, x) * x[0], 0, v),
    "an argument that is not used": (lambda x, y: jnp.sum(x), (0, 1), v, u),
    "matmul": (lambda x, w: jnp.sum((x @ w) ** 2), (0, 1), v, M),
    "einsum": (lambda x, y: jnp.sum(jnp.einsum("ij,kj,i->k", x, y, v) ** 2), (0, 1), M, M),
    "reductions": (lambda x: jnp.max(x) * jnp.mean(x) + jnp.var(x) + jnp.prod(x[0]) + jnp.min(x, 0).sum(), 0, M),
    "cumulative": (lambda x: jnp.sum(jnp.cumsum(x, 1) ** 2 + jnp.sort(x, 0)), 0, M),
    "shapes": (lambda x: jnp.sum(jnp.concatenate([x.T.reshape(3, 4), x[::-1, ::-1]], 1)[None] ** 2), 0, M),
    "indexing": (lambda x: x[1, 2] ** 2 + jnp.sum(x[::2, 1:3] ** 3) + jnp.sum(x[np.array([0, 0, 2])] ** 2), 0, M),
    "updates": (lambda x: jnp.sum(jnp.asarray(x).at[1].multiply(2.0).at[:, 0].set(0.0) ** 2), 0, M),
    "pad and roll": (lambda x: jnp.sum(jnp.pad(x, 1) * jnp.roll(jnp.pad(x, 1), 1, 0)), 0, M),
    "broadcasting": (lambda x, y: jnp.sum(jnp.exp(x[:, None] * y[None, :]) / (1.0 + y * y)[None, :]), (0, 1), v, u),
    "norms": (norm_of_rows, 0, M),
    "logsumexp": (lambda x: jax.nn.logsumexp(x) + jax.nn.log_softmax(x)[0], 0, v),
    "attention": (attention, (0, 1), M, M + 0.1),
    "linear algebra": (lambda a: jnp.linalg.slogdet(a)[1] + jnp.sum(jnp.linalg.inv(a) @ v), 0, A),
    "cholesky": (lambda a: jnp.sum(jnp.linalg.cholesky(a @ a.T) ** 3), 0, A),
    "convolution": (lambda x, k: jnp.sum(jnp.convolve(x, k) ** 2), (0, 1), v, u),
    "a tree with integers": (mlp, 0, params, v),
    "a tree and an array": (mlp, (0, 1), params, v),
    "a scan": (rnn, (0, 1, 2), A, v, np.stack([v, u, v + u])),
    "a scan with outputs": (rnn_with_outputs, (0, 1, 2), A, v, np.stack([v, u, v + u])),
    "a scan in a scan": (scan_in_scan, (0, 1), 0.3, v),
    "a scan of nothing": (rnn, (0, 1), A, v, np.zeros((0, 3))),
    "a scan that carries a counter": (
        lambda x: lax.scan(lambda s, a: ((s[0] + 1, s[1] * a + s[0]), None), (0, x[0]), x)[0][1],
        0,
        v,
    ),
    "fori_loop": (lambda x: jnp.sum(lax.fori_loop(0, 4, lambda i, s: jnp.sin(s) * (i + 1.0), x)), 0, v),
    "cond": (lambda x: lax.cond(x[0] > 0.0, lambda x: jnp.sum(x**2), lambda x: jnp.sum(x), x), 0, v),
    "vmap": (lambda x: jnp.sum(jax.vmap(lambda row: row @ row)(x) ** 2), 0, M),
    "jit inside": (lambda x: jax.jit(lambda y: jnp.sum(jnp.sin(y) * x))(x), 0, v),
    "checkpoint": (lambda x: jnp.sum(jax.checkpoint(lambda y: jnp.sin(jnp.exp(y)))(x)), 0, v),
    "stop_gradient": (lambda x: jnp.sum(x * lax.stop_gradient(x)), 0, v),
    "a gradient of JAX inside": (lambda x: jnp.sum(jax.grad(lambda y: jnp.sum(jnp.sin(y) * x))(x)), 0, v),
    "complex numbers inside": (lambda x: jnp.abs(jnp.exp(x * (1.0 + 2.0j))) ** 2 + jnp.real(x * 1j * x), 0, 0.3),
    "fft": (lambda x: jnp.sum(jnp.abs(jnp.fft.fft(x)) ** 3), 0, v),
    "a wrong custom_jvp": (lambda x: jnp.sum(wrong_jvp(x) * x), 0, v),
    "a wrong custom_vjp": (lambda x, y: jnp.sum(wrong_vjp(x, y) * y), (0, 1), v, u),
    "a wrong rule in a scan": (lambda x: lax.scan(lambda s, a: (wrong_jvp(s) + a, None), 0.1, x)[0], 0, v),
    "curried": (curried, (0, 1), 1.5, -0.5),
    "a returned function": (returned, (0, 1), 1.5, -0.5),
    "functions of functions": (functions_of_functions, (0, 1), 0.7, -0.5),
    "through a function argument": (lambda f, x: f(x) * f(f(x)), 1, double, 0.7),
    "a function of vectors": (lambda f, x: jnp.sum(x * f(x) + f(2.0 * x)), 1, length, v),
    "a function in a function": (captured_function, 1, double, 0.7),
    "a function folded": (fold_of_function, (1, 2), cell, 0.3, v),
    "a captured parameter folded": (fold_of_captured_parameters, (0, 1), 0.3, v),
    "a function mapped": (lambda f, x: jnp.sum(jax.vmap(f)(x) ** 2), 1, double, v),
    "a function mapped twice": (lambda f, x: jnp.sum(jax.vmap(jax.vmap(f))(x) ** 2), 1, double, M),
    "functions made in a map": (map_of_abstraction, (0, 1), 0.3, v),
}


def given(arguments):
    return [function(a.python, *(R(*s) for s in a.shapes)) if isinstance(a, Fun) else a for a in arguments]


KNOWN = {}  # what JAX gives for the programs


@pytest.fixture
def reference(monkeypatch):
    """JAX's value_and_grad over a program in which functions are plain Python."""

    def run(name):
        f, argnums, *arguments = PROGRAMS[name]
        if name not in KNOWN:
            with monkeypatch.context() as patch:
                patch.setattr(sys.modules[__name__], "function", lambda f, *domain: f)
                is_array = [not isinstance(a, Fun) for a in arguments]
                arrays = [a for a in arguments if not isinstance(a, Fun)]

                def of(arrays):
                    rest = iter(arrays)
                    every = [next(rest) if known else a for a, known in zip(arguments, is_array, strict=True)]
                    return jax.value_and_grad(f, argnums, allow_int=True)(*every)

                KNOWN[name] = jax.jit(of)(arrays)
        return KNOWN[name]

    return run


def same(got, expected, tolerance=1e-10):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert jnp.shape(a) == jnp.shape(b)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def zeros_for_float0(gradient, argument):
    """JAX's gradient by an integer is float0; ours is a zero of the integer's own dtype."""
    zero = lambda g, a: jnp.zeros_like(a) if g.dtype == jax.dtypes.float0 else g
    return jax.tree.map(zero, gradient, argument)


NAMES = list(PROGRAMS)
ABSTRACT = NAMES[NAMES.index("a scan") :]  # have functions in their terms, by whose tangents alone the spaces differ


@pytest.mark.parametrize(("name", "functions"), [(n, "environment") for n in NAMES] + [(n, "list") for n in ABSTRACT])
def test_value_and_gradient(name, functions, reference, x64):
    f, argnums, *arguments = PROGRAMS[name]
    value, gradient = reference(name)
    asked = tuple(arguments[i] for i in argnums) if isinstance(argnums, tuple) else arguments[argnums]
    gradient = zeros_for_float0(gradient, asked)
    got_value, got = value_and_grad(f, argnums, functions=functions)(*given(arguments))
    same(got_value, value)
    same(got, gradient)
    assert jax.tree.map(jnp.result_type, got) == jax.tree.map(jnp.result_type, asked)


NOT_SMOOTH_OR_WRONG = ("a wrong", "stop_gradient", "constant", "a tree")


@pytest.mark.parametrize("name", [name for name in list(PROGRAMS)[::3] if not name.startswith(NOT_SMOOTH_OR_WRONG)])
def test_the_gradient_is_the_central_difference(name, x64):
    """In one space: above, both agree."""
    f, argnums, *arguments = PROGRAMS[name]
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    gradients = grad(f, numbers)(*given(arguments))
    f = ccc(f)
    for i, gradient in zip(numbers, gradients, strict=True):
        x = np.asarray(arguments[i], float)
        direction = np.cos(1.0 + np.arange(x.size)).reshape(x.shape)
        at = lambda h, i=i, x=x, d=direction: float(
            f(*given([x + h * d if k == i % len(arguments) else a for k, a in enumerate(arguments)]))
        )
        h = 1e-4
        difference = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
        assert float(np.sum(np.asarray(gradient) * direction)) == pytest.approx(difference, rel=1e-7, abs=1e-8)


def test_wrong_rules_show():
    """The derivative of x² that its author states as 7 is 7."""
    assert float(grad(wrong_jvp)(3.0)) == 7.0
    assert [float(g) for g in grad(wrong_vjp, (0, 1))(3.0, 4.0)] == [20.0, 0.0]
    assert float(grad(lambda f, x: f(x), 1)(function(wrong_jvp, C.Tensor()), 3.0)) == 7.0
