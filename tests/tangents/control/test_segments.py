"""`C.segmented`: loops over rows of rows, which keep the states between rows alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import errors as E
from tangents import grad, vjp

T, SIZE, WIDTH = 64, 8, 16
W = jnp.float32(0.9)
XS = jnp.sin(jnp.arange(T, dtype=jnp.float32))
ROWS = XS.reshape(T // SIZE, SIZE)


def cell(w):
    return lambda s, x: jnp.tanh(w * s + x)


def in_one(w, xs):
    return C.fold(cell(w), jnp.linspace(0.0, 1.0, WIDTH), xs)


def in_segments(w, xs):
    return C.segmented(C.fold)(cell(w), jnp.linspace(0.0, 1.0, WIDTH), xs)


def kept(f, *arguments):
    """How many bytes a pullback keeps."""
    _, pullback = vjp(f, *arguments)
    return sum(leaf.nbytes for leaf in jax.tree.leaves(pullback))


def by_hand(w):
    """The sum of the last state, and its derivative by w, in float64."""
    s, slope = np.linspace(0.0, 1.0, WIDTH), np.zeros(WIDTH)
    for x in np.asarray(XS, np.float64):
        now = np.tanh(w * s + x)
        s, slope = now, (1 - now**2) * (s + w * slope)
    return s.sum(), slope.sum()


@pytest.mark.parametrize("functions", ["environment", "list"])
def test_it_is_the_loop_over_all_rows(functions):
    value, slope = by_hand(float(W))
    np.testing.assert_allclose(in_segments(W, ROWS).sum(), value, rtol=1e-5)
    got = grad(lambda w, xs: jnp.sum(in_segments(w, xs)), functions=functions)(W, ROWS)
    np.testing.assert_allclose(got, slope, rtol=1e-4)


def test_it_keeps_the_states_between_rows():
    """Of 64 steps in rows of 8, 8 states of 16 numbers instead of 64."""
    given = 4 * (T + WIDTH + 8)  # elements, the first state and numbers
    assert 4 * T * WIDTH <= kept(in_one, W, XS) <= 4 * T * WIDTH + given
    assert 4 * (T // SIZE) * WIDTH <= kept(in_segments, W, ROWS) <= 4 * (T // SIZE) * WIDTH + given


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_in_segments_put_out_rows_of_rows(reverse):
    def sums(xs, loop):
        return loop(lambda s, x: (s + x, (s + x) ** 2), jnp.float32(0.0), xs)

    loop = C.segmented(C.terms.Scan(reverse=reverse))
    last, ys = sums(ROWS, loop)
    expected = np.cumsum(np.asarray(XS, np.float64)[:: -1 if reverse else 1])[:: -1 if reverse else 1]
    np.testing.assert_allclose(ys.reshape(-1), expected**2, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, expected[0 if reverse else -1], rtol=1e-4, atol=1e-5)
    slope = grad(lambda xs: jnp.sum(sums(xs, loop)[1]))(ROWS).reshape(-1)  # Σ 2 yⱼ over the sums that x is in
    after = np.cumsum(2 * expected) if reverse else np.cumsum((2 * expected)[::-1])[::-1]
    np.testing.assert_allclose(slope, after, rtol=1e-4, atol=1e-4)


def test_what_has_no_segments_is_refused():
    for loop in (C.map, C.while_, lax.scan):
        with pytest.raises(E.ArgumentError, match="segments"):
            C.segmented(loop)
