"""Inductive types, as a user declares them: between trees of Python objects and forests of arrays."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.edges import whole
from combinators.errors import ArgumentError, TracedBranchError
from combinators.inductive.constructors import Constructor, declared
from combinators.inductive.forest import Forest, blank
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

        Raises `MalformedError`, with the path of what is malformed, and `TracedBranchError` for values that Python does
        not know.
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
        is_tree = view is None and isinstance(values, tuple) and isinstance(next(iter(values), None), str)
        if is_tree or isinstance(values, str) or not isinstance(values, Iterable):
            raise ArgumentError(
                "encode takes several trees at once", expected="a list of trees",
                got=f"one value, of type {type(values).__name__}",
                hint="encode([tree]) is a forest of one tree",
            )  # fmt: skip
        with _by_python("encode"):
            nodes = read(self.constructors, values, view)
            return jax.tree.map(jnp.asarray, _encoded(self.constructors, nodes, width, asked))

    def decode(self, forest: Forest, build: Callable[[str, Any], Any] | None = None) -> list[Any]:
        """The trees of a forest, `encode` backwards: `build(constructor name, parts)` is a node.

        Without `build`, nodes are tuples that begin with the name.  Numbers are Python's.

        Raises `ArgumentError` for a forest of another type, or of cotangents, and `TracedBranchError` as `encode` does.
        """
        if not isinstance(forest, Forest):
            raise ArgumentError(
                "decode takes a forest", expected="what encode gives, or annotate", got=f"a {type(forest).__name__}",
                hint="a result for each tree, as cata gives it, is an array",
            )  # fmt: skip
        if forest.constructors != self.constructors:
            raise ArgumentError(
                "the forest is of another type", expected=self, got=", ".join(map(repr, forest.constructors)),
                hint="T.decode reads what T.encode gives, T.annotated(type of the result).decode what annotate gives",
            )  # fmt: skip
        with _by_python("decode"):
            forest = jax.tree.map(np.asarray, forest)
        made, starts, order = dict[int, Any](), forest.starts(), forest.order()
        if forest.count and not any(rows.any() for rows in order.valid.values()):
            raise ArgumentError(
                "the forest has no nodes, as one of cotangents, whose integers are zeros",
                expected=f"the nodes of {forest.count} trees", got="none",
                hint="decode(replace(forest, payloads=gradient.payloads)) reads a gradient by this forest as trees",
            )  # fmt: skip
        for c in forest.leaves:
            for row in np.flatnonzero(order.valid[c.name]):
                made[starts[c.name] + int(row)] = _node(forest, c, int(row), (), build)
        for step in range(int(order.steps)):
            c = forest.inner[order.tags[step]]
            for at in range(order.places[step], order.places[step] + forest.width):
                row = forest.first + at - starts[c.name]
                if order.valid[c.name][row]:
                    inner = [made[int(child)] for child in order.children[at, : c.arity]]
                    made[forest.first + at] = _node(forest, c, row, inner, build)
        return [made[int(root)] for root in order.roots]

    def annotated(self, result: Type) -> Inductive:
        """The type whose constructors have the parts of this one's, and a `result`: the codomain of `annotate`."""
        return Inductive(**{c.name: (c.whole, result) for c in self.constructors})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inductive) and self.constructors == other.constructors

    def __hash__(self) -> int:
        return hash(self.constructors)

    def __repr__(self) -> str:
        return f"Inductive({', '.join(map(repr, self.constructors))})"


@contextmanager
def _by_python(name: str) -> Generator[None]:
    """Raises `TracedBranchError` where Python needs a value that a program is traced without."""
    try:
        yield
    except jax.errors.TracerArrayConversionError as error:
        raise TracedBranchError(
            f"trees are read by Python, and {name} meets a value that is not known while a program is traced",
            expected="values that are there, as outside of jax.jit, vmap and loops",
            got=str(error).splitlines()[0],
            hint="encode before, and give the forest as an argument; traced values are put into a forest by "
            "replace(forest, payloads=...), and read from its payloads",
        ) from error


