"""Inductive types, as a user declares them: between trees of Python objects and forests of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from combinators.edges import whole
from combinators.errors import ArgumentError
from combinators.inductive.constructors import Constructor, Rec, declared
from combinators.inductive.forest import Forest
from combinators.inductive.reading import Nodes, View, column, read
from combinators.inductive.schedule import Schedule, schedule, size_class
from combinators.types import Type


class Inductive:
    """`Inductive(leaf=Tensor(), node=(Rec, Tensor(), Rec))`: μ X. leaf τ + node (X, τ', X).

    A constructor's parts are a pytree of tensor types, its payload, and of `Rec`, where values of the type stand.
    Lists are `Inductive(nil=(), cons=(τ, Rec))`, and nodes with any number of children `Inductive(nil=(), cons=(τ, Rec,
    Rec))`: a payload, the first child, the next sibling.  Types of equal constructors are equal.

    Raises `ArgumentError` for parts of another kind, and if every value would be without end.
    """

    def __init__(self, **constructors: Any):
        self.constructors = tuple([declared(name, parts) for name, parts in constructors.items()])
        if all(c.arity for c in self.constructors):
            raise ArgumentError(
                "an inductive type has no constructor without C.Rec",
                expected="one at least, or its values would have no end",
                got=", ".join(constructors) or "no constructors",
                hint="C.Inductive(nil=(), cons=(C.Tensor(), C.Rec)) are lists",
            )

    def encode(
        self,
        values: Iterable[Any],
        view: View | None = None,
        width: int | None = None,
        room: Mapping[str, int] | None = None,
    ) -> Forest:
        """Trees as one forest: arrays for all of them, and the order in which their nodes are worked out.

        `view(value)` is (constructor name, parts); without it trees are tuples that begin with the name, or objects of
        dataclasses that have it.  Parts that are shared are copied.  `width` nodes of one constructor are one step; of
        none that is said, as many as leave few slots empty (`schedule`).  What is compiled for a forest is compiled for
        all whose sizes are of the same classes (`size_class`), of the same width and number of trees; `room` says how
        many nodes of a constructor there is room for at least.  Takes time in proportion to the nodes.

        Raises `MalformedError`, with the path of what is malformed.
        """
        if width is not None:
            width = whole("the width of a schedule", width, 1)
        names = [c.name for c in self.constructors]
        if not isinstance(room or {}, Mapping) or not {*names}.issuperset(room or {}):
            raise ArgumentError(
                "there is no such room", expected=f"numbers of nodes, by {', '.join(names)}", got=repr(room),
                hint='encode(values, room={"leaf": 1000}) is compiled once for all with up to 1000 leaves',
            )  # fmt: skip
        asked = {name: whole("the room for a constructor", n, 0) for name, n in (room or {}).items()}
        nodes = read(self.constructors, values, view)
        return jax.device_put(_encoded(self.constructors, nodes, width, asked))

    def decode(self, forest: Forest, build: Callable[[str, Any], Any] | None = None) -> list[Any]:
        """The trees of a forest, `encode` backwards: `build(constructor name, parts)` is a node.

        Without `build`, nodes are tuples that begin with the name.  Numbers are Python's.
        """
        forest, made = jax.tree.map(np.asarray, forest), dict[int, Any]()
        starts = forest.starts()
        for c in forest.leaves:
            for row in np.flatnonzero(forest.valid[c.name]):
                made[starts[c.name] + int(row)] = _node(forest, c, int(row), (), build)
        for step in range(int(forest.steps)):
            c = forest.inner[forest.tags[step]]
            for at in range(forest.places[step], forest.places[step] + forest.width):
                row = forest.first + at - starts[c.name]
                if forest.valid[c.name][row]:
                    inner = [made[int(child)] for child in forest.children[at, : c.arity]]
                    made[forest.first + at] = _node(forest, c, row, inner, build)
        return [made[int(root)] for root in forest.roots]

    def annotated(self, result: Type) -> Inductive:
        """The type whose constructors have the parts of this one's, and a `result`: the codomain of `annotate`."""
        return Inductive(**{c.name: (c.form.unflatten(c.leaves), result) for c in self.constructors})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inductive) and self.constructors == other.constructors

    def __hash__(self) -> int:
        return hash(self.constructors)

    def __repr__(self) -> str:
        return f"Inductive({', '.join(map(repr, self.constructors))})"


