"""Readings: the different things that one term means.

A reading is a value, so that users can add their own and have it checked against the laws: its name, its action on
types, its cases (what it makes of a term at a point), and when two of its results are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from combinators.errors import ArgumentError
from combinators.meaning.evaluate import evaluate
from combinators.meaning.infer import infer
from combinators.terms import Term
from combinators.types import Type, is_discrete, type_of
from combinators.values import accepts
from tangents.checking.differences import difference, settled, unsettled
from tangents.cotangents.calls import Calls
from tangents.cotangents.leaves import zero_leaf
from tangents.cotangents.sparse import release
from tangents.duals import activated, primal
from tangents.duals import dense as dense_tangent
from tangents.forward.forward import forward
from tangents.represent import rep
from tangents.spaces.edges import from_public
from tangents.spaces.public import SPACES
from tangents.spaces.space import Space

type Draw = Callable[[Type], Any]  # gives a value of a type


@dataclass(frozen=True)
class Reading:
    """One meaning of terms.

    `types(τ)` says what stands for the type τ.  `cases(term, x)` reads a term at a value x of what stands for its
    domain.
    `compare(left, right, codomain, draw)` says in words how two results differ, or gives None; `codomain` is the
    codomain that is claimed, free of functions, and `draw` gives values of types, such as cotangents.
    """

    name: str
    types: Callable[[Type], Type]
    cases: Callable[[Term, Any], Any]
    compare: Callable[[Any, Any, Type, Draw], str | None]


def _compare_types(left: Type, right: Type, codomain: Type, _: Draw) -> str | None:
    sides = (("left", left), ("right", right))
    wrong = [f"the {side} side has type {t} instead of {codomain}" for side, t in sides if not accepts(codomain, t)]
    return "; ".join(wrong) or None


def _compare_values(left: Any, right: Any, *_: Any) -> str | None:
    return difference(settled(left, left), settled(right, right))


TYPES = Reading("types", lambda t: t, lambda term, x: infer(term, type_of(x)), _compare_types)
MEANING = Reading("meaning", lambda t: t, evaluate, _compare_values)


def cotangent_of(drawn: Any) -> Any:
    """A value that was drawn as a cotangent: what is discrete has only the zero."""
    is_calls = lambda v: isinstance(v, Calls)
    return jax.tree.map(
        lambda v: v if is_calls(v) or not is_discrete(type_of(v)) else zero_leaf(v), drawn, is_leaf=is_calls
    )


def representation(space: Space) -> Reading:
    """The reading of a term as its representation function in a tangent space for functions: x ↦ (y, pullback)."""

    if not isinstance(space, Space):
        raise ArgumentError(
            "this is no tangent space",
            expected="a Space, such as SPACES['list']",
            got=repr(space),
            hint="SPACES has them by name",
        )

    def cases(term: Term, x: Any) -> tuple[Any, Callable[[Any], Any]]:
        marked = space.activate(x)
        y, pb = rep(space, term, marked)

        def pullback(g: Any) -> Any:
            cotangent = pb(from_public(cotangent_of(unsettled(g, release(y))), y, space))
            return settled(space.dense(cotangent, marked), x)

        return release(y), pullback

    def compare(left: Any, right: Any, _: Type, draw: Draw) -> str | None:
        (y, pb), (z, qb) = left, right
        values = _compare_values(y, z)
        if values:
            return f"values differ: {values}"
        g = draw(type_of(settled(y, y)))
        pullbacks = difference(pb(g), qb(g))
        return pullbacks and f"pullbacks differ at the cotangent {g}: {pullbacks}"

    return Reading(space.name, lambda t: t, cases, compare)


def _pushforward(term: Term, x: Any) -> tuple[Callable[[Any], tuple[Any, Any]], Type]:
    """(t ↦ (y, its tangent along t), the type of t): the term on dual numbers (x, t)."""

    def pushforward(t: Any) -> tuple[Any, Any]:
        duals = forward(term, activated(x, unsettled(t, x)))
        y = primal(duals)
        return y, settled(dense_tangent(duals), y)

    return pushforward, type_of(settled(x, x))


def _compare_pushforwards(left: Any, right: Any, _: Type, draw: Draw) -> str | None:
    t = draw(left[1])
    (y, pushed), (z, other) = (side[0](t) for side in (left, right))
    values = _compare_values(y, z)
    tangents = difference(pushed, other)
    return (values and f"values differ: {values}") or (tangents and f"tangents differ along {t}: {tangents}")


FORWARD = Reading("forward", lambda t: t, _pushforward, _compare_pushforwards)

READINGS: dict[str, Reading] = {
    reading.name: reading for reading in (TYPES, MEANING, *map(representation, SPACES.values()), FORWARD)
}
