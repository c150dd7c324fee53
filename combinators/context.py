"""Flat contexts Δ = τ1·…·τn: what lets extend, what variables project from, what closures capture.

One class serves values, types and terms alike: a `Context` of values has a `Context` of types, and a `Context` of terms
is a product of arrows into a context.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from combinators.edges import place
from combinators.errors import text


class Context:
    """`Context(x1, ..., xn)`: a sequence that is extended at its end in constant time; a pytree over its entries.

    `ctx.extend(x)` shares the entries of `ctx`, which stays as it was: extending along one chain appends to one list,
    extending an earlier context a second time copies it.  `ctx[i]` counts from 0, and from the end for negative i.
    """

    __slots__ = ("_entries", "_length")

    def __init__(self, *entries: Any):
        self._entries = list(entries)
        self._length = len(entries)

    def extend(self, entry: Any) -> Context:
        """Δ, τ ↦ Δ·τ"""
        if self._length != len(self._entries):
            return Context(*self, entry)
        longer = object.__new__(Context)
        longer._entries = self._entries
        longer._entries.append(entry)
        longer._length = self._length + 1
        return longer

    def entries(self) -> tuple[Any, ...]:
        """The entries as a tuple."""
        return tuple(self._entries[: self._length])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        if type(index) is not int:
            index = place(index)
        if 0 <= index < self._length:
            return self._entries[index]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._entries[index % self._length]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries[: self._length])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and jax.tree.flatten(self) == jax.tree.flatten(other)

    __hash__ = None  # type: ignore[assignment]  # entries may be arrays

    def __repr__(self) -> str:
        return f"Context({', '.join([text(entry, repr) for entry in self])})"


def extend(ctx: Any, entry: Any) -> Any:
    """Δ·τ for a context Δ, and the pair (a, τ) for anything else: the domain of what `curry` and `extend` bind."""
    return ctx.extend(entry) if isinstance(ctx, Context) else (ctx, entry)


def divided(x: Any) -> tuple[Any, Any] | None:
    """Δ and τ of Δ·τ, a context or a pair: `extend` backwards.  None for anything else."""
    match x:
        case Context() if len(x):
            return Context(*list(x)[:-1]), x[-1]
        case (ctx, entry):
            return ctx, entry
        case _:
            return None


jax.tree_util.register_pytree_with_keys(
    Context,
    lambda ctx: (tuple((jax.tree_util.SequenceKey(i), entry) for i, entry in enumerate(ctx.entries())), None),
    lambda _, entries: Context(*entries),
    lambda ctx: (tuple(ctx._entries[: ctx._length]), None),  # pyright: ignore[reportPrivateUsage]
)
