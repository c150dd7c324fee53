"""Forests: values of an inductive type, a batch of trees as one pytree of arrays.

The nodes of a constructor are rows of its own arrays.  Those without nodes below them stand in any order; of the others
`width` rows are a step, which is worked out at once, so there may be rows that are no node (`valid` says which are).
Results of all nodes are one array, too: constructor by constructor, in the order of the declaration.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import jax

from combinators.inductive.constructors import Constructor


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["payloads", "valid", "source", "children", "parents", "tags", "places", "steps", "roots"],
    meta_fields=["constructors", "width"],
)
@dataclass(frozen=True, eq=False)
class Forest:
    """Trees of a type with these constructors.  `C.Inductive.encode` makes one, `decode` reads it.

    `payloads[name]`: the parts of the constructor with one row for each node, None for parts that are nodes.
    `valid[name]`: which rows are nodes; `source[name]`: the row itself, or for a row that is none, a node's.
    `children[name]`: of nodes with nodes below, where the results of these are among all results.
    `parents[name]`: where the cotangent of a node is among those of all children; then come roots, and a zero.
    `tags`, `places`: of each step the number of its constructor, among those with nodes below, and its number there.
    `steps`: how many there are; `roots`: where the results of the trees are.
    """

    constructors: tuple[Constructor, ...]
    width: int
    payloads: dict[str, Any]
    valid: dict[str, Any]
    source: dict[str, Any]
    children: dict[str, Any]
    parents: dict[str, Any]
    tags: Any
    places: Any
    steps: Any
    roots: Any

    @property
    def inner(self) -> list[Constructor]:
        """The constructors with nodes below them, by the numbers that `tags` has."""
        return [c for c in self.constructors if c.arity]

    @property
    def leaves(self) -> list[Constructor]:
        """The constructors without."""
        return [c for c in self.constructors if not c.arity]

    def room(self, constructor: Constructor) -> int:
        """How many rows there are for a constructor."""
        return self.valid[constructor.name].shape[0]

    def starts(self) -> dict[str, int]:
        """Where the results of each constructor begin, and where they end, by the name ""."""
        sizes = [self.room(c) for c in self.constructors]
        return dict(zip((*(c.name for c in self.constructors), ""), accumulate(sizes, initial=0), strict=True))

    def slots(self) -> dict[str, int]:
        """Where the cotangents of children begin, by the constructor that they are children of; where those end."""
        sizes = [self.room(c) * c.arity for c in self.inner]
        return dict(zip((*(c.name for c in self.inner), ""), accumulate(sizes, initial=0), strict=True))
