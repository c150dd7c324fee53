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
from compile_ccc.jaxprs.recorder import aval_of, setting
from compile_ccc.jaxprs.recording import record
from tangents.control.ruled import ruled
from tangents.cotangents.leaves import filled, placed, present, structs
from tangents.cotangents.residuals import Opened, Residuals
from tangents.cotangents.sparse import Cotangent, marks, release, remark
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
    leaf = space.is_leaf
    known, given = numbered(release(x))
    leaves, form = jax.tree.flatten(known, is_leaf=leaf)
    held = marks(x, leaf)
    if not all(held):
        check_searched(term)
    if any(map(leaf, leaves)) or all(held) or term.programs > PROGRAMS:
        return rep(term.body, x)
    key = (space, form, held, tuple(map(aval_of, leaves)), setting())
    found = _known.get(term, key)
    (rule,) = _known.put(term, (_rule(rep, space, term, form, held, leaves),), key) if found is None else found
    if rule is None:
        return rep(term.body, x)
    y, kept = rule.forward(leaves)
    y = remark(restored(y, given), rule.held, leaf)

    def pullback(g: Cotangent) -> Cotangent:
        return placed(rule.residuals.all(kept, leaves, filled(g, y, leaf)), x, leaf)

    return y, pullback


def _rule(
    rep: Representation, space: Space, term: Call, form: Any, held: tuple[bool, ...], leaves: list[Any]
) -> _Known | None:
    leaf = space.is_leaf
    made: list[Any] = []

    def forward(*leaves: Any) -> Any:
        x = remark(form.unflatten(leaves), held, leaf)
        y, pb = rep(term.body, x)
        results = jax.tree.leaves(y, is_leaf=leaf)
        if any(map(leaf, results)) or marks(y, leaf).count(False) != 1:
            return ()

        def pull(g: dict[int, Any]) -> dict[int, Cotangent]:
            return present(pb(placed(g, y, leaf)), x, leaf)

        residuals = Residuals(pull, (structs(y, leaf),), (), leaves, f"{term.name}_pullback")
        made[:] = [marks(y, leaf), residuals]
        return release(y), residuals.kept

    program = record(forward, *leaves, name=term.name)
    return _Known(Opened(program), *made) if made else None
