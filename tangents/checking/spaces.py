"""The laws of a tangent space: cotangents of a value are a commutative monoid with an inner product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st

from combinators.meaning.evaluate import apply
from combinators.types import Function, is_discrete, type_of
from combinators.values import Closure
from tangents.checking.differences import difference
from tangents.checking.report import Counterexample, Row, examine
from tangents.cotangents.calls import Block, Calls
from tangents.spaces.public import add, inner, zero
from tangents.spaces.space import Space
from tangents.strategies import tensors, types, values_of

_FEW = st.integers(0, 3)


def check_space(space: Space, examples: int, seed: int) -> list[Row]:
    """Rows for: neutral zero, commutative and associative sum, bilinear inner product, of random cotangents."""

    def row(property: str, holds: Callable[[Any, Callable[[], Any]], None]) -> Row:
        def at(draw: Any) -> None:
            function = Function(draw(tensors()), draw(tensors()))  # what spaces differ in is there each time
            x = draw(values_of((draw(types(depth=2)), function)))
            holds(x, lambda: cotangent(space, x, draw))

        return examine("tangent space", property, space.name, at, examples, seed)

    def neutral(x: Any, draw: Callable[[], Any]) -> None:
        g = draw()
        _same(add(g, zero(x, space)), g, "g + 0 = g", x)
        _same(add(zero(x, space), g), g, "0 + g = g", x)

    def commutative(x: Any, draw: Callable[[], Any]) -> None:
        g, h = draw(), draw()
        _same(add(g, h), add(h, g), "g + h = h + g", x)

    def associative(x: Any, draw: Callable[[], Any]) -> None:
        g, h, k = draw(), draw(), draw()
        _same(add(add(g, h), k), add(g, add(h, k)), "(g + h) + k = g + (h + k)", x)

    def bilinear(x: Any, draw: Callable[[], Any]) -> None:
        g, h = draw(), draw()
        t = _tangent(space, x)
        total, parts = float(inner(add(g, h), t)), float(inner(g, t) + inner(h, t))
        _require(bool(np.isclose(total, parts)), f"⟨g + h, t⟩ = {total} and ⟨g, t⟩ + ⟨h, t⟩ = {parts}", x)
        nothing = float(inner(zero(x, space), t))
        _require(nothing == 0.0, f"⟨0, t⟩ = {nothing}", x)

    return [
        row("zero is neutral", neutral),
        row("the sum is commutative", commutative),
        row("the sum is associative", associative),
        row("the inner product is bilinear", bilinear),
    ]


def cotangent(space: Space, x: Any, draw: Any) -> Any:
    """A random cotangent of the value x in a tangent space; for a list tangent, of calls at random arguments."""

    def leaf(value: Any) -> Any:
        if not (isinstance(value, Closure) and space.is_leaf(value)):
            type = type_of(value)
            return zero(value) if is_discrete(type) else draw(values_of(type))
        calls = (draw(values_of(value.type.dom)) for _ in range(draw(_FEW)))
        return Calls(*(Block(a, cotangent(space, apply(value, a), draw)) for a in calls))

    return jax.tree.map(leaf, x, is_leaf=lambda v: isinstance(v, Closure) and space.is_leaf(v))


def _tangent(space: Space, x: Any) -> Any:
    """A value as a tangent of itself; where a cotangent lists calls, that is the function that it applies to them."""
    is_called = lambda v: isinstance(v, Closure) and space.is_leaf(v)
    return jax.tree.map(
        lambda leaf: (lambda a: _tangent(space, apply(leaf, a))) if is_called(leaf) else leaf, x, is_leaf=is_called
    )


def _same(left: Any, right: Any, words: str, x: Any) -> None:
    found = difference(left, right)
    _require(found is None, f"{words}: {found}", x)


def _require(holds: bool, words: str, x: Any) -> None:
    if not holds:
        raise Counterexample(f"{words}\n  at the value {x}")
