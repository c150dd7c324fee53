"""What a traced program may not do: equations that are no arrows, each with the error that says so."""

from __future__ import annotations

from typing import Any

import jax.core
import jax.extend.core as jex

from combinators.errors import (
    DiffcurryError,
    FunctionArithmeticError,
    LeakedFunctionError,
    NotDifferentiableError,
    UnsupportedError,
    user_line,
)
from compile_ccc.carriers import eval_p, is_carrier, lam_p
from compile_ccc.jaxprs import compat

_STRUCTURE = (
    "cond",
    "while",
    "select_n",
    "concatenate",
    "broadcast_in_dim",
    "squeeze",
    "dynamic_slice",
    "gather",
    "rev",
    "slice",
)
_PRINTING = ("debug_print", "debug_callback")  # once, forward, in the order in which they stand


def concerns_functions(eqn: Any) -> bool:
    """Whether functions go in or out of an equation, or are made or applied in its bodies."""
    return passes_functions(eqn) or has_functions_inside(eqn)


def passes_functions(eqn: Any) -> bool:
    """Whether functions go in or out of an equation."""
    return True in [is_carrier(v.aval) for v in (*eqn.invars, *eqn.outvars)]


def has_functions_inside(eqn: Any) -> bool:
    """Whether functions are made or applied in the bodies of an equation."""
    return any(map(holds_functions, jex.jaxprs_in_params(eqn.params)))


def check_effects(eqn: Any, calls: list[Any]) -> None:
    """Raises the error of an equation with an effect whose order matters, or of which a program may not have more."""
    name = eqn.primitive.name
    ordered = True in ["Ordered" in type(effect).__name__ for effect in eqn.effects]
    if name in _PRINTING or not (ordered or name == "io_callback"):
        return
    raise UnsupportedError(
        f"{name} has an effect whose order matters" if ordered
        else f"{name} acts on what is outside of the program, each time it runs",
        expected="a pure program", got=name, line=line_at(eqn, calls),
        hint="jax.debug.print and jax.debug.callback, in order or not, and jax.pure_callback are allowed",
    )  # fmt: skip


def check_captured(program: Any) -> None:
    """Raises the error of a program that reads or writes a ref which is made outside of it."""
    for v in program.constvars:
        if not isinstance(v.aval, jax.core.ShapedArray):
            eqn = next(eqn for eqn in program.eqns if any(v is operand for operand in eqn.invars))
            raise of_outside(v.aval, line_at(eqn, []))


def of_outside(got: Any, line: str | None) -> UnsupportedError:
    """The error of a program that may read or write a ref which is made outside of it."""
    return UnsupportedError(
        "a ref that is made outside of a program changes while the program runs",
        expected="refs that are made in the function that is traced, or derived",
        got=got,
        line=line,
        hint="read it outside, hand in the value, and write what comes out into it",
    )


def refused(eqn: Any, calls: list[Any]) -> DiffcurryError:
    """The error of an equation that functions cannot cross."""
    name, bodies = eqn.primitive.name, list(jex.jaxprs_in_params(eqn.params))
    if not passes_functions(eqn):
        return UnsupportedError(
            f"functions are made or applied inside {name}",
            expected="a body over arrays",
            got=f"function(...) or a call of a function value in the body of {name}",
            line=line_at(eqn, calls),
            hint="make and apply functions outside of it; inside lax.scan and lax.cond they are allowed",
        )
    if name not in _STRUCTURE and not bodies:
        return FunctionArithmeticError(
            f"{name} is applied to a function",
            expected="an array",
            got="a function",
            line=line_at(eqn, calls),
            hint="call it first: f(x) is an array where f is not",
        )
    return UnsupportedError(
        f"a function passes through {name}",
        expected="arrays there",
        got="a function",
        line=line_at(eqn, calls),
        hint="apply the function on both sides, and let the results pass",
    )


def of_a_rule(error: LeakedFunctionError) -> UnsupportedError:
    """In the place of the error that a function value raises in the rule of a function, which JAX runs on its own."""
    return UnsupportedError(
        "a rule of jax.custom_jvp or jax.custom_vjp was given, or captured, a function value of the program",
        expected="arrays, and functions of Python",
        got=error.got,
        line=error.line,
        hint="custom(f, pullback), of tangents, is for functions of functions: their cotangents are their calls",
    )


def line_at(eqn: Any, calls: list[Any]) -> str:
    """The user's line of an equation, inside of these calls."""
    return line_of(sources(eqn, calls))


def sources(eqn: Any, calls: list[Any]) -> tuple[Any, ...]:
    """Where a program has an equation: JAX's words for the calls around it, and for itself."""
    return tuple([e.source_info for e in (*calls, eqn)])


def line_of(sources: tuple[Any, ...]) -> str:
    """The user's line of an equation: the last of the calls around it, if the user wrote none in the program called."""
    return next(filter(None, (user_line(compat.frames(source)) for source in reversed(sources))), "")


def holds_functions(program: Any) -> bool:
    """Whether functions are made or applied in a program, at any depth."""
    return any(eqn.primitive in (lam_p, eval_p) or has_functions_inside(eqn) for eqn in program.eqns)


def misfit(reason: str, line: str | None, term: Any = None) -> NotDifferentiableError:
    """The error for a rule that gives something else than JAX asks of it."""
    return NotDifferentiableError(
        "the rule of a derivative does not fit its function",
        part=term,
        expected="a rule that gives what its function asks for",
        got=reason,
        line=line,
        hint="correct the rule: of jax.custom_jvp a pair, "
        "of jax.custom_vjp one cotangent for each argument, as a tuple",
    )