def _node(forest: Forest, c: Constructor, row: int, inner: Any, build: Callable[[str, Any], Any] | None) -> Any:
    own = [leaf[row] for leaf in jax.tree.leaves(forest.payloads[c.name])]
    parts = c.parts(inner, [x.item() if x.ndim == 0 else x for x in own])
    if build is not None:
        return build(c.name, parts)
    return (c.name, *parts) if c.is_tuple else (c.name, parts)


def _encoded(
    constructors: tuple[Constructor, ...], nodes: Nodes, width: int | None, asked: Mapping[str, int]
) -> Forest:
    kind, (parent, side, depth) = np.array(nodes.kinds, int), np.array(nodes.places, int).reshape(-1, 3).T
    has_below = [c.arity > 0 for c in constructors]
    number = np.cumsum(has_below) - 1  # of a constructor among those with nodes below
    inner = np.flatnonzero(np.array(has_below)[kind])
    place_of = np.full(len(kind) + 1, -1)  # of which the last is the parent of roots
    place_of[inner] = np.arange(len(inner))
    plan = schedule(number[kind[inner]], place_of[parent[inner]], depth[inner], width)
    places = np.empty(len(plan.kinds), int)
    row, rooms, of_kind = (
        np.empty(len(kind), int),
        dict[str, int](),
        [np.flatnonzero(kind == i) for i in range(len(constructors))],
    )
    for i, c in enumerate(constructors):
        if c.arity:
            steps = np.flatnonzero(plan.kinds == number[i])
            places[steps] = np.arange(len(steps))
            least = max(len(steps), -(-asked.get(c.name, 0) // plan.width))
            rooms[c.name] = plan.width * size_class(least)
        else:
            count = len(of_kind[i])
            row[of_kind[i]] = np.arange(count)
            rooms[c.name] = size_class(max(count, asked.get(c.name, 0)))
    row[inner] = places[plan.step] * plan.width + plan.slot
    return _filled(constructors, nodes, plan, places, (of_kind, kind, parent, side, row), rooms)


def _filled(
    constructors: tuple[Constructor, ...],
    nodes: Nodes,
    plan: Schedule,
    places: Any,
    of_nodes: Any,
    rooms: dict[str, int],
) -> Forest:
    of_kind, kind, parent, side, row = of_nodes
    numbers = sorted(range(len(constructors)), key=lambda i: constructors[i].arity > 0)  # in the order of the results
    starts = np.zeros(len(constructors), int)
    starts[numbers] = np.cumsum([0, *(rooms[constructors[i].name] for i in numbers)])[:-1]
    first = sum(rooms[c.name] for c in constructors if not c.arity)
    inner = sum(rooms[c.name] for c in constructors if c.arity)
    most = max((c.arity for c in constructors), default=0)
    roots = np.array(nodes.roots, int)
    result = starts[kind] + row
    up = (result[parent] - first) * most + side
    up[roots] = inner * most + np.arange(len(roots))
    parents, below = np.full(first + inner, inner * most + len(roots)), np.zeros(inner * most + len(roots), int)
    parents[result], below[up] = up, result
    payloads, valid, source = ({}, {}, {})
    children = below[: inner * most].reshape(inner, most)
    for i, c in enumerate(constructors):
        room, at = rooms[c.name], row[of_kind[i]]
        is_node = np.zeros(room, bool)
        is_node[at] = True
        begin = np.arange(room) // plan.width * plan.width if c.arity else 0
        from_ = np.where(is_node, np.arange(room), begin)
        columns = [column(nodes, i, j) for j, leaf in enumerate(c.leaves) if leaf is not Rec]
        payloads[c.name] = c.payload([_spread(x, at, from_) for x in columns])
        valid[c.name], source[c.name] = is_node, _int(from_)
        rows = slice(starts[i], starts[i] + room)
        parents[rows] = parents[rows][from_]
        if c.arity:
            children[starts[i] - first :][:room] = children[starts[i] - first :][from_]
    order = np.zeros((2, inner // plan.width), np.int32)
    steps = len(plan.kinds)
    kinds = np.flatnonzero([c.arity > 0 for c in constructors])
    order[:, :steps] = plan.kinds, starts[kinds[plan.kinds]] - first + places * plan.width
    return Forest(
        constructors, plan.width, payloads, valid, source, _int(children), _int(parents),
        order[0], order[1], np.asarray(steps, np.int32), _int(result[roots]),
    )  # fmt: skip


def _spread(values: Any, at: Any, source: Any) -> Any:
    """The payloads in their rows; rows that are no node repeat one."""
    rows = np.zeros((len(source), *values.shape[1:]), values.dtype)
    rows[at] = values
    return rows[source]


def _int(values: Any) -> Any:
    return values.astype(np.int32)
