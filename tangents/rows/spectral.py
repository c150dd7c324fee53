"""Rows of eigenvalues and singular values, which need no gaps, and of their vectors, which do.

A V = V Λ    :  P = Vᴴ dA V,  dΛ = Re diag P,  dV = V (F ∘ P),  Fij = 1/(λj − λi) off the diagonal, where it is 0
A = U S Vᴴ   :  P = Uᴴ dA V,  dS = Re diag P,  and P s + (P s)ᴴ, s P + (s P)ᴴ turn U and V, with Fij = 1/(sj² − si²)

Where two values are equal, their vectors have no derivative, and what asks for one gets ∞ or NaN, even if it asks for
0 of it: the 0 of a cotangent divided by the 0 of a gap stands for any number.  What asks for values alone gets no gaps.
Vectors are determined up to a phase; that of eigenvectors, and of V, is taken not to turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from tangents.cotangents.sparse import ZERO
from tangents.rows.kinds import Rule, general, is_complex, knows, total
from tangents.rows.matrices import on, places, product, transposed, triangle


def _adjoint(x: Any) -> Any:
    return transposed(_conj(x))


def _conj(x: Any) -> Any:
    return lax.conj(x) if is_complex(x) else x


def _real(x: Any) -> Any:
    return lax.real(x) if is_complex(x) else x


def _times(*matrices: Any) -> Any:
    """The product of matrices, from the left."""
    result, *rest = matrices
    for m in rest:
        result = product(result, m, 0, 1)
    return result


def _columns(x: Any, v: Any) -> Any:
    """x with its columns multiplied by the entries of v."""
    return lax.mul(x, _along(v, x, x.ndim - 1))


def _rows(v: Any, x: Any) -> Any:
    """x with its rows multiplied by the entries of v."""
    return lax.mul(x, _along(v, x, x.ndim - 2))


def _along(v: Any, x: Any, axis: int) -> Any:
    """The entries of v along one axis of matrices x, of their dtype."""
    many = tuple(range(x.ndim - 2))
    return lax.broadcast_in_dim(lax.convert_element_type(v, x.dtype), x.shape, (*many, axis))


def _diagonal(x: Any) -> Any:
    """Which entries of square matrices are on the diagonal."""
    return lax.eq(*places(x))


def _spread(v: Any, like: Any) -> Any:
    """Matrices with the entries of v on the diagonal."""
    return on(_diagonal(like), _along(v, like, like.ndim - 1))


def _gathered(x: Any) -> Any:
    """The real parts of the diagonal of matrices."""
    return lax.reduce_sum(_real(on(_diagonal(x), x)), (x.ndim - 1,))


def _by_gaps(x: Any, values: Any) -> Any:
    """F ∘ x for the gaps vj − vi between these values."""
    on_diagonal, like = _diagonal(x), _real(x)
    gaps = lax.sub(_along(values, like, x.ndim - 1), _along(values, like, x.ndim - 2))
    gaps = lax.convert_element_type(lax.select(on_diagonal, lax.full_like(gaps, 1), gaps), x.dtype)
    return lax.div(lax.select(on_diagonal, lax.full_like(x, 0), x), gaps)


def _skew(x: Any) -> Any:
    return lax.sub(x, _adjoint(x))


def _half(x: Any) -> Any:
    return lax.mul(x, lax.full_like(x, 0.5))


def _hermitian(t: Any, lower: bool) -> Any:
    """The Hermitian matrices of which one triangle is read, and of the diagonal the real part."""
    strict = triangle(t, lower, strictly=True)
    diagonal = lax.convert_element_type(_real(on(_diagonal(t), t)), t.dtype)
    return lax.add(lax.add(strict, _adjoint(strict)), diagonal)


def _eigh(asked: Sequence[int], g: Any, y: Any, a: Any, *, lower: bool, **_: Any) -> list[Any]:
    """G = V̄ M Vᵀ with M = diag(gΛ) + F ∘ (N − Nᴴ)/2, N = Vᵀ gV; on the triangle that is read, G + Gᴴ."""
    vectors, values = y
    of_vectors, of_values = g.part(0), g.part(1)
    turned = []
    if of_vectors is not ZERO:
        turned.append(_by_gaps(_half(_skew(_times(transposed(vectors), of_vectors))), values))
    whole = _times(_conj(vectors), _applied(turned, of_values, transposed(vectors)))
    strict = triangle(lax.add(whole, _adjoint(whole)), lower, strictly=True)
    return [lax.add(strict, lax.convert_element_type(_real(on(_diagonal(whole), whole)), a.dtype))]


def _eigh_push(tangents: Any, y: Any, a: Any, *, lower: bool, **_: Any) -> Any:
    vectors, values = y
    inner = _times(_adjoint(vectors), _hermitian(tangents[0], lower), vectors)
    return _times(vectors, _by_gaps(inner, values)), _gathered(inner)


def _applied(parts: list[Any], v: Any, x: Any) -> Any:
    """(M + diag v) x for M the sum of the parts, of which there may be none; v may be `ZERO`."""
    if not parts:
        return _rows(v, x)
    return _times(total(parts if v is ZERO else [*parts, _spread(v, parts[0])]), x)


def _svd(asked: Sequence[int], g: Any, y: Any, a: Any, **_: Any) -> list[Any]:
    """G = Ū M Vᵀ with M = diag(gS) + F ∘ (D s + s E) + diag D/2s, for D = N − Nᴴ, N = Uᵀ gU, and E likewise of V;
    and for what leaves the columns of U, or of V, the rest of gU, or gV, divided by s."""
    s, u, vt = y
    of_s, of_u, of_vt = (g.part(i) for i in range(3))
    turned, phases, outer = [], [], []
    if of_u is not ZERO:
        overlap = _times(transposed(u), of_u)
        d = _skew(overlap)
        turned.append(_columns(d, s))
        phases = _phases(d, s)
        if u.shape[-2] > u.shape[-1]:
            rest = lax.sub(of_u, _times(_conj(u), overlap))
            outer.append(_times(_over(rest, s, rest.ndim - 1), _conj(vt)))
    if of_vt is not ZERO:
        overlap = _times(of_vt, transposed(vt))
        turned.append(_rows(s, _skew(_adjoint(overlap))))
        if vt.shape[-1] > vt.shape[-2]:
            rest = lax.sub(of_vt, _times(overlap, _conj(vt)))
            outer.append(_times(_conj(u), _over(rest, s, rest.ndim - 2)))
    inner = [_by_gaps(total(turned), lax.mul(s, s)), *phases] if turned else []
    return [total([_times(_conj(u), _applied(inner, of_s, _conj(vt))), *outer])]


def _svd_push(tangents: Any, y: Any, a: Any, **_: Any) -> Any:
    t = tangents[0]
    s, u, vt = y
    squares = lax.mul(s, s)
    symmetric = lambda x: lax.add(x, _adjoint(x))
    p = _times(_adjoint(u), t, _adjoint(vt))
    du = _times(u, total([_by_gaps(symmetric(_columns(p, s)), squares), *_phases(_skew(p), s)]))
    dvt = _times(_adjoint(_by_gaps(symmetric(_rows(s, p)), squares)), vt)
    if u.shape[-2] > u.shape[-1]:
        moved = _times(t, _adjoint(vt))
        du = lax.add(du, _over(lax.sub(moved, _times(u, p)), s, u.ndim - 1))
    if vt.shape[-1] > vt.shape[-2]:
        moved = _times(_adjoint(u), t)
        dvt = lax.add(dvt, _over(lax.sub(moved, _times(p, vt)), s, vt.ndim - 2))
    return _gathered(p), du, dvt


def _phases(d: Any, s: Any) -> list[Any]:
    """Half of the diagonal of a skew matrix by s, of which there is none for real numbers."""
    return [on(_diagonal(d), _over(_half(d), s, d.ndim - 1))] if is_complex(d) else []


def _over(x: Any, s: Any, axis: int) -> Any:
    """x divided by s along an axis."""
    return lax.div(x, _along(s, x, axis))


def _whole(a: Any, *, subset_by_index: Any, **_: Any) -> bool:
    """Whether all values are there."""
    return subset_by_index in (None, (0, min(a.shape[-2:])))


def _thin(a: Any, *, full_matrices: bool, compute_uv: bool, **how: Any) -> bool:
    """Whether the vectors are there, and no others; JAX's rule works them out again for values alone."""
    return compute_uv and (not full_matrices or a.shape[-1] == a.shape[-2]) and _whole(a, **how)


SPECTRAL: dict[str, Rule] = {
    "eigh": general(
        _eigh,
        _eigh_push,
        "the result",
        knows("lower sort_eigenvalues subset_by_index algorithm"),
        complex=True,
        where=_whole,
    ),
    "svd": general(
        _svd,
        _svd_push,
        "the result",
        knows("full_matrices compute_uv subset_by_index algorithm"),
        complex=True,
        where=_thin,
    ),
}
