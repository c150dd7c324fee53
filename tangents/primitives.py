"""Representation of primitives: a row of the table if there is one, else JAX's rule for that one primitive."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from combinators.primitives import bind, operands
from combinators.terms import Primitive
from combinators.types import type_of
from tangents.delegate import delegated
from tangents.rows import ROWS, Row
from tangents.space import Represented
from tangents.sparse import Cotangent, Held, Sparse, hold, hold_discrete, is_active, nothing


def primitive(term: Primitive, x: Any) -> Represented:
    """(y, pullback) of a primitive; the pullback computes the cotangents of active arguments only."""
    marked = operands(x)
    arguments = tuple(a.value if isinstance(a, Held) else a for a in marked)
    asked = tuple(i for i, a in enumerate(marked) if not isinstance(a, Held))
    row = ROWS.get(term.name) if all(map(_is_real, arguments)) and not dict(term.params).get("out_dtype") else None
    if not asked or row == ():
        return hold(bind(term, arguments), _no_leaf), nothing
    y, pull = delegated(term, arguments, asked) if row is None else _by_row(term, row, arguments, asked)
    y = hold_discrete(y, _no_leaf)

    def pullback(g: Cotangent) -> Cotangent:
        cotangents = pull(g)
        return Sparse(zip(asked, cotangents, strict=True)) if isinstance(x, tuple) else cotangents[0]

    return y, pullback if is_active(y, _no_leaf) else nothing


def _by_row(term: Primitive, row: Row, arguments: tuple[Any, ...], asked: tuple[int, ...]) -> Any:
    y, params = bind(term, arguments), dict(term.params)
    return y, lambda g: [row[i](g, y, *arguments, **params) for i in asked]


def _is_real(x: Any) -> bool:
    return not jnp.issubdtype(type_of(x).dtype, np.complexfloating)


def _no_leaf(_: Any) -> bool:
    return False
