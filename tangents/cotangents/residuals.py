"""Pullbacks that leave the loop body in which they were made.

Inside a loop a pullback closes over values of one iteration.  Tracing it once gives its program and these values, its
residuals: what the loop has to keep.  A residual that comes from outside of the loop, or is the loop's own input, is
not kept again.  Cotangents that do not arrive are zeros that nothing is multiplied by: for those that do arrive, there
is a program of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.core
import jax.extend.core as jex

from compile_ccc.jaxprs.flow import reached
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recording import call, record, run
from compile_ccc.jaxprs.windows import windowed


class Residuals:
    """The pullback `pull` as programs over residuals, one for each set of cotangents that arrive.

    `pull` takes cotangents by the numbers of leaves, as many such dictionaries as `example`, which holds all that may
    arrive; what is not in them is zero.  `kept` are the residuals that the loop has to store for `all` of them.
    `outside` are values that stay as they are in the backward loop, `inputs` values that it has at hand again.  With a
    `name`, a pullback is one call of that name; where calls are `opened`, it does itself what they do.
    """

    def __init__(
        self,
        pull: Callable[..., Any],
        example: tuple[dict[int, Any], ...],
        outside: Iterable[Any],
        inputs: Iterable[Any],
        name: str = "",
        opened: bool = False,
    ):
        self._pull, self._example, self._name, self._opened = pull, example, name, opened
        self._outside, self._inputs = list(outside), list(inputs)
        self._unvarying = set(map(id, self._outside))
        self._at_hand = {id(value): i for i, value in enumerate(self._inputs)}
        self._known: dict[Any, Pulled] = {}
        self._places: dict[int, int] = {}
        self.kept: list[Any] = []
        self.all = self.at(*example)

    def at(self, *present: Iterable[int]) -> Pulled:
        """The pullback for the cotangents with these numbers, written down when it is first asked for."""
        numbers = tuple(map(frozenset, present))
        if numbers not in self._known:
            self._known[numbers] = self._written(numbers)
        return self._known[numbers]

    def reached(self, *present: Iterable[int]) -> Any:
        """What of the result of `all` depends on the cotangents with these numbers: truth values in its place."""
        given = [i in numbers for numbers, part in zip(present, self._example, strict=True) for i in sorted(part)]
        jaxpr = self.all.program.jaxpr
        return self.all.form.unflatten(reached(jaxpr, [False] * (len(jaxpr.invars) - len(given)) + given))

    def _written(self, present: tuple[frozenset[int], ...]) -> Pulled:
        parts = zip(self._example, present, strict=True)
        leaves, given = jax.tree.flatten(tuple({i: t for i, t in part.items() if i in own} for part, own in parts))
        forms: list[Any] = []

        def flat(*cotangents: Any) -> list[Any]:
            results, form = jax.tree.flatten(self._pull(*given.unflatten(cotangents)))
            forms.append(form)
            return results

        program = windowed(record(flat, *leaves, name=self._name, opened=self._opened))
        constants, program.constants = program.constants, []
        return Pulled(program, [self._source(value) for value in constants], given, forms[0])

    def _source(self, value: Any) -> Source:
        if id(value) in self._at_hand:
            return Source("input", self._at_hand[id(value)])
        if id(value) in self._unvarying or not isinstance(value, jax.core.Tracer):
            return Source("outside", value)
        if id(value) not in self._places:
            assert not self._known, "a pullback for fewer cotangents needs no other residuals"
            self._places[id(value)] = len(self.kept)
            self.kept.append(value)
        return Source("kept", self._places[id(value)])


class Source(NamedTuple):
    """Where a residual is: the number of a "kept" one or of an "input", or a value from "outside"."""

    kind: str
    at: Any

    def of(self, kept: list[Any], inputs: list[Any]) -> Any:
        """The residual."""
        return self.at if self.kind == "outside" else (kept if self.kind == "kept" else inputs)[self.at]


@dataclass(frozen=True, eq=False)
class Pulled:
    """A pullback over residuals for some cotangents: its program, whose constants come first, and where they are."""

    program: Program
    sources: list[Source]
    given: Any
    form: Any

    @cached_property
    def result(self) -> Any:
        """What the pullback gives, by its types."""
        return self.form.unflatten([v.aval for v in self.program.outputs])

    def __call__(self, kept: list[Any], inputs: list[Any], *cotangents: Any) -> Any:
        """The pullback applied, on the residuals of one iteration."""
        operands = self.operands(kept, inputs, *cotangents)
        return self.form.unflatten((call if self.program.name else run)(self.program, operands))

    def operands(self, kept: list[Any], inputs: list[Any], *cotangents: Any) -> list[Any]:
        """What the program is given."""
        constants = [source.of(kept, inputs) for source in self.sources]
        return [*constants, *self.given.flatten_up_to(cotangents)]


class Opened:
    """A program as a call, before which that is worked out which depends on no argument."""

    def __init__(self, program: Program):
        self._before, rest = program.split()
        constants = list(zip(program.variables, program.constants, strict=False))
        inputs = [*self._before.outputs, *program.variables[len(constants) :]]
        alone = {v: i for i, v in enumerate(self._before.outputs)}
        outputs = [v for v in program.outputs if type(v) is jex.Literal or v not in alone]
        facts = (program.form, program.name, program.is_high)
        self._call = Program.pruned(constants, inputs, outputs, rest, *facts)
        self._alone = [None if type(v) is jex.Literal else alone.get(v) for v in program.outputs]

    def __call__(self, leaves: list[Any]) -> Any:
        """The result on the leaves of the arguments."""
        alone = run(self._before, [])
        found = iter(call(self._call, [*alone, *leaves]))
        return self._call.form.unflatten([next(found) if i is None else alone[i] for i in self._alone])
