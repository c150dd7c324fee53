"""State that a function keeps on objects: the tracers that it left there, as the values that they stand for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import is_
from types import ModuleType
from typing import Any

import jax
import jax.core

from combinators.types import Opaque
from compile_ccc.watching.before import Lenient
from compile_ccc.watching.foreign import QUIET, package
from compile_ccc.watching.places import Unwatched


def settle(roots: Iterable[Any], settled: Callable[[Any], Any]) -> bool:
    """Puts values in the place of tracers in the objects, modules and containers that a function reaches.

    Whether there were any.
    """
    left: list[Any] = []

    def noted(tracer: Any) -> Any:
        left.append(tracer)
        return settled(tracer)

    with suppress(Unwatched):  # of more than can be looked at: what was met is settled
        _Settling(roots, noted).walk()
    return bool(left)


class _Settling(Lenient):
    """The walk that settles what it meets."""

    def __init__(self, roots: Iterable[Any], settled: Callable[[Any], Any]):
        self.settled = settled
        super().__init__(None, roots)

    def variable(self, variables: dict[str, Any], name: str, held: bool = False) -> None:
        self._in(variables, [name])
        super().variable(variables, name, held)

    def entries(self, d: Any, held: bool) -> None:
        if issubclass(type(d), dict):
            self._in(d, list(dict.keys(d)))
        super().entries(d, held)

    def value(self, value: Any, held: bool) -> None:
        if issubclass(type(value), Opaque):
            return  # a function of a program keeps its place there
        if issubclass(type(value), list | deque):
            self._in(value, range(len(value)))
        super().value(value, held)

    def note(self, value: Any) -> bool:
        if noted := super().note(value):
            self.push([value])
        return noted

    def module(self, module: ModuleType) -> None:
        if package(vars(module).get("__name__")) not in QUIET:
            super().module(module)

    def array(self, array: Any, held: bool) -> None:
        pass

    def variables(self, variables: dict[str, Any]) -> None:
        self._in(variables, list(variables))

    def _in(self, container: Any, keys: Iterable[Any]) -> None:
        for key in keys:
            old = container[key]
            if (new := self._now(old)) is not old:
                container[key] = new

    def _now(self, old: Any) -> Any:
        """What takes the place of a tracer, or of a tuple that holds some."""
        kind = type(old)  # what an object says that it is may be the user's
        if issubclass(kind, jax.core.Tracer):
            return self.settled(old)
        if kind is not tuple and not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
            return old
        parts = [self._now(part) for part in old]
        return old if all(map(is_, parts, old)) else tuple.__new__(kind, parts)
