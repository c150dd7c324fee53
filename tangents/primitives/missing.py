"""What is said of an operation for which JAX has no rule, or the user one that does not fit."""

from __future__ import annotations

from combinators.errors import LeakedFunctionError, NotDifferentiableError
from combinators.origins import source_line
from combinators.terms import Call, Primitive, While, subterms
from compile_ccc.jaxprs import compat
from compile_ccc.refusing.refusals import misfit, of_a_rule
from tangents.rows.page import REFUSED

_HINTS = {  # by the mode, and by words of JAX's reason
    "reverse": {
        "closed-over": "make what the function captures an argument of it; or state the pullback by "
        "custom(f, pullback)",
        "callback": "give it a derivative by custom(f, pullback) or jax.custom_vjp, or hold what it is given by "
        "lax.stop_gradient",
        "transpose_solve": "give custom_linear_solve its transpose_solve, or say that the map is symmetric",
        "": "give it a derivative: jax.custom_vjp around the operation, or tangents.define(name, meaning, pullbacks)",
    },
    "forward": {
        "callback": "wrap it in a jax.custom_jvp, or hold what it is given by lax.stop_gradient",
        "": "give it a derivative: jax.custom_jvp around the operation",
    },
}
_SEARCHES = {  # functions of JAX that halve an interval until the result is in it: the derivative of that is no help
    "eigh_tridiagonal": "use jnp.linalg.eigh of the whole matrix, which has a derivative",
}


def check_searched(term: Call) -> None:
    """Raises `NotDifferentiableError` for a function of JAX whose derivative is not that of the steps that it takes.

    It has a loop that ends by a condition, which a function of that name of the user's may not have.
    """
    if (hint := _SEARCHES.get(term.name)) and any(isinstance(f, While) for f in subterms(term.body)):
        raise NotDifferentiableError(
            f"{term.name} has no derivative",
            expected="a function that is worked out by operations with derivatives",
            got="one that finds its result by halving an interval",
            line=source_line(term),
            hint=hint,
        )


def reason(error: Exception) -> str:
    """Why there is no rule, in JAX's words.  An error that says another thing is raised."""
    if isinstance(error, LeakedFunctionError):
        raise of_a_rule(error) from error
    if not compat.says_no_rule(error):
        raise error
    return (str(error).strip() or "what it is given there may not vary").splitlines()[0]


def missing(term: Primitive, reason: str, mode: str) -> NotDifferentiableError:
    """The error for a primitive without a derivative in reverse or forward mode, for this reason of JAX's."""
    if reason.startswith(("Custom VJP", "Custom JVP")):
        return misfit(reason, source_line(term), term)
    hint = next(hint for words, hint in _HINTS[mode].items() if words in reason)
    return NotDifferentiableError(
        f"{term.name} has no {mode}-mode derivative",
        part=term,
        expected="a primitive that JAX can differentiate",
        got=reason,
        line=source_line(term),
        hint=(mode == "reverse" and REFUSED.get(term.name)) or hint,
    )
