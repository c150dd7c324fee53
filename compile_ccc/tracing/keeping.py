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

from combinators import staging
from combinators.identity.identity import key_of
from combinators.memo import Table
from combinators.types import Tensor, Type
from compile_ccc.again import Run
from compile_ccc.asking import often
from compile_ccc.asking.answers import NO_ANSWERS
from compile_ccc.asking.jax_traces import is_tracing
from compile_ccc.asking.ruled_calls import levels_of, undone_by
from compile_ccc.asking.tracers import class_of, times_derived
from compile_ccc.carriers import FunctionValue
from compile_ccc.tracing.arguments import argument_type
from compile_ccc.tracing.captures import Captured
from compile_ccc.tracing.stage import is_concrete, trace_anew
from compile_ccc.tracing.traced import NOT_GIVEN, Given, Traced
from compile_ccc.watching.before import Before, Still
from compile_ccc.watching.foreign import fixed_parts
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

    def holds(self, captured: Captured, inputs: list[Any], varied: set[int]) -> bool:
        if False in [captured.shared[i] is value for i, value in self.shared]:
            return False
        live = True not in [object() is None for object in self.objects] and self.traced.read.holds()
        return live and (self.traced.answers is None or self.traced.answers.hold(inputs, varied))


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
    with levels_of(tracee.program, Before) as tracee.levels:
        return _traced(tracee)


def _traced(tracee: Tracee) -> Traced:
    f, captured, dom, arity, given = tracee.f, tracee.captured, tracee.dom, tracee.arity, tracee.given
    fixed = tracee.code()
    key = tracee.key(fixed)
    known = _kept.get(key) or ()
    anew = known if isinstance(known, _Anew) else None
    for kept in () if isinstance(known, _Anew) else known:
        if kept.holds(captured, tracee.inputs, tracee.varied):
            ran_before(kept.traced.ran)
            return kept.traced
    lasting = has_lasting_rules(f)
    if anew is not None and anew.certain:
        state = Still(tracee.roots) if anew.still else Before(tracee.roots(), not anew.keeps_large)
        run = Run(partial(captured.undo, f, state))
        at_end = partial(settle, [f]) if anew.leaves else given.at_end
        given = replace(given, at_end=at_end, run=run, before=state)
        if not anew.still:
            undone_by(run.undo)
        result = trace_anew(f, captured, tracee.types, dom, arity, fixed, read=anew.read, given=given)
        state.check(f)
        return result
    if is_tracing() and _met.get(key) is None:
        _met.put(key, True)
        roots = tracee.roots()
        before = Before(roots)
        at_end = lambda settled: _may_hold_tracers(before.watch) and settle(roots, settled)
        result, _ = tracee.observed(fixed, at_end, partial(captured.undo, f, before), before)
        return replace(result, read=Watch(reason=_AROUND))
    return tracee.watched(fixed, lasting, anew)


