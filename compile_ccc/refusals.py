"""What a traced program may not do: equations that are no arrows, each with the error that says so."""

from __future__ import annotations

from itertools import chain
from typing import Any

import jax.extend.core as jex

from combinators.errors import DiffcurryError, FunctionArithmeticError, UnsupportedError, user_line
from compile_ccc import compat
from compile_ccc.carriers import eval_p, is_carrier, lam_p

_STRUCTURE = ("cond", "while", "select_n", "concatenate", "broadcast_in_dim", "squeeze", "dynamic_slice", "gather")
_REFUSED = ("io_callback", "ref_get", "ref_swap", "ref_addupdate", "get", "swap", "addupdate", "new_ref", "ref")


def concerns_functions(eqn: Any) -> bool:
    """Whether functions go in or out, or are made or applied in the bodies of an equation."""
    carriers = any(is_carrier(v.aval) for v in chain(eqn.invars, eqn.outvars))
    return carriers or any(map(holds_functions, jex.jaxprs_in_params(eqn.params)))


def check(eqn: Any, calls: list[Any]) -> None:
    """Raises the error of an equation that is no arrow over arrays."""
    refusal = _refusal(eqn)
    if refusal is not None:
        error, what, expected, got, hint = refusal
        raise error(what, expected=expected, got=got, hint=hint, line=line_of([e.source_info for e in (*calls, eqn)]))


def _refusal(eqn: Any) -> tuple[type[DiffcurryError], str, str, str, str] | None:
    name, bodies = eqn.primitive.name, list(jex.jaxprs_in_params(eqn.params))
    if any(is_carrier(v.aval) for v in chain(eqn.invars, eqn.outvars)):
        if name not in _STRUCTURE and not bodies:
            return (
                FunctionArithmeticError, f"{name} is applied to a function", "an array", "a function",
                "call it first: f(x) is an array where f is not",
            )  # fmt: skip
        return (
            UnsupportedError, f"a function passes through {name}", "arrays there", "a function",
            "apply the function on both sides, and let the results pass",
        )  # fmt: skip
    if name in _REFUSED or any("Ordered" in type(effect).__name__ for effect in eqn.effects):
        return (
            UnsupportedError, f"{name} has an effect whose order matters", "a pure program", name,
            "jax.debug.print and jax.pure_callback are allowed",
        )  # fmt: skip
    if any(map(holds_functions, bodies)):
        return (
            UnsupportedError, f"functions are made or applied inside {name}", "a body over arrays",
            f"function(...) or a call of a function value in the body of {name}",
            "make and apply functions outside of it; inside lax.scan and lax.cond they are allowed",
        )  # fmt: skip
    return None


def line_of(sources: list[Any]) -> str:
    """The user's line of an equation: the last of the calls around it, if the user wrote none in the program called."""
    return next(filter(None, (user_line(compat.frames(source)) for source in reversed(sources))), "")


def holds_functions(program: Any) -> bool:
    """Whether functions are made or applied in a program, at any depth."""
    return any(
        eqn.primitive in (lam_p, eval_p) or any(map(holds_functions, jex.jaxprs_in_params(eqn.params)))
        for eqn in program.eqns
    )
