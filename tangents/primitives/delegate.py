"""Primitives without a row of their own: JAX's rule for that one primitive.

The rule is read off `jax.vjp` of the single operation as two programs, forward (arguments to results and residuals) and
backward (residuals and cotangents to cotangents), for each primitive, types and set of asked-for arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from combinators.errors import ArgumentError
from combinators.origins import source_line
from combinators.primitives import bind
from combinators.terms import Primitive
from combinators.types import same_type, shape_struct, type_of
from compile_ccc.jaxprs import compat
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import written
from compile_ccc.rules.last_run import LastRun
from compile_ccc.rules.prefixes import checked
from tangents.primitives.missing import reason


@dataclass(frozen=True)
class Refused:
    """What stands for the program backward of a primitive for which JAX has no rule, for JAX's reason.

    A cotangent that arrives there raises an error.
    """

    reason: str


def delegated(
    term: Primitive, plain: Program, types: tuple[Any, ...], asked: tuple[int, ...]
) -> tuple[Program, Callable[[tuple[int, ...]], Program | Refused]]:
    """The program forward: arguments ↦ results, residuals; and backward(present), for the results whose cotangents
    arrive: residuals, these cotangents ↦ those of the asked-for arguments.

    Without a rule of JAX for the primitive, there are no residuals, and backward is `Refused`; forward is `plain` then,
    the program of the primitive alone.
    """
    trees: list[Any] = []
    last = LastRun(dict(term.params))

    def forward(*arguments: Any) -> Any:
        def of_asked(*values: Any) -> list[Any]:
            full = list(arguments)
            for i, value in zip(asked, values, strict=True):
                full[i] = value
            compat.check_closed_over(dict(term.params), asked)
            return jax.tree.leaves(bind(checked(term), tuple(full)))

        last.forget()
        y, pb = jax.vjp(of_asked, *(arguments[i] for i in asked))
        last.keep()
        residuals, tree = jax.tree.flatten(pb)
        trees[:] = [tree, [type_of(r) for r in y], [type_of(r) for r in residuals]]
        return [*y, *residuals]

    def backward(present: tuple[int, ...]) -> Program | Refused:
        def pull(*values: Any) -> Any:
            residuals, cotangents = values[: len(trees[2])], dict(zip(present, values[len(trees[2]) :], strict=True))
            g = [cotangents[i] if i in cotangents else compat.zero(t) for i, t in enumerate(trees[1])]
            last.restore()
            found = trees[0].unflatten(residuals)(g)
            return [_of_dtype(types[i].dtype, c) for i, c in zip(asked, found, strict=True)]

        try:
            return written(pull, *map(shape_struct, (*trees[2], *(trees[1][i] for i in present))))
        except Exception as error:
            return Refused(reason(error))

    try:
        program = written(forward, *types)
    except Exception as error:
        refusal = Refused(reason(error))
        return plain, lambda _: refusal
    agree(term, plain, program)
    return program, backward


def agree(term: Primitive, plain: Program, ruled: Program) -> None:
    """Raises `ArgumentError` if the results that a rule gives first are of other types than those of the primitive."""
    expected, got = ([type_of(v.aval) for v in p.outputs[: len(plain.outputs)]] for p in (plain, ruled))
    if not same_type(expected, got):
        raise ArgumentError(
            "the rule of a derivative gives another type than its function",
            part=term,
            expected=expected,
            got=got,
            line=source_line(term),
            hint="if it is mapped: let the result of the function depend on the argument that is mapped, as the rule's",
        )


def _of_dtype(dtype: Any, g: Any) -> Any:
    """The cotangent of an argument of this dtype.  JAX takes any other one from the rule of a `jax.custom_vjp`."""
    g = jnp.asarray(g)  # a rule may give Python's numbers
    if g.dtype == dtype:
        return g
    if jnp.issubdtype(g.dtype, np.complexfloating) and not jnp.issubdtype(dtype, np.complexfloating):
        raise TypeError(f"Custom VJP bwd rule must produce real cotangents of a {dtype}, but gives {jax.typeof(g)}")
    return lax.convert_element_type(g, dtype)
