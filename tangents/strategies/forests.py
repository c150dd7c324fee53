"""Forests of a type: trees of any shape for which it has room."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from combinators.inductive.forest import Forest
from combinators.inductive.inductive import Inductive
from tangents.strategies.choices import choose


def order(draw: st.DrawFn, type: Forest, size: int) -> Any:
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
