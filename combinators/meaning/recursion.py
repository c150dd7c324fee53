"""Recursion: the domain of `fix(f)`, what f gets there, and where compiled code comes from.

    fix(f) (Δ·x) = f (Δ·self·x)    where self is the closure of fix(f) over Δ

Outside of traces that is what runs.  A traced value does not say when the recursion ends, so there the arrow is a
machine over arrays, which a package above makes of f.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import jax
import jax.core

from combinators.context import Context, extend
from combinators.errors import CompositionError, UnsupportedError, within
from combinators.terms import Curry, Fix, Term
from combinators.types import Function, Type, type_of
from combinators.values import Closure, accepts

FRAMES = 400_000  # of Python's stack, for a recursion on the host: more than 10,000 calls of most functions


def parted(term: Fix, x: Any) -> tuple[Any, Any]:
    """Δ and τ of the domain Δ·τ, a context or a pair, of types or of values.  Raises `CompositionError`."""
    match x:
        case Context() if len(x):
            return Context(*list(x)[:-1]), x[-1]
        case (ctx, argument):
            return ctx, argument
        case _:
            raise CompositionError(
                "fix finds no argument",
                part=term,
                expected="a context whose last entry is the argument, or a pair",
                got=type_of(x),
                hint="C.fix(f, argument, result) is the function value; prod(C.fix(...), x) >> eval applies it",
            )


def entered(term: Fix, x: Any) -> Any:
    """Δ·self·x: what the body gets."""
    ctx, argument = parted(term, x)
    return extend(extend(ctx, Closure(Curry(term, term.argument), ctx)), argument)


def result(infer: Callable[[Term, Type], Type], term: Fix, x: Type) -> Type:
    """The type of fix(f), which is stated, and is that of f.  Raises `CompositionError` if it is not."""
    ctx, argument = parted(term, x)
    if not accepts(term.argument, argument):
        raise CompositionError(
            "a recursive function is applied to an argument of another type",
            part=term,
            expected=term.argument,
            got=argument,
            hint="arguments are never cast: convert with convert_element_type, or state another domain",
        )
    with within(0):
        found = infer(term.body, extend(extend(ctx, Function(term.argument, term.result)), term.argument))
    if not accepts(term.result, found):
        raise CompositionError(
            "a recursive function gives another type than is stated",
            part=term,
            expected=term.result,
            got=found,
            hint="state the codomain that the branches without calls of itself give, or convert what they give",
        )
    return term.result


def is_traced(x: Any) -> bool:
    """Whether JAX traces some value in x."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(x))


def machine(term: Fix, x: Any, type: Any) -> tuple[Term, Context, Any]:
    """(f, ctx, form): the recursion at x, of this type, is f at ctx, and its result has these leaves and this form."""
    code, form = compiled(term, type)
    return code.body, Context(tuple(jax.tree.leaves(x))), form


@singledispatch
def compiled(term: Any, type: Any) -> tuple[Curry, Any]:
    """(code, form): the recursion on a domain of this type, as code from its leaves to those of the result.

    `compile_ccc.recursion` makes it.
    """
    raise UnsupportedError(
        "a recursion is compiled by what traces functions",
        part=term,
        expected="values that are known, at which the recursion runs on the host",
        got=type,
        hint="import compile_ccc, or tangents",
    )
