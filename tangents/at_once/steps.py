"""One step of a loop, which puts out what its pullback keeps, and no more.

Not put out is what is the same in each step; what the step gives anyway, as an output or as the state before the next
step; and what is cheap to work out again from the rest: arithmetic, comparisons, choices, and other shapes of
arrays.  A value with a name, by `jax.ad_checkpoint.checkpoint_name`, is kept; what a checkpoint gives is worked out
again.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp

from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recording import hoisted, inlined, recorded, run

CHEAP = {
    *("neg", "add", "add_any", "sub", "mul", "div", "max", "min", "abs", "sign", "square", "integer_pow", "clamp"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "xor", "select_n", "is_finite", "convert_element_type"),
    *("broadcast_in_dim", "reshape", "squeeze", "transpose", "slice", "split", "concatenate", "pad", "rev", "iota"),
    *("copy", "real", "imag", "conj", "stop_gradient"),
}


class Step:
    """One step as a program on a state and on inputs, whose result, a tuple, ends in the list of its residuals.

    Before them come the state after the step, of as many leaves as the one before, and outputs, if the number of these
    `states` is given; else all is put out.  The inputs of a pullback are so many `rows`.  What depends on nothing that
    varies is worked out before the loop.  `carried` are the numbers of the leaves of the state after a step which its
    pullback needs, and which are there as the state before the next step.  `put_out` are the types of what is put out;
    `fixed` are the residuals, by their numbers, that are the same in each step.
    """

    def __init__(self, program: Program, residuals: int, states: int | None = None, rows: int = 0, again: bool = True):
        self._program = whole = hoisted(program)
        count, inputs = len(whole.outputs), whole.variables[len(whole.constants) :]
        results, kept = whole.outputs[: count - residuals], whole.outputs[count - residuals :]
        self.fixed = {i - count + residuals: value for i, value in whole.fixed().items() if i >= count - residuals}
        rest = [i for i in range(residuals) if i not in self.fixed]
        number = lambda values: {v: i for i, v in enumerate(values) if type(v) is not jex.Literal}
        outs, before, after = ({}, {}, {})
        if states is None:
            states = len(inputs)
        else:
            same = [a.aval == b.aval for a, b in zip(inputs, results[:states], strict=False)]
            outs, before, after = number(results[states:]), number(inputs[:states]), number(results[:states])
            after = {v: leaf for v, leaf in after.items() if same[leaf]}
        places = {before[v]: i for i in rest if (v := kept[i]) in before}
        self._outs = {i: outs[v] for i in rest if (v := kept[i]) in outs}
        there = lambda v: v in after and after[v] in places and v not in before
        self._after = {i: after[kept[i]] for i in rest if i not in self._outs and there(kept[i])}
        self.carried = list(dict.fromkeys(self._after.values()))
        self._places = [places[leaf] for leaf in self.carried]
        known = {kept[i] for i in (*self._outs, *self._after)}
        rest = [i for i in rest if i not in self._outs and i not in self._after]
        xs = inputs[states:][:rows]
        cheap = cheaply(whole, {kept[i] for i in rest}, {*xs, *known}) if again else set[Any]()
        self._put_out = [i for i in rest if kept[i] not in cheap]
        self._again = [i for i in rest if kept[i] in cheap]
        given = [*self._put_out, *self._outs, *self._after]
        self._repeat = whole.again([*(kept[i] for i in given), *xs], [kept[i] for i in self._again])
        self._given, self._count = given, residuals
        self.put_out = [kept[i].aval for i in self._put_out]

    def alone(self, form: Callable[[Any, Any, list[Any]], Any]) -> Program:
        """The program of the step, whose result has a form of what is after it, its output, and what is put out."""
        whole = self._program
        after, out, kept = whole.form.unflatten(whole.outputs)
        return whole.giving(form(after, out, [kept[i] for i in self._put_out]))

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The step's result, which ends in the residuals that are put out."""
        *result, kept = inlined(self._program, jax.tree.leaves(arguments))
        return (*result, [kept[i] for i in self._put_out])

    def saved(self, put_out: list[Any], outputs: Any) -> list[Any]:
        """What is kept of all steps: what they put out, and those of their outputs that are residuals."""
        outputs = jax.tree.leaves(outputs)
        return [*put_out, *(outputs[i] for i in self._outs.values())]

    def all_kept(self, saved: list[Any], inputs: list[Any], after: list[Any]) -> list[Any]:
        """All residuals of a step, from what is saved of it, its inputs, and what is carried of the state after it."""
        carried = dict(zip(self.carried, after, strict=True))
        given = [*saved, *(carried[leaf] for leaf in self._after.values())]
        again = run(self._repeat, [*given, *inputs]) if self._again else []
        return self._in_order(given, again)

    def all_rows(
        self, saved: list[Any], inputs: list[Any], last: list[Any], reverse: bool, read: Set[int]
    ) -> list[Any]:
        """The residuals of all steps, as rows, but for those that stay; None for what is not `read`.

        `last` is what is carried of the last state.
        """
        again, count = [i for i in self._again if i in read], len(self._given)
        repeat, used = self._repeat.only([self._again.index(i) for i in again]).lean()
        read = {*read, *(self._given[i] for i in used if i < count)}
        rows = dict(zip(self._given, saved, strict=False))
        befores = dict(zip(self.carried, self._places, strict=True))
        ends = dict(zip(self.carried, last, strict=True))
        for i in read & self._after.keys():
            before, end = rows[befores[self._after[i]]], ends[self._after[i]][None]
            shifted = [end, before[:-1]] if reverse else [before[1:], end]
            rows[i] = jnp.concatenate(shifted)[: len(before)]
        given = [rows[self._given[i]] if i < count else inputs[i - count] for i in used]
        made = jax.vmap(recorded(lambda *xs: run(repeat, xs), "again"))(*given) if again else []
        found = {**self.fixed, **rows, **dict(zip(again, made, strict=True))}
        return [found.get(i) for i in range(self._count)]

    def before(self, residuals: list[Any]) -> list[Any]:
        """What is carried of the state before a step, which is that after the step before it."""
        return [residuals[i] for i in self._places]

    def _in_order(self, given: list[Any], again: list[Any]) -> list[Any]:
        found = self.fixed | dict(zip((*self._given, *self._again), (*given, *again), strict=True))
        return [found[i] for i in range(self._count)]


def cheaply(program: Program, residuals: set[Any], known: set[Any]) -> set[Any]:
    """Those of the values that are cheap to work out from the others, from constants, and from what is known."""
    made = {v: e for e in program.equations for v in e.outvars}
    known = {*known, *program.variables[: len(program.constants)]}
    again: set[Any] = set()
    for v in sorted(residuals & made.keys(), key=list(made).index, reverse=True):
        if _is_cheap(v, made, known | (residuals - again - {v})):
            again.add(v)
    return again


def _is_cheap(v: Any, made: dict[Any, Any], known: set[Any]) -> bool:
    """Whether cheap operations alone make a value of what is known."""
    left, seen = [v], set()
    while left:
        v = left.pop()
        if type(v) is jex.Literal or v in known or v in seen:
            continue
        e = made.get(v)
        if e is None or e.effects or e.primitive.name not in CHEAP or len(seen) == _MOST:
            return False
        seen.add(v)
        left += e.invars
    return True


_MOST = 16  # operations for one residual
