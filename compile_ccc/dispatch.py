"""Calls of a function again: straight to the compiled program, as long as all that it read is what it was."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.errors import TracedAnewWarning, definition_line
from combinators.host import with_own_exceptions
from combinators.memo import OfMany, Remembered, remembered
from combinators.origins import Origin, joint, numbered, restored
from combinators.records import as_records
from combinators.runs import Runs
from combinators.values import Closure
from compile_ccc.answers import Answers
from compile_ccc.carriers import active_traces
from compile_ccc.jax_traces import is_tracing
from compile_ccc.tracing import Found, Joined
from compile_ccc.watch import Variable, Watch

MISSED = object()
_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python
_KEPT = 4  # programs of one function, for other types of its arguments


@remembered(entries=1)
def _concrete() -> frozenset[type]:
    """The types of values that are known.  An array, which would start JAX's backend, is not made by an import."""
    with jax.ensure_compile_time_eval():
        array = type(jnp.zeros(()))
    return frozenset({bool, int, float, complex, np.ndarray, array, *np.sctypeDict.values()})


@dataclass(frozen=True)
class _Told:
    """What Python was told in a trace of what it captured and of its arguments."""

    answers: Answers
    captured: list[Any]
    variables: list[Variable]

    def again(self, leaves: list[Any]) -> bool:
        """Whether it would be told the same.  Raises `Changed`."""
        values = self.captured.copy()
        for variable in self.variables:
            values[variable.slot] = variable.read()
        varied = {place for place, kind in self.answers.looked.items() if kind is None}
        return self.answers.hold([*values, *leaves], varied)


@dataclass(frozen=True)
class _Entry:
    """A compiled program with what its environment is made of, and where that is read anew."""

    form: Any  # of the arguments
    types: tuple[Any, ...]
    watch: Watch
    environment: list[Any]
    variables: list[tuple[int, Variable]]
    classes: bool  # whether it depends on the classes of what it is given
    functions: bool  # whether there are functions in the environment
    origins: list[Origin] | None  # of the functions that it is given, if there are functions in the result
    run: Any
    told: _Told | None = None

    def holds(self, leaves: list[Any]) -> bool:
        """Whether Python would take the same path for these arguments.  Raises `Changed`."""
        return self.told is None or self.told.again(leaves)

    def is_of(self, told: _Told | None) -> bool:
        """Whether it is for the same path."""
        return (self.told and self.told.answers) is (told and told.answers)

    def leaves(self) -> list[Any]:
        """The leaves of the environment, as they are now.  Raises `Changed`."""
        values = self.environment
        if self.variables:
            values = values.copy()
            for place, variable in self.variables:
                values[place] = variable.read()
        return jax.tree.leaves(values) if self.functions else values


class Dispatch(Remembered):
    """The programs of one function or arrow that were called last, for the `operation` on it and its arguments."""

    def __init__(self, operation: Runs):
        self._operation = operation
        self._entries: list[_Entry] = []
        self._met = 0

    def again(self, arguments: tuple[Any, ...]) -> Any:
        """The result for these arguments, or `MISSED` if some of it has to be looked at again."""
        entries = self._entries
        if not entries:
            return MISSED
        leaves, form = _flatten(arguments, None)
        if not _concrete().issuperset(map(type, leaves)):
            return MISSED
        types = tuple(map(_type, leaves)) if len(entries) > 1 or entries[0].classes else None
        for entry in entries:
            if entry.form == form and (types is None or types == entry.types):
                try:
                    if not entry.watch.holds():
                        return MISSED
                    if not entry.holds(leaves):
                        continue
                    result = entry.run(*entry.leaves(), *leaves)
                    return result if entry.origins is None else restored(result, entry.origins, joint(entry.origins))
                except jax.errors.JaxRuntimeError:
                    return with_own_exceptions(entry.run, *entry.leaves(), *leaves)
                except Exception:  # it comes again where it is told in full
                    return MISSED
        return MISSED

    def note(
        self,
        arguments: tuple[Any, ...],
        static: Any,
        closure: Closure,
        x: Any,
        found: Found | Joined | None,
        result: Any,
    ) -> None:
        """Remembers the program for arguments like these, from the second call on."""
        self._met += 1
        if self._met < 2 or found is None or active_traces.get() or is_tracing():
            return
        parts = ((found, 0),) if isinstance(found, Found) else found.parts
        answers = [one.traced.answers for one, _ in parts]
        asked = [
            one for (one, _), own in zip(parts, answers, strict=True) if own is not None and (own.told or own.bounds)
        ]
        if [one for one, _ in parts if one.traced.fixed] or (asked and len(parts) > 1):
            return  # which depends on values
        for one, _ in parts:
            if one.traced.read.reason:
                _tell(one.traced.read, one.f)
                return
        watch, variables = Watch(), []
        for one, start in parts:
            watch += _watch(one)
            slots = {variable.slot: variable for variable in one.captured.variables}
            places = ((start + place, i) for place, (met, i) in enumerate(one.traced.sources) if not met)
            variables += [(place, slots[i]) for place, i in places if i in slots]
        leaves, form = jax.tree.flatten(arguments)
        if watch.reason or as_records(arguments) is not arguments or not _concrete().issuperset(map(type, leaves)):
            return
        whole, given = numbered((closure, x))
        run = self._operation.program(static, whole, *jax.tree.flatten(whole))
        environment = list(closure.environment)
        functions = any(isinstance(value, Closure) for value in environment)
        origins = given if _has_functions(result) else None
        if origins is not None and _has_functions(arguments):
            return  # whose names may be others in each call
        types, classes = tuple(map(_type, leaves)), answers != [None] * len(answers)
        told = _told(asked[0]) if asked else None
        entry = _Entry(form, types, watch, environment, variables, classes, functions, origins, run, told)
        others = [e for e in self._entries if (e.form, e.types) != (form, types) or not e.is_of(told)]
        self._entries = [entry, *others][:_KEPT]
        _calls.add(self)

    def clear(self) -> None:
        """Forgets the programs."""
        self._entries = []

    def __len__(self) -> int:
        return len(self._entries)


def _watch(found: Found) -> Watch:
    """What a function read, and the classes that it was told of what it captured."""
    watch = found.captured.watch + found.traced.read
    looked = {} if found.traced.answers is None else found.traced.answers.looked
    for variable in found.captured.variables if looked else ():
        if (kind := looked.get(variable.slot)) is not None:
            watch.answers.append((partial(_kind, variable), kind))
    return watch


def _told(found: Found) -> _Told | None:
    """What Python was told in the trace of a function."""
    answers, captured = found.traced.answers, found.captured
    return None if answers is None else _Told(answers, list(captured.values), captured.variables)


_calls = OfMany("calls of functions again")


def _tell(read: Watch, f: Any) -> None:
    """Says once of a program that it is traced at each call."""
    if not read.told:
        read.told = True
        warnings.warn(TracedAnewWarning(read.reason, definition_line(f)), stacklevel=2)


def _has_functions(x: Any) -> bool:
    return any(isinstance(part, Closure) for part in jax.tree.leaves(x, is_leaf=lambda part: isinstance(part, Closure)))


def _kind(variable: Variable) -> type:
    return type(variable.read())


def _type(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return leaf.shape, leaf.dtype, leaf.weak_type
    return (type(leaf), leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray | np.generic) else type(leaf)
