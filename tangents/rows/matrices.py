"""Rows of linear algebra: the factor, and the solution, are what is kept.

A = L Lᵀ :    L⁻¹ dA L⁻ᵀ = L⁻¹ dL + (L⁻¹ dL)ᵀ,  so  dL = L Φ(L⁻¹ dA L⁻ᵀ),  Φ the lower half with half the diagonal
A X = B  :    A dX = dB − dA X
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from tangents.cotangents.sparse import ZERO
from tangents.rows.kinds import Rule, each, general, is_complex, knows, linear, total

_HIGHEST = lax.Precision.HIGHEST


def product(a: Any, b: Any, i: int, j: int) -> Any:
    """Sums a·b over the last axis but i of the one and the last but j of the other, for all matrices."""
    many = tuple(range(a.ndim - 2))
    contract = ((a.ndim - 1 - i,), (b.ndim - 1 - j,))
    return lax.dot_general(a, b, (contract, (many, many)), precision=_HIGHEST)


def _solve(a: Any, b: Any, **how: Any) -> Any:
    return lax.linalg.triangular_solve(a, b, **how)


def triangle(x: Any, lower: bool, strictly: bool = False) -> Any:
    """The triangle of matrices."""
    beyond, edge = places(x)[:: 1 if lower else -1]
    return on(lax.gt(beyond, edge) if strictly else lax.ge(beyond, edge), x)


def transposed(x: Any) -> Any:
    """The matrices with rows for columns."""
    return lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _half(x: Any) -> Any:
    """Φ: what is below the diagonal, and half of the diagonal."""
    rows, columns = places(x)
    weight = lambda value: lax.full_like(x, value)
    return lax.mul(x, lax.select(lax.gt(rows, columns), weight(1), on(lax.eq(rows, columns), weight(0.5))))


def places(x: Any) -> tuple[Any, Any]:
    """The row and the column of each entry of matrices."""
    numbers = lambda axis: lax.broadcasted_iota(np.int32, x.shape, axis)
    return numbers(x.ndim - 2), numbers(x.ndim - 1)


def on(condition: Any, x: Any) -> Any:
    """x where the condition holds, else 0."""
    return lax.select(condition, x, lax.full_like(x, 0))


def _cholesky(g: Any, factor: Any, a: Any, **_: Any) -> Any:
    """G = L⁻ᵀ Φ(Lᵀ g) L⁻¹, and on the lower triangle, which alone is read, G + Gᵀ off the diagonal."""
    factor = triangle(factor, lower=True)
    inner = _half(product(factor, g, 1, 1))
    left = _solve(factor, inner, left_side=True, lower=True, transpose_a=True)
    full = _solve(factor, left, left_side=False, lower=True)
    return lax.add(triangle(full, lower=True), triangle(transposed(full), lower=True, strictly=True))


def _cholesky_push(tangents: Any, factor: Any, a: Any, **_: Any) -> Any:
    factor = triangle(factor, lower=True)
    below = triangle(tangents[0], lower=True)
    t = lax.add(below, transposed(triangle(below, lower=True, strictly=True)))
    left = _solve(factor, t, left_side=True, lower=True)
    return product(factor, _half(_solve(factor, left, left_side=False, lower=True, transpose_a=True)), 0, 1)


def _solved(asked: Sequence[int], g: Any, x: Any, a: Any, b: Any, **how: Any) -> list[Any]:
    """The cotangent of B solves the transposed equation; −1 times its product with X, in the triangle, is A's."""
    of_b = _solve(a, g, **{**how, "transpose_a": not how["transpose_a"]})
    return [of_b if i == 1 else lax.neg(_outer(of_b, x, **how)) for i in asked]


def _outer(g: Any, x: Any, *, left_side: bool, lower: bool, transpose_a: bool, unit_diagonal: bool, **_: Any) -> Any:
    """∂/∂A of ⟨g, A X⟩, or of ⟨g, X A⟩."""
    first, second = (g, x) if left_side != transpose_a else (x, g)
    axis = 0 if left_side else 1
    return triangle(product(first, second, axis, axis), lower, unit_diagonal)


def _solved_push(tangents: Any, x: Any, a: Any, b: Any, **how: Any) -> Any:
    """The same equation for dX, with dB − dA X on the right."""
    da, db = tangents
    if da is not ZERO:
        da = triangle(da, how["lower"], how["unit_diagonal"])
        one, other = (da, x) if how["left_side"] else (x, da)
        flip = how["transpose_a"]
        da = lax.neg(product(one, other, int(how["left_side"] and flip), int(how["left_side"] or not flip)))
    return _solve(a, total(t for t in (da, db) if t is not ZERO), **how)


def _square_fft(x: Any, *, fft_type: Any, **_: Any) -> bool:
    return is_complex(x) and fft_type in (lax.FftType.FFT, lax.FftType.IFFT)


def _fft(g: Any, y: Any, x: Any, **how: Any) -> Any:
    """The matrix of a Fourier transform is symmetric."""
    return lax.fft(g, **how)


MATRICES: dict[str, Rule] = {
    "cholesky": general(each(_cholesky), _cholesky_push, "the result"),
    "triangular_solve": general(
        _solved,
        _solved_push,
        "the matrix, the result",
        knows("left_side lower transpose_a unit_diagonal conjugate_a"),  # of real numbers the conjugate is no other
    ),
    "fft": linear("fft", each(_fft), knows("fft_type fft_lengths"), where=_square_fft),
}
