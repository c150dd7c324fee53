"""The type of what a recursive function gives, found on a way through it that does not call the function itself.

A function is traced along one way: each choice runs one branch, and a call of itself leaves the way.  The next one
takes another branch of the last choice that this call was in.  So each branch is tried once for what was before it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from combinators.errors import UntypedFunctionError, definition_line
from combinators.meaning.recursion import Recurs
from compile_ccc.asking.tracers import chooses


@dataclass(frozen=True)
class _Choice:
    """A choice on the way: the call of JAX's that makes it, which branch was taken, and of how many."""

    call: Any
    branch: int
    count: int


def founded[Found](trace: Callable[[], Found]) -> tuple[Found] | None:
    """What `trace`, of a function, gives on a way without calls of what nobody knows yet; None if there is no way."""
    plan: list[int] | None = []
    while plan is not None:
        made: list[_Choice] = []

        def choose(call: Any, count: int, plan: list[int] = plan, made: list[_Choice] = made) -> int:
            before = next((c.branch for c in made if c.call is call), None)
            if before is not None:
                return before
            branch = plan[len(made)] if len(made) < len(plan) else 0
            made.append(_Choice(call, branch, count))
            return branch

        token = chooses.set(choose)
        try:
            with jax.disable_jit():
                return (trace(),)
        except Recurs as error:
            plan = _next(made, {id(frame) for frame, _ in traceback.walk_tb(error.__traceback__)})
        finally:
            chooses.reset(token)
    return None


def _next(made: list[_Choice], around: set[int]) -> list[int] | None:
    """Which branches the next way takes, if these calls are around what ended this one; None if it was the last."""
    for i in reversed(range(len(made))):
        if id(made[i].call) in around and made[i].branch + 1 < made[i].count:
            return [*(choice.branch for choice in made[:i]), made[i].branch + 1]
    return None


def endless(f: Any) -> UntypedFunctionError:
    """The error for a function that calls itself on every way through it."""
    return UntypedFunctionError(
        "a recursive function calls itself whichever branches are taken",
        expected="a branch of lax.cond or lax.switch that gives a result without a call of the function itself",
        got="a call of itself on every way through it",
        line=definition_line(f),
        hint="end the recursion in a branch, outside of jax.vmap and jax.checkpoint; jnp.where computes both of its "
        "arguments, so it ends none",
    )
