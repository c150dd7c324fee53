"""The table: for each primitive with a derivative of our own, its row.

A row is a `Rule`, a pullback with its pushforward; or, as users define them, a tuple of pullbacks, a function for each
argument, (g, y, *arguments, **params) ↦ that argument's cotangent.  A `Constant` has derivative zero everywhere.
Primitives that are not here, or at parameters that their row does not cover, have JAX's own rule, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.extend.core as jex

from combinators.terms import Primitive
from tangents.cotangents.sparse import ZERO
from tangents.rows.elementwise import ELEMENTWISE
from tangents.rows.indexing import INDEXING
from tangents.rows.kinds import NONE, Constant, PullbackOfArgument, Push, Rule, knows
from tangents.rows.linear import LINEAR
from tangents.rows.matrices import MATRICES
from tangents.rows.products import PRODUCTS
from tangents.rows.reductions import REDUCTIONS
from tangents.rows.spectral import SPECTRAL

type Row = Rule | tuple[PullbackOfArgument, ...]

# Steps, whose derivative is zero where there is one; and what has whole numbers, truth values or keys as its result.
_STEPS = {
    **dict.fromkeys(("ceil", "floor", "stop_gradient"), NONE),
    "empty2": knows("dtype memory_space"),
    "round": knows("rounding_method"),
}
_WHOLE = """
    and argmax argmin axis_index clz eq eq_to ge gt iota is_finite le le_to lt lt_to ne not or population_count
    random_bits random_fold_in random_seed random_split random_unwrap random_wrap reduce_and reduce_or reduce_xor
    rng_bit_generator shift_left shift_right_arithmetic shift_right_logical threefry2x32 xor
"""
CONSTANT = {name: Constant(_STEPS.get(name)) for name in sorted([*_STEPS, *_WHOLE.split()])}

NATIVE: dict[str, Rule] = {**ELEMENTWISE, **LINEAR, **PRODUCTS, **INDEXING, **REDUCTIONS, **MATRICES, **SPECTRAL}

ROWS: dict[str, Row | Constant] = {**NATIVE, **CONSTANT}


_defined: WeakKeyDictionary[jex.Primitive, Row] = WeakKeyDictionary()


def define_row(operation: jex.Primitive, row: Row) -> None:
    """Gives a primitive that is none of JAX's own its row."""
    _defined[operation] = row


def row_of(term: Primitive) -> Row | Constant | None:
    """The row of a primitive, of JAX's own by its name; `row_at` says whether that holds at some arguments."""
    return ROWS.get(term.name) if term.definition is None else _defined.get(term.definition)


def row_for(name: str, arguments: tuple[Any, ...], params: Mapping[str, Any]) -> Row | None:
    """The row that holds for a primitive at these arguments; `()` if it is constant, None if it is JAX's own rule."""
    return row_at(ROWS.get(name), arguments, params)


def row_at(row: Row | Constant | None, arguments: tuple[Any, ...], params: Mapping[str, Any]) -> Row | None:
    """What holds of a row at these arguments: itself, the one for elsewhere, `()` or None."""
    while isinstance(row, Rule) and not row.covers(arguments, params):
        row = row.otherwise
    if isinstance(row, Constant):
        return () if row.covers(params) else None
    return row


def push_of(row: Row) -> Push:
    """The pushforward of a row, `ZERO` where all tangents are; that of a tuple of pullbacks is their transpose."""

    def push(tangents: Any, y: Any, /, *arguments: Any, **params: Any) -> Any:
        given = [i for i, t in enumerate(tangents) if t is not ZERO]
        if not given:
            return ZERO
        if isinstance(row, Rule):
            return row.push(tangents, y, *arguments, **params)
        pull = lambda g: [row[i](g, y, *arguments, **params) for i in given]
        (tangent,) = jax.linear_transpose(pull, y)([tangents[i] for i in given])
        return tangent

    return push
