"""Recursion: the domain of `fix(f)`, what f gets there, and where compiled code comes from.

    fix(f) (Δ·x) = f (Δ·self·x)    where self is the closure of fix(f) over Δ

Outside of traces that is what runs.  A traced value does not say when the recursion ends, so there the arrow is a
machine over arrays, which a package above makes of f.

Functions among the arguments and in the results are what they captured there, and which code they have is found as in
the state of a loop: f runs on types until its calls of itself add none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import jax

from combinators.context import Context, divided, extend
from combinators.errors import CompositionError, UnsupportedError, within
from combinators.meaning.joining import join, settled
from combinators.sums import Sum
from combinators.terms import Curry, Fix, Term
from combinators.types import Function, Type, type_of
from combinators.values import Closure, accepts

FRAMES = 400_000  # of Python's stack, for a recursion on the host: more than 10,000 calls of most functions


def parted(term: Fix, x: Any) -> tuple[Any, Any]:
    """Δ and τ of the domain Δ·τ, a context or a pair, of types or of values.  Raises `CompositionError`."""
    found = divided(x)
    if found is None:
        raise CompositionError(
            "fix finds no argument",
            part=term,
            expected="a context whose last entry is the argument, or a pair",
            got=type_of(x),
            hint="C.fix(f, argument, result) is the function value; prod(C.fix(...), x) >> eval applies it",
        )
    return found


def entered(term: Fix, x: Any) -> Any:
    """Δ·self·x: what the body gets."""
    ctx, argument = parted(term, x)
    return extend(extend(ctx, Closure(Curry(term, term.argument), ctx)), argument)


class Recurs(BaseException):
    """A call of a recursive function of which nobody knows yet what it gives; no user's `except` is meant by it."""


@dataclass(frozen=True, eq=False)
class Itself(Function):
    """The type of a recursive function within itself, which notes the types that it is called with.

    What it gives is `result`, None as long as that is not known.  It is equal to itself alone, so that nothing that is
    remembered of functions of its type stands for a call.
    """

    result: Type = None
    calls: list[Type] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def at(self, x: Type) -> Type:
        """The type of a call.  Raises `Recurs` where it is not known."""
        self.calls.append(x)
        if self.result is None:
            raise Recurs(self)
        return self.result


def typed(infer: Callable[[Term, Type], Type], term: Fix, x: Type) -> tuple[Type, Type]:
    """The domain of fix(f), with functions and sums as all that they may be in a call, and the type of what it gives.

    Raises `CompositionError` where types do not meet, and `UnsupportedError` where functions grow with every call.
    """
    ctx, argument = parted(term, x)
    if not accepts(term.argument, argument):
        raise CompositionError(
            "a recursive function is applied to an argument of another type",
            part=term,
            expected=term.argument,
            got=argument,
            hint="arguments are never cast: convert with convert_element_type, or state another domain",
        )
    if not _varies((term.argument, term.result)):
        itself = Function(term.argument, term.result)
        _checked(term, _given(infer, term, ctx, itself, term.argument))
        return x, term.result

    def more(known: Type) -> Type:
        argument, result = known
        itself = Itself(term.argument, term.result, result)
        found = _given(infer, term, ctx, itself, argument)
        _checked(term, found)
        return join([argument, *itself.calls], term), join([result, found], term)

    endless = lambda: UnsupportedError(
        "a function among the arguments or in the result of a recursion grows with every call",
        part=term,
        expected="a function that is one of a few, however deep the recursion is",
        got="a function that captures the function of the call before, without end",
        hint="hand on arrays, and make the function from them where it is called: a continuation is what waits, and "
        "the recursion itself keeps that",
    )
    argument, found = settled((argument, None if _varies(term.result) else term.result), more, endless)
    return (extend(ctx, argument) if isinstance(x, Context) else (ctx, argument)), found


def _varies(type: Type) -> bool:
    """Whether there are functions or sums in a type, of which there are several that it accepts."""
    some = lambda t: isinstance(t, Function | Closure | Sum)
    return any(map(some, jax.tree.leaves(type, is_leaf=some)))


def _given(infer: Callable[[Term, Type], Type], term: Fix, ctx: Any, itself: Function, argument: Type) -> Type:
    """The type of f (Δ·self·x)."""
    try:
        with within(0):
            return infer(term.body, extend(extend(ctx, itself), argument))
    except Recurs as error:
        if error.args[0] is not itself:  # but a recursion around this one
            raise
        raise CompositionError(
            "a recursive function calls itself whichever branches are taken",
            part=term,
            expected="a branch that gives a result without a call of the function itself",
            got="a call of itself on every way through it",
            hint="end the recursion in a branch of a case",
        ) from None


def _checked(term: Fix, found: Type) -> None:
    if not accepts(term.result, found):
        raise CompositionError(
            "a recursive function gives another type than is stated",
            part=term,
            expected=term.result,
            got=found,
            hint="state the codomain that the branches without calls of itself give, or convert what they give",
        )


@singledispatch
def machine(term: Any, type: Any) -> tuple[Term, Type, Any]:
    """(f, domain, form): the recursion at x, a value of this type, is f at the leaves of x, widened to the domain.

    f is an arrow from a context that holds the tuple of these leaves to the leaves of the result, which has this form.
    `compile_ccc.recursion` makes it.
    """
    raise UnsupportedError(
        "a recursion is compiled by what traces functions",
        part=term,
        expected="values that are known, at which the recursion runs on the host",
        got=type,
        hint="import compile_ccc, or tangents",
    )