def _node(forest: Forest, c: Constructor, row: int, inner: Any, build: Callable[[str, Any], Any] | None) -> Any:
    own = [leaf[row] for leaf in jax.tree.leaves(forest.payloads[c.name])]
    parts = c.parts(inner, [x.item() if x.ndim == 0 else x for x in own])
    if build is not None:
        return build(c.name, parts)
    return (c.name, *parts) if c.is_tuple else (c.name, parts)


def _encoded(
    constructors: tuple[Constructor, ...], nodes: Nodes, width: int | None, asked: Mapping[str, int]
) -> Forest:
    kind = np.fromiter(nodes.kinds, int)
    parent, side, depth = np.fromiter(chain.from_iterable(nodes.places), int).reshape(-1, 3).T
    has_below = np.array([c.arity > 0 for c in constructors])
    number = has_below.cumsum() - 1  # of a constructor among those with nodes below
    inner = has_below[kind].nonzero()[0]
    place_of = np.full(len(kind) + 1, -1)  # of which the last is the parent of roots
    place_of[inner] = np.arange(len(inner))
    plan = schedule(number[kind[inner]], place_of[parent[inner]], depth[inner], width)
    places = np.empty(len(plan.kinds), int)
    of_kind = [(kind == i).nonzero()[0] for i in range(len(constructors))]
    row, rooms = np.empty(len(kind), int), list[int]()
    for i, c in enumerate(constructors):
        if c.arity:
            steps = (plan.kinds == number[i]).nonzero()[0]
            places[steps] = np.arange(len(steps))
            least = max(len(steps), -(-asked.get(c.name, 0) // plan.width))
            rooms.append(plan.width * size_class(least))
        else:
            count = len(of_kind[i])
            row[of_kind[i]] = np.arange(count)
            rooms.append(size_class(max(count, asked.get(c.name, 0))))
    row[inner] = places[plan.step] * plan.width + plan.slot
    forest = blank(constructors, plan.width, tuple(rooms), len(nodes.roots))
    _fill(forest, nodes, plan, places, (of_kind, kind, parent, side, row))
    return forest


def _fill(forest: Forest, nodes: Nodes, plan: Schedule, places: Any, of_nodes: Any) -> None:
    """Writes the payloads of a forest that is blank, and its order into its numbers."""
    of_kind, kind, parent, side, row = of_nodes
    parts, first, starts, n = forest.parts(), forest.first, forest.starts(), len(forest.constructors)
    valid, sources, (children, parents, tags, begins, steps, roots) = parts[:n], parts[n : 2 * n], parts[2 * n :]
    inner, most = children.shape
    result = np.array([starts[c.name] for c in forest.constructors])[kind] + row
    up = (result[parent] - first) * most + side
    up[nodes.roots] = inner * most + np.arange(forest.count)
    parents[:] = inner * most + forest.count
    parents[result] = up
    below = np.zeros(inner * most + forest.count, np.int32)
    below[up] = result
    children[:] = below[: inner * most].reshape(inner, most)
    for i, c in enumerate(forest.constructors):
        room, at, begin = forest.rooms[i], row[of_kind[i]], starts[c.name]
        source = np.arange(room) // forest.width * forest.width if c.arity else np.zeros(room, int)
        source[at], valid[i][at] = at, 1
        sources[i][:] = source
        forest.payloads[c.name] = c.payload([_spread(column(nodes, i, j), at, source) for j in c.own])
        parents[begin : begin + room] = parents[begin + source]
        if c.arity:
            children[begin - first :][:room] = children[begin - first + source]
    taken = len(plan.kinds)
    first_of = np.array([starts[c.name] - first for c in forest.inner], int)
    tags[:taken], begins[:taken] = plan.kinds, first_of[plan.kinds] + places * forest.width
    steps[...], roots[:] = taken, result[nodes.roots]


def _spread(values: Any, at: Any, source: Any) -> Any:
    """The payloads in their rows; rows that are no node repeat one."""
    rows = np.zeros((len(source), *values.shape[1:]), values.dtype)
    rows[at] = values
    return rows[source]
