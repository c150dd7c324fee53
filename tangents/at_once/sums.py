"""Sums over the steps of a backward loop: what is linear in a step's cotangent is worked out once, after the loop.

    Σ A xᵢ = A Σ xᵢ               the sum of the xᵢ alone is carried
    Σ aᵢ · bᵢ = [a] · [b]         the rows a and b are put out, and contracted after the loop (`contractions.py`)

So is the cotangent of a matrix that each step multiplies with, of a bias that is broadcast, and of a table that is
read.  The second equation is used where the rows that have to be put out are at most half of what would be carried,
and where that is more than a step reads of rows anyway: a smaller sum is cheap to carry, and rows stay until the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from combinators.memo import remembered
from compile_ccc.jaxprs.flow import is_variable
from compile_ccc.jaxprs.programs import Program, is_zero, writes_zeros
from compile_ccc.jaxprs.recording import recorded, run
from tangents.at_once.contractions import CONTRACTIONS, Joined, bound, masked, summed
from tangents.at_once.steps import cheaply

_ALWAYS = {"neg", "transpose", "reshape", "reduce_sum", "broadcast_in_dim", "squeeze", "rev", "slice", "copy"}
_OF_ONE = {"mul", "dot_general", "div", "pad", "scatter-add", "dynamic_update_slice"}  # linear in one of their operands


class Sums:
    """The sums of outputs of a program over many runs; some of its inputs are `fixed`, and of others there are `rows`.

    Each run gives what has to be `added`, and what has to be `stacked`; then `totals` are the sums.  A loop `carries`
    what is added from run to run; else there is room for all of it, and a row is always smaller.  Of the inputs of
    which there are rows, the totals `read` some.
    """

    def __init__(
        self, program: Program, fixed: Iterable[Any], rows: Iterable[Any], outputs: Sequence[int], carries: bool
    ):
        self.program = program
        self._made = {v: e for e in program.equations for v in e.outvars}
        self._rows = set(rows)
        self._varying = set(program.variables[len(program.constants) :]).difference(fixed)
        for e in program.equations:
            if e.effects or not self._varying.isdisjoint(filter(is_variable, e.invars)):
                self._varying.update(e.outvars)
        self._outputs = [self.program.outputs[i] for i in outputs]
        self._ways = self._found_ways()
        self.added, self._wanted = self._reached(self._rows, further=False)
        _, stacked = self._reached(self._rows)
        if stacked:
            added, wanted = self._reached(self._rows.union(stacked))
            if not carries or _size(self.added) > _size(added) + _size(self._rows):
                self.added, self._wanted = added, wanted
        fixed = set(program.variables) - self._varying
        self.stacked = self._fewest(fixed) if self._wanted else []
        there = self._rows.union(self.stacked)
        self._last = self._after(there.union(self._wanted, self.added), fixed)
        self._joined = [v for v in self._wanted if v not in there]
        parts = dict.fromkeys([part for v in self._joined for part in self._parts(v)])
        again = [part for part in parts if part not in there]
        known = [v for v in program.variables if v in fixed or v in self._rows] + self.stacked
        self._again = program.again(known, again).lean()[0] if again else None
        made_of = self._again.variables if self._again else ()
        read = chain(self._outputs, parts, made_of, *[e.invars for e in self._last])
        self.read = self._rows.intersection(filter(is_variable, read))

    def inside(self, others: Any) -> Program:
        """The program of one run, which gives what is added, what is stacked, and the outputs with these numbers."""
        numbers, form = jax.tree.flatten(others)
        outputs = [*self.added, *self.stacked, *(self.program.outputs[i] for i in numbers)]
        blanks = [0] * len(self.added), [0] * len(self.stacked), form.unflatten(numbers)
        return replace(self.program, outputs=outputs, form=jax.tree.structure(blanks))

    def totals(
        self, added: Sequence[Any], stacked: Sequence[Any], inputs: Sequence[Any], valid: Any = None
    ) -> list[Any]:
        """The sums of the outputs; `inputs` are the values of those that are fixed, and the rows of others.

        If it is said which rows are `valid`, others are zero, whatever is worked out of them.
        """
        values = dict(zip(self.program.variables, (*self.program.constants, *inputs), strict=True))
        rows = {v: values[v] for v in self.read} | dict(zip(self.stacked, stacked, strict=True))
        rows |= self._rows_again(rows, values)
        rows = rows if valid is None else {v: masked(row, valid) for v, row in rows.items()}
        fixed = {v: value for v, value in values.items() if v not in self._varying}
        sums = dict(zip(self.added, added, strict=True))

        def value(v: Any) -> Any:
            return v.val if type(v) is jex.Literal else fixed[v]

        def total(v: Any) -> Any:
            if v not in sums:
                sums[v] = summed(rows[v], v.aval.dtype)
            return sums[v]

        for e in self._last:
            if not self._varying_of(e):
                fixed.update(zip(e.outvars, bound(e, map(value, e.invars)), strict=True))
            elif self._contracts(e):
                operands = [rows[v] if self._varies(v) else value(v) for v in e.invars]
                sums[e.outvars[0]] = CONTRACTIONS[e.primitive.name].run(e, *operands)
            else:
                (sums[e.outvars[0]],) = bound(e, [total(v) if self._varies(v) else value(v) for v in e.invars])
        return [total(v) for v in self._outputs]

    def _varies(self, v: Any) -> bool:
        return type(v) is not jex.Literal and v in self._varying

    def _varying_of(self, e: Any) -> list[Any]:
        return [*filter(self._varying.__contains__, filter(is_variable, e.invars))]

    def _found_ways(self) -> list[tuple[Any, int, list[Any], bool]]:
        """The values, in order, whose sums may be worked out after the loop: their sizes, what varies of what they are
        made of, and if that is contracted."""
        found: dict[Any, tuple[Any, int, list[Any], bool]] = {}
        left = list(self._outputs)
        while left:
            v = left.pop()
            e = None if v in found else self._made.get(v)
            if e is None or e.effects or len(e.outvars) != 1 or not (varying := self._varying_of(e)):
                continue
            if (contracts := self._contracts(e)) or self._is_linear(e, varying):
                found[v] = v, size_of(v.aval), varying, contracts
                left += () if contracts else varying
        return [found[v] for v in self._made if v in found] if found else []

    def _later(self, rows: set[Any], further: bool) -> dict[Any, tuple[list[Any], bool]]:
        """The values whose sums are better worked out after the loop, of which these are there as rows, or `further`
        ones may be: what they are made of, and whether by a contraction."""
        later: dict[Any, tuple[list[Any], bool]] = {}
        carried: dict[Any, int] = dict.fromkeys(rows, 0)  # numbers, for the sum of a value
        for v, size_of_sum, varying, contracts in self._ways:
            if contracts:
                more, size = {*varying} - rows, 0
                better = not more or (further and 2 * _size(more) <= size_of_sum)
            else:
                new = [x for x in varying if x not in carried]
                size = sum([carried[x] for x in varying if x in carried]) + (_size(new) if new else 0)
                better = size < size_of_sum or (size == size_of_sum and len(new) < len(varying))
            if better:
                later[v], carried[v] = (varying, contracts), size
        return later

    def _reached(self, rows: set[Any], further: bool = True) -> tuple[list[Any], list[Any]]:
        """What the sums of the outputs need, if there are these rows: sums of values, and rows of further ones."""
        later = self._later(rows, further)
        added: dict[Any, None] = {}
        stacked: dict[Any, None] = {}
        seen: set[Any] = set()
        left = self._outputs[::-1]
        while left:
            v = left.pop()
            if v in seen or v in self._rows:
                continue
            seen.add(v)
            if v in rows:
                stacked[v] = None
            elif v not in later:
                added[v] = None
            else:
                varying, contracts = later[v]
                if contracts:
                    stacked.update(dict.fromkeys(x for x in varying if x not in self._rows))
                else:
                    left += varying[::-1]
        return list(added), list(stacked)

    def _fewest(self, fixed: set[Any]) -> list[Any]:
        """What is put out for the rows that are wanted: of the same size, or parts that they are cheap to make of."""
        parts = dict.fromkeys(part for v in self._wanted for part in self._parts(v))
        again = cheaply(self.program, {*parts}, self._rows | fixed)
        fewer = [v for v in parts if v not in again and v not in self._rows]
        return fewer if _size(fewer) < _size(self._wanted) else self._wanted

    def _rows_again(self, rows: dict[Any, Any], values: dict[Any, Any]) -> dict[Any, Any]:
        """The rows that are wanted and not put out, from those that are."""
        made, again = dict(rows), self._again
        if again is not None:
            inputs = again.variables[len(again.constants) :]
            moving = [v for v in inputs if v in self._varying]
            given = lambda row: map((values | dict(zip(moving, row, strict=True))).__getitem__, inputs)
            one = recorded(lambda *row: run(again, given(row)), "rows")
            made.update(zip(again.outputs, jax.vmap(one)(*map(rows.__getitem__, moving)), strict=True))
        axis = lambda v: self._made[v].params["dimension"] + 1
        joined = [v for v in self._joined if v not in made]
        return made | {v: Joined([made[part] for part in self._parts(v)], axis(v)) for v in joined}

    def _parts(self, v: Any) -> list[Any]:
        """What is concatenated to this value, if that varies; else the value."""
        e = self._made.get(v)
        if e is None or e.primitive.name != "concatenate" or len(self._varying_of(e)) != len(e.invars):
            return [v]
        return list(e.invars)

    def _after(self, summed: Iterable[Any], fixed: Iterable[Any]) -> list[Any]:
        """The equations to run after the loop: all that the outputs need, where these are summed, those fixed."""
        known, needed = {*summed, *fixed}, []
        wanted = {v for v in self._outputs if v not in known}
        for e in reversed(self.program.equations):
            if not wanted.isdisjoint(e.outvars):
                needed.append(e)
                wanted.update(v for v in e.invars if type(v) is not jex.Literal and v not in known)
        return needed[::-1]

    def _contracts(self, e: Any) -> bool:
        rule = CONTRACTIONS.get(e.primitive.name)
        return rule is not None and self._fits(e) and rule.fits(e, [self._varies(v) for v in e.invars])

    def _fits(self, e: Any) -> bool:
        """Whether what is written into is zero, for an operation that writes."""
        return e.primitive.name not in ("scatter-add", "dynamic_update_slice") or self._is_zeros(e.invars[0])

    def _is_zeros(self, v: Any) -> bool:
        if type(v) is jex.Literal:
            return is_zero(v)
        e = self._made.get(v)
        return e is not None and writes_zeros(e)

    def _is_linear(self, e: Any, varying: list[Any]) -> bool:
        """Whether an operation is linear in what varies, whose sums are as exact as those of its result."""
        (y,) = e.outvars
        if not all(jnp.issubdtype(dtype, np.inexact) for dtype in {v.aval.dtype for v in (y, *varying)}):
            return False
        match e.primitive.name:
            case name if name in _ALWAYS:
                return True
            case "convert_element_type":
                return y.aval.dtype.itemsize <= varying[0].aval.dtype.itemsize
            case "add" | "add_any" | "sub":
                return len(varying) == 2 and all(v.aval.shape == y.aval.shape for v in varying)
            case "concatenate":
                return len(varying) == len(e.invars)
            case name if name in _OF_ONE and len(varying) == 1:
                which = [self._varies(v) for v in e.invars].index(True)
                match name:
                    case "mul" | "dot_general":
                        return True
                    case "pad":
                        return which == 0 and is_zero(e.invars[1])
                    case "div":
                        return which == 0
                    case "scatter-add":
                        return which == 2 and self._fits(e)
                    case _:
                        return which == 1 and self._fits(e)
            case _:
                return False


def _size(values: Iterable[Any]) -> int:
    return sum([size_of(v.aval) for v in values])


@remembered(entries=1024)
def size_of(type: Any) -> int:
    """How many numbers there are in a value of this type."""
    return type.size
