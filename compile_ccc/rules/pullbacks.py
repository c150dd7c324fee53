"""Rules of `jax.custom_vjp` as two programs, forward and backward, of which what they captured is an argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from combinators import staging
from compile_ccc.rules.prefixes import checked_rule

type _Rule = tuple[Callable[[Sequence[Any], list[Any]], list[Any]], list[Any]]  # of what it captured, with what that is
type Places = Sequence[int | None]  # of the residuals among the operands; None for those that the forward program gives


def residuals(kept: Sequence[Any], xs: Sequence[Any], places: Places) -> list[Any]:
    """All residuals, of those that the forward program gives and its operands."""
    rest = iter(kept)
    return [next(rest) if place is None else xs[place] for place in places]


def backward(
    bwd: Any, types: Sequence[Any], seen: Callable[..., Any] = lambda f, *xs: f(*xs)
) -> tuple[Any, list[bool]]:
    """The program of JAX's `bwd` on residuals and cotangents of these types, and which of its results are zeros.

    These are no outputs of the program.  The rule is `seen` by what runs it on tracers.
    """
    bwd, zeros = checked_rule(bwd), list[bool]()

    def pull(*xs: Any) -> list[Any]:
        found = bwd.call_wrapped(*xs)
        found = found if isinstance(found, list) else found[0]
        zeros[:] = [not hasattr(g, "dtype") and not isinstance(g, int | float | complex) for g in found]
        return [g for g, zero in zip(found, zeros, strict=True) if not zero]

    return staging.program(lambda *xs: seen(pull, *xs), types), zeros


def with_programs(
    value: Callable[[Any], Any], forward: _Rule, pulled: _Rule, zeros: Sequence[bool], places: Places
) -> tuple[Callable[..., Any], list[Any]]:
    """The function `value` of operands, with these programs as its rule, and what both captured.

    The function takes what is captured first.  `forward` gives the residuals that are no operands, and the results.
    """
    (to, of_forward), (back, of_backward) = forward, pulled
    count, split = places.count(None), len(of_forward)
    call = jax.custom_vjp(lambda captured, operands: value(operands))

    def of_values(captured: Any, operands: Any) -> Any:
        found = to(captured[:split], operands)
        return found[count:], (captured[split:], residuals(found, operands, places))

    def of_cotangents(kept: Any, cotangents: Any) -> Any:
        captured, kept = kept
        found = iter(back(captured, [*kept, *cotangents]))
        return None, [None if zero else next(found) for zero in zeros]

    call.defvjp(of_values, of_cotangents)
    return lambda captured, operands: call(tuple(captured), list(operands)), [*of_forward, *of_backward]
