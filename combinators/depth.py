"""Depth: how deep terms and values may nest, and what makes that much possible.

A pass that needs nothing but the parts of a term, or of another acyclic graph, runs `bottom_up`, without recursion.
The others recurse in Python alone, which costs no stack of C, and get room for it where users come in, by `deep`: their
recursion may not go through `map`, a generator that a function of C consumes, a constructor, a cached function, or a
method that is called with `*arguments`, since Python ends each of these at some 750 levels, whatever its limit.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Protocol

import jax
import jax.core
import numpy as np

from combinators.errors import ArgumentError, DepthError, line_of_error

TERMS = 10_000  # combinators within combinators
VALUES = 1_200  # products within products, functions that functions captured: near 1,500, JAX's pytrees end
PROGRAMS = 100  # programs within programs, where JAX traces the one while it traces the other
_ROOM = 60_000  # frames of Python's stack, for our passes
_USERS = 1_000  # of these, beside as many as there are without us, for functions of users: their recursion may not end
_leaves: set[type] = {bool, int, float, complex, np.ndarray}  # classes without parts: Python's, NumPy's, JAX's


class Known[Node, Result](Protocol):
    """Results by nodes: a dict, or a table."""

    def __contains__(self, node: Node, /) -> bool: ...
    def __getitem__(self, node: Node, /) -> Result: ...
    def __setitem__(self, node: Node, result: Result, /) -> None: ...


def bottom_up[Node, Result](
    root: Node,
    parts: Callable[[Node], Sequence[Node]],
    of: Callable[[Node, list[Result]], Result],
    known: Known[Node, Result],
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
    """Raises `DepthError` for what nests deeper than pytrees may.  JAX, which raises late, is not right afterwards.

    Raises `ArgumentError` for dictionaries whose keys have no order.
    """
    level, depth = [x], 0
    while not _leaves.issuperset(map(type, level)):
        depth += 1
        if depth > VALUES:
            check_depth(depth)
        for node in level:
            if type(node) is dict:
                _check_keys(node)
        level = [part for node in level if type(node) not in _leaves for part in one_level(node)]


def check_depth(depth: int) -> None:
    """Raises `DepthError` for a value of so many levels, if these are too many."""
    if depth > VALUES:
        raise DepthError(
            "a value, or a type, nests too deeply",
            expected=f"products within products, and functions within functions, at most {VALUES} deep",
            got=f"{depth} or more",
            hint="keep a long sequence as one list, or as an array with one more axis",
        )


def one_level(node: Any) -> Any:
    """The parts of a node of a pytree; none of a leaf."""
    kind = type(node)
    if kind is tuple or kind is list:
        return node
    if kind is dict:
        return node.values()
    flattened = jax.tree_util.default_registry.flatten_one_level(node)
    if flattened is not None:
        return flattened[0]
    if issubclass(kind, jax.core.Tracer) or kind.__module__.startswith("jax"):
        _leaves.add(kind)
    return ()


def _check_keys(node: dict[Any, Any]) -> None:
    """Raises `ArgumentError` for a dictionary that JAX cannot take apart, since its keys have no order."""
    try:
        sorted(node)
    except TypeError as error:
        raise ArgumentError(
            "the keys of a dictionary have no order",
            expected="keys of one kind, such as text",
            got=", ".join(map(repr, node)),
            hint=f"{error}; an argument that is not differentiated may be any dictionary",
        ) from None


def check_programs(term: Any) -> None:
    """Raises `DepthError` for a term that holds too many programs within programs."""
    if term.programs > PROGRAMS:
        raise DepthError(
            "programs nest too deeply",
            expected=f"checkpoints, and choices that depend on arrays, at most {PROGRAMS} within each other",
            got=str(term.programs),
            hint="choose by select, or leave the outer checkpoints out",
        )


class _Room:
    """The limit of Python's stack, which is one for all threads; `runs` are those that need room now."""

    def __init__(self) -> None:
        self.lock, self.runs, self.before = threading.Lock(), 0, 0

    def enter(self) -> int:
        """Makes room; gives the limit until now."""
        with self.lock:
            limit = sys.getrecursionlimit()
            if not self.runs:
                self.before = limit
            self.runs += 1
            sys.setrecursionlimit(self.before + _ROOM)
            return limit

    def leave(self, limit: int) -> None:
        """Gives the room back, unless another thread needs it."""
        with self.lock:
            self.runs -= 1
            if self.runs <= 1 and sys.getrecursionlimit() == self.before + _ROOM:
                sys.setrecursionlimit(limit if self.runs else self.before)

    def lower(self) -> int | None:
        """Leaves some room only, if no other thread needs more; gives the limit until now."""
        with self.lock:
            limit = sys.getrecursionlimit()
            if self.runs != 1:
                return None
            users = _frames() + self.before + _USERS
            sys.setrecursionlimit(users if users < limit else limit)
            return limit

    def heighten(self, limit: int) -> None:
        """Undoes `lower`."""
        with self.lock:
            if sys.getrecursionlimit() < limit:
                sys.setrecursionlimit(limit)


def _frames() -> int:
    """How many frames are on Python's stack."""
    frame: Any = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    count = 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


class more_room:
    """Room for so many more frames than the stack has, for code that recurses as often as a value says."""

    def __init__(self, frames: int):
        self._frames = frames

    def __enter__(self) -> None:
        self._limit = sys.getrecursionlimit()
        if self._limit < self._frames:
            sys.setrecursionlimit(self._limit + self._frames)

    def __exit__(self, *error: Any) -> None:
        if self._limit < self._frames:
            sys.setrecursionlimit(self._limit)


_room = _Room()
_inside = threading.local()


class users_own:
    """For code of users inside of `deep` functions: about as much room as they have outside of it."""

    def __enter__(self) -> None:
        self._limit, self._was_deep = _room.lower(), getattr(_inside, "deep", False)
        _inside.deep = False

    def __exit__(self, *error: Any) -> None:
        _inside.deep = self._was_deep
        if self._limit is not None:
            _room.heighten(self._limit)


def deep[**P, Result](f: Callable[P, Result]) -> Callable[P, Result]:
    """The function f with room on Python's stack.  What nests even deeper raises `DepthError`."""

    @wraps(f)
    def with_room(*arguments: P.args, **keywords: P.kwargs) -> Result:
        if getattr(_inside, "deep", False):
            return f(*arguments, **keywords)
        limit = _room.enter()
        _inside.deep = True
        try:
            return f(*arguments, **keywords)
        except (RecursionError, SystemError) as error:
            if isinstance(error, SystemError) and not isinstance(error.__cause__, RecursionError):
                raise
            raise DepthError(
                "a program nests deeper than Python's stack",
                expected=f"terms at most {TERMS} deep, values {VALUES}, functions that call each other less",
                line=line_of_error(error),
                hint="what is traced cannot end a recursion: write fix(lambda self, x: ..., domain), which calls "
                "itself as self(x) in a branch of lax.cond",
            ) from error
        finally:
            _inside.deep = False
            _room.leave(limit)

    return with_room
