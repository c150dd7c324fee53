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

from combinators.errors import BudgetError, UntypedFunctionError, definition_line
from combinators.meaning.recursion import Recurs
from compile_ccc.asking.tracers import running, ways

_MOST = 50_000  # operations on a way: loops run step by step there


@dataclass(frozen=True)
class _Choice:
    """A choice on the way: the call of JAX's that makes it, which branch was taken, and of how many."""

    call: Any
    branch: int
    count: int


class _Way:
    """A way through a function that takes these branches of the first choices, and the first one of all others."""

    def __init__(self, branches: list[int]):
        self._branches, self._trace, self._length = branches, None, 0
        self._made: list[_Choice] = []
        self.asked: Any = self  # nothing that answers for a trace

    def begin(self, trace: Any, asked: Any) -> None:
        """A trace begins, for which this answers: that of the way, which may begin once more, or one within it."""
        if running.get(id(self._trace)) is not self.asked:
            self._trace, self.asked, self._length, self._made = trace, asked, 0, []

    def branch(self, call: Any, count: int) -> int:
        """Which branch of so many runs; JAX asks more than once."""
        if self._made and self._made[-1].call is call:
            return self._made[-1].branch
        place = len(self._made)
        self._made.append(_Choice(call, self._branches[place] if place < len(self._branches) else 0, count))
        return self._made[-1].branch

    def operation(self) -> None:
        """Counts an operation.  Raises `BudgetError` if there are too many."""
        self._length += 1
        if self._length > _MOST:
            raise BudgetError(
                "a recursive function has long loops on the way on which the type of its result is looked for",
                expected=f"at most {_MOST} operations, with those of all steps",
                got="more",
                hint="state the type, fix(f, ..., codomain=C.Tensor())",
            )

    def next(self, around: set[int]) -> list[int] | None:
        """Which branches the next way takes, if these calls are around what ended this one; None if it was the last."""
        for i in reversed(range(len(self._made))):
            choice = self._made[i]
            if id(choice.call) in around and choice.branch + 1 < choice.count:
                return [*(before.branch for before in self._made[:i]), choice.branch + 1]
        return None


def founded[Found](trace: Callable[[], Found]) -> tuple[Found] | None:
    """What `trace`, of a function, gives on a way without calls of what nobody knows yet; None if there is no way."""
    branches: list[int] | None = []
    while branches is not None:
        way = _Way(branches)
        token = ways.set(way)
        try:
            with jax.disable_jit():
                return (trace(),)
        except Recurs as error:
            branches = way.next({id(frame) for frame, _ in traceback.walk_tb(error.__traceback__)})
        finally:
            ways.reset(token)
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
