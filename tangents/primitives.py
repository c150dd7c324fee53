"""Representation of primitives: a row of the table if there is one, else JAX's rule for that one primitive.

What a primitive and its pullback do is written down once for each primitive, types of arguments and set of asked-for
arguments, as two programs, which are copied from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import jax
import jax.core
import jax.numpy as jnp

from combinators.primitives import operands
from combinators.terms import Primitive
from combinators.types import LEAF, is_discrete, type_of
from compile_ccc import compat
from compile_ccc.recording import aval_of, operation, record, run
from tangents.delegate import Refused, delegated
from tangents.rows import Row, pull_of, row_for, row_of
from tangents.space import Represented
from tangents.sparse import ZERO, Cotangent, Held, Sparse, nothing


@dataclass(frozen=True, eq=False)
class Programs:
    """The two programs of a primitive.

    `forward`: arguments ↦ results, residuals.  `backward`: residuals, cotangents of results ↦ cotangents of arguments.
    The residuals of a row are the arguments and the results, of which its pullback uses what it needs.  `form` is that
    of the result, and `held` says which results are discrete.  Where there is no derivative, `backward` is `Refused`.
    """

    forward: Any
    backward: Any
    form: Any
    held: tuple[bool, ...]
    from_row: bool = True


def primitive(term: Primitive, x: Any) -> Represented:
    """(y, pullback) of a primitive; the pullback computes the cotangents of active arguments only."""
    marked = operands(x)
    arguments = [a.value if isinstance(a, Held) else a for a in marked]
    asked = tuple([i for i, a in enumerate(marked) if not isinstance(a, Held)])
    types = tuple(map(aval_of, arguments))
    rule = _programs(term, row_of(term), asked, types, compat.flags())
    values = run(rule.forward, arguments)
    results = values[: len(rule.held)]
    y = rule.form.unflatten([Held(r) if held else r for r, held in zip(results, rule.held, strict=True)])
    if all(rule.held):
        return y, nothing
    residuals = [*arguments, *results] if rule.from_row else values[len(results) :]

    def pullback(g: Cotangent) -> Cotangent:
        if isinstance(rule.backward, Refused):
            raise rule.backward.error(term)
        cotangents = run(rule.backward, [*residuals, *_parts(g, results, rule.held)])
        return Sparse(zip(asked, cotangents, strict=True)) if isinstance(x, tuple) else cotangents[0]

    return y, pullback


def _parts(g: Cotangent, results: list[Any], held: tuple[bool, ...]) -> list[Any]:
    """The cotangents of the results that have some, zeros written out."""
    if not isinstance(g, Sparse):
        return [g]
    found = [(g.part(i), y) for i, (y, discrete) in enumerate(zip(results, held, strict=True)) if not discrete]
    return [jnp.zeros(y.shape, y.dtype) if part is ZERO else part for part, y in found]


@lru_cache(maxsize=65536)
def _programs(term: Primitive, row: Row | None, asked: tuple[int, ...], types: tuple[Any, ...], _: Any) -> Programs:
    forward = operation(term, types)
    results = [v.aval for v in forward.outputs]
    held = tuple(is_discrete(type_of(t)) for t in results)
    if not asked or row == () or all(held):
        return Programs(forward, None, forward.form, (True,) * len(held))
    row = row_for(term.name, types, dict(term.params)) if term.definition is None else row
    if row is None:
        return Programs(*delegated(term, types, asked), forward.form, held, from_row=False)
    active = [i for i, h in enumerate(held) if not h]
    cotangents = [jax.core.ShapedArray(results[i].shape, results[i].dtype) for i in active]

    def backward(*values: Any) -> list[Any]:
        arguments, y, given = _groups(values, len(types), len(held))
        g = Sparse(zip(active, given, strict=True)) if forward.form != LEAF else given[0]
        return pull_of(row)(asked, g, forward.form.unflatten(y), *arguments, **dict(term.params))

    return Programs(forward, record(backward, *types, *results, *cotangents), forward.form, held)


def _groups(values: Sequence[Any], *sizes: int) -> Iterator[list[Any]]:
    """Values in groups of these sizes, and the rest."""
    rest = iter(values)
    yield from (list(islice(rest, size)) for size in sizes)
    yield list(rest)
