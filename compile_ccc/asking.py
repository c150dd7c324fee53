"""Values on demand: Python asks a traced value for a number, and is told what it is for the arguments of this call.

`if x > 0`, `range(n)`, `float(h)`, `np.asarray(mask)`: what the value depends on is worked out then, operation by
operation, and the trace goes on along the path that Python takes.  What Python was told is kept beside the trace: it
is the same program for other arguments that give the same answers (`Answers`).
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from combinators.errors import DetachedWarning, user_line
from combinators.identity import key_of
from compile_ccc import jax_traces
from compile_ccc.answers import Answers, Given, behind
from compile_ccc.carriers import eval_p, is_carrier, lam_p


class Unknown(Exception):
    """A value depends on what is not known while the program is traced."""


class Asking(jax_traces.Tracer):
    """A tracer of a trace with known inputs: Python may ask it for its value."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self._told(bool, super().__bool__)

    def __int__(self) -> int:
        return self._told(int, super().__int__)

    def __index__(self) -> int:
        return self._told(operator.index, super().__index__)

    def __float__(self) -> float:
        return self._told(float, super().__float__)

    def __complex__(self) -> complex:
        return self._told(complex, super().__complex__)

    def __array__(self, *arguments: Any, **keywords: Any) -> Any:
        whole = self._told(np.asarray, lambda: super(Asking, self).__array__(*arguments, **keywords))
        return np.array(whole, *arguments, **keywords)

    def __format__(self, spec: str) -> str:
        return self._told(lambda value: format(value, spec), lambda: super(Asking, self).__format__(spec))

    def tolist(self) -> Any:
        return self._told(lambda value: np.asarray(value).tolist(), super().tolist)

    def __hash__(self) -> int:
        """Wants the inputs behind it as code: what is kept by its hash must not be a part of a trace."""
        if (asked := _asked_of(self)) is not None:
            asked.want(self)
        raise TypeError(f"unhashable type: {type(self).__name__!r}")

    def to_concrete_value(self) -> Any:
        return self._told(np.asarray, lambda: None) if jax_traces.needs_value(self) else None

    def _told(self, how: Callable[[Any], Any], otherwise: Callable[[], Any]) -> Any:
        asked = _asked_of(self)
        if asked is None:
            return otherwise()
        try:
            value = asked.value(self)
        except Unknown:
            return otherwise()
        answer = how(value)
        asked.tell([self], how, answer)
        return answer


class _Asked(jax_traces.Tracing):
    """A trace whose values can be asked for."""

    __slots__ = ()

    def var_to_tracer(self, *arguments: Any, **keywords: Any) -> Any:
        return _asking(super().var_to_tracer(*arguments, **keywords))

    def new_const(self, c: Any, *arguments: Any, **keywords: Any) -> Any:
        asked = _traces.get(id(self))
        if asked is not None and asked.numbers and not keywords and _is_number(c):
            with jax_traces.evaluating():
                c = jnp.asarray(c)  # no literal: the next number is in the same program
        return _asking(super().new_const(c, *arguments, **keywords))


def _asked_of(tracer: Any) -> Asked | None:
    return _traces.get(id(jax_traces.trace_of(tracer)))


def _asking(tracer: Any) -> Any:
    if type(tracer) is jax_traces.Tracer:
        tracer.__class__ = Asking
    return tracer


def _is_number(c: Any) -> bool:
    return isinstance(c, float | complex) or (not isinstance(c, jax.Array) and _is_inexact(c) and np.ndim(c) == 0)


def _is_inexact(value: Any) -> bool:
    return jnp.issubdtype(getattr(value, "dtype", bool), np.inexact)  # truth values and integers of Python have none


