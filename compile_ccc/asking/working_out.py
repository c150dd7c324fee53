"""What a program gives for known values, functions among them: operation by operation, as Python asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.core
import jax.extend.core as jex

from combinators.context import Context
from combinators.meaning.evaluate import apply
from combinators.records import as_records
from combinators.terms import Curry
from combinators.types import Function
from combinators.values import Closure
from compile_ccc.carriers import eval_p, lam_p
from compile_ccc.refusing.refusals import concerns_functions


class Unknown(Exception):
    """A value depends on what is not known while the program is traced."""


@dataclass(frozen=True)
class Made:
    """A function that the program itself makes, of what it captured."""

    body: Any
    captured: Sequence[Any]


def is_known_function(value: Any) -> bool:
    """Whether a value is a function that can be applied here."""
    return isinstance(value, Closure | Made)


def worked_out(program: Any, values: Sequence[Any]) -> list[Any]:
    """The results of a program.  Raises `Unknown` where functions pass through another operation than a call."""
    return _worked_out(program, [*program.consts, *values])


def _worked_out(program: Any, values: Sequence[Any]) -> list[Any]:
    """The results of a program for these values of its constants and inputs."""
    if not any(map(concerns_functions, program.eqns)):
        count = len(program.constvars)
        return jax.core.eval_jaxpr(program, values[:count], *values[count:])
    env: dict[Any, Any] = dict(zip((*program.constvars, *program.invars), values, strict=True))
    read = lambda v: v.val if isinstance(v, jex.Literal) else env[v]
    for eqn in program.eqns:
        env.update(zip(eqn.outvars, _results(eqn, list(map(read, eqn.invars))), strict=True))
    return list(map(read, program.outvars))


def _results(eqn: Any, operands: list[Any]) -> Sequence[Any]:
    if eqn.primitive not in (lam_p, eval_p):
        if concerns_functions(eqn):
            raise Unknown
        results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
        return results if eqn.primitive.multiple_results else [results]
    if eqn.params["batch"]:
        raise Unknown
    if eqn.primitive is eval_p:
        return _applied(operands[0], operands[1:], eqn.params["type"])
    body = eqn.params["body"]
    return [Closure(body, Context(*operands)) if isinstance(body, Curry) else Made(body, operands)]


def _applied(f: Any, leaves: list[Any], type: Function) -> Sequence[Any]:
    """The leaves of f applied to an argument with these leaves."""
    if isinstance(f, Made):
        return _worked_out(f.body, [*f.captured, *leaves])
    if not isinstance(f, Closure) or any(isinstance(leaf, Made) for leaf in leaves):
        raise Unknown
    x = jax.tree.structure(type.dom).unflatten(leaves)
    return jax.tree.structure(type.cod).flatten_up_to(as_records(apply(f, as_records(x))))
