"""`lax.reduce` and `lax.reduce_window` by any program are trees of it, and are differentiated as that."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from compile_ccc import trace
from tangents import grad, hessian, jvp
from tangents.forward import primitives as forward_primitives
from tangents.primitives import pull as primitives
from tests.compile_ccc.reading.test_writing_by_a_function import slopes, summed

X = np.random.default_rng(7).uniform(0.3, 2.0, (3, 5, 2))
number = lambda v: jnp.asarray(v, np.float64)


def longer(a, b):
    return jnp.sqrt(a * a + b * b)


REDUCTIONS = {
    "logaddexp": (jnp.logaddexp, -np.inf, (0,), lambda x: np.log(np.sum(np.exp(x), 0))),
    "logaddexp of two axes": (jnp.logaddexp, -np.inf, (0, 2), lambda x: np.log(np.sum(np.exp(x), (0, 2)))),
    "hypotenuses": (longer, 0.0, (1,), lambda x: np.sqrt(np.sum(x * x, 1))),
    "of no axis": (jnp.logaddexp, -np.inf, (), lambda x: x),
    "a sum from 2": (lax.add, 2.0, (1,), lambda x: 2 + np.sum(x, 1)),
    "a product from 2": (lax.mul, 2.0, (2,), lambda x: 2 * np.prod(x, 2)),
    "a maximum from 1": (lax.max, 1.0, (0, 1, 2), lambda x: np.maximum(1.0, np.max(x))),
    "a product by a program": (lambda a, b: (a * b) * 1.0, 1.0, (0, 1), lambda x: np.prod(x, (0, 1))),
    "the first": (lambda a, b: (a + b, a)[1], 0.5, (0,), lambda x: np.full((5, 2), 0.5)),
}


def follows(f, reference, x, second=True):
    """Both modes, and second derivatives, are those of the reference."""
    loss, right = lambda x: summed(f(x)), slopes(lambda x: summed(reference(x), np), x)
    t = np.sin(np.arange(x.size) + 2.0).reshape(x.shape)
    all_of_it = lambda x, t: (f(x), grad(loss)(x), jvp(loss, (x,), (t,))[1], hessian(loss)(x) if second else 0.0)
    value, gradient, tangent, curvature = jax.jit(all_of_it)(x, t)
    np.testing.assert_allclose(value, reference(x), 1e-12)
    np.testing.assert_allclose(gradient, right, 1e-6, 1e-7)
    np.testing.assert_allclose(tangent, np.sum(right * t), 1e-6, 1e-7)
    if second:
        along = lambda s: slopes(lambda x: summed(reference(x), np), x + s * t, 1e-4)
        found = np.tensordot(curvature, t, x.ndim)
        np.testing.assert_allclose(found, (along(1e-4) - along(-1e-4)) / 2e-4, 1e-4, 1e-5)


@pytest.fixture
def by_terms(monkeypatch):
    """No reduction is left to JAX's rule."""

    def unless_reducing(rule):
        def watched(term, *arguments):
            assert not term.name.startswith("reduce"), f"{term.name} is left to JAX"
            return rule(term, *arguments)

        return watched

    monkeypatch.setattr(primitives, "delegated", unless_reducing(primitives.delegated))
    monkeypatch.setattr(forward_primitives, "_delegated", unless_reducing(forward_primitives._delegated))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, x64, by_terms):
    program, start, axes, reference = REDUCTIONS[name]
    summed_up = lambda x: jnp.reshape(lax.reduce(x, number(start), program, axes), (-1,))[:6]
    follows(summed_up, lambda x: np.reshape(reference(x), (-1,))[:6], X, second="maximum" not in name)


def test_the_start_has_a_derivative(x64):
    f = lambda x: lax.reduce(x[1:], x[0], jnp.logaddexp, (0,))
    follows(f, lambda x: np.log(np.sum(np.exp(x))), X[0, :, 0])


def test_a_product_with_zeros(x64):
    x = np.array([2.0, 0.0, 3.0, 0.0])
    f = lambda x: lax.reduce(x, number(1.0), lambda a, b: a * b * 1.0, (0,))
    assert not grad(f)(jnp.asarray(x)).any()
    np.testing.assert_allclose(grad(f)(jnp.asarray(x[:3])), [0.0, 6.0, 0.0])
    np.testing.assert_allclose(hessian(f)(jnp.asarray(x))[1, 3], 6.0)


def test_of_nothing(x64):
    f = lambda x: lax.reduce(x, number(0.5), longer, (0,))
    np.testing.assert_allclose(f(jnp.zeros((0, 2))), [0.5, 0.5])
    assert grad(lambda x: summed(f(x)))(jnp.zeros((0, 2))).shape == (0, 2)


def largest(x):
    """The largest entry, and where it is."""
    chosen = lambda a, b: tuple(jnp.where(a[0] >= b[0], p, q) for p, q in zip(a, b, strict=True))
    return lax.reduce((x, lax.iota(np.int32, x.shape[0])), (number(-np.inf), np.int32(0)), chosen, (0,))


