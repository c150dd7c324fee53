"""How large terms are, and which of their parts get names in a text that is no longer than the term is large.

A term shares its parts: 60 doublings are 121 combinators, which would be 2^60 if each was written where it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from combinators.depth import bottom_up
from combinators.terms import Term, parts

_SHORT, _SHALLOW = 400, 48  # terms of so many combinators, and no deeper, are written out
_WORTH_A_NAME = 5  # combinators
_LEVELS = 24  # of a deep term that are written inside each other

type Lengths = dict[Term, int]


def length(term: Term, known: Lengths | None = None) -> int:
    """How many combinators are read when the term is read once, shared parts as often as they are used."""
    return bottom_up(term, parts, lambda _, inner: 1 + sum(inner), {} if known is None else known)


def is_short(term: Term, known: Lengths) -> bool:
    """Whether a term is written out, whatever it shares."""
    return length(term, known) <= _SHORT and term.depth <= _SHALLOW


def names(term: Term, shown: Callable[[Term], Sequence[Term]]) -> dict[Term, str]:
    """Names for parts of a long term, in the order of their first use, of those parts that are shown.

    A part has one if it is used at several places, and if it is some levels above the innermost.
    """
    lengths: Lengths = {}
    if is_short(term, lengths):
        return {}
    order: dict[Term, None] = {}
    uses = Counter[Term]()
    todo = [term]
    while todo:
        part = todo.pop()
        if part not in order:
            order[part] = None
            inner = shown(part)
            uses.update(inner)
            todo += reversed(inner)
    worth = [p for p in order if p is not term and lengths[p] >= _WORTH_A_NAME]
    named = [p for p in worth if uses[p] > 1 or p.depth % _LEVELS == 0]
    return {part: f"f{i}" for i, part in enumerate(named, 1)}
