"""Walks over a user's trees, without recursion: what nodes there are, and where malformed ones stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from combinators.errors import MalformedError
from combinators.inductive.constructors import Constructor, Rec
from combinators.types import LEAF

type View = Callable[[Any], tuple[str, Any]]  # the name of a value's constructor, and its parts

MOST = 2**22  # nodes of one forest
_CLOSED = object()  # on the stack, after the nodes below a node


class Nodes:
    """The nodes of some trees, each after the one above it: the lists are by the node's number.

    `kind`: the number of its constructor; `parent`, or -1, `side` among the parent's nodes, and `depth`;
    `own`: its number among those of its constructor, of whose payloads `columns` has a list for each leaf.
    """

    def __init__(self, constructors: Sequence[Constructor]):
        self.constructors = constructors
        self.kind, self.parent, self.side, self.depth = list[int](), list[int](), list[int](), list[int]()
        self.own: list[int] = []
        self.roots: list[int] = []
        self.counts = [0] * len(constructors)
        self.columns: list[list[list[Any]]] = [[[] for x in c.leaves if x is not Rec] for c in constructors]

    def path(self, node: int, side: int | None = None) -> str:
        """Where a node is, or the node at one of its sides: `[3].node[0].leaf`."""
        names: list[str] = [] if side is None else [self._name(node) + self.constructors[self.kind[node]].keys[side]]
        if side is None:
            names.append(self._name(node))
        while self.parent[node] >= 0:
            side, node = self.side[node], self.parent[node]
            names.append(self._name(node) + self.constructors[self.kind[node]].keys[side])
        return f"[{self.roots.index(node)}]" + "".join(reversed(names))

    def _name(self, node: int) -> str:
        return f".{self.constructors[self.kind[node]].name}"

    def of(self, kind: int) -> list[int]:
        """The nodes of a constructor."""
        return [node for node, k in enumerate(self.kind) if k == kind]


def read(constructors: Sequence[Constructor], values: Iterable[Any], view: View | None) -> Nodes:
    """The nodes of these trees.  Raises `MalformedError`."""
    nodes, looked = Nodes(constructors), _view if view is None else view
    known = {c.name: _Plan(i, c) for i, c in enumerate(constructors)}
    kinds, parents, sides, depths, owns = nodes.kind, nodes.parent, nodes.side, nodes.depth, nodes.own
    for tree in values:
        nodes.roots.append(len(kinds))
        open: set[int] = set()
        stack: list[Any] = [(tree, -1, 0, 0)]
        while stack:
            value, parent, side, depth = stack.pop()
            if side is _CLOSED:
                open.discard(id(value))
                continue
            node = len(kinds)
            if id(value) in open:
                raise _malformed(nodes, parent, side, "a tree holds itself", "a tree, which ends", "a cycle")
            if node == MOST:
                raise _malformed(nodes, parent, side, "these trees have no end", f"at most {MOST} nodes", "more")
            name, parts = _seen(nodes, looked, value, parent, side)
            plan = known.get(name) if isinstance(name, str) else None
            if plan is None:
                what = "a node is of no constructor of its type"
                raise _malformed(nodes, parent, side, what, f"one of {', '.join(known)}", repr(name))
            if type(parts) is not tuple or len(parts) != plan.size:
                parts = _leaves(nodes, plan.constructor, parts, parent, side)
            kinds.append(plan.kind)
            parents.append(parent)
            sides.append(side)
            depths.append(depth)
            owns.append(nodes.counts[plan.kind])
            nodes.counts[plan.kind] += 1
            for column, i in zip(nodes.columns[plan.kind], plan.payload, strict=True):
                column.append(parts[i])
            if plan.inner:
                open.add(id(value))
                stack.append((value, -1, _CLOSED, 0))
                for below, i in enumerate(plan.inner):
                    stack.append((parts[i], node, below, depth + 1))
    return nodes


class _Plan:
    """What there is to know of a constructor: its number, which of its parts are nodes, and which are its payload.

    `size` is the number of its parts, if their tuple is all that they are.
    """

    def __init__(self, kind: int, c: Constructor):
        self.kind, self.constructor = kind, c
        self.inner = [i for i, leaf in enumerate(c.leaves) if leaf is Rec]
        self.payload = [i for i, leaf in enumerate(c.leaves) if leaf is not Rec]
        is_flat = c.form == LEAF or (c.is_tuple and c.form.num_nodes == 1 + len(c.leaves))
        self.size = len(c.leaves) if is_flat else -1


def _seen(nodes: Nodes, view: View, value: Any, parent: int, side: Any) -> tuple[str, Any]:
    try:
        name, parts = view(value)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        what = "a child is missing" if value is None else "a node is nothing that can be looked into"
        expected = "(constructor name, parts), which the view gives of a node"
        raise _malformed(nodes, parent, side, what, expected, _short(value), f"{error}; ") from error
    return name, parts


def _leaves(nodes: Nodes, c: Constructor, parts: Any, parent: int, side: Any) -> list[Any]:
    """The parts of a node, flat; a constructor of one part takes it alone, or in a tuple."""
    if c.form == LEAF and type(parts) is tuple and len(parts) == 1:
        return list(parts)
    try:
        return c.form.flatten_up_to(parts)
    except (TypeError, ValueError) as error:
        if type(parts) is tuple and len(parts) == 1:
            return _leaves(nodes, c, parts[0], parent, side)
        expected, got = f"{c.form.unflatten(c.leaves)!r}", _short(parts)
        what = f"a node has other parts than its constructor {c.name!r}"
        raise _malformed(nodes, parent, side, what, expected, got) from error


def _view(value: Any) -> tuple[str, Any]:
    """Tuples that begin with the name, and dataclasses of that name, whose fields are the parts in their order."""
    if type(value) is tuple and value and isinstance(value[0], str):
        return value[0], value[1:]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, tuple(getattr(value, field.name) for field in fields(value))
    raise TypeError("neither a tuple that begins with a constructor's name nor a dataclass")


def column(nodes: Nodes, kind: int, number: int, type: Any) -> Any:
    """The payloads of a constructor's nodes at one leaf, as one array.  Raises `MalformedError`."""
    values = nodes.columns[kind][number]
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):  # of different shapes
        found = np.empty(0, object)
    if not values or (found.shape[1:] == type.shape and _fits(found, type.dtype)):
        return found.astype(type.dtype).reshape(len(values), *type.shape)
    for own, value in enumerate(values):
        one = np.asarray(value)
        if one.shape != type.shape or not _fits(one, type.dtype):
            node = nodes.of(kind)[own]
            raise MalformedError(
                f"the payload at {nodes.path(node)} does not fit",
                expected=type,
                got=f"{_short(value)}, {one.dtype}{list(one.shape)}",
                hint="floats stand for no ints, and numbers out of range for no others; convert them first",
            )
    return np.stack([np.asarray(value).astype(type.dtype) for value in values])


def _fits(values: Any, dtype: Any) -> bool:
    """Whether values can be of a dtype: ints as floats, and floats as shorter ones; ints that are in its range."""
    if values.dtype.kind not in "biufc" and not jnp.issubdtype(values.dtype, np.number):
        return False
    if dtype.kind in "biu" and values.dtype.kind in "biu":
        return bool(np.all(values.astype(dtype) == values)) and (dtype.kind == "b") == (values.dtype.kind == "b")
    return np.can_cast(values.dtype, dtype, "same_kind")


def _malformed(
    nodes: Nodes, parent: int, side: Any, what: str, expected: Any, got: str, why: str = ""
) -> MalformedError:
    """The error for the node at this side of its parent, or for a root, whose parent is -1."""
    where = f"[{len(nodes.roots) - 1}]" if parent < 0 else nodes.path(parent, side)
    return MalformedError(
        f"{what}, at {where}",
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
