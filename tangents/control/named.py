"""Representation of named calls: a function that JAX compiled by itself is differentiated once for its types.

Its forward and its backward program are calls of the same name, however often it is called.  What depends on none of
its arguments, such as a mask, is worked out before the call, so that a loop around it neither repeats nor keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from combinators.depth import PROGRAMS
from combinators.memo import Facts
from combinators.origins import numbered, restored
from combinators.terms import Call
from compile_ccc.jaxprs.recorder import aval_of
from compile_ccc.jaxprs.recording import record, setting
from tangents.control.ruled import ruled
from tangents.cotangents.residuals import Opened, Residuals
from tangents.cotangents.sparse import Cotangent, release
from tangents.primitives.missing import check_searched
from tangents.spaces.space import Representation, Represented, Space


@dataclass(frozen=True, eq=False)
class _Known:
    """A call at some types: the program of its result and residuals, the marks of the result, and its pullback."""

    forward: Opened
    held: tuple[bool, ...]
    residuals: Residuals


_known: Facts[tuple[_Known | None]] = Facts("derivatives of calls", entries=64)


def call(rep: Representation, space: Space, term: Call, x: Any) -> Represented:
    """call(f, name) x = f x; if functions come in, or not exactly one array comes out, it is f that is represented."""
    if term.rule is not None:
        return ruled(rep, space, term, x)
    known, given = numbered(release(x))
    leaves, form = jax.tree.flatten(known, is_leaf=space.is_leaf)
    held = space.marks(x)
    if not all(held):
        check_searched(term)
    if space.has_functions(known) or all(held) or term.programs > PROGRAMS:
        return rep(term.body, x)
    key = (space, form, held, tuple(map(aval_of, leaves)), setting())
    found = _known.get(term, key)
    (rule,) = _known.put(term, (_rule(rep, space, term, form, held, leaves),), key) if found is None else found
    if rule is None:
        return rep(term.body, x)
    y, kept = rule.forward(leaves)
    y = space.remark(restored(y, given), rule.held)

    def pullback(g: Cotangent) -> Cotangent:
        return space.placed(rule.residuals.all(kept, leaves, space.filled(g, y)), x)

    return y, pullback


def _rule(
    rep: Representation, space: Space, term: Call, form: Any, held: tuple[bool, ...], leaves: list[Any]
) -> _Known | None:
    made: list[Any] = []

    def forward(*leaves: Any) -> Any:
        x = space.remark(form.unflatten(leaves), held)
        y, pb = rep(term.body, x)
        if space.has_functions(y) or space.marks(y).count(False) != 1:
            return ()

        def pull(g: dict[int, Any]) -> dict[int, Cotangent]:
            return space.present(pb(space.placed(g, y)), x)

        residuals = Residuals(pull, (space.structs(y),), (), leaves, f"{term.name}_pullback")
        made[:] = [space.marks(y), residuals]
        return release(y), residuals.kept

    program = record(forward, *leaves, name=term.name)
    return _Known(Opened(program), *made) if made else None
