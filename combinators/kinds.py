"""Which functions are of one kind: a key of a type with closures in it, which is found once for each closure.

A function that captured a function that captured a function … is long.  Passes that look at each of them in turn would
look at all of them each time, if they took the whole chain for the key of a table.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import WeakValueDictionary

import jax

from combinators.depth import bottom_up
from combinators.types import Tensor, Type
from combinators.values import Closure


class Kind:
    """What abstract closures of equal code with equal environments have in common."""

    __slots__ = ("__weakref__",)


_kinds: WeakValueDictionary[Hashable, Kind] = WeakValueDictionary()


def key_of_type(type: Type) -> Hashable:
    """A key that types share if they are equal, weak types and all; closures count by their kinds."""
    leaves, form = jax.tree.flatten(type, is_leaf=is_closure)
    return form, tuple([kind_of(t) if is_closure(t) else (t, t.weak) if isinstance(t, Tensor) else t for t in leaves])


def kind_of(f: Closure) -> Kind:
    """The kind of an abstract closure."""
    return bottom_up(f, _unknown_inside, _found, {})


def is_closure(type: Type) -> bool:
    """Whether this is a closure, of values or of types."""
    return isinstance(type, Closure)


def _unknown_inside(f: Closure) -> list[Any]:
    """The closures that f captured whose kinds are to be found first."""
    return [] if f.kind is not None else [g for g in jax.tree.leaves(f.environment, is_leaf=is_closure) if is_closure(g)]


def _found(f: Closure, _: Any) -> Kind:
    if f.kind is None:
        key = (f.code, key_of_type(f.environment))
        f.kind = _kinds.setdefault(key, Kind())
    return f.kind
