"""Depth: how deep terms and values may nest, and what makes that much possible.

A pass that needs nothing but the parts of a term, or of another acyclic graph, runs `bottom_up`, without recursion.  The
others recurse in Python alone, which costs no stack of C, and get room for it where users come in, by `deep`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import jax
import numpy as np

from combinators.errors import DepthError, line_of_error

TERMS = 2_000  # combinators within combinators
VALUES = 1_200  # products within products, functions that functions captured: near 1,500, JAX's pytrees end
_ROOM = 60_000  # frames of Python's stack
_leaves: set[type] = {bool, int, float, complex, np.ndarray}  # classes without parts: Python's, NumPy's, JAX's


def bottom_up[Node, Result](
    root: Node,
    parts: Callable[[Node], Sequence[Node]],
    of: Callable[[Node, list[Result]], Result],
    known: dict[Node, Result],
) -> Result:
    """The result of `of(node, results of its parts)` at the root; once for each node, and kept in `known`."""
    todo = [root]
    while todo:
        node = todo[-1]
        if node in known:
            todo.pop()
            continue
        inner = parts(node)
        missing = [part for part in inner if part not in known]
        if missing:
            todo += missing
        else:
            known[todo.pop()] = of(node, [known[part] for part in inner])
    return known[root]


def check_values(x: Any) -> None:
    """Raises `DepthError` for what nests deeper than pytrees may.  JAX, which raises late, is not right afterwards."""
    level, depth = [x], 0
    while level := [node for node in level if type(node) not in _leaves]:
        depth += 1
        if depth > VALUES:
            raise DepthError(
                "a value, or a type, nests too deeply",
                expected=f"products within products, and functions within functions, at most {VALUES} deep",
                got="more",
                hint="keep a long sequence as one list, or as an array with one more axis",
            )
        level = [part for node in level for part in _parts(node)]


def _parts(node: Any) -> Any:
    kind = type(node)
    if kind is tuple or kind is list:
        return node
    if kind is dict:
        return node.values()
    one_level = jax.tree_util.default_registry.flatten_one_level(node)
    if one_level is not None:
        return one_level[0]
    if kind.__module__.startswith("jax"):
        _leaves.add(kind)
    return ()


class _Room:
    """How many threads are inside of `deep` functions: the limit of Python's stack is one for all of them."""

    def __init__(self) -> None:
        self.lock, self.threads, self.before = threading.Lock(), 0, 0

    def enter(self) -> None:
        with self.lock:
            if not self.threads:
                self.before = sys.getrecursionlimit()
                sys.setrecursionlimit(self.before + _ROOM)
            self.threads += 1

    def leave(self) -> None:
        with self.lock:
            self.threads -= 1
            if not self.threads and sys.getrecursionlimit() == self.before + _ROOM:
                sys.setrecursionlimit(self.before)


_room = _Room()
_inside = threading.local()


def deep[**P, Result](f: Callable[P, Result]) -> Callable[P, Result]:
    """The function f with room on Python's stack.  What nests even deeper raises `DepthError`."""

    @wraps(f)
    def with_room(*arguments: P.args, **keywords: P.kwargs) -> Result:
        if getattr(_inside, "deep", False):
            return f(*arguments, **keywords)
        _room.enter()
        _inside.deep = True
        try:
            return f(*arguments, **keywords)
        except (RecursionError, SystemError) as error:
            if isinstance(error, SystemError) and not isinstance(error.__cause__, RecursionError):
                raise
            raise DepthError(
                "a program nests deeper than Python's stack",
                expected=f"terms at most {TERMS} deep, values {VALUES}, and functions that call each other less than that",
                line=line_of_error(error),
                hint="fold over an array instead of nesting functions or products",
            ) from error
        finally:
            _inside.deep = False
            _room.leave()

    return with_room
