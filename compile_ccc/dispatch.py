"""Calls of a function again: straight to the compiled program, as long as all that it read is what it was."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.errors import TracedAnewWarning, definition_line
from combinators.meaning.host import with_own_exceptions
from combinators.memo import OfMany, Remembered, remembered
from combinators.origins import Origin, joint, numbered, restored
from combinators.records import as_records
from combinators.runs import Runs
from combinators.staging import settings
from combinators.values import Closure, is_closure
from compile_ccc.asking.answers import Answers
from compile_ccc.asking.jax_traces import is_tracing
from compile_ccc.carriers import active_traces
from compile_ccc.tracing.arguments import is_static
from compile_ccc.tracing.function import Found, Joined
from compile_ccc.watching.handed import Order, keys_of
from compile_ccc.watching.watch import Variable, Watch

MISSED = object()
_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python
_KEPT = 4  # programs of one function, for other types of its arguments


@remembered(entries=1)
def _concrete() -> frozenset[type]:
    """The types of values that are known.  An array, which would start JAX's backend, is not made by an import."""
    with jax.ensure_compile_time_eval():
        array = type(jnp.zeros(()))
    return frozenset({bool, int, float, complex, np.ndarray, array, *np.sctypeDict.values()})


def _spread(arguments: tuple[Any, ...]) -> tuple[Sequence[Any], Any]:
    """The leaves of arguments, and their form, which for leaves is how many there are; None of what is not known."""
    known = _concrete()
    if known.issuperset(map(type, arguments)):
        return arguments, len(arguments)
    try:
        leaves, form = _flatten(arguments, None)
    except ValueError:  # of a dictionary whose keys have no order
        return (), None
    return leaves, form if known.issuperset(map(type, leaves)) else None


@dataclass(frozen=True)
class _Told:
    """What Python was told in a trace of what it captured and of its arguments."""

    answers: Answers
    captured: list[Any]
    variables: list[Variable]

    def again(self, leaves: Sequence[Any]) -> bool:
        """Whether it would be told the same.  Raises `Changed`."""
        values = self.captured.copy()
        for variable in self.variables:
            values[variable.slot] = variable.read()
        varied = {place for place, kind in self.answers.looked.items() if kind is None}
        return self.answers.hold([*values, *leaves], varied)


@dataclass(frozen=True)
class _Ground:
    """What a program depends on beside its arguments: what it read, where that is read anew, and what it was told."""

    watch: Watch
    variables: list[tuple[int, Variable]]  # by their places in the environment
    classes: bool  # whether it depends on the classes of what it is given
    told: Sequence[_Told]
    order: Order  # of the entries of dictionaries in arguments


@dataclass(frozen=True, eq=False)
class _Entry:
    """A compiled program for arguments of this form and types, with what it depends on, and its environment.

    `origins` are those of the functions that it is given, if it gives functions.
    """

    form: Any
    types: tuple[Any, ...]
    ground: _Ground
    environment: list[Any]
    origins: list[Origin] | None
    run: Any

    def holds(self, arguments: tuple[Any, ...], leaves: Sequence[Any]) -> bool:
        """Whether Python would take the same path for these arguments.  Raises `Changed`."""
        order, told = self.ground.order, self.ground.told
        if order and any(keys_of(arguments[i]) != keys for i, keys in order):
            return False
        return not told or all(one.again(leaves) for one in told)

    def is_replaced_by(self, other: _Entry) -> bool:
        """Whether the other is for arguments of the same types, on the same path."""
        told, others = ([one.answers for one in entry.ground.told] for entry in (self, other))
        same = len(told) == len(others) and all(map(is_, told, others))
        return same and (self.form, self.types, self.ground.order) == (other.form, other.types, other.ground.order)

    def leaves(self) -> list[Any]:
        """The leaves of the environment, as they are now.  Raises `Changed`."""
        values = self.environment
        if self.ground.variables:
            values = values.copy()
            for place, variable in self.ground.variables:
                values[place] = variable.read()
        return jax.tree.leaves(values) if Closure in map(type, values) else values


