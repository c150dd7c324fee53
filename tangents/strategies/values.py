"""Values of a type as Hypothesis strategies, forests of trees of any shape among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from combinators.context import Context
from combinators.errors import ArgumentError
from combinators.inductive.forest import Forest
from combinators.inductive.inductive import Inductive
from combinators.sums import Sum
from combinators.terms import Curry
from combinators.types import Function, Tensor, Type
from combinators.values import Closure
from tangents.strategies.choices import choose, some
from tangents.strategies.goals import Goal, arrows
from tangents.strategies.numbers import Numbers
from tangents.strategies.types import some_type


@st.composite
def values_of(draw: st.DrawFn, type: Type, size: int = 4, control: bool = True) -> Any:
    """Values of a type, or of a context of types.

    Floats have distinct magnitudes in [0.3, 2.5] and either sign; a function is a closure over up to two captured
    values, whose code is a random term of about `size` combinators, with loops and branches if `control`.
    """
    return value(draw, type, Numbers(draw), size, control)


def value(draw: st.DrawFn, type: Type, numbers: Numbers, size: int, control: bool = True) -> Any:
    """A value of this type made of these numbers."""
    leaves, form = jax.tree.flatten(type, is_leaf=lambda node: isinstance(node, Sum | Forest))
    return form.unflatten([_leaf(draw, leaf, numbers, size, control) for leaf in leaves])


def _leaf(draw: st.DrawFn, type: Tensor | Function | Sum | Forest, numbers: Numbers, size: int, control: bool) -> Any:
    if isinstance(type, Tensor):
        return numbers.array(type)
    if isinstance(type, Sum):
        return _sum(draw, type, numbers, size)
    if isinstance(type, Forest):
        payloads = value(draw, type.payloads, numbers, size, control)
        return replace(type, payloads=payloads, numbers=_order(draw, type, size))
    if not isinstance(type, Function):
        raise ArgumentError("values are drawn of a type", expected="a type", got=repr(type), hint="such as C.Tensor(3)")
    captured = some(draw, lambda: some_type(draw, functions=size > 1, depth=int(size > 1)), 0, 2)
    environment = Context(*(value(draw, t, numbers, size // 2, control) for t in captured))
    body = draw(arrows(Goal(Context(*captured, type.dom), type.cod, size, numbers, control=control)))
    return Closure(Curry(body, type.dom), environment)


def _sum(draw: st.DrawFn, type: Sum, numbers: Numbers, size: int) -> Sum:
    """One alternative drawn, the others zero; the tag is an array unless the type fixes it."""
    known = [i for i, alternative in enumerate(type.alternatives) if alternative is not None]
    tag = type.tag if isinstance(type.tag, int) else choose(draw, known)
    parts = [
        value(draw, t, numbers, size) if i == tag else jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), t)
        for i, t in enumerate(type.alternatives)
    ]
    return Sum(*parts, tag=tag if isinstance(type.tag, int) else jnp.int32(tag))


def _order(draw: st.DrawFn, type: Forest, size: int) -> Any:
    """The `numbers` of a forest of this type, with up to `size` nodes of each constructor that has nodes below it."""
    rooms = zip(type.constructors, type.rooms, strict=True)
    left = {c.name: min(room // type.width, size) if c.arity else room for c, room in rooms}

    def tree(waiting: int) -> Any:
        """A tree, where so many others have to end in what is left of the constructors without nodes below them."""
        ends = sum(left[c.name] for c in type.leaves) - waiting
        c = choose(draw, [c for c in (*type.leaves, *type.inner) if left[c.name] and c.arity <= ends])
        left[c.name] -= 1
        inner = [tree(waiting + side) for side in reversed(range(c.arity))]
        return c.name, c.parts(inner, c.payload([np.zeros(c.leaves[i].shape, c.leaves[i].dtype) for i in c.own]))

    trees = [tree(waiting) for waiting in reversed(range(type.count))]
    inductive = Inductive(**{c.name: c.whole for c in type.constructors})
    encoded = inductive.encode(trees, lambda tree: tree, type.width, {c.name: type.room(c) for c in type.constructors})
    return np.asarray(encoded.numbers)
