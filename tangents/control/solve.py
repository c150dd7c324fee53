"""Representation of `solve`, and its forward mode: what the equation says of x, not how it was solved.

    A x = b        x' solves  A x' = b' − A' x
    pullback       v solves  Aᵀ v = g;   b gets v,   and A, a function, gets its call [(x, −v)]

What A captured has its cotangent from that call, as of any function.  The solvers have none: nothing depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax

from combinators.errors import NotDifferentiableError
from combinators.meaning.evaluate import apply
from combinators.origins import source_line
from combinators.terms import Solve
from compile_ccc.reading import linear
from tangents.cotangents.leaves import zero_leaf
from tangents.cotangents.sparse import ZERO, Cotangent, Sparse, nothing, parts, release
from tangents.duals import dual, primal, tangents
from tangents.spaces.space import Representation, Represented, Space


def solve(
    rep: Representation, space: Space, term: Solve, matrix: Any, transposed: Any, s: Any, t: Any, b: Any
) -> Represented:
    """solve (A, Aᵀ, s, t, b) = (x, λ g. ([(x, −v)], v)) for the v with Aᵀ v = g"""
    functions = release((matrix, transposed, s, t))
    y = _solved(functions, release(b), term.aux)
    if not (space.is_active(matrix) or space.is_active(b)):
        return space.hold(y), nothing
    x, aux = y if term.aux else (y, None)
    marked = space.activate(x)

    def pullback(g: Cotangent) -> Cotangent:
        g_x = parts(g)[0] if term.aux else g
        if g_x is ZERO:
            return ZERO
        _require_transpose(term, t)
        v = _solved(_turned(functions), space.dense(g_x, marked), term.aux)
        v = v[0] if term.aux else v
        g_matrix: Cotangent = ZERO
        if space.is_active(matrix):
            _, pb = space.eval(rep, matrix, space.hold(x))
            g_matrix = parts(pb(space.symbolic(jax.tree.map(lax.neg, v), marked)))[0]
        return Sparse({0: g_matrix, 4: space.symbolic(v, b)})

    return (marked, space.hold(aux)) if term.aux else marked, pullback


def pushed(apply_dual: Callable[[Any, Any], Any], term: Solve, matrix: Any, *rest: Any) -> Any:
    """D[solve] (A, Aᵀ, s, t, b): x with the x' for which A x' = b' − A' x"""
    *_, b = rest
    functions = [primal(matrix), *map(primal, rest[:-1])]
    y = _solved(functions, primal(b), term.aux)
    x, aux = y if term.aux else (y, None)
    of_right, of_image = tangents(b), tangents(apply_dual(matrix, x))
    if of_right or of_image:
        leaves, form = jax.tree.flatten(x)
        given = [_less(of_right.get(i, ZERO), of_image.get(i, ZERO), leaf) for i, leaf in enumerate(leaves)]
        t = _solved(functions, form.unflatten(given), term.aux)
        x = dual(x, dict(enumerate(jax.tree.leaves(t[0] if term.aux else t))))
    return (x, aux) if term.aux else x


def _solved(functions: Sequence[Any], b: Any, aux: bool) -> Any:
    return linear.solve([f if isinstance(f, tuple) else partial(apply, f) for f in functions], b, aux)


def _less(t: Any, u: Any, x: Any) -> Any:
    """t − u, for tangents of x"""
    if u is ZERO:
        return zero_leaf(x) if t is ZERO else t
    return lax.neg(u) if t is ZERO else lax.sub(t, u)


def _turned(functions: Sequence[Any]) -> Sequence[Any]:
    """The functions of the transposed equation."""
    matrix, transposed, s, t = functions
    return transposed, matrix, t, s


def _require_transpose(term: Solve, t: Any) -> None:
    if isinstance(release(t), tuple):
        raise NotDifferentiableError(
            "solve has no reverse-mode derivative without a solver of the transposed equation",
            part=term,
            expected="transpose_solve, or symmetric=True",
            got="lax.custom_linear_solve without transpose_solve",
            line=source_line(term),
            hint="give custom_linear_solve its transpose_solve, or say that the map is symmetric",
        )