class Dispatch(Remembered):
    """The programs of one function or arrow that were called last, for the `operation` on it and its arguments."""

    def __init__(self, operation: Runs):
        self._operation = operation
        self._entries: list[_Entry] = []
        self._met = 0
        self._settings: Any = None  # of JAX, that the programs were made with

    def again(self, arguments: tuple[Any, ...]) -> Any:
        """The result for these arguments, or `MISSED` if some of it has to be looked at again."""
        entries = self._entries
        if not entries:
            return MISSED
        leaves, form = _spread(arguments)
        if form is None or settings() != self._settings:
            return MISSED
        types = tuple(map(_type, leaves)) if len(entries) > 1 or entries[0].ground.classes else None
        for entry in entries:
            if entry.form == form and (types is None or types == entry.types):
                try:
                    if not entry.ground.watch.holds():
                        return MISSED
                    if not entry.holds(arguments, leaves):
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
        ground = _ground(((found, 0),) if isinstance(found, Found) else found.parts)
        if ground is None:
            return
        if any(map(is_static, arguments)):
            return
        leaves, form = _spread(arguments)
        if ground.watch.reason or form is None or as_records(arguments) is not arguments:
            return
        origins = None
        whole, given = numbered((closure, x))
        if _has_functions(result):
            if _has_functions(arguments):
                return  # whose names may be others in each call
            origins = given
        run = self._operation.program(static, whole, *jax.tree.flatten(whole))
        entry = _Entry(form, tuple(map(_type, leaves)), ground, list(closure.environment), origins, run)
        others = self._entries if self._settings == settings() else []
        self._entries = [entry, *[e for e in others if not e.is_replaced_by(entry)]][:_KEPT]
        self._settings = settings()
        _calls.add(self)

    def clear(self) -> None:
        """Forgets the programs."""
        self._entries = []

    def __len__(self) -> int:
        return len(self._entries)


def _ground(parts: Sequence[tuple[Found, int]]) -> _Ground | None:
    """What the functions in an arrow depend on together, whose environments begin at these places.

    None if that cannot be said: if it is values, or what one of several functions was told of what it was given; or
    what they read is not watched, which is said once.
    """
    told = [
        _Told(answers, list(one.captured.values), one.captured.variables)
        for one, _ in parts
        if (answers := one.traced.answers) is not None and answers.of_values
    ]
    if [one for one, _ in parts if one.traced.fixed]:
        return None
    if len(parts) > 1:
        if not all(one.answers.are_about(len(one.captured)) for one in told):
            return None
        told = [replace(one, answers=replace(one.answers, looked={})) for one in told]
    if unwatched := [one for one, _ in parts if one.traced.read.reason]:
        _tell(unwatched[0].traced.read, unwatched[0].f)
        return None
    watch, variables = Watch(), []
    for one, start in parts:
        watch += _watch(one)
        slots = {variable.slot: variable for variable in one.captured.variables}
        places = [(start + place, i) for place, (met, i) in enumerate(one.traced.sources) if not met]
        variables += [(place, slots[i]) for place, i in places if i in slots]
        for variable in (slots[i] for i in slots.keys() - {i for _, i in places}):  # of which it may know the shape
            own = _type(variable.read())
            watch.answers.append((lambda v=variable, own=own: _type(v.read()) == own, True))
    classes = any(one.traced.answers is not None for one, _ in parts)
    return _Ground(watch, variables, classes, told, parts[0][0].traced.order if len(parts) == 1 else ())


def _watch(found: Found) -> Watch:
    """What a function read, and the classes that it was told of what it captured."""
    watch = found.captured.watch + found.traced.read
    looked = {} if found.traced.answers is None else found.traced.answers.looked
    for variable in found.captured.variables if looked else ():
        if (kind := looked.get(variable.slot)) is not None:
            watch.answers.append((lambda v=variable: type(v.read()), kind))
    return watch


_calls = OfMany("calls of functions again")


def _tell(read: Watch, f: Any) -> None:
    """Says once of a program that it is traced at each call."""
    if not read.told:
        read.told = True
        warnings.warn(TracedAnewWarning(read.reason, definition_line(f)), stacklevel=2)


def _has_functions(x: Any) -> bool:
    return any(map(is_closure, jax.tree.leaves(x, is_leaf=is_closure)))


def _type(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return jax.typeof(leaf)
    return (type(leaf), leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray | np.generic) else type(leaf)
