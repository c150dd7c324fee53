"""What is remembered from one call to the next: tables, which are bounded, registered, and can be emptied at any time.

A table only saves time: without it, everything is worked out anew, and the answer is the same.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from typing import Any, Protocol

_tables: list[_Registered] = []


class _Registered(Protocol):
    """What the register knows of a table."""

    name: str

    def clear(self) -> None: ...
    def __len__(self) -> int: ...


class Table[K: Hashable, V]:
    """At most so many entries, of which the one that was used longest ago goes first.  Safe under threads."""

    def __init__(self, name: str, entries: int):
        self.name, self._most = name, entries
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.RLock()  # a finalizer may come in at any time, in the same thread
        _tables.append(self)

    def get(self, key: K) -> V | None:
        """The entry of a key, which is used thereby; None if there is none."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> V:
        """Makes an entry, unless there is one; gives the one that there is then."""
        with self._lock:
            found = self._entries.setdefault(key, value)
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
            return found

    def drop(self, key: K) -> None:
        """Takes out an entry, if there is one."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Takes out all entries."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


class ByObject[K, V]:
    """One entry for each object, by identity of what is equal to itself alone; it goes when the object does."""

    def __init__(self, name: str):
        self.name = name
        self._entries: weakref.WeakKeyDictionary[K, V] = weakref.WeakKeyDictionary()
        self._lock = threading.RLock()
        _tables.append(self)

    def get(self, key: K) -> V | None:
        """The entry of an object; None if there is none."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> V:
        """Makes an entry, unless there is one; gives the one that there is then."""
        with self._lock:
            return self._entries.setdefault(key, value)

    def clear(self) -> None:
        """Takes out all entries."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


def remembered[**P, T](entries: int, typed: bool = False) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A pure function of hashable arguments that keeps its results, at most so many."""

    def decorate(f: Callable[P, T]) -> Callable[P, T]:
        kept: Any = lru_cache(maxsize=entries, typed=typed)(f)
        _tables.append(_Results(f"{f.__module__}.{f.__qualname__}", kept))
        return kept

    return decorate


class _Results:
    """The results of a function, as a table."""

    def __init__(self, name: str, kept: Any):
        self.name, self._kept = name, kept

    def clear(self) -> None:
        self._kept.cache_clear()

    def __len__(self) -> int:
        return self._kept.cache_info().currsize


def clear_caches() -> None:
    """Empties all tables, at any time: it changes no answer, and the next calls take longer."""
    for table in _tables:
        table.clear()


def caches() -> Iterator[tuple[str, int]]:
    """The tables by name, each with the number of its entries."""
    return ((table.name, len(table)) for table in _tables)
