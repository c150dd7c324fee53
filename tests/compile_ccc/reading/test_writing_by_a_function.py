"""`x.at[i].apply(f)` is reading, f, and writing: right in both modes, wherever it stands, and for repeated indices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import ArgumentError, UnsupportedError
from compile_ccc import ccc, function
from tangents import grad, hessian, jvp, value_and_grad

X = np.array([0.3, -0.5, 0.9, 1.2])
M = np.array([[0.3, -0.5, 0.9], [1.2, 0.4, -0.8]])
WEIGHTS = np.cos(1.0 + np.arange(6.0))


def summed(y, xp=jnp):
    return xp.sum(xp.reshape(y, (-1,)) * WEIGHTS[: y.size])


def applied(f, index):
    """What NumPy does, f once for each time that a place is pointed to."""

    def run(x):
        places = np.arange(x.size).reshape(x.shape)[index].ravel()
        out = np.array(x).ravel()
        for place in places:
            out[place] = f(out[place])
        return out.reshape(x.shape)

    return run


def slopes(f, x, h=1e-6):
    steps = h * np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([(f(x + s) - f(x - s)) / (2 * h) for s in steps]).reshape(x.shape)


INDICES = {
    "a slice": (X, slice(1, 3)),
    "strides": (X, slice(None, None, 2)),
    "one": (X, 2),
    "from the end": (X, -1),
    "several": (X, np.array([0, 3])),
    "repeated": (X, np.array([1, 3, 1, 1])),
    "none": (X, np.zeros(0, int)),
    "a mask": (X, np.array([True, False, True, True])),
    "a row": (M, 1),
    "repeated rows": (M, np.array([1, 1, 0])),
    "a column": (M, (slice(None), 1)),
    "repeated pairs": (M, (np.array([0, 0, 1]), np.array([2, 2, 0]))),
    "a grid": (M, (np.array([[0], [1]]), np.array([0, 2]))),
}


@pytest.mark.parametrize("name", INDICES)
def test_gradients_tangents_and_second_derivatives(name, x64):
    x, index = INDICES[name]
    f = lambda x: summed(x.at[index].apply(jnp.sin))
    right = slopes(lambda x: summed(applied(np.sin, index)(x), np), x)
    t = np.sin(np.arange(x.size) + 2.0).reshape(x.shape)
    all_of_it = lambda x, t: (value_and_grad(f)(x), jvp(f, (x,), (t,))[1], hessian(f)(x))
    (value, gradient), tangent, curvature = jax.jit(all_of_it)(x, t)
    np.testing.assert_allclose(value, summed(applied(np.sin, index)(x), np), 1e-12)
    np.testing.assert_allclose(gradient, right, 1e-7, 1e-8)
    np.testing.assert_allclose(tangent, np.sum(right * t), 1e-7, 1e-8)
    along = lambda s: slopes(lambda x: summed(applied(np.sin, index)(x), np), x + s * t, 1e-4)
    second = np.tensordot(curvature, t, x.ndim)
    np.testing.assert_allclose(second, (along(1e-4) - along(-1e-4)) / 2e-4, 1e-4, 1e-5)


@pytest.mark.parametrize(("mode", "places"), [("clip", [3, 1, 3, 0]), ("drop", [1]), ("fill", [1])])
def test_out_of_bounds(mode, places, x64):
    """Clipped indices may repeat though none did; the others are not written, and ±∞ there is none of ours."""
    index, f = np.array([7, 1, 3, -9] if mode == "clip" else [7, 1, -9]), lambda v: jnp.sqrt(v + 1.0)
    gradient = grad(lambda x: summed(x.at[index].apply(f, mode=mode)))(jnp.asarray(X))
    right = slopes(lambda x: summed(applied(lambda v: np.sqrt(v + 1.0), np.array(places))(x), np), X)
    np.testing.assert_allclose(gradient, right, 1e-7)
    steep = lambda x: summed((x * x).at[np.array([9])].apply(lambda v: jnp.sqrt(v - v), mode=mode))
    assert mode == "clip" or np.isfinite(grad(steep)(jnp.asarray(X))).all()


def test_under_vmap_with_indices_that_repeat_in_one_row(x64):
    index = np.array([[0, 2], [1, 1]])
    f = lambda x: summed(jax.vmap(lambda r, i: r.at[i].apply(jnp.exp))(x, index))
    rows = lambda x: np.stack([applied(np.exp, i)(r) for r, i in zip(x, index, strict=True)])
    np.testing.assert_allclose(grad(f)(jnp.asarray(M)), slopes(lambda x: summed(rows(x), np), M), 1e-7)
    one = lambda r, i: grad(lambda r: summed(r.at[i].apply(jnp.exp)))(r)
    by_row = [slopes(lambda x, i=i: summed(applied(np.exp, i)(x), np), r) for r, i in zip(M, index, strict=True)]
    np.testing.assert_allclose(jax.vmap(one)(jnp.asarray(M), index), by_row, 1e-7)


def test_in_a_scan_a_branch_and_a_function_value(x64):
    def f(x):
        step = lambda s, i: (lax.cond(s[0] > 0, lambda s: s.at[i].apply(jnp.tanh), lambda s: s, s), s[1])
        end, seen = lax.scan(step, x, np.array([1, 2, 1]))
        last = function(lambda x: x.at[jnp.argmax(x)].apply(jnp.cos), C.Tensor(4, np.float64))
        return summed(last(end)) + jnp.sum(seen)

    def reference(x):
        seen, x = 0.0, np.array(x)
        for i in (1, 2, 1):
            seen += x[1]
            x[i] = np.tanh(x[i])
        x[np.argmax(x)] = np.cos(np.max(x))
        return summed(x, np) + seen

    np.testing.assert_allclose(grad(f)(jnp.asarray(X)), slopes(reference, X), 1e-7)
    np.testing.assert_allclose(jax.jit(grad(f))(X), slopes(reference, X), 1e-7)


def test_at_the_places_of_the_smallest(x64):
    f = lambda x: summed(x.at[jnp.argsort(x)[:2]].apply(jnp.exp))
    right = np.where(np.isin(np.arange(4), np.argsort(X)[:2]), np.exp(X), 1.0) * WEIGHTS[:4]
    np.testing.assert_allclose(grad(f)(jnp.asarray(X)), right, 1e-12)
    np.testing.assert_allclose(jvp(f, (jnp.asarray(X),), (jnp.ones(4),))[1], np.sum(right), 1e-12)


def test_a_function_that_branches_or_gives_a_number(x64):
    branch = lambda v: lax.cond(v > 0.5, jnp.sin, lambda v: v * v, v)
    right = np.where(X > 0.5, np.cos(X), 2 * X) * WEIGHTS[:4]
    np.testing.assert_allclose(grad(lambda x: summed(x.at[:].apply(branch)))(jnp.asarray(X)), right, 1e-12)
    assert not grad(lambda x: summed(x.at[:].apply(lambda v: 5.0)))(jnp.asarray(X)).any()


def test_numbers_that_the_function_captures(x64):
    right = 2 * 2.5 * X * WEIGHTS[:4]
    for factor in (2.5, np.float64(2.5), jnp.array(2.5)):
        f = lambda x, factor=factor: summed(x.at[:].apply(lambda v: factor * v * v))
        np.testing.assert_allclose(grad(f)(jnp.asarray(X)), right, 1e-12)
    factors = np.array([1.0, 2.5])
    by_entry = lambda x: summed(x.at[:].apply(lambda v: factors[1] * v * v))
    np.testing.assert_allclose(grad(by_entry)(jnp.asarray(X)), right, 1e-12)
    np.testing.assert_allclose(ccc(by_entry)(jnp.asarray(X)), summed(2.5 * X * X, np), 1e-12)


def test_the_function_may_hold_a_number_that_is_not_differentiated(x64):
    slopes = grad(lambda x, a: summed(x.at[1:].apply(lambda v: a * v)))(jnp.asarray(X), 2.0)
    np.testing.assert_allclose(slopes, WEIGHTS[: X.size] * np.array([1.0, *[2.0] * (X.size - 1)]))


def test_what_the_function_may_not_do_is_said(x64):
    x = jnp.asarray(X)
    pair = jnp.array([2.0, 3.0])
    for f in [
        lambda x: summed(x.at[1:].apply(lambda v: x[0] * v)),
        lambda x: summed(x.at[1:].apply(lambda v: pair[0] * v)),
        lambda x: summed(x.at[1:].apply(function(lambda v: v, C.Tensor((), np.float64)))),
    ]:
        with pytest.raises(UnsupportedError, match="holds an array of the program") as caught:
            grad(f)(x)
        assert "test_writing_by_a_function.py" in str(caught.value) and "x.at[i].set" in str(caught.value)
    with pytest.raises(ArgumentError, match="gives something else") as caught:
        grad(lambda x: summed(x.at[1:].apply(lambda v: v > 0)))(x)
    assert "test_writing_by_a_function.py" in str(caught.value)


def test_whole_numbers_are_written_as_jax_writes_them(x64):
    f = lambda x, n: summed(x) * n.at[np.array([1, 1])].apply(lambda v: v + 1)[1].astype(x.dtype)
    np.testing.assert_allclose(grad(f)(jnp.asarray(X), jnp.arange(3)), 3 * WEIGHTS[:4])
