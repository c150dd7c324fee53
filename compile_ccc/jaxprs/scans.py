"""Loops in programs that are being written: one equation, without what `lax.scan` works out of any function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex

from combinators.meaning import control
from combinators.memo import remembered
from compile_ccc.jaxprs import compat
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import aval_of, current
from compile_ccc.jaxprs.recording import inlined, record, row_types, run


def scan(
    step: Callable[[Any, Any], Any] | Program, state: Any, xs: Any, length: int | None, reverse: bool, unroll: int = 1
) -> Any:
    """`lax.scan`: (s, x) ↦ (s', y) along the rows of xs, by a function or by a program that is known."""
    recorder = current()
    if recorder is None or jax.config.jax_disable_jit or compat.has_named_axes():
        one = (lambda s, x: inlined(step, jax.tree.leaves((s, x)))) if isinstance(step, Program) else step
        return control.scan(one, state, xs, length, reverse, unroll)
    program = step if isinstance(step, Program) else record(step, state, row_types(xs), name="scan")
    (before, form), rows = jax.tree.flatten(state), jax.tree.leaves(xs)
    after, out = program.form.unflatten(program.outputs)
    (after, after_form), (out, out_form) = jax.tree.flatten(after), jax.tree.flatten(out)
    same = after_form == form and [v.aval for v in after] == list(map(aval_of, before))
    if not same or program.is_high or program.jaxpr.effects or _passes(program, after, out):
        again = lambda s, x: program.form.unflatten(run(program, jax.tree.leaves((s, x))))
        return control.scan(again, state, xs, length, reverse, unroll)
    steps = aval_of(rows[0]).shape[0] if rows else length or 0
    loop = compat.Scan(program.jaxpr, len(program.constants), len(before), steps, reverse, unroll)
    wires = recorder.wires((*program.constants, *before, *rows))
    types = [*(v.aval for v in after), *(_of_rows(v.aval, steps) for v in out)]
    params = loop.parameters(len(rows), len(out))
    results = recorder.append(jex.primitives.scan_p, params, wires, types, jex.no_effects)
    return form.unflatten(results[: len(before)]), out_form.unflatten(results[len(before) :])


@remembered(entries=1024)
def _of_rows(type: Any, steps: int) -> Any:
    """The type of so many rows of a type."""
    return jex.unmapped_aval(steps, 0, type)


def _passes(program: Program, after: list[Any], out: list[Any]) -> bool:
    """Whether a step leaves a part of its state as it is, or puts out a row: JAX takes that out of a loop."""
    inputs = program.variables[len(program.constants) :]
    rows = {id(v) for v in inputs[len(after) :]}
    return any(a is b for a, b in zip(after, inputs, strict=False)) or any(id(v) in rows for v in out)