def test_several_operands(x64):
    """The largest entry with its number; and x ↦ a x + b composed in order, which does not commute."""
    x = X[0, :, 0]
    value, place = largest(jnp.asarray(x))
    assert (float(value), int(place)) == (x.max(), x.argmax())
    follows(lambda x: largest(x)[0] ** 2 * (1.0 + number(largest(x)[1])), lambda x: x.max() ** 2 * (1 + x.argmax()), x)
    compose = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])

    def maps(x):
        a, b = lax.reduce((x, jnp.sin(x)), (number(1.0), number(0.0)), compose, (0,))
        return a + b * b

    def reference(x):
        a, b = 1.0, 0.0
        for v in x:
            a, b = a * v, v * b + np.sin(v)
        return a + b * b

    follows(maps, reference, x)


def test_an_array_that_the_program_captures(x64):
    w = jnp.array([1.0, 0.7])
    f = lambda x: lax.reduce(x, number(0.0), lambda a, b: a + b + w[1] * a * b, (0,))
    right = slopes(lambda x: (np.prod(1 + 0.7 * x) - 1) / 0.7, X[0, :, 0])
    np.testing.assert_allclose(grad(f)(jnp.asarray(X[0, :, 0])), right, 1e-7)


def windows(x, start, program, size, strides, padding, base, dilation):
    """Every window by itself, with what is there of it."""
    low = [p[0] for p in padding]
    spans = [(n - 1) * b + 1 if n else 0 for n, b in zip(x.shape, base, strict=True)]
    shape = [
        (span + sum(p) - (k - 1) * d - 1) // s + 1
        for span, p, k, d, s in zip(spans, padding, size, dilation, strides, strict=True)
    ]
    out = np.full(shape, start)
    for at in np.ndindex(*shape):
        for k in np.ndindex(*size):
            place = [i * s + j * d - lo for i, s, j, d, lo in zip(at, strides, k, dilation, low, strict=True)]
            if all(p % b == 0 and 0 <= p // b < n for p, b, n in zip(place, base, x.shape, strict=True)):
                out[at] = program(out[at], x[tuple(p // b for p, b in zip(place, base, strict=True))])
    return out


PROGRAMS = {
    "logaddexp": (jnp.logaddexp, -np.inf, np.logaddexp),
    "product": (lax.mul, 1.0, lambda a, b: a * b),
    "hypotenuse": (longer, 0.0, lambda a, b: np.sqrt(a * a + b * b)),
    "sum from a half": (lax.add, 0.5, lambda a, b: a + b),
}
PLAIN = ((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))
SHAPES = {
    "plain": ((2, 3), *PLAIN),
    "strides": ((2, 2), (2, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
    "padding": ((3, 2), (1, 2), ((1, 2), (0, 1)), (1, 1), (1, 1)),
    "dilations": ((2, 2), (1, 2), ((1, 1), (0, 2)), (2, 1), (1, 2)),
    "nothing but padding": ((1, 2), (1, 1), ((2, 0), (0, 0)), (1, 1), (1, 1)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_windows(name, shape, x64, by_terms):
    program, start, reference = PROGRAMS[name]
    size, strides, padding, base, dilation = SHAPES[shape]
    found = lambda x: lax.reduce_window(x, number(start), program, size, strides, padding, base, dilation)
    right = lambda x: windows(x, start, reference, size, strides, padding, base, dilation)
    seen = np.isfinite(right(X[0]))
    follows(
        lambda x: jnp.where(seen, found(x), 0.0).ravel()[:6],
        lambda x: np.where(seen, right(x), 0.0).ravel()[:6],
        X[0],
        second=shape == "padding",
    )


def test_windows_larger_than_the_array_are_none(x64):
    f = lambda x: lax.reduce_window(x, number(-np.inf), jnp.logaddexp, (7, 1), (1, 1), "VALID")
    assert grad(lambda x: jnp.sum(f(x)))(jnp.asarray(X[0])).shape == (5, 2)
    assert f(jnp.asarray(X[0])).shape == (0, 2)


def test_whole_numbers_stay_as_they_are(x64):
    """What has no derivative is no longer program than before."""
    mixed = lambda n: lax.reduce(n, np.int64(0), lambda a, b: a + b + 0 * a, (0,))
    assert "reduce" in str(trace(mixed, jnp.arange(3)).term)
    assert "reduce" not in str(trace(lambda x: lax.reduce(x, number(0.0), longer, (0,)), jnp.ones(3)).term)


def test_under_vmap_and_jit(x64):
    f = lambda x: lax.reduce(x, number(-np.inf), jnp.logaddexp, (0,))
    softmax = np.exp(X[0].T) / np.sum(np.exp(X[0].T), 1, keepdims=True)
    np.testing.assert_allclose(jax.jit(jax.vmap(grad(f)))(X[0].T), softmax, 1e-12)
    np.testing.assert_allclose(grad(lambda x: jnp.sum(jax.vmap(f)(x)))(jnp.asarray(X[0].T)), softmax, 1e-12)
