"""Holes: the places of Python functions, and of function values, in the term of an arrow that waits for its domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from combinators.depth import bottom_up
from combinators.errors import ArgumentError
from combinators.terms import Call, Case, Checkpoint, Compose, Curry, Extend, Fix, Operator, Prod, Term, parts


class Instance:
    """What stands in an operator whose arrow is not known yet; each is one of its own."""

    constant = False

    def at(self, leaves: tuple[Any, ...], form: Any) -> Any:
        """See `Operator`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Hole(Instance):
    """The place of a Python function, or of a function value, in the term of an arrow."""

    f: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hole) and other.f is self.f

    def __hash__(self) -> int:
        return id(self.f)

    def at(self, leaves: tuple[Any, ...], form: Any) -> Any:
        """A term with holes is none yet."""
        raise ArgumentError(
            "this term has a hole, in the place of a function",
            expected="the arrow that holds the function",
            got=str(self),
            hint="trace(f, domain).term is a term, of an arrow f",
        )

    def __str__(self) -> str:
        return f"ccc({getattr(self.f, '__name__', self.f)})"


def functions_in(term: Term, known: dict[Term, tuple[Any, ...]] | None = None) -> tuple[Any, ...]:
    """The functions that stand in the holes of a term, each once; `known` are those of terms looked at before."""
    return bottom_up(term, parts, _functions, {} if known is None else known)


def _functions(term: Term, inner: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    match term:
        case Operator(Hole(f)):
            return (f,)
        case _:
            return tuple({id(f): f for functions in inner for f in functions}.values())


def with_others(term: Term, others: Sequence[Any]) -> Term:
    """The term with other functions in its holes, in the order of `functions_in`."""
    by_identity = {id(f): other for f, other in zip(functions_in(term), others, strict=True)}
    return bottom_up(term, parts, lambda f, inner: _with(f, inner, by_identity), {})


def _with(term: Term, inner: list[Term], others: dict[int, Any]) -> Term:
    match term:
        case Operator(Hole(f)):
            return Operator(Hole(others[id(f)]))
        case Compose():
            return Compose(tuple(inner))
        case Prod(_, form):
            return Prod(tuple(inner), form)
        case Case():
            return Case(tuple(inner))
        case Extend():
            return Extend(*inner)
        case Curry() | Call() | Checkpoint() | Fix():
            return replace(term, body=inner[0])
        case _:
            return term
