"""Forests: values of an inductive type, a batch of trees as one pytree of arrays.

The nodes of a constructor are rows of its own arrays.  Those without nodes below them stand in any order; of the others
`width` rows are a step, which is worked out at once, so there may be rows that are no node (`valid` says which are).
Results of all nodes are one array, too: constructor by constructor, those without nodes below them first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, starmap
from math import prod
from typing import Any

import jax
import numpy as np

from combinators.inductive.constructors import Constructor, declared


@dataclass(frozen=True)
class Order:
    """Where the nodes of a forest are, and when they are worked out.

    `valid[name]`: which rows of a constructor are nodes; `source[name]`: the row itself, or for a row that is none, a
    node's.
    `children`: for each row of the constructors with nodes below them, where the results of these are; 0 past the last.
    `parents`: for each result, where its cotangent is among those of the children of all nodes; after these come those
    of the roots, and a zero.  A row that is no node has those of the node of its `source`, and so have children.
    `tags`, `places`: of each step the number of its constructor, among those with nodes below, and its first row, among
    those of all of these.
    `steps`: how many there are; `roots`: where the results of the trees are.
    """

    valid: dict[str, Any]
    source: dict[str, Any]
    children: Any
    parents: Any
    tags: Any
    places: Any
    steps: Any
    roots: Any


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["payloads", "numbers"],
    meta_fields=["constructors", "width", "rooms", "count"],
)
@dataclass(frozen=True, eq=False, repr=False)
class Forest:
    """Trees of a type with these constructors.  `C.Inductive.encode` makes one, `decode` reads it.

    `payloads[name]`: the parts of the constructor with one row for each node, None for parts that are nodes.
    `numbers`: its `order` as one array, which is quicker to hand on than many.  `rooms`: how many rows each constructor
    has; `count`: how many trees there are.
    """

    constructors: tuple[Constructor, ...]
    width: int
    rooms: tuple[int, ...]
    count: int
    payloads: dict[str, Any]
    numbers: Any

    def order(self) -> Order:
        """Where its nodes are, and when they are worked out: parts of `numbers`."""
        names, cut = [c.name for c in self.constructors], iter(self.parts())
        valid = {name: next(cut) != 0 for name in names}
        return Order(valid, dict(zip(names, cut, strict=False)), *cut)

    def parts(self) -> list[Any]:
        """The parts of `numbers`: those of `valid`, of `source`, and then the others, as `Order` has them."""
        shapes = _shapes(self.constructors, self.width, self.rooms, self.count)
        ends = accumulate(map(prod, shapes), initial=0)
        flat = [self.numbers[begin : begin + prod(shape)] for begin, shape in zip(ends, shapes, strict=False)]
        return [x if len(shape) == 1 else x.reshape(shape) for x, shape in zip(flat, shapes, strict=True)]

    @property
    def valid(self) -> dict[str, Any]:
        """Which rows of each constructor are nodes."""
        return self.order().valid

    def annotated(self, rows: dict[str, Any], type: Any) -> Forest:
        """The forest with results at its nodes, of this type: one row for each of a constructor's."""
        parts = {c.name: (c.whole, type) for c in self.constructors}
        payloads = {name: (payload, rows[name]) for name, payload in self.payloads.items()}
        return replace(self, constructors=tuple(starmap(declared, parts.items())), payloads=payloads)

    def __repr__(self) -> str:
        payloads = ", ".join(f"{name}={payload!r}" for name, payload in self.payloads.items())
        return f"Forest({payloads}, width={self.width})"

    @property
    def leaves(self) -> list[Constructor]:
        """The constructors without nodes below them, whose results come first."""
        return [c for c in self.constructors if not c.arity]

    @property
    def inner(self) -> list[Constructor]:
        """The constructors with nodes below them, by the numbers that `tags` has."""
        return [c for c in self.constructors if c.arity]

    def room(self, constructor: Constructor) -> int:
        """How many rows there are for a constructor."""
        return self.rooms[self.constructors.index(constructor)]

    def starts(self) -> dict[str, int]:
        """Where the results of each constructor begin."""
        ordered = [*self.leaves, *self.inner]
        ends = accumulate(map(self.room, ordered), initial=0)
        return dict(zip((c.name for c in ordered), ends, strict=False))

    @property
    def first(self) -> int:
        """Where the results of the constructors with nodes below them begin."""
        return sum(map(self.room, self.leaves))


def blank(constructors: tuple[Constructor, ...], width: int, rooms: tuple[int, ...], count: int) -> Forest:
    """A forest whose numbers are zeros, and which has no payloads yet."""
    size = sum(map(prod, _shapes(constructors, width, rooms, count)))
    return Forest(constructors, width, rooms, count, {}, np.zeros(size, np.int32))


def _shapes(
    constructors: tuple[Constructor, ...], width: int, rooms: tuple[int, ...], count: int
) -> list[tuple[int, ...]]:
    """The shapes of the parts of `numbers`."""
    arities = [c.arity for c in constructors]
    room, inner = sum(rooms), sum([n for n, arity in zip(rooms, arities, strict=True) if arity])
    steps = inner // width
    return [*((n,) for n in rooms * 2), (inner, max(arities, default=0)), (room,), (steps,), (steps,), (), (count,)]