class Asked:
    """What is known of a trace, and what Python was told.

    The inputs are `values`, None where one is not known, of which `varied` are those that is differentiated by; the
    trace runs in the one `around`.
    """

    def __init__(self, values: Sequence[Any], varied: frozenset[int], around: Any, numbers: bool = False):
        self._values, self._varied = values, varied
        self._trace: Any = None
        self._known: dict[Any, Any] = {}  # by variables of the program
        self._around = around
        self._made: dict[Any, Any] = {}  # values in the program around, likewise
        self._places: dict[Any, int] = {}
        self.told: list[tuple[Sequence[Any], Callable[..., Any], Any]] = []
        self.wanted: set[int] = set()  # places of inputs that are to be code
        self.numbers = numbers  # whether Python has numbers that may be others in the next call

    def begin(self, tracers: Sequence[Any]) -> None:
        """Makes the trace that is running, of which these are the inputs, one that can be asked."""
        trace = jax_traces.trace_of(tracers[0]) if tracers else jax_traces.running_trace()
        trace.__class__ = _Asked
        self._trace = trace
        _traces[id(trace)] = self
        for place, (tracer, value) in enumerate(zip(tracers, self._values, strict=True)):
            tracer.__class__ = Asking
            self._places[tracer.val] = place
            if value is not None:
                self._known[tracer.val] = value

    def end(self) -> None:
        """Lets go of the trace."""
        if _traces.pop(id(self._trace), None) is not None:
            self._trace.__class__ = jax_traces.Tracing  # what JAX wraps around rules of derivatives holds it
        self._known, self.told = {}, []

    def settled(self, tracer: Any) -> Any:
        """What Python keeps of a tracer when the trace has ended: its value, if that is known.

        Of a program that is traced inside of another one, it is what that can compute.
        """
        try:
            value = self.value(tracer) if isinstance(tracer, Asking) else tracer
        except Unknown:
            return self._outside(tracer) if _asked_of(tracer) is self else tracer
        return value.item() if isinstance(tracer, Asking) and tracer.weak_type and not tracer.shape else value

    def value(self, tracer: Any) -> Any:
        """The value of a tracer.  Raises `Unknown`."""
        if tracer.val not in self._known:
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
            if value is None or is_carrier(jax.typeof(value)):
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
        if any(e.effects or e.primitive in (lam_p, eval_p) for e in equations):
            raise Unknown
        results = [v for e in equations for v in e.outvars]
        values = [given(v) for v in inputs]
        with jex.set_current_trace(trace):
            found = jax.core.eval_jaxpr(jax_traces.program_of(inputs, results, equations), (), *values)
        known.update(zip(results, found, strict=True))

    def _input(self, variable: Any, tracer: Any) -> Any:
        if isinstance(variable, jex.Literal):
            return variable.val
        value = self._known[variable] if variable in self._known else jax_traces.constant(tracer, variable)
        if isinstance(value, Asking):  # of a program around this one
            outer = _asked_of(value)
            if outer is None:
                raise Unknown
            return outer.value(value)
        if value is None or isinstance(value, jax.core.Tracer) or is_carrier(jax.typeof(value)):
            raise Unknown
        return value

    def tell(self, tracers: Sequence[Any], how: Callable[..., Any], answer: Any, warned: bool = False) -> None:
        """Notes what Python was told of tracers: how(their values), which was this answer."""
        if isinstance(answer, float | complex) or (isinstance(answer, np.ndarray) and _is_inexact(answer)):
            self.numbers = True
            if not warned and not self._varied.isdisjoint(self._inputs_of(tracers)):
                warned = True
                warnings.warn(DetachedWarning(user_line()), stacklevel=5)
        program, given = self._program(tracers)
        of_others = [value for place, value in given if not place and isinstance(value, Asking)]
        of_others += [self._values[i] for place, i in given if place and isinstance(self._values[i], Asking)]
        self.told.append((tracers, how, answer))
        for outer in {id(t): t for t in map(_asked_of, of_others)}.values():
            theirs = [v for v in of_others if _asked_of(v) is outer]
            if outer is not None:
                outer.tell(theirs, functools.partial(self._told_through, program, given, theirs, how), answer, warned)

    def _told_through(self, program: Any, given: Given, outer: list[Any], how: Callable[..., Any], *values: Any) -> Any:
        """What Python would be told if tracers of a program around this one had these values."""
        new = {id(tracer): value for tracer, value in zip(outer, values, strict=True)}
        plain = [self._values[v] if place else v for place, v in given]
        return how(*jax.core.eval_jaxpr(program, (), *[new.get(id(v), v) for v in plain]))

    def want(self, tracer: Any) -> None:
        """Notes that the inputs behind a tracer are to be code."""
        self.wanted |= self._inputs_of([tracer])

    def _inputs_of(self, tracers: Sequence[Any]) -> set[int]:
        _, inputs = behind(tracers, {})
        return {self._places[v] for v in inputs if v in self._places}

    def answers(self) -> Answers | None:
        """What Python was told, by the inputs that it depends on; None if it was told nothing."""
        if not self.told:
            return None
        program, given = self._program([tracer for tracers, _, _ in self.told for tracer in tracers])
        return Answers(program, given, [(len(tracers), how, key_of(answer)) for tracers, how, answer in self.told])

    def _program(self, tracers: Sequence[Any]) -> tuple[Any, Given]:
        """The program that gives these tracers, and what its inputs are."""
        equations, variables = behind(tracers, {})
        given: Given = []
        for v in variables:
            known = v in self._places
            given.append((known, self._places[v] if known else jax_traces.constant(tracers[0], v)))
        return jax_traces.program_of(variables, [tracer.val for tracer in tracers], equations), given


_traces: dict[int, Asked] = {}  # that are running, by the trace of JAX's, which each holds
