"""Walks over a user's trees, without recursion: what nodes there are, and where malformed ones stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from combinators.errors import MalformedError
from combinators.inductive.constructors import Constructor, Rec
from combinators.types import LEAF

type View = Callable[[Any], tuple[str, Any]]  # the name of a value's constructor, and its parts

MOST = 2**22  # nodes of one forest
DEPTH = 64  # at which, and at each depth twice one before, a path is looked through for a tree that holds itself


class Nodes:
    """The nodes of some trees, each after the one above it: the lists are by the node's number.

    `places`: the number of its parent, or -1, its side among the parent's nodes, and its depth; `kinds`: the number of
    its constructor, of whose nodes `parts` has the parts, flat; `values`: the trees themselves.
    """

    def __init__(self, constructors: Sequence[Constructor]):
        self.constructors = constructors
        self.places = list[tuple[int, int, int]]()
        self.values = list[Any]()
        self.kinds, self.roots = list[int](), list[int]()
        self.parts: list[list[Any]] = [[] for _ in constructors]

    def path(self, parent: int, side: int) -> str:
        """Where the node at a side of its parent is, or the last root, whose parent is -1: `[3].node[0]`."""
        names: list[str] = []
        root = len(self.roots) - 1
        while parent >= 0:
            c = self.constructors[self.kinds[parent]]
            names.append(f".{c.name}{c.keys[side]}")
            root, (parent, side, _) = parent, self.places[parent]
        return f"[{self.roots.index(root) if names else root}]" + "".join(reversed(names))

    def path_of(self, kind: int, own: int) -> str:
        """Where a node is of which only its number among those of its constructor is known: `[3].node[0].leaf`."""
        node = [node for node, k in enumerate(self.kinds) if k == kind][own]
        parent, side, _ = self.places[node]
        root = f"[{self.roots.index(node)}]" if parent < 0 else self.path(parent, side)
        return f"{root}.{self.constructors[kind].name}"


def read(constructors: Sequence[Constructor], values: Iterable[Any], view: View | None) -> Nodes:
    """The nodes of these trees.  Raises `MalformedError`."""
    by_name = frozenset([c.name for c in constructors if type(c.whole) is dict])
    nodes, looked = Nodes(constructors), partial(_view, by_name) if view is None else view
    known = {c.name: _Plan(i, c, nodes.parts[i]) for i, c in enumerate(constructors)}
    places, kinds, trees = nodes.places, nodes.kinds, nodes.values
    for tree in values:
        nodes.roots.append(len(kinds))
        stack, limit = [(tree, (-1, 0, 0))], DEPTH
        while stack:
            value, place = stack.pop()
            parent, side, depth = place
            node = len(kinds)
            if depth == limit:
                _require_no_cycle(nodes, value, place)
                limit *= 2
            if node == MOST:
                raise _malformed(nodes, parent, side, "these trees have no end", f"at most {MOST} nodes", "more")
            try:
                name, parts = looked(value)
            except (TypeError, ValueError, AttributeError, LookupError) as error:
                what = "a child is missing" if value is None else "a node is nothing that can be looked into"
                expected = "(constructor name, parts), which the view gives of a node"
                raise _malformed(nodes, parent, side, what, expected, _short(value), f"{error}; ") from error
            plan = known.get(name) if isinstance(name, str) else None
            if plan is None:
                what = "a node is of no constructor of its type"
                raise _malformed(nodes, parent, side, what, f"one of {', '.join(known)}", repr(name))
            if type(parts) is not tuple or len(parts) != plan.size:
                parts = _leaves(nodes, plan.constructor, parts, parent, side)
            places.append(place)
            trees.append(value)
            kinds.append(plan.kind)
            plan.parts.append(parts)
            for below, i in plan.inner:
                stack.append((parts[i], (node, below, depth + 1)))
    return nodes


class _Plan:
    """What there is to know of a constructor: its number, and which of its parts are nodes, with their sides.

    `size` is the number of its parts, if their tuple is all that they are; `parts` are those of all its nodes.
    """

    def __init__(self, kind: int, c: Constructor, parts: list[Any]):
        self.kind, self.constructor, self.parts = kind, c, parts
        self.inner = list(enumerate(i for i, leaf in enumerate(c.leaves) if leaf is Rec))
        is_flat = c.form == LEAF or (c.is_tuple and c.form.num_nodes == 1 + len(c.leaves))
        self.size = len(c.leaves) if is_flat else -1


def _require_no_cycle(nodes: Nodes, value: Any, place: tuple[int, int, int]) -> None:
    """Raises `MalformedError` if a tree on the way to the one at this place holds itself."""
    way = [(value, place)]
    while (parent := way[-1][1][0]) >= 0:
        way.append((nodes.values[parent], nodes.places[parent]))
    above = set[int]()
    for value, (parent, side, _) in reversed(way):
        if id(value) in above:
            raise _malformed(nodes, parent, side, "a tree holds itself", "a tree, which ends", "a cycle")
        above.add(id(value))


def _leaves(nodes: Nodes, c: Constructor, parts: Any, parent: int, side: Any) -> list[Any]:
    """The parts of a node, flat; a constructor of one part takes it alone, or in a tuple."""
    if c.form == LEAF and type(parts) is tuple and len(parts) == 1:
        return list(parts)
    try:
        return c.form.flatten_up_to(parts)
    except (TypeError, ValueError) as error:
        if type(parts) is tuple and len(parts) == 1:
            return _leaves(nodes, c, parts[0], parent, side)
        expected, got = f"{c.whole!r}", _short(parts)
        what = f"a node has other parts than its constructor {c.name!r}"
        raise _malformed(nodes, parent, side, what, expected, got) from error


def _view(by_name: frozenset[str], value: Any) -> tuple[str, Any]:
    """Tuples that begin with the name, and dataclasses of that name, whose fields are the parts in their order.

    The fields are a dict for the constructors that are declared as dicts.
    """
    if type(value) is tuple and value and isinstance(value[0], str):
        return value[0], value[1:]
    if is_dataclass(value) and not isinstance(value, type):
        name, parts = type(value).__name__, {field.name: getattr(value, field.name) for field in fields(value)}
        return name, parts if name in by_name else tuple(parts.values())
    raise TypeError("neither a tuple that begins with a constructor's name nor a dataclass")


def column(nodes: Nodes, kind: int, number: int) -> Any:
    """The payloads of a constructor's nodes at one part, as one array.  Raises `MalformedError`."""
    values, type = [parts[number] for parts in nodes.parts[kind]], nodes.constructors[kind].leaves[number]
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):  # of different shapes
        found = np.empty(0, object)
    if not values or (found.shape[1:] == type.shape and _fits(found, type.dtype)):
        return found.astype(type.dtype, copy=False).reshape(len(values), *type.shape)
    for own, value in enumerate(values):
        one = np.asarray(value)
        if one.shape != type.shape or not _fits(one, type.dtype):
            raise MalformedError(
                f"the payload at {nodes.path_of(kind, own)} does not fit",
                expected=type,
                got=f"{_short(value)}, {one.dtype}{list(one.shape)}",
                hint="floats stand for no ints, and numbers out of range for no others; convert them first",
            )
    return np.stack([np.asarray(value).astype(type.dtype) for value in values])


