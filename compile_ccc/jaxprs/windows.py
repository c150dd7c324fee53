"""Sums in programs, of an array and of one that is zero but for a window: the window alone is added.

    x + update(zeros, w, i)  =  update(x, slice(x, i) + w, i)
    x + scatter-add(zeros, i, w)  =  scatter-add(x, i, w)
    update(x, zeros, i) + update(zeros, w, i)  =  update(x, w, i)

That takes the time of the window, where XLA takes that of the array.  Such sums are what the pullback of a step gives
for an array of which the step reads a part.
"""

from __future__ import annotations

from typing import Any

import jax.extend.core as jex
from jax import lax

from compile_ccc.jaxprs.programs import Program, writes_zeros, written

_SUMS = ("add", "add_any")
_UPDATE = jex.primitives.dynamic_update_slice_p


def windowed(program: Program) -> Program:
    """The program with its sums of windows written that way."""
    if {e.primitive.name for e in program.equations}.isdisjoint(("dynamic_update_slice", "scatter-add")):
        return program
    made: dict[Any, Any] = {v: e for e in program.equations for v in e.outvars}
    equations: list[Any] = []
    for equation in program.equations:
        found = _window(equation, made) if equation.primitive.name in _SUMS else None
        equations += [equation] if found is None else found
    if len(equations) == len(program.equations) and all(map(_same, equations, program.equations)):
        return program
    count = len(program.constants)
    constants = list(zip(program.variables[:count], program.constants, strict=True))
    facts = (program.form, program.name, program.is_high)
    return Program.pruned(constants, program.variables[count:], program.outputs, equations, *facts)


def _same(left: Any, right: Any) -> bool:
    return left is right


def _window(equation: Any, made: dict[Any, Any]) -> list[Any] | None:
    """The equations of such a sum; None for any other."""
    operands: list[Any] = equation.invars
    for x, window in (operands, operands[::-1]):
        update = _maker(window, made)
        if type(x) is jex.Literal or update is None or x.aval.shape != window.aval.shape:
            continue
        zeros = _maker(update.invars[0], made)
        if zeros is None or not writes_zeros(zeros):
            continue
        _, *rest = update.invars
        if update.primitive is _UPDATE:
            before = made.get(x)
            if before is not None and before.primitive is _UPDATE and _erases(before, rest, made):
                return [update.replace(invars=[before.invars[0], *rest], outvars=equation.outvars)]
            return written(_added, [x, *rest], equation.outvars)
        if update.primitive is jex.primitives.scatter_add_p:
            return [update.replace(invars=[x, *rest], outvars=equation.outvars)]
    return None


def _maker(value: Any, made: dict[Any, Any]) -> Any:
    """The equation that gives a value; None for a literal, and for an input."""
    return None if type(value) is jex.Literal else made.get(value)


def _erases(update: Any, window: list[Any], made: dict[Any, Any]) -> bool:
    """Whether an update writes zeros just there where this window is."""
    operands: list[Any] = update.invars
    _, zeros, *starts = operands
    is_there = len(starts) == len(window) - 1 and all(map(_is_one, starts, window[1:]))
    written = _maker(zeros, made)
    return is_there and zeros.aval.shape == window[0].aval.shape and written is not None and writes_zeros(written)


def _is_one(start: Any, other: Any) -> bool:
    """Whether two starts are one number."""
    if type(start) is jex.Literal and type(other) is jex.Literal:
        return bool(start.val == other.val)
    return start is other


def _added(x: Any, window: Any, *starts: Any) -> list[Any]:
    there = jex.primitives.dynamic_slice_p.bind(x, *starts, slice_sizes=window.shape)
    return [_UPDATE.bind(x, lax.add(there, window), *starts)]
