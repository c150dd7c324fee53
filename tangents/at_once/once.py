"""The pullback of a loop's step, without what the sum over all steps is worked out from once (`sums.py`).

Matrices that are the same in each step, and that products contract along their last axis, are transposed before a long
loop: else every product would begin with that.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core as jex
from jax.extend.core.primitives import dot_general_p, transpose_p

from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import applied, aval_of
from compile_ccc.jaxprs.recording import run, zeros
from tangents.at_once.ahead import FEW, free
from tangents.at_once.branches import lifted
from tangents.at_once.sums import Sums
from tangents.cotangents.calls import Calls
from tangents.cotangents.residuals import Pulled

LONG = 32  # steps of a loop, before which matrices are transposed


class Once:
    """What is to be added up, what is to be stacked, and the rest of what a pullback gives.

    The result of `pulled` begins with cotangents by numbers, of which the sums over the steps are wanted: `totals`.
    `fixed` are its residuals, by their numbers, that are the same in each step.  `stacked` are the types of what is to
    be stacked.  Lists of calls are no sums; they belong to the rest.  There are at least so many `steps`.  What is in
    calls is not looked into: they are `opened` before.  The totals `read` the residuals with these numbers.
    """

    def __init__(self, pulled: Pulled, fixed: dict[int, Any], steps: int = 1):
        self._pulled = pulled
        found, *rest = pulled.form.unflatten(range(len(pulled.program.outputs)))
        summed = {i: number for i, number in found.items() if not isinstance(number, Calls)}
        calls = {i: c for i, c in found.items() if i not in summed}
        program = lifted(pulled.program, summed.values())
        inputs = program.variables[len(program.constants) :]
        constants = list(zip(inputs, pulled.sources, strict=False))
        same = {v: s.at for v, s in constants if s.kind == "outside"}
        same |= {v: fixed[s.at] for v, s in constants if s.kind == "kept" and s.at in fixed}
        of_state, *_ = cotangents = pulled.given.unflatten(inputs[len(constants) :])
        carries = len(cotangents) > 1
        carried = jax.tree.leaves(of_state) if carries else []
        rows = set(inputs).difference(same, carried)
        self._numbers = list(summed)
        self._sums = Sums(program, same, rows, list(summed.values()), carries)
        inside = self._sums.inside((calls, *rest))
        self._inside, self._transposed = _transposed(inside, same) if steps >= LONG else (inside, [])
        self.read = {s.at for v, s in constants if s.kind == "kept" and v in self._sums.read}
        self.stacked = [v.aval for v in self._sums.stacked]
        self.zeros = [zeros(v.aval) for v in self._sums.added]

    def __call__(self, kept: list[Any], inputs: list[Any], *cotangents: Any) -> Any:
        """One step backwards, on its residuals."""
        operands = [*self._pulled.operands(kept, inputs, *cotangents), *self._transposed]
        return self._inside.form.unflatten(run(self._inside, operands))

    def totals(
        self, added: list[Any], stacked: list[Any], kept: list[Any], inputs: list[Any], *rows: Any, valid: Any = None
    ) -> Any:
        """The sums by their numbers, from those of all steps, and from rows, of those that are `valid`."""
        operands = self._pulled.operands(kept, inputs, *rows)
        return dict(zip(self._numbers, self._sums.totals(added, stacked, operands, valid), strict=True))


def _transposed(program: Program, fixed: dict[Any, Any]) -> tuple[Program, list[Any]]:
    """A program that is given, as further inputs, matrices that it would contract along their last axis: transposed."""
    found: dict[Any, tuple[Any, Any]] = {}

    def rewritten(e: Any) -> Any:
        axes, batch = e.params["dimension_numbers"]
        for at, v in enumerate(e.invars):
            is_fixed = type(v) is not jex.Literal and v in fixed and v.aval.ndim == 2 and tuple(axes[at]) == (1,)
            if is_fixed and free(e, 1 - at) > FEW:
                if v not in found:
                    (value,) = applied(transpose_p, [fixed[v]], {"permutation": (1, 0)})
                    found[v] = jex.Var(aval_of(value)), value
                numbers = (tuple((0,) if i == at else used for i, used in enumerate(axes)), batch)
                operands = [found[v][0] if i == at else x for i, x in enumerate(e.invars)]
                return e.replace(invars=operands, params={**e.params, "dimension_numbers": numbers})
        return e

    equations = [rewritten(e) if e.primitive is dot_general_p else e for e in program.equations]
    variables = [*program.variables, *(v for v, _ in found.values())]
    facts = (program.form, program.name, program.is_high)
    return Program(program.constants, variables, program.outputs, equations, *facts), [x for _, x in found.values()]
