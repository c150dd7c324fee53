"""The pullback of a loop's step, without what the sum over all steps is worked out from once (`sums.py`)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from compile_ccc.jaxprs.recording import opened, run
from tangents.control.steps import Step
from tangents.control.sums import Sums
from tangents.cotangents.calls import Calls
from tangents.cotangents.residuals import Pulled


class Once:
    """What is to be added up, what is to be stacked, and the rest of what a pullback gives.

    The result of `pulled` begins with cotangents by numbers, of which the sums over the steps are wanted: `totals`.
    `stacked` are the types of what is to be stacked.  Lists of calls are no sums; they belong to the rest.
    """

    def __init__(self, pulled: Pulled, step: Step):
        self._pulled = pulled
        program = opened(pulled.program)
        found, *rest = pulled.form.unflatten(range(len(program.outputs)))
        summed = {i: number for i, number in found.items() if not isinstance(number, Calls)}
        calls = {i: c for i, c in found.items() if i not in summed}
        inputs = program.variables[len(program.constants) :]
        constants = list(zip(inputs, pulled.sources, strict=False))
        fixed = [v for v, s in constants if s.kind == "outside" or (s.kind == "kept" and step.stays(s.at))]
        of_state, *_ = cotangents = pulled.given.unflatten(inputs[len(constants) :])
        carries = len(cotangents) > 1
        carried = jax.tree.leaves(of_state) if carries else []
        rows = set(inputs).difference(fixed, carried)
        self._numbers = list(summed)
        self._sums = Sums(program, fixed, rows, list(summed.values()), carries)
        self._inside = self._sums.inside((calls, *rest))
        self.stacked = [v.aval for v in self._sums.stacked]
        self.zeros = [jnp.zeros(v.aval.shape, v.aval.dtype) for v in self._sums.added]

    def __call__(self, kept: list[Any], inputs: list[Any], *cotangents: Any) -> Any:
        """One step backwards, on its residuals."""
        operands = self._pulled.operands(kept, inputs, *cotangents)
        return self._inside.form.unflatten(run(self._inside, operands))

    def totals(
        self, added: list[Any], stacked: list[Any], kept: list[Any], inputs: list[Any], *rows: Any, valid: Any = None
    ) -> Any:
        """The sums by their numbers, from those of all steps, and from rows, of those that are `valid`."""
        operands = self._pulled.operands(kept, inputs, *rows)
        return dict(zip(self._numbers, self._sums.totals(added, stacked, operands, valid), strict=True))
