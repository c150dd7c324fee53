"""Traces that are used again: under which keys, as long as what, and which programs are traced at each call instead."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.core
import numpy as np

from combinators.identity.identity import key_of
from combinators.memo import Table
from combinators.types import Type
from compile_ccc.asking import often
from compile_ccc.asking.answers import NO_ANSWERS
from compile_ccc.asking.jax_traces import is_tracing
from compile_ccc.asking.ruled_calls import levels_of, undone_by
from compile_ccc.asking.tracers import times_derived
from compile_ccc.carriers import FunctionValue
from compile_ccc.tracing.captures import Captured
from compile_ccc.tracing.traced import Traced, trace_anew
from compile_ccc.tracing.tracee import NOT_GIVEN, Given, Surroundings, Tracee
from compile_ccc.watching.before import Before, Still
from compile_ccc.watching.ran import Ran, asks_for_type, ran_before, running
from compile_ccc.watching.reached import reached
from compile_ccc.watching.redefined import has_lasting_rules
from compile_ccc.watching.settled import settle
from compile_ccc.watching.watch import Watch


@dataclass(frozen=True)
class _Kept:
    """A trace that may be used again while the objects in its key live, and what it read and asked is what it was."""

    traced: Traced
    objects: tuple[weakref.ref[Any], ...]
    shared: list[tuple[int, Any]]  # what functions in the program reach when it runs, by places of `Captured.shared`

    def holds(self, tracee: Tracee) -> bool:
        if False in [tracee.captured.shared[i] is value for i, value in self.shared]:
            return False
        live = True not in [object() is None for object in self.objects] and self.traced.read.holds()
        return live and (self.traced.answers is None or self.traced.answers.hold(tracee.inputs, tracee.varied))


@dataclass
class _Anew:
    """Why a program is traced at each call, what it read, whether that is certain, and what it did.

    It leaves tracers somewhere, or it is still: it changed nothing.  It keeps what is in large arrays, or not.
    """

    read: Watch
    after: Watch
    certain: bool
    leaves: bool
    still: bool
    keeps_large: bool


_kept: Table[Any, tuple[_Kept, ...] | _Anew] = Table("traces", 1024)  # one for each path that Python took
_met: Table[Any, bool] = Table("programs that were traced within others", 1024)  # kept from the second time on
_fixed: Table[Any, tuple[int, ...]] = Table("inputs that are code", 1024)
_CHANGES = "what it changes itself"
_AROUND = "a value of a program that is being traced"
_TRUTHS = (bool, np.bool_)  # of which there are two objects each
_PATHS = 16  # of Python through one program, that are kept


def traced(f: Callable[..., Any], captured: Captured, dom: Type, arity: int, given: Given = NOT_GIVEN) -> Traced:
    """The trace of `f` on a domain; the one from before, if the same program was traced and what it read stayed."""
    tracee = Tracee(f, captured, dom, arity, given)
    with levels_of(tracee.program, Before) as levels:
        return _traced(tracee, levels)


def _traced(tracee: Tracee, levels: int) -> Traced:
    fixed = _code(tracee)
    key = _key(tracee, levels, fixed)
    known = _kept.get(key) or ()
    anew = known if isinstance(known, _Anew) else None
    for kept in () if isinstance(known, _Anew) else known:
        if kept.holds(tracee):
            ran_before(kept.traced.ran)
            return kept.traced
    lasting = has_lasting_rules(tracee.f)
    if anew is not None and anew.certain:
        state = Still(tracee.roots) if anew.still else Before(tracee.roots(), not anew.keeps_large)
        around = Surroundings(tracee, state, partial(settle, [tracee.f]) if anew.leaves else lambda _: False)
        if not anew.still:
            undone_by(around.undo)
        result = trace_anew(tracee, fixed, read=anew.read, around=around)
        state.check(tracee.f)
        return result
    within = is_tracing() and _met.get(key) is None
    if within:
        _met.put(key, True)
    return _watched(tracee, levels, fixed, lasting and not within, anew)


def _code(tracee: Tracee) -> tuple[int, ...]:
    """The inputs that are known to be code."""
    as_code = _fixed.get(tracee.program) or ()
    return tuple([i for i in tracee.knowable if i in as_code or type(tracee.inputs[i]) in _TRUTHS])


def _key(tracee: Tracee, levels: int, fixed: tuple[int, ...]) -> Any:
    """What a trace depends on in which these inputs are code, beside what it reads and asks."""
    values = [tracee.inputs[i] for i in fixed]
    return (
        tracee.program,
        levels and (levels, times_derived()),
        fixed,
        key_of(values) if fixed else (),
        tuple([(type(v), v.flags.writeable) if isinstance(v, np.ndarray) else type(v) for v in values]),
    )


def _observed(tracee: Tracee, fixed: tuple[int, ...], around: Surroundings) -> tuple[Traced, Ran]:
    """The trace, and what ran in it; inputs whose type may be asked for there are code from now on."""
    undone_by(around.undo)
    with running() as ran:
        result = trace_anew(tracee, fixed, around=around)
        others = [i for i in tracee.knowable if not isinstance(tracee.inputs[i], jax.Array)]
        if more := {i for i in others if asks_for_type(ran, tracee.inputs[i])} - {*result.fixed}:
            result = trace_anew(tracee, tuple(sorted({*result.fixed, *more})), around=around)
    if result.fixed:
        _fixed.drop(tracee.program)
        _fixed.put(tracee.program, result.fixed)
    return result, ran


def _watched(tracee: Tracee, levels: int, fixed: tuple[int, ...], lasting: bool, anew: _Anew | None) -> Traced:
    """The trace, which is kept, if it may last, if all that it read can be watched, and was not changed by it."""
    captured, roots = tracee.captured, tracee.roots()
    state = Before(roots)
    before = anew.after if state.watch.reason and anew is not None else state.watch
    held = anew is not None and before.holds()
    around = Surroundings(tracee, state, lambda settled: before.may_hold(jax.core.Tracer) and settle(roots, settled))
    result, ran = _observed(tracee, fixed, around)
    if asks_for_type(ran):
        result = replace(result, answers=replace(result.answers or NO_ANSWERS, looked=tracee.classes()))
    if result.fixed:
        often.note(tracee.program, tracee.f, captured.names, tracee.dom, result.fixed, tracee.inputs)
    key = _key(tracee, levels, result.fixed)
    holds = (*result.constants, *[tracee.inputs[i] for i in result.fixed], *captured.kept)
    if not lasting or True in [isinstance(value, jax.core.Tracer | FunctionValue) for value in holds]:
        return replace(result, read=Watch(reason=_AROUND))
    left = around.left
    changed = left or bool(result.written) or not before.holds() or not captured.watch.holds()
    after = reached(ran, [*captured.kept, *roots[1:]])
    read = Watch(reason=captured.watch.reason or _CHANGES) if changed and not after.reason else after
    result = replace(result, ran=ran, read=read)
    if read.reason or anew is not None:
        _kept.drop(key)
    if read.reason:  # the first time, it may be what is worked out once
        certain = bool(after.reason) or held
        still = not (left or result.written or state.moves) and state.watch.stands() and captured.watch.stands()
        _kept.put(key, _Anew(read, after, certain, left, still, state.keeps_large))
    else:
        _keep(key, result, captured)
    return result


def _keep(key: Any, result: Traced, captured: Captured) -> None:
    """Keeps a trace under its key; what is in that by identity must stay alive, and is not kept alive by it."""
    objects, shared = captured.kept, [(i, captured.shared[i]) for i in result.shared]
    owners = {id(owner) for owner, *_ in result.read.attributes}
    if not owners.isdisjoint(map(id, objects)):
        return  # what is watched of them would keep them alive
    drop, at_the_end = _kept.drop, sys.is_finalizing
    try:
        references = tuple([weakref.ref(value, lambda _: None if at_the_end() else drop(key)) for value in objects])
    except TypeError:
        return
    has_others = result.answers is not None or shared
    known = _kept.get(key)
    others = [k for k in known if k.traced.read.holds()] if has_others and isinstance(known, tuple) else []
    _kept.drop(key)
    _kept.put(key, (_Kept(result, references, shared), *others)[:_PATHS])
