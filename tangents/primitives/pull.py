"""Representation of primitives: a row of the table if there is one, else JAX's rule for that one primitive.

What a primitive does is written down once for each primitive, types of arguments and set of asked-for arguments, and
what its pullback does for each set of results whose cotangents arrive; these programs are copied from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.core

from combinators.memo import remembered
from combinators.terms import Primitive
from combinators.types import LEAF, is_discrete, of_aval
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import Wire, aval_of
from compile_ccc.jaxprs.recording import operation, record, run, setting
from tangents.cotangents.sparse import ZERO, Cotangent, Held, Sparse, nothing
from tangents.primitives.delegate import Refused, delegated
from tangents.primitives.missing import missing
from tangents.rows.kinds import Constant, Rule, each
from tangents.rows.table import Row, row_at, row_of
from tangents.spaces.space import Represented


@dataclass(frozen=True, eq=False)
class Programs:
    """The programs of a primitive.

    `forward`: arguments ↦ results, residuals.  `backward(present)`, for the results whose cotangents arrive: residuals,
    these cotangents ↦ those of the asked-for arguments; where there is no derivative, `Refused`.  The residuals of a
    row are the arguments and the results, of which its pullback uses what it needs.  `form` is that of the result, and
    `held` says which results are discrete.
    """

    forward: Program
    form: Any
    held: tuple[bool, ...]
    backward: Callable[[tuple[int, ...]], Program | Refused] | None = None
    from_row: bool = True
    known: dict[tuple[int, ...], Program | Refused] = field(default_factory=dict)  # what `backward` gave


def primitive(term: Primitive, x: Any) -> Represented:
    """(y, pullback) of a primitive; the pullback computes the cotangents of active arguments only."""
    marked = x if isinstance(x, tuple) else (x,)
    arguments, asked = list(marked), tuple(range(len(marked)))
    if Held in map(type, marked):
        arguments = [a.value if isinstance(a, Held) else a for a in marked]
        asked = tuple([i for i, a in enumerate(marked) if not isinstance(a, Held)])
    types = tuple([a.aval if type(a) is Wire else aval_of(a) for a in arguments])
    rule = _programs(term, row_of(term), asked, types, setting())
    values = run(rule.forward, arguments)
    results = values[: len(rule.held)]
    if True in rule.held:
        results = [Held(r) if held else r for r, held in zip(results, rule.held, strict=True)]
    y = rule.form.unflatten(results)
    if rule.backward is None:
        return y, nothing
    residuals = [*arguments, *values] if rule.from_row else values[len(results) :]
    return y, partial(_pulled, term, rule, asked if isinstance(x, tuple) else None, residuals)


def _pulled(
    term: Primitive, rule: Programs, asked: tuple[int, ...] | None, residuals: list[Any], g: Cotangent
) -> Cotangent:
    """The cotangents of the arguments with these numbers; None says that there is one argument alone."""
    arrived = {i: c for i, c in sorted(g.items()) if c is not ZERO} if isinstance(g, Sparse) else {0: g}
    present = tuple(arrived)
    assert rule.backward is not None
    backward = rule.known.get(present) or rule.known.setdefault(present, rule.backward(present))
    if isinstance(backward, Refused):
        raise missing(term, backward.reason, "reverse")
    cotangents = run(backward, [*residuals, *arrived.values()])
    if asked is None:
        return cotangents[0] if backward.nonzero else ZERO
    return Sparse([(asked[i], cotangents[i]) for i in backward.nonzero]) or ZERO


@remembered(entries=2048)
def _programs(
    term: Primitive, row: Row | Constant | None, asked: tuple[int, ...], types: tuple[Any, ...], settings: Any
) -> Programs:
    forward = operation(term, types, settings)
    results = [v.aval for v in forward.outputs]
    held = tuple([is_discrete(of_aval(t)) for t in results])
    row = row_at(row, types, dict(term.params))
    if not asked or row == () or all(held):
        return Programs(forward, forward.form, (True,) * len(held))
    if row is None:
        ruled, backward = delegated(term, forward, types, asked)
        return Programs(ruled, forward.form, held, backward, from_row=False)

    def of_row(present: tuple[int, ...]) -> Program:
        def backward(*values: Any) -> list[Any]:
            arguments, rest = values[: len(types)], values[len(types) :]
            y, given = rest[: len(held)], rest[len(held) :]
            g = Sparse(zip(present, given, strict=True)) if forward.form != LEAF else given[0]
            pull = row.pull if isinstance(row, Rule) else each(*row)
            return pull(asked, g, forward.form.unflatten(y), *arguments, **dict(term.params))

        cotangents = [jax.core.ShapedArray(results[i].shape, results[i].dtype) for i in present]
        return record(backward, *types, *results, *cotangents)

    return Programs(forward, forward.form, held, of_row)
