"""What Python was told of the values in a trace, and whether other inputs would give the same answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jax
import jax.core
import jax.extend.core as jex

from combinators.identity.identity import key_of
from compile_ccc.asking import jax_traces
from compile_ccc.asking.beside import Evidence
from compile_ccc.asking.tracers import class_of
from compile_ccc.asking.working_out import worked_out

type Given = list[tuple[bool, Any]]  # of the inputs of a program: the place of an input of the trace, or a constant


@dataclass(frozen=True)
class Answers:
    """What Python was told, and how to find out what it would be told for other inputs."""

    program: Any
    given: Given
    told: list[tuple[int, Callable[..., Any], Hashable]]  # of so many results of the program each
    evidence: Evidence | None  # of the numbers that Python has itself
    looked: Mapping[int, type | None]  # classes of inputs that Python asked for; None of what is varied

    @property
    def of_values(self) -> bool:
        """Whether they depend on values, and not on classes alone."""
        return bool(self.told) or self.evidence is not None

    def are_about(self, count: int) -> bool:
        """Whether they depend on the values of the first so many inputs alone."""
        return not self.told and (self.evidence is None or self.evidence.is_about(count))

    def hold(self, inputs: Sequence[Any], varied: Set[int]) -> bool:
        """Whether Python would be told the same."""
        seen = {place: None if place in varied else class_of(inputs[place]) for place in self.looked}
        if seen != self.looked or (self.evidence is not None and not self.evidence.holds(inputs)):
            return False
        if not self.told:
            return True
        values = [inputs[value] if place else value for place, value in self.given]
        if any(value is None or isinstance(value, jax.core.Tracer) for value in values):
            return False
        try:
            with jax_traces.evaluating():
                results = iter(worked_out(self.program, values))
                return all(key_of(how(*islice(results, n))) == answer for n, how, answer in self.told)
        except Exception:  # of a path that Python would not have taken
            return False


NO_ANSWERS = Answers(jax_traces.program_of((), (), ()), [], [], None, {})


def behind(tracers: Sequence[Any], known: dict[Any, Any], varying: bool = False) -> tuple[list[Any], list[Any]]:
    """The equations on which tracers depend, in order, and the variables that these need: inputs, constants, known.

    What only passes through `stop_gradient` does not count if it is asked what they are `varying` by.  What is read of
    a ref depends on all that was written into it before.
    """
    equations: list[Any] = []
    inputs: dict[Any, None] = {}
    done: set[int] = set()
    has_refs = False
    waiting = [(tracer, tracer.parent, False) for tracer in reversed(tracers)]
    while waiting:
        tracer, equation, ready = waiting.pop()
        if isinstance(getattr(tracer, "val", None), jex.Literal) or (equation is not None and id(equation) in done):
            continue
        if varying and equation is not None and equation.primitive.name == "stop_gradient":
            continue
        if equation is None or (tracer is not None and tracer.val in known):
            inputs[tracer.val] = None
        elif ready:
            done.add(id(equation))
            equations.append(equation)
        else:
            waiting.append((tracer, equation, True))
            waiting += [(t, t.parent, False) for t in equation.in_tracers]
            if refs := [t for t in equation.in_tracers if jax_traces.is_ref(t)]:
                has_refs = True
                waiting += [(None, e, False) for e in jax_traces.writings(refs, equation)]
    if has_refs:
        places = {id(e): i for i, e in enumerate(jax_traces.written_down(tracers[0]))}
        equations.sort(key=lambda e: places[id(e)])
    return list(map(jax_traces.equation, equations)), list(inputs)
