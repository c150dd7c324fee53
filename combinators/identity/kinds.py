"""Kinds: one object for all keys that are equal, so that comparing what nests deeply takes one step.

A function that captured a function that captured a function … is long, and so is the type of a function of functions of
functions.  A pass that looks at each of them in turn would otherwise look at all that is inside of each.
"""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakValueDictionary


class Kind:
    """What all that has one key has in common."""

    __slots__ = ("__weakref__", "_hash")

    def __init__(self, key: Hashable):
        self._hash = hash(key)

    def __hash__(self) -> int:
        return self._hash


_kinds: WeakValueDictionary[Hashable, Kind] = WeakValueDictionary()


def kind_with(key: Hashable) -> Kind:
    """The kind of what has this key.  Raises `TypeError` for a key without a hash."""
    found = _kinds.get(key)
    return _kinds.setdefault(key, Kind(key)) if found is None else found
