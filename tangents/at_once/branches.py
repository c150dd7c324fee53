"""Products of matrices in the branches of a choice, done after it: there the sum over the steps of a loop finds them.

    case i of ... | a · b | ...  =  let (a, b) = case i of ... | (a, b) | (0, 0) ... in a · b

Where the rows a and b are put out, no step has a matrix: that of a branch is not added up in the steps that do not take
it, as zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import jax.extend.core as jex
import jax.numpy as jnp

from combinators import staging
from compile_ccc.jaxprs.programs import Program, is_zero, renamed, writes_zeros, written
from compile_ccc.jaxprs.recording import opened

_THROUGH = {"neg", "transpose", "reshape", "add", "add_any", "sub"}  # as large as what they are made of, and 0 at 0
_LEAST = 128  # numbers of a result: a smaller one is cheap to add up
_PRODUCTS = {"dot_general", "scatter-add", "dynamic_update_slice"}  # the latter two where they write into zeros


@dataclass(frozen=True, eq=False)
class _Tail:
    """The last operations of a branch for one of its results, and what they need: none of these, if that is zero."""

    result: Any
    equations: list[Any]
    operands: list[Any]


def lifted(program: Program, outputs: Iterable[int]) -> Program:
    """The program in which products that these outputs are made of are done after choices, not in their branches."""
    if "cond" not in [e.primitive.name for e in program.equations]:
        return program
    made = {v: e for e in program.equations for v in e.outvars}
    wanted, left = set[Any](), [program.outputs[i] for i in outputs]
    while left:
        v = left.pop()
        if type(v) is not jex.Literal and v in made and v not in wanted:
            wanted.add(v)
            left += made[v].invars if made[v].primitive.name in _THROUGH else ()
    equations = [new for e in program.equations for new in (_lifted(e, wanted) if e.primitive.name == "cond" else (e,))]
    return program if len(equations) == len(program.equations) else replace(program, equations=equations)


def _lifted(e: Any, wanted: set[Any]) -> list[Any]:
    """A choice and what is done after it."""
    numbers = [i for i, v in enumerate(e.outvars) if v in wanted]
    if e.effects or not numbers:
        return [e]
    branches = [lifted(opened(Program.of(branch)), numbers) for branch in e.params["branches"]]
    tails = {i: found for i in numbers if (found := _tails(branches, i, e.outvars[i].aval))}
    if not tails or any(branch.constants for branch in branches):
        return [e]
    stays = [i for i in range(len(e.outvars)) if i not in tails]
    results, after = [e.outvars[i] for i in stays], list[Any]()
    for i, of_branches in tails.items():
        parts = [tail for tail in of_branches if tail.equations]
        sums = [e.outvars[i]] if len(parts) == 1 else [jex.Var(e.outvars[i].aval) for _ in parts]
        for tail, whole in zip(parts, sums, strict=True):
            env: dict[Any, Any] = {v: jex.Var(v.aval) for v in tail.operands} | {tail.result: whole}
            results += [env[v] for v in tail.operands]
            after += renamed(tail.equations, env)
        if len(parts) > 1:
            after += written(lambda *xs: [sum(xs[1:], xs[0])], sums, [e.outvars[i]])
    sent = [(number, tail) for found in tails.values() for number, tail in enumerate(found) if tail.equations]
    given = tuple(_giving(branch, number, stays, sent) for number, branch in enumerate(branches))
    return [e.replace(params={**e.params, "branches": given}, outvars=results), *after]


def _tails(branches: list[Program], output: int, result: Any) -> list[_Tail]:
    """The tails of all branches for a result of this type; none unless they need at most half of its size."""
    tails = [tail for branch in branches if (tail := _tail(branch, output)) is not None]
    needed = [v.aval for tail in tails for v in tail.operands]
    small = result.size >= _LEAST and 2 * sum(t.size for t in needed) <= result.size
    return tails if len(tails) == len(branches) and needed and small and not any(t.weak_type for t in needed) else []


def _tail(branch: Program, output: int) -> _Tail | None:
    """The tail of a result that products give; None for any other."""
    result = branch.outputs[output]
    made = {v: e for e in branch.equations for v in e.outvars}
    zero = lambda v: is_zero(v) if type(v) is jex.Literal else v in made and writes_zeros(made[v])
    if zero(result):
        return _Tail(result, [], [])
    taken, operands, left = set[Any](), dict[Any, None](), [result]
    while left:
        v = left.pop()
        e = None if type(v) is jex.Literal else made.get(v)
        if e is None or e.effects:
            return None
        taken.add(v)
        if e.primitive.name in _THROUGH:
            left += e.invars
        elif e.primitive.name in _PRODUCTS and zero(e.invars[0]) == (e.primitive.name != "dot_general"):
            taken.update(v for v in e.invars if type(v) is not jex.Literal and zero(v))
            operands |= dict.fromkeys(v for v in e.invars if type(v) is not jex.Literal and not zero(v))
        elif not zero(v):
            return None
    if taken & operands.keys():
        return None
    return _Tail(result, [e for e in branch.equations if not taken.isdisjoint(e.outvars)], [*operands])


def _giving(branch: Program, number: int, stays: list[int], sent: list[tuple[int, _Tail]]) -> Any:
    """The branch with this number, which gives what stays, its own operands, and zeros for those of others."""
    equations, outputs = list(branch.equations), [branch.outputs[i] for i in stays]
    for of, tail in sent:
        given = tail.operands
        if of != number:
            zeros = staging.program(lambda ts=given: [jnp.zeros(v.aval.shape, v.aval.dtype) for v in ts], [])
            env: dict[Any, Any] = {}
            equations += renamed(zeros.eqns, env)
            given = [v if type(v) is jex.Literal else env[v] for v in zeros.outvars]
        outputs += given
    return Program.pruned([], branch.variables, outputs, equations, None, branch.name, branch.is_high).jaxpr
