"""Rules of `jax.custom_jvp` and `jax.custom_vjp` as programs, of which what they captured is an argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from combinators import staging
from compile_ccc.jaxprs import compat
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


def with_tangents(
    value: Callable[[Any, Any], Any], rules: dict[tuple[bool, ...], Callable[[Any, Any], list[Any]]], zeros: Any = None
) -> Callable[[Any, Any], Any]:
    """The function `value` of what is held and of operands, with programs as its rule for tangents.

    Each of the `rules` is for the tangents of these operands: the first for all that there can be, the last for fewer,
    where no others arrive.  Of what is held, of operands and of tangents, it gives the results, and those of their
    tangents that are not said to be `zeros`.  What is held is a pair: what the rules alone captured, and the rest, by
    which there is no derivative.
    """
    every, *_, some = (*rules, *rules)
    call = jax.custom_jvp(value)

    def of_tangents(primals: Any, tangents: Any) -> Any:
        (held, operands), (of_held, given) = primals, tangents
        if not all(isinstance(t, SymbolicZero) for t in jax.tree.leaves(of_held[1])):
            raise compat.knows_no_closed_over()
        is_zero = [isinstance(t, SymbolicZero) for t in given]
        fits = all(p or zero for p, zero in zip(some, is_zero, strict=True))
        present = some if fits else every
        results = rules[present](held, [*operands, *compress(map(written, given), present)])
        count = len(results) // 2 if zeros is None else len(zeros)
        y, t = results[:count], iter(results[count:])
        zero = lambda x: SymbolicZero(jax.typeof(x).to_tangent_aval())
        return y, [zero(x) if z else next(t) for x, z in zip(y, zeros or [False] * count, strict=True)]

    call.defjvp(of_tangents, symbolic_zeros=True)
    return lambda held, operands: call(held, list(operands))


def written(t: Any) -> Any:
    """A tangent, zeros written out."""
    return _zeros(t) if isinstance(t, SymbolicZero) else t


def _zeros(like: Any) -> Any:
    return (np if like.dtype == jax.dtypes.float0 else jnp).zeros(like.shape, like.dtype)


def with_cotangents(
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
