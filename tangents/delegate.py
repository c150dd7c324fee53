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

from combinators.errors import NotDifferentiableError
from combinators.origins import source_line
from combinators.primitives import bind
from combinators.terms import Primitive
from combinators.types import shape_struct, type_of
from compile_ccc import compat
from compile_ccc.programs import Program
from compile_ccc.recorder import written
from compile_ccc.recording import operation
from tangents.rows_page import REFUSED

_RULE = "correct the rule: of jax.custom_jvp a pair, of jax.custom_vjp one cotangent for each argument, as a tuple"
_HINTS = {  # by words of JAX's reason
    "closed-over": "make what the function captures an argument of it; or state the pullback by custom(f, pullback)",
    "loop": "loops with a static trip count (lax.scan, fori_loop) and custom_vjp functions have derivatives",
    "callback": "give it a derivative by custom(f, pullback) or jax.custom_vjp, or hold what it is given by "
    "lax.stop_gradient",
    "transpose_solve": "give custom_linear_solve its transpose_solve, or say that the map is symmetric",
    "Custom VJP": _RULE,
    "Custom JVP": _RULE,
    "": "give it a derivative: jax.custom_vjp around the operation, or tangents.define(name, meaning, pullbacks)",
}


@dataclass(frozen=True)
class Refused:
    """What stands for the program backward of a primitive for which JAX has no rule."""

    reason: str

    def error(self, term: Primitive) -> NotDifferentiableError:
        """What a cotangent that arrives at the primitive raises."""
        return NotDifferentiableError(
            f"{term.name} has no reverse-mode derivative",
            part=term,
            expected="a primitive that JAX can differentiate",
            got=self.reason,
            line=source_line(term),
            hint=REFUSED.get(term.name) or next(hint for word, hint in _HINTS.items() if word in self.reason),
        )


def delegated(
    term: Primitive, types: tuple[Any, ...], asked: tuple[int, ...]
) -> tuple[Program, Callable[[tuple[int, ...]], Program | Refused]]:
    """The program forward: arguments ↦ results, residuals; and backward(present), for the results whose cotangents
    arrive: residuals, these cotangents ↦ those of the asked-for arguments.

    Without a rule of JAX for the primitive, there are no residuals, and backward is `Refused`.
    """
    trees: list[Any] = []

    def forward(*arguments: Any) -> Any:
        def of_asked(*values: Any) -> list[Any]:
            full = list(arguments)
            for i, value in zip(asked, values, strict=True):
                full[i] = value
            return jax.tree.leaves(bind(term, tuple(full)))

        y, pb = jax.vjp(of_asked, *(arguments[i] for i in asked))
        residuals, tree = jax.tree.flatten(pb)
        trees[:] = [tree, [type_of(r) for r in y], [type_of(r) for r in residuals]]
        return [*y, *residuals]

    def backward(present: tuple[int, ...]) -> Program | Refused:
        def pull(*values: Any) -> Any:
            residuals, cotangents = values[: len(trees[2])], dict(zip(present, values[len(trees[2]) :], strict=True))
            g = [cotangents[i] if i in cotangents else compat.zero(t) for i, t in enumerate(trees[1])]
            found = trees[0].unflatten(residuals)(g)
            return [_of_dtype(types[i].dtype, c) for i, c in zip(asked, found, strict=True)]

        try:
            return written(pull, *map(shape_struct, (*trees[2], *(trees[1][i] for i in present))))
        except Exception as error:
            return _refusal(error)

    try:
        return written(forward, *types), backward
    except Exception as error:
        refusal = _refusal(error)
        return operation(term, types), lambda _: refusal


def _refusal(error: Exception) -> Refused:
    """That JAX has no rule, if that is what the error says."""
    if not compat.says_no_rule(error):
        raise error
    return Refused(str(error).strip().splitlines()[0])


def _of_dtype(dtype: Any, g: Any) -> Any:
    """The cotangent of an argument of this dtype.  JAX takes any other one from the rule of a `jax.custom_vjp`."""
    g = jnp.asarray(g)  # a rule may give Python's numbers
    if g.dtype == dtype:
        return g
    if jnp.issubdtype(g.dtype, np.complexfloating) and not jnp.issubdtype(dtype, np.complexfloating):
        raise TypeError(f"Custom VJP bwd rule must produce real cotangents of a {dtype}, but gives {jax.typeof(g)}")
    return lax.convert_element_type(g, dtype)
