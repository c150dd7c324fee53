"""The size of a program: its equations, those of the bodies of loops and calls among them, without dead code."""

from __future__ import annotations

from typing import Any

import jax.extend.core as jex

from compile_ccc.compat import inlined, scan_arity

type Needs = list[bool]  # for each input or output of a program, whether anything needs it


def equations(program: Any) -> int:
    """How many equations are left of a jaxpr when calls are inlined and dead code is removed.

    A loop or a branch counts as one equation and those of its bodies, each once.
    """
    return _live(program, [True] * len(program.outvars))[0]


def _live(program: Any, outputs: Needs) -> tuple[int, Needs]:
    """The number of live equations if these outputs are needed, and which inputs are then needed."""
    needed = {v for v, need in zip(program.outvars, outputs, strict=True) if need and isinstance(v, jex.Var)}
    count = 0
    for eqn in reversed(program.eqns):
        wanted = [v in needed for v in eqn.outvars]
        if any(wanted) or eqn.effects:
            own, inputs = _of_equation(eqn, wanted)
            count += own
            needed |= {v for v, need in zip(eqn.invars, inputs, strict=True) if need and isinstance(v, jex.Var)}
    return count, [v in needed for v in program.invars]


def _of_equation(eqn: Any, wanted: Needs) -> tuple[int, Needs]:
    if (body := inlined(eqn)) is not None:
        return _live(body, wanted)
    match eqn.primitive.name:
        case "scan":
            return _scan(eqn.params["jaxpr"], *scan_arity(eqn.params), wanted)
        case "cond":
            branches = [_live(branch, wanted) for branch in eqn.params["branches"]]
            count = 1 + sum(count for count, _ in branches)
            return count, [True, *map(any, zip(*(inputs for _, inputs in branches), strict=True))]
        case _:
            bodies = jex.jaxprs_in_params(eqn.params)
            call = "call_jaxpr" in eqn.params
            return (0 if call else 1) + sum(map(equations, bodies)), [True] * len(eqn.invars)


def _scan(body: Any, constants: int, carry: int, wanted: Needs) -> tuple[int, Needs]:
    """What a step needs of its carry, the step before must give: the least fixpoint."""
    while True:
        count, inputs = _live(body, wanted)
        again = [a or b for a, b in zip(wanted, inputs[constants : constants + carry], strict=False)]
        again += wanted[carry:]
        if again == wanted:
            break
        wanted = again
    return 1 + count, [*inputs[:constants], *wanted[:carry], *inputs[constants + carry :]]
