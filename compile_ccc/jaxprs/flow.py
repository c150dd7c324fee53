"""What depends on what in a program of JAX: forwards, what an input reaches; backwards, what an output needs.

Both look into calls, branches and loops, where a state that is not used is dead however often it is carried around.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import attrgetter
from typing import Any

import jax
import jax.extend.core as jex
from jax.interpreters import partial_eval

from combinators import staging
from combinators.fixpoint import either, fixpoint
from compile_ccc.jaxprs import compat

is_variable = attrgetter("__hash__")  # a literal has none


def needed(equations: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[Any], set[Any]]:
    """The equations that an output or an effect depends on, and all variables that they, and the outputs, read.

    Of an equation with programs in it, only what is read of its results is left.
    """
    read, alive = {*filter(is_variable, outputs)}, []
    for equation in reversed(equations):
        if not equation.effects:
            results = equation.outvars
            if read.isdisjoint(results):
                continue
            if len(results) > 1 and not read.issuperset(results):
                wanted = [v in read for v in results]
                equation = _narrowed(equation, wanted) if _has_dead(equation, wanted) else equation
        read.update(filter(is_variable, equation.invars))
        alive.append(equation)
    return alive[::-1], read


def silenced(equations: Sequence[Any]) -> list[Any]:
    """The equations without their effects: those that do nothing else are left out, also inside of the others."""
    return [_silenced(e) if e.effects else e for e in equations if e.outvars or not e.effects]


def _silenced(equation: Any) -> Any:
    if not staging.holds_programs(equation.params):
        return equation
    inside = jax.tree.map(_without_effects, equation.params, is_leaf=lambda v: v is None or isinstance(v, jex.Jaxpr))
    effects = frozenset().union(*(program.effects for program in jex.jaxprs_in_params(inside)))
    return equation.replace(params=inside, effects=effects)


def _without_effects(value: Any) -> Any:
    if not isinstance(value, jex.Jaxpr) or not value.effects:
        return value
    inner = silenced(value.eqns)
    return value.replace(eqns=inner, effects=frozenset().union(*(e.effects for e in inner)))


def _has_dead(equation: Any, wanted: list[bool]) -> bool:
    """Whether an equation may have parts that these results do not need: a loop needs what its later steps read."""
    if equation.primitive.name != "scan":
        return staging.holds_programs(equation.params)
    scan = compat.Scan.of(equation)
    if not all(wanted[scan.carry :]):
        return True
    _, states, _ = scan.parts(scan.body.invars)
    put_out = wanted[scan.carry :]

    def read_by(alive: list[bool]) -> tuple[list[bool], None]:
        if all(alive):
            return alive, None
        _, read = needed(scan.body.eqns, list(compress(scan.body.outvars, [*alive, *put_out])))
        return either(alive, [v in read for v in states]), None

    return not all(fixpoint(wanted[: scan.carry], read_by)[0])


def _narrowed(equation: Any, wanted: list[bool]) -> Any:
    """The equation with these of its results alone, as JAX writes it."""
    inputs = list(dict.fromkeys(v for v in equation.invars if type(v) is not jex.Literal))
    names = staging.names("equation", len(inputs), len(equation.outvars))
    alone = jex.Jaxpr([], inputs, equation.outvars, [equation], jex.no_effects, names)
    (lean,) = partial_eval.dce_jaxpr(alone, wanted)[0].eqns
    return lean


def reached(program: Any, given: Sequence[bool]) -> list[bool]:
    """Which outputs of a program depend on one of these inputs."""
    moved = {v for v, g in zip(program.invars, given, strict=True) if g}
    for equation in program.eqns:
        if moved.isdisjoint(filter(is_variable, equation.invars)):
            continue
        if equation.primitive.name in _LOOKED_INTO:
            operands = [type(v) is not jex.Literal and v in moved for v in equation.invars]
            moved.update(v for v, r in zip(equation.outvars, _through(equation, operands), strict=True) if r)
        else:
            moved.update(equation.outvars)
    return [type(v) is not jex.Literal and v in moved for v in program.outvars]


_LOOKED_INTO = frozenset({"jit", "closed_call", "remat2", "cond", "scan", "while"})


def _through(equation: Any, operands: list[bool]) -> list[bool]:
    """Which results of an equation depend on one of these operands."""
    match equation.primitive.name:
        case "jit" | "closed_call":
            return reached(compat.called(equation), operands)
        case "remat2":
            return reached(equation.params["jaxpr"], operands)
        case "cond" if not operands[0]:
            of_branches = [reached(branch, operands[1:]) for branch in compat.branches(equation)]
            return list(map(any, zip(*of_branches, strict=True)))
        case "scan":
            scan = compat.Scan.of(equation)
            fixed, state, rows = scan.parts(operands)

            def step(state: list[bool]) -> tuple[list[bool], list[bool]]:
                after = reached(scan.body, [*fixed, *state, *rows])
                return either(state, after), after[scan.carry :]

            state, put_out = fixpoint(state, step)
            return [*state, *put_out]
        case "while":
            loop = compat.While.of(equation)
            asked, captured, state = loop.parts(operands)

            def once(state: list[bool]) -> tuple[list[bool], None]:
                if all(state):
                    return state, None
                ends = any(reached(loop.asks.jaxpr, [*asked, *state]))
                return [ends or s for s in either(state, reached(loop.body.jaxpr, [*captured, *state]))], None

            return fixpoint(state, once)[0]
        case _:  # a choice by what arrives
            return [True] * len(equation.outvars)
