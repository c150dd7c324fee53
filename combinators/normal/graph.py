"""The graph of normal forms: βη-normal expressions in which equal parts are one node, up to names of variables.

    n ::= x | c | n.key | n a | operation(a, ..., a)        neutral: it waits for something that is not known
    a ::= n | (a, ..., a) | λx. a | inject(a)               normal

A node is a head applied to operands.  Heads are terms: `const` for c, `proj` for n.key, `eval` for n a, a primitive, a
loop or a `case`, whose functions are operands too.  Only variables, products and abstractions have heads of their own.

A variable is named by a number, its level: an abstraction takes the least one above its free variables.  So a node does
not depend on how many abstractions stand around it, and equality up to names is identity.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from combinators.identity.identity import key_of
from combinators.terms import Term
from combinators.types import Function, Type


@dataclass(frozen=True)
class Variable:
    """x"""

    level: int


@dataclass(frozen=True)
class Product:
    """(a1, ..., an), of any product form"""

    form: Any


@dataclass(frozen=True)
class Abstraction:
    """λx. a with x : argument, whose one operand is a"""

    level: int
    argument: Type


type Head = Term | Variable | Product | Abstraction
type Moves = tuple[tuple[int, int], ...]  # variables to rename: from this level, to that one


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """head(operands...) : type.  The bits of `free` are the levels of its free variables."""

    head: Head
    operands: tuple[Node, ...]
    type: Type
    free: int


class Graph:
    """All nodes of one comparison.  `depth` counts the variables in scope: the next free level."""

    def __init__(self) -> None:
        self._nodes: dict[Hashable, Node] = {}
        self.depth = 0

    def variable(self, level: int, type: Type) -> Node:
        """x : type"""
        return self._node((level, key_of(type)), Variable(level), (), type, 1 << level)

    def operation(self, head: Term, operands: tuple[Node, ...], type: Type) -> Node:
        """head(operands...) : type"""
        return self._node((head, operands), head, operands, type, _free(operands))

    def product(self, form: Any, parts: tuple[Node, ...]) -> Node:
        """(a1, ..., an)"""
        type = form.unflatten([part.type for part in parts])
        return self._node((form, parts), Product(form), parts, type, _free(parts))

    def abstraction(self, level: int, argument: Type, body: Node) -> Node:
        """λx. body, for the variable x of this level"""
        free = body.free & ~(1 << level)
        own = free.bit_length()
        body = self._renamed(body, ((level, own),)) if own != level and body.free >> level & 1 else body
        return self._abstraction(own, argument, body, free)

    def _abstraction(self, level: int, argument: Type, body: Node, free: int) -> Node:
        key = (level, key_of(argument), body)
        return self._node(key, Abstraction(level, argument), (body,), Function(argument, body.type), free)

    def _node(self, key: Hashable, head: Head, operands: tuple[Node, ...], type: Type, free: int) -> Node:
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(head, operands, type, free)
        return node

    def _renamed(self, root: Node, moves: Moves) -> Node:
        """The node with variables renamed; the abstractions inside take their own least levels again."""
        done: dict[tuple[Node, Moves], Node] = {}
        start = (root, moves)
        todo = [start]
        while todo:
            node, moves = todo[-1]
            if (node, moves) in done:
                todo.pop()
                continue
            inner = _inner(node, moves)
            jobs = [(part, _narrowed(part, inner)) for part in node.operands]
            missing = [job for job in jobs if job[1] and job not in done]
            if missing:
                todo += missing
                continue
            parts = tuple(done[job] if job[1] else job[0] for job in jobs)
            done[node, moves] = self._moved(node, moves, parts)
            todo.pop()
        return done[start]

    def _moved(self, node: Node, moves: Moves, parts: tuple[Node, ...]) -> Node:
        match node.head:
            case Variable(level):
                return self.variable(dict(moves)[level], node.type)
            case Product(form):
                return self.product(form, parts)
            case Abstraction(_, argument):
                free = _moved_bits(node.free, moves)
                return self._abstraction(free.bit_length(), argument, parts[0], free)
            case head:
                return self.operation(head, parts, node.type)


def reachable(*roots: Node) -> Iterator[Node]:
    """Every node in the given ones, once."""
    todo = list(dict.fromkeys(roots))
    seen = set(todo)
    while todo:
        node = todo.pop()
        yield node
        fresh = [part for part in dict.fromkeys(node.operands) if part not in seen]
        seen.update(fresh)
        todo += fresh


def _free(operands: tuple[Node, ...]) -> int:
    free = 0
    for part in operands:
        free |= part.free
    return free


def _inner(node: Node, moves: Moves) -> Moves:
    """What is to be renamed inside a node: its own variable too, if it is an abstraction."""
    match node.head:
        case Abstraction(level):
            own = _moved_bits(node.free, moves).bit_length()
            return moves if own == level else (*moves, (level, own))
        case _:
            return moves


def _narrowed(node: Node, moves: Moves) -> Moves:
    return tuple(move for move in moves if node.free >> move[0] & 1)


def _moved_bits(free: int, moves: Moves) -> int:
    kept = free & ~sum(1 << old for old, _ in moves)
    return kept | sum(1 << new for _, new in moves)
