"""What a trace knows of the code that it made: how its program calls what is captured, and at which lines it does what.

It is read off the λ-term when a reader asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from combinators.origins import Origin, Table, joint
from combinators.terms import Curry, Term
from compile_ccc.lambda_terms import Again, Arrow, Block, Lam, Match
from compile_ccc.refusing.refusals import line_of
from compile_ccc.translate import translate


class Program(Origin):
    """The origin of functions that a traced program is, and makes."""

    def __init__(self, lam: Lam):
        self.lam = lam

    def names(self, code: Curry) -> tuple[str, ...] | None:
        """Those of an abstraction in the program; if it has equal ones over variables of other names, not known."""
        return self._names.names(code)

    @cached_property
    def _names(self) -> Origin:
        own = [Table({translate(e).body: e.names}) for e in _parts(self.lam) if isinstance(e, Lam)]
        return joint([*own, *(e.origin for e in self._arrows)])

    def __reduce__(self) -> Any:
        return joint, ([self._names],)

    @property
    def _arrows(self) -> Iterator[Arrow]:
        return (e for e in _parts(self.lam) if isinstance(e, Arrow))

    def lines(self, term: Term) -> Iterator[str]:
        for e in self._arrows:
            if e.term is term:
                yield line_of(e.sources)
            for line in e.origin.lines(term):
                yield line or line_of(e.sources)


def _parts(lam: Lam) -> Iterator[Lam | Arrow]:
    """The abstractions and arrows in a λ-term, with itself, in the order of the program."""
    waiting: list[Lam | Block] = [lam]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Lam):
            yield part
            waiting.append(part.body)
            continue
        inner: list[Lam | Block] = []
        for _, e in part.bindings:
            match e:
                case Arrow():
                    yield e
                case Lam():
                    inner.append(e)
                case Match(_, branches):
                    inner += [branch.body for branch in branches]
                case Again(body):
                    inner.append(body)
                case _:
                    pass
        waiting += reversed(inner)
