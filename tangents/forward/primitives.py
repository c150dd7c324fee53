"""Forward mode of primitives: a row's pushforward if there is a row, else JAX's rule for that one primitive.

    D[op] (x, x') = (op x, push x')

The two are written down as one program for each primitive, types of arguments and set of active arguments, which is
copied from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np

from combinators import staging
from combinators.memo import remembered
from combinators.primitives import bind, operands
from combinators.terms import Primitive
from combinators.types import is_discrete, type_of
from compile_ccc.jaxprs import compat
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import aval_of, written
from compile_ccc.jaxprs.recording import operation, record, run
from compile_ccc.rules.prefixes import checked
from tangents.control.transposes import transposed
from tangents.cotangents.sparse import ZERO
from tangents.duals import Dual, dual
from tangents.primitives.delegate import agree
from tangents.primitives.missing import missing, reason
from tangents.represent import by_environment
from tangents.rows.kinds import Constant
from tangents.rows.table import Row, Rule, push_of, row_at, row_of


@dataclass(frozen=True, eq=False)
class Pushforward:
    """`program`: arguments, tangents of those with the numbers `of` ↦ results, tangents of those with the numbers `to`.

    `form` is that of the result.
    """

    program: Program
    form: Any
    of: tuple[int, ...] = ()
    to: tuple[int, ...] = ()


def primitive(term: Primitive, x: Any) -> Any:
    """D[op] at duals; tangents that are zero are left out on both sides."""
    marked = operands(x)
    arguments = [a.primal if isinstance(a, Dual) else a for a in marked]
    active = tuple([i for i, a in enumerate(marked) if isinstance(a, Dual)])
    types = tuple(map(aval_of, arguments))
    rule = _pushforward(term, row_of(term), active, types, staging.settings())
    values = run(rule.program, [*arguments, *(marked[i].tangent for i in rule.of)])
    count = rule.form.num_leaves
    return dual(rule.form.unflatten(values[:count]), dict(zip(rule.to, values[count:], strict=True)))


@remembered(entries=2048)
def _pushforward(
    term: Primitive, row: Row | Constant | None, active: tuple[int, ...], types: tuple[Any, ...], setting: Any
) -> Any:
    plain = operation(term, types, setting)
    real = tuple(i for i, v in enumerate(plain.outputs) if not is_discrete(type_of(v.aval)))
    row = row_at(row, types, dict(term.params))
    if not active or not real or row == ():
        return Pushforward(plain, plain.form)
    given = (*types, *(types[i] for i in active))
    if row is None:
        program = _delegated(term, active, real, len(types), given)
        agree(term, plain, program)
        count = plain.form.num_leaves
        places = [count + n for n in range(len(real)) if count + n in program.nonzero]
        to = tuple(real[n - count] for n in places)
        return Pushforward(program.only([*range(count), *places]), plain.form, active, to)
    numbers: list[int] = []

    def both(*values: Any) -> list[Any]:
        arguments, pushed = values[: len(types)], dict(zip(active, values[len(types) :], strict=True))
        y = bind(term, arguments)
        t = push_of(row)([pushed.get(i, ZERO) for i in range(len(types))], y, *arguments, **dict(term.params))
        parts: Sequence[Any] = t if isinstance(t, tuple) else (t,)
        numbers[:] = [i for i in real if i < len(parts) and parts[i] is not ZERO]
        return [*operands(y), *(parts[i] for i in numbers)]

    program = (record if isinstance(row, Rule) else written)(both, *given)
    return Pushforward(program, plain.form, active, tuple(numbers))


def _delegated(term: Primitive, active: tuple[int, ...], real: tuple[int, ...], n: int, types: Any) -> Program:
    """The program of a primitive and its tangents by JAX's rule for it, `jax.jvp` of the single operation.

    Of a rule that states a pullback only, it is the transpose of `jax.vjp` of the operation.
    """

    def of_active(values: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        full = list(values[:n])
        for i, value in zip(active, given, strict=True):
            full[i] = value
        compat.check_closed_over(dict(term.params), active)
        return list(operands(bind(checked(term), tuple(full))))

    def both(*values: Any) -> list[Any]:
        y, t = jax.jvp(lambda *given: of_active(values, given), [values[i] for i in active], list(values[n:]))
        return [*y, *(t[i] for i in real)]

    def by_transpose(*values: Any) -> list[Any]:
        """Of what states its pullback only: jax.custom_vjp, in whatever programs within the operation."""
        y, pull = jax.vjp(lambda *given: of_active(values, given), *(values[i] for i in active))
        results = tuple(map(type_of, y))  # what does not vary may be a number of Python's

        def linear(*g: Any) -> Any:
            given = dict(zip(real, g, strict=True))
            zero = lambda i: np.zeros(results[i].shape, jax.dtypes.float0 if i not in real else results[i].dtype)
            return pull([given[i] if i in given else zero(i) for i in range(len(y))])

        return [*y, *transposed(by_environment, linear, [results[i] for i in real])(*values[n:])]

    try:
        program = written(both, *types)
        return written(by_transpose, *types) if _meets(program.jaxpr, "custom_lin") else program
    except Exception as error:
        raise missing(term, reason(error), "forward") from None


def _meets(program: Any, name: str) -> bool:
    """Whether a program has an operation of this name, in whatever programs within it."""
    within = (inner for eqn in program.eqns for inner in jex.jaxprs_in_params(eqn.params))
    return any(eqn.primitive.name == name for eqn in program.eqns) or any(_meets(inner, name) for inner in within)
