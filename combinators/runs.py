"""Compiled programs, one for each operation and types of its arguments, which the tables of memory own.

JAX keeps what it compiles as long as the function lives that it was compiled for.  Here each program has a function of
its own, of leaves alone: it goes when its entry does, and a call of it costs what a call of `jax.jit` costs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
from jax.core import ShapedArray

from combinators.memo import Remembered, Table

_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python


class OtherTypes(Exception):
    """A program is called with arguments of other types than those that it was compiled for."""


class Runs(Remembered):
    """The programs of f(static, *arguments), for static arguments that are hashable."""

    def __init__(self, name: str, f: Callable[..., Any], entries: int = 256):
        self._f = f
        self._programs: Table[Hashable, Any] = Table(name, entries)

    def __call__(self, static: Hashable, *arguments: Any) -> Any:
        leaves, form = _flatten(arguments, None)
        return self.program(static, arguments, leaves, form)(*leaves)

    def program(self, static: Hashable, arguments: Sequence[Any], leaves: Sequence[Any], form: Any) -> Any:
        """The function of the leaves of the arguments that JAX compiles; it raises `OtherTypes` for others."""
        types = tuple(map(_type, leaves))
        key = (static, codes(arguments), form, types)  # for other settings of JAX, it compiles the same function again
        known = self._programs.get(key)
        return self._programs.put(key, jax.jit(self._run(*key))) if known is None else known

    def _run(self, static: Hashable, codes: Any, form: Any, types: tuple[Any, ...]) -> Callable[..., Any]:
        def run(*leaves: Any) -> Any:
            if tuple(map(_type, leaves)) != types:
                raise OtherTypes
            return self.at(static, codes, form, leaves)

        run.__name__ = run.__qualname__ = self._f.__name__.strip("_")
        return run

    def at(self, static: Hashable, codes: Any, form: Any, leaves: Sequence[Any]) -> Any:
        """What a program computes, of the leaves of the arguments."""
        return self._f(static, *form.unflatten(leaves))


def codes(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The codes of those arguments that are functions.  Forms of pytrees that differ in these have one hash."""
    return tuple([getattr(argument, "code", None) for argument in arguments])


def _type(leaf: Any) -> tuple[Any, ...]:
    type: Any = jax.typeof(leaf)
    return (type.shape, type.dtype, type.weak_type) if isinstance(type, ShapedArray) else (type,)
