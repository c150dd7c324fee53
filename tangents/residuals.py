"""Pullbacks that leave the loop body in which they were made.

Inside a loop a pullback closes over values of one iteration.  Tracing it once gives its program and these values, its
residuals: what the loop has to keep.  A residual that comes from outside of the loop, or is the loop's own input, is
not kept again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.core
import jax.extend.core as jex

from compile_ccc.programs import Program
from compile_ccc.recording import call, hoisted, record, run


class Residuals:
    """The pullback `pull` on cotangents like `example`, as a program over residuals.

    `kept` are the residuals that the loop has to store, `result` says what the pullback gives.  `outside` are values
    that stay as they are in the backward loop, `inputs` values that it has at hand again.  With a `name`, the pullback
    is one call of that name.
    """

    def __init__(
        self,
        pull: Callable[..., Any],
        example: tuple[Any, ...],
        outside: Iterable[Any],
        inputs: Iterable[Any],
        name: str = "",
    ):
        leaves, self._in = jax.tree.flatten(example)
        out: list[Any] = []

        def flat(*cotangents: Any) -> list[Any]:
            results, form = jax.tree.flatten(pull(*self._in.unflatten(cotangents)))
            out.append(form)
            return results

        self._program = record(flat, *leaves, name=name)
        self._out = out[0]
        self.result = self._out.unflatten([v.aval for v in self._program.outputs])
        unvarying, at_hand = set(map(id, outside)), {id(value): i for i, value in enumerate(inputs)}
        self.kept: list[Any] = []
        constants, self._program.constants = self._program.constants, []
        self._sources = [self._source(value, unvarying, at_hand) for value in constants]

    def _source(self, value: Any, unvarying: set[int], at_hand: dict[int, int]) -> Callable[[Any, Any], Any]:
        if id(value) in at_hand:
            place = at_hand[id(value)]
            return lambda _, inputs: inputs[place]
        if id(value) in unvarying or not isinstance(value, jax.core.Tracer):
            return lambda *_: value
        self.kept.append(value)
        number = len(self.kept) - 1
        return lambda kept, _: kept[number]

    def pull(self, kept: list[Any], inputs: list[Any], *cotangents: Any) -> Any:
        """The pullback applied, on the residuals of one iteration."""
        constants = [source(kept, inputs) for source in self._sources]
        operands = [*constants, *self._in.flatten_up_to(cotangents)]
        program = self._program
        return self._out.unflatten((call if program.name else run)(program, operands))


class Step:
    """One step of a loop as a program whose result, a tuple, ends in the list of its residuals.

    What depends on nothing that varies is worked out before the loop; residuals of that kind are kept once.
    """

    def __init__(self, program: Program, residuals: int):
        self._program = hoisted(program)
        self._fixed = self._program.fixed()
        count = len(self._program.outputs)
        self._numbers = range(count - residuals, count)

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The step's result, which ends in the residuals that vary."""
        results = call(self._program, jax.tree.leaves(arguments))
        *result, _ = self._program.form.unflatten(results)
        return (*result, [results[i] for i in self._numbers if i not in self._fixed])

    def all_kept(self, varying: list[Any]) -> list[Any]:
        """All residuals, from those that vary."""
        rest = iter(varying)
        return [self._fixed[i] if i in self._fixed else next(rest) for i in self._numbers]


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