class Tracee:
    """A Python function with what it captured and its arguments: their types, and what is known of their values."""

    def __init__(self, f: Callable[..., Any], captured: Captured, dom: Type, arity: int, given: Given):
        self.f, self.captured, self.dom, self.arity, self.given = f, captured, dom, arity, given
        self.levels = 0  # of rules that are looked into
        self.types = [argument_type(v) for v in captured.values]
        leaves, self.form = jax.tree_util.default_registry.flatten((dom, self.types), None)
        types = tuple([(t.shape, t.dtype, t.weak) if type(t) is Tensor else t for t in leaves])
        self.program = (captured.key, arity, self.form, types, given.order, staging.settings())
        self.inputs = [*captured.values, *given.leaves]
        self.inputs += [None for _ in leaves[len(self.inputs) :]]
        start = len(self.types)
        self.varied = {start + i for i in given.varied}  # which is never code
        self.known = [i for i, v in enumerate(self.inputs) if i not in self.varied and is_concrete(v)]

    def code(self) -> tuple[int, ...]:
        """The inputs that are known to be code."""
        as_code = _fixed.get(self.program) or ()
        return tuple([i for i in self.known if i in as_code or type(self.inputs[i]) in _TRUTHS])

    def key(self, fixed: tuple[int, ...]) -> Any:
        """What a trace depends on in which these inputs are code, beside what it reads and asks."""
        values = [self.inputs[i] for i in fixed]
        return (
            self.program,
            self.levels and (self.levels, times_derived()),
            fixed,
            key_of(values) if fixed else (),
            tuple([(type(v), v.flags.writeable) if isinstance(v, np.ndarray) else type(v) for v in values]),
        )

    def roots(self) -> list[Any]:
        """The function, and what the pytrees of its inputs hold beside their parts."""
        return [self.f, *[part for shape in (self.form, *self.captured.forms) for part in fixed_parts(shape)]]

    def observed(
        self, fixed: tuple[int, ...], at_end: Callable[[Any], Any], undo: Callable[[], Any], before: Before
    ) -> tuple[Traced, Ran]:
        """The trace, and what ran in it; inputs whose type may be asked for there are code from now on."""
        given = replace(self.given, at_end=at_end, run=Run(undo), before=before)
        undone_by(undo)
        new = lambda fixed: trace_anew(self.f, self.captured, self.types, self.dom, self.arity, fixed, given=given)
        with running() as ran:
            result = new(fixed)
            others = [i for i in self.known if not isinstance(self.inputs[i], jax.Array)]
            if more := {i for i in others if asks_for_type(ran, self.inputs[i])} - {*result.fixed}:
                result = new(tuple(sorted({*result.fixed, *more})))
        if result.fixed:
            _fixed.drop(self.program)
            _fixed.put(self.program, result.fixed)
        return result, ran

    def watched(self, fixed: tuple[int, ...], lasting: bool, anew: _Anew | None) -> Traced:
        """The trace, which is kept if all that it read can be watched, and was not changed by it."""
        roots = self.roots()
        state = Before(roots)
        before = anew.after if state.watch.reason and anew is not None else state.watch
        held = anew is not None and before.holds()
        left: list[bool] = []

        def undo() -> None:
            self.captured.undo(self.f, state)
            left.clear()

        at_end = lambda settled: left.append(_may_hold_tracers(before) and settle(roots, settled))
        result, ran = self.observed(fixed, at_end, undo, state)
        if asks_for_type(ran):
            result = replace(result, answers=replace(result.answers or NO_ANSWERS, looked=self.classes()))
        if result.fixed:
            often.note(self.program, self.f, self.captured.names, self.dom, result.fixed, self.inputs)
        key = self.key(result.fixed)
        holds = (*result.constants, *[self.inputs[i] for i in result.fixed], *self.captured.kept)
        if not lasting or True in [isinstance(value, jax.core.Tracer | FunctionValue) for value in holds]:
            return replace(result, read=Watch(reason=_AROUND))
        changed = any(left) or bool(result.written) or not before.holds() or not self.captured.watch.holds()
        after = reached(ran, [*self.captured.kept, *roots[1:]])
        read = Watch(reason=self.captured.watch.reason or _CHANGES) if changed and not after.reason else after
        result = replace(result, ran=ran, read=read)
        if read.reason or anew is not None:
            _kept.drop(key)
        if read.reason:  # the first time, it may be what is worked out once
            certain = bool(after.reason) or held
            still = not (any(left) or result.written or state.moves) and state.watch.stands()
            _kept.put(
                key, _Anew(read, after, certain, any(left), still and self.captured.watch.stands(), state.keeps_large)
            )
        else:
            _keep(key, result, self.captured)
        return result

    def classes(self) -> dict[int, type | None]:
        """The classes of the inputs; None of what is varied."""
        known = [(i, value) for i, value in enumerate(self.inputs) if value is not None]
        return {i: None if i in self.varied else class_of(value) for i, value in known}


def _may_hold_tracers(watch: Watch) -> bool:
    """Whether a program that ran may have put tracers where this looks."""
    return bool(watch.reason) or watch.has_notes_of(jax.core.Tracer) or not watch.holds()


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
