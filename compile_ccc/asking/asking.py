"""Values on demand: Python asks a traced value for a number, and is told what it is for the arguments of this call.

`if x > 0`, `range(n)`, `float(h)`, `np.asarray(mask)`: what the value depends on is worked out then, operation by
operation, and the trace goes on along the path that Python takes.  What Python was told is kept beside the trace: it
is the same program for other arguments that give the same answers (`Answers`).
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import numpy as np

from combinators.errors import NOT_USERS, DetachedWarning, user_line
from combinators.identity.identity import key_of
from compile_ccc.asking import jax_traces
from compile_ccc.asking.answers import Answers, Given, behind
from compile_ccc.asking.beside import Beside
from compile_ccc.asking.ruled_calls import Ruled
from compile_ccc.asking.standing import kind
from compile_ccc.asking.tracers import Asking, Known, asked_of, class_of, is_inexact, running, times_derived, ways
from compile_ccc.asking.working_out import Unknown, is_known_function, worked_out
from compile_ccc.carriers import is_carrier
from compile_ccc.jaxprs import compat


class Asked:
    """What is known of a trace, and what Python was told.

    The inputs are `values`, None where one is not known, of which `varied` are those that is differentiated by; the
    trace runs in the one `around`.  The first of them are `captured`.
    """

    def __init__(
        self, values: Sequence[Any], varied: frozenset[int], around: Any, numbers: bool = False, captured: int = 0
    ):
        self._values, self._varied = values, varied
        self._trace: Any = None
        self._known: dict[Any, Any] = {}  # by variables of the program
        self._around = around
        self._made: dict[Any, Any] = {}  # values in the program around, likewise
        self._places: dict[Any, int] = {}
        self.told: list[tuple[Sequence[Any], Callable[..., Any], Any]] = []
        self.wanted: set[int] = set()  # places of inputs that are to be code
        self.looked: dict[int, type | None] = {}  # classes of inputs that Python asked for; None of what is varied
        self.differentiates = bool(varied)
        stand = lambda place: place not in varied and (self.differentiates or place < captured)
        self.beside = Beside(values, stand)
        self._order = times_derived()
        self.numbers = numbers  # whether Python has numbers that may be others in the next call
        self.level: int | None = 0  # within how many rules the trace is; None for a function, whose rule counts

    def begin(self, tracers: Sequence[Any]) -> None:
        """Makes the trace that is running, of which these are the inputs, one that can be asked."""
        trace = jax_traces.trace_of(tracers[0]) if tracers else jax_traces.running_trace()
        trace.__class__ = Ruled
        self._trace = trace
        running[id(trace)] = self
        if (way := ways.get()) is not None:
            way.begin(trace, self)
        for place, (tracer, value) in enumerate(zip(tracers, self._values, strict=True)):
            tracer.__class__ = self._kind(place, value)
            self._places[tracer.val] = place
            if value is not None:
                self._known[tracer.val] = value
        self.beside.begin(self._places)

    def _kind(self, place: int, value: Any) -> type:
        """Which tracer stands for an input."""
        if value is None or is_known_function(value):
            return Asking
        return Known if place in self._varied else kind(value)

    def within(self, values: Sequence[Any], level: int | None) -> Asked:
        """What is known of the trace of a function with a rule that is called here at these values, or of its rule."""
        return _Within(values, frozenset(), self._trace, self.numbers, level)

    def tracing(self, others: Sequence[Any]) -> Any:
        """Operations run in this trace inside of the `with`, whichever is running, if it has all of these."""
        own = all(asked_of(v) is self for v in others if isinstance(v, jax.core.Tracer))
        return jex.set_current_trace(self._trace) if own else nullcontext()

    def end(self) -> None:
        """Lets go of the trace."""
        if running.pop(id(self._trace), None) is not None:
            self._trace.__class__ = jax_traces.Tracing  # what JAX wraps around rules of derivatives holds it
        self._known, self.told = {}, []

    def settled(self, tracer: Any) -> Any:
        """What Python keeps of a tracer when the trace has ended: its value, if that is known.

        Of a program that is traced inside of another one, it is what that can compute.
        """
        own = isinstance(tracer, Asking) and asked_of(tracer) is self
        if own and self._of_others([tracer]):
            return self._outside(tracer)
        try:
            value = self.value(tracer) if isinstance(tracer, Asking) else tracer
        except Unknown:
            return self._outside(tracer) if asked_of(tracer) is self else tracer
        plain = isinstance(tracer, Asking) and tracer.weak_type and not tracer.shape and isinstance(value, jax.Array)
        return value.item() if plain else value

    def value(self, tracer: Any) -> Any:
        """The value of a tracer.  Raises `Unknown`."""
        if (number := self.beside.number(tracer)) is not None:
            return number.pair[0]
        if isinstance(tracer.val, jex.Var) and tracer.val not in self._known:
            self._work_out(tracer, self._known, jax_traces.EVALUATION, lambda v: self._input(v, tracer))
        return self._input(tracer.val, tracer)

    def _outside(self, tracer: Any) -> Any:
        """A tracer's value in the program around; itself, if it depends on what that does not have."""

        def given(variable: Any) -> Any:
            if isinstance(variable, jex.Literal):
                return variable.val
            if variable in self._made:
                return self._made[variable]
            place = self._places.get(variable)
            value = jax_traces.constant(tracer, variable) if place is None else self._values[place]
            if value is None or isinstance(value, jax.Ref) or is_known_function(value) or is_carrier(jax.typeof(value)):
                raise Unknown
            return value

        try:
            if isinstance(tracer.val, jex.Var) and tracer.val not in self._made:
                self._work_out(tracer, self._made, self._around, given)
            return given(tracer.val)
        except Unknown:
            return tracer

    def _work_out(self, tracer: Any, known: dict[Any, Any], trace: Any, given: Callable[[Any], Any]) -> None:
        """What a tracer depends on, operation by operation in a trace.  Raises `Unknown`."""
        equations, inputs = behind([tracer], known)
        if not all(map(compat.only_refs, equations)):
            raise Unknown
        results = [v for e in equations for v in e.outvars if isinstance(v.aval, jax.core.ShapedArray)]
        values = [given(v) for v in inputs]
        with jex.set_current_trace(trace):
            found = worked_out(jax_traces.program_of(inputs, results, equations), values)
        known.update(zip(results, found, strict=True))

    def _input(self, variable: Any, tracer: Any) -> Any:
        if isinstance(variable, jex.Literal):
            return variable.val
        value = self._known[variable] if variable in self._known else jax_traces.constant(tracer, variable)
        if isinstance(value, Asking):  # of a program around this one
            outer = asked_of(value)
            if outer is None:
                raise Unknown
            return outer.value(value)
        if is_known_function(value):
            return value
        if value is None or isinstance(value, jax.core.Tracer | jax.Ref) or is_carrier(jax.typeof(value)):
            raise Unknown
        return value

    def tell(self, tracers: Sequence[Any], how: Callable[..., Any], answer: Any, ruled: float = 0) -> None:
        """Notes what Python was told of tracers: how(their values), which was this answer.

        The first `ruled` derivatives are taken by rules, which are right whatever they were told.
        """
        ruled -= self._order if self._varied else 0
        if isinstance(answer, float | complex) or (isinstance(answer, np.ndarray) and is_inexact(answer)):
            self.numbers = True
            if ruled < 0 and not self._varied.isdisjoint(self._inputs_of(tracers, varying=True)):
                ruled = math.inf
                warnings.warn(DetachedWarning(user_line()), skip_file_prefixes=NOT_USERS)
        if len(tracers) == 1 and self.beside.tell(tracers[0], how, answer):
            return
        self.told.append((tracers, how, answer))
        of_others = self._of_others(tracers) if len(running) > 1 else []  # what is behind tracers may be much
        program, given = self._program(tracers) if of_others else (None, [])
        for outer in {id(t): t for t in map(asked_of, of_others)}.values():
            theirs = [v for v in of_others if asked_of(v) is outer]
            if outer is not None:
                outer.tell(
                    theirs, functools.partial(self._told_through, program, given, theirs, how), answer, max(ruled, 0)
                )

    def _told_through(self, program: Any, given: Given, outer: list[Any], how: Callable[..., Any], *values: Any) -> Any:
        """What Python would be told if tracers of a program around this one had these values."""
        new = {id(tracer): value for tracer, value in zip(outer, values, strict=True)}
        plain = [self._values[v] if place else v for place, v in given]
        return how(*worked_out(program, [new.get(id(v), v) for v in plain]))

    def want(self, tracer: Any) -> None:
        """Notes that the inputs behind a tracer are to be code."""
        self.wanted |= self._inputs_of([tracer])
        for value in self._of_others([tracer]):
            if (outer := asked_of(value)) is not None:
                outer.want(value)

    def has_attribute(self, tracer: Any, name: str) -> bool:
        """Whether an input that is no array of JAX's has an attribute of this name."""
        try:
            value = self.value(tracer)
        except Unknown:
            return False
        return not isinstance(value, jax.Array) and hasattr(value, name)

    def class_of(self, tracer: Any) -> type:
        """What Python is told that an input is: the class of its value; that of the tracer if it is varied."""
        own = self._class_at(self._places[tracer.val])
        return type(tracer) if own is None or issubclass(own, jax.core.Tracer) else own

    def look(self, tracer: Any) -> None:
        """Wants the inputs behind a tracer as code, whose class is asked for, unless they are arrays of JAX's."""
        if not self.differentiates or self.is_varied(tracer):
            return
        _, variables = behind([tracer], {})
        told = [self._class_at(self._places[v]) for v in variables if v in self._places]
        if not all(own is None or issubclass(own, jax.Array) for own in told):
            self.want(tracer)

    def look_at_all(self) -> None:
        """Notes that Python was told the classes of all inputs."""
        for place in range(len(self._values)):
            self._class_at(place)

    def _class_at(self, place: int) -> type | None:
        """What Python is told that an input is; None if it is varied."""
        if place not in self.looked:
            self.looked[place] = None if place in self._varied else class_of(self._values[place])
        return self.looked[place]

    def is_varied(self, tracer: Any) -> bool:
        """Whether a value depends on what is differentiated by."""
        if not self._varied.isdisjoint(self._inputs_of([tracer], varying=True)):
            return True
        others = ((asked_of(value), value) for value in self._of_others([tracer]))
        return any(outer is None or outer.is_varied(value) for outer, value in others)

    def _of_others(self, tracers: Sequence[Any]) -> list[Any]:
        """What tracers depend on that belongs to programs around this one."""
        _, given = self._program(tracers)
        found = (self._values[value] if place else value for place, value in given)
        return [value for value in found if isinstance(value, Asking)]

    def _inputs_of(self, tracers: Sequence[Any], varying: bool = False) -> set[int]:
        _, inputs = behind(tracers, {}, varying)
        return {self._places[v] for v in inputs if v in self._places}

    def answers(self) -> Answers | None:
        """What Python was told, by the inputs that it depends on; None if it was told nothing."""
        evidence = self.beside.evidence()
        self.wanted |= self.beside.misfits
        if not self.told and not self.looked and evidence is None:
            return None
        program, given = self._program([tracer for tracers, _, _ in self.told for tracer in tracers])
        told = [(len(tracers), how, key_of(answer)) for tracers, how, answer in self.told]
        return Answers(program, given, told, evidence, self.looked)

    def _program(self, tracers: Sequence[Any]) -> tuple[Any, Given]:
        """The program that gives these tracers, and what its inputs are."""
        equations, variables = behind(tracers, {})
        given: Given = []
        for v in variables:
            known = v in self._places
            given.append((known, self._places[v] if known else jax_traces.constant(tracers[0], v)))
        return jax_traces.program_of(variables, [tracer.val for tracer in tracers], equations), given


class _Within(Asked):
    """What is known of the trace of a function with a rule, or of that: its inputs are arrays, nothing is detached."""

    def __init__(self, values: Sequence[Any], varied: frozenset[int], around: Any, numbers: bool, level: int | None):
        super().__init__(values, varied, around, numbers)
        self.level = level

    def _kind(self, place: int, value: Any) -> type:
        return Asking

    def tell(self, tracers: Sequence[Any], how: Callable[..., Any], answer: Any, ruled: float = 0) -> None:
        super().tell(tracers, how, answer, max(ruled, math.inf if self.level is None else self.level))
