"""Fixpoints: what is tried with more and more, until it asks for no more."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from combinators.memo import Table


def fixpoint[Marks, Result](marks: Marks, attempt: Callable[[Marks], tuple[Marks, Result]]) -> tuple[Marks, Result]:
    """The first marks that an attempt leaves as they are, and what it gives there.

    An attempt at some marks gives the next ones, which hold no less, and a result.  So this ends where there is an end
    to what marks can hold: they say of each leaf of a state whether some step of a loop gives it a tangent, for one.
    """
    while True:
        reached, result = attempt(marks)
        if reached == marks:
            return marks, result
        marks = reached


def either(flags: Iterable[bool], others: Iterable[bool]) -> list[bool]:
    """Where one of two lists of flags is set; what is left over of the longer one does not count."""
    return [a or b for a, b in zip(flags, others, strict=False)]


class Fixpoints[Marks]:
    """Fixpoints by what they depend on: the next time each is the first attempt, or loops in loops would unfold."""

    def __init__(self, name: str):
        self._known: Table[Any, Marks] = Table(name, entries=1024)

    def of[Result](
        self, key: Hashable, marks: Marks, attempt: Callable[[Marks], tuple[Marks, Result]]
    ) -> tuple[Marks, Result]:
        """The fixpoint of this key, from these marks on."""
        before = self._known.get(key)
        found, result = fixpoint(marks if before is None else before, attempt)
        self._known.put(key, found)
        return found, result