def _fits(values: Any, dtype: Any) -> bool:
    """Whether values can be of a dtype: ints as floats, and floats as shorter ones; ints that are in its range."""
    if values.dtype == dtype:
        return True
    if values.dtype.kind not in "biufc" and not jnp.issubdtype(values.dtype, np.number):
        return False
    if dtype.kind in "biu" and values.dtype.kind in "biu":
        return bool((values.astype(dtype) == values).all()) and (dtype.kind == "b") == (values.dtype.kind == "b")
    return np.can_cast(values.dtype, dtype, "same_kind")


def _malformed(
    nodes: Nodes, parent: int, side: Any, what: str, expected: Any, got: str, why: str = ""
) -> MalformedError:
    """The error for the node at this side of its parent, or for a root, whose parent is -1."""
    return MalformedError(
        f"{what}, at {nodes.path(parent, side)}",
        expected=expected,
        got=got,
        hint=f"{why}encode(values, view=f) reads objects of other classes: f(value) is (constructor name, parts)",
    )


def _short(value: Any) -> str:
    """The text of a value, without what nests in it."""
    if isinstance(value, tuple | list | dict):
        return f"a {type(value).__name__} of {len(value)}" + (f": ({value[0]!r}, …)" if _named(value) else "")
    try:
        found = repr(value)
    except RecursionError:
        found = ""
    return found if 0 < len(found) <= 60 else f"a value of type {type(value).__name__}"


def _named(value: Any) -> bool:
    return type(value) is tuple and bool(value) and isinstance(value[0], str)
