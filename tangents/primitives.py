"""Representation of primitives: a row of the table if there is one, else JAX's rule for that one primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from combinators.primitives import bind, operands
from combinators.terms import Primitive
from combinators.types import is_discrete, type_of
from tangents.delegate import delegated
from tangents.rows import ROWS, Row
from tangents.space import Represented
from tangents.sparse import Cotangent, Held, Sparse, nothing


def primitive(term: Primitive, x: Any) -> Represented:
    """(y, pullback) of a primitive; the pullback computes the cotangents of active arguments only."""
    marked = operands(x)
    arguments = tuple(a.value if isinstance(a, Held) else a for a in marked)
    asked = tuple(i for i, a in enumerate(marked) if not isinstance(a, Held))
    row = _row(term, arguments)
    if not asked or row == ():
        return _marked(bind(term, arguments), lambda _: True), nothing
    y, pull = delegated(term, arguments, asked) if row is None else _by_row(term, row, arguments, asked)
    y = _marked(y, lambda result: is_discrete(type_of(result)))

    def pullback(g: Cotangent) -> Cotangent:
        cotangents = pull(g)
        return Sparse(zip(asked, cotangents, strict=True)) if isinstance(x, tuple) else cotangents[0]

    return y, nothing if all(isinstance(result, Held) for result in operands(y)) else pullback


def _row(term: Primitive, arguments: tuple[Any, ...]) -> Row | None:
    """The row of the table; rows are for real numbers, and for products that have the dtype of their factors."""
    row = ROWS.get(term.name)
    real = all(not jnp.issubdtype(type_of(a).dtype, np.complexfloating) for a in arguments)
    return row if real and not (term.name == "mul" and dict(term.params)["out_dtype"]) else None


def _by_row(term: Primitive, row: Row, arguments: tuple[Any, ...], asked: tuple[int, ...]) -> Any:
    y, params = bind(term, arguments), dict(term.params)
    return y, lambda g: [row[i](g, y, *arguments, **params) for i in asked]


def _marked(y: Any, held: Callable[[Any], bool]) -> Any:
    if isinstance(y, tuple):
        return tuple(Held(result) if held(result) else result for result in y)
    return Held(y) if held(y) else y
