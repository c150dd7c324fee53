"""Loops in the blocks of a recursion, which run only where the block does.

Under `jax.vmap` every block runs in every lane, and what it gives is used in the lanes whose turn it is.  In the others
it runs on whatever is there, on which a loop may never end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax.extend.core as jex
from jax import lax

from compile_ccc.jaxprs import compat


def has_loop(equations: Iterable[Any]) -> bool:
    """Whether there is a `while` among equations, or in the programs of these."""
    waiting = list(equations)
    while waiting:
        equation = waiting.pop()
        if equation.primitive.name == "while":
            return True
        for program in jex.jaxprs_in_params(equation.params):
            waiting += program.eqns
    return False


def guarded(jaxpr: Any, values: Sequence[Any], here: Any) -> list[Any]:
    """The results of a program without constants, whose loops take no step where it is not `here`."""
    env = dict(zip(jaxpr.invars, values, strict=True))
    of = lambda v: v.val if type(v) is jex.Literal else env[v]
    for equation in jaxpr.eqns:
        results = _results(equation, [of(v) for v in equation.invars], here)
        env.update(zip(equation.outvars, results, strict=True))
    return [of(v) for v in jaxpr.outvars]


def _results(equation: Any, operands: list[Any], here: Any) -> list[Any]:
    inside = compat.called(equation)
    if inside is not None and has_loop(inside.eqns):
        return _of(inside, operands, here)
    match equation.primitive.name:
        case "while":
            loop = compat.While.of(equation)
            asked, captured, state = loop.parts(operands)
            goes_on = lambda s: here & _of(loop.asks, [*asked, *s], here)[0]
            return lax.while_loop(goes_on, lambda s: _of(loop.body, [*captured, *s], here), state)
        case "cond" if has_loop([equation]):
            branches = [lambda p=p: _of(p, operands[1:], here) for p in compat.branches(equation)]
            return lax.switch(operands[0], branches)
        case "scan" if has_loop([equation]):
            scan = compat.Scan.of(equation)
            held, start, xs = scan.parts(operands)

            def one(s: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
                results = _of(scan.body, [*held, *s, *x], here)
                return results[: scan.carry], results[scan.carry :]

            last, outputs = lax.scan(one, start, xs, scan.length, scan.reverse, scan.unroll)
            return [*last, *outputs]
        case _:
            with equation.ctx.manager:
                results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
            return results if equation.primitive.multiple_results else [results]


def _of(program: Any, values: Sequence[Any], here: Any) -> list[Any]:
    return guarded(program.jaxpr, [*program.consts, *values], here)
