"""What is remembered from one call to the next: tables, which are bounded, registered, and can be emptied at any time.

A table only saves time: without it, everything is worked out anew, and the answer is the same.  There are five kinds:
`remembered` for the results of a function, `Table` for what has a key, `Facts` for what is known of a term, `ByObject`
for what is known of an object of JAX's or of Python's, and `OfMany` for what objects know themselves.  The last three
keep nothing alive.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Protocol

_tables: list[_Registered] = []  # one for each place in our modules that makes one
_lock = threading.RLock()  # of all tables; a finalizer may come in at any time, in the same thread


class _Registered(Protocol):
    """What the register knows of a table."""

    name: str

    def clear(self) -> None: ...
    def __len__(self) -> int: ...


class Remembered:
    """What only saves time: no answer depends on what it holds."""


class Table[K: Hashable, V](Remembered):
    """At most so many entries, of which the one that was used longest ago goes first."""

    def __init__(self, name: str, entries: int):
        self.name, self._most = name, entries
        self._entries: OrderedDict[K, V] = OrderedDict()
        _tables.append(self)

    def get(self, key: K) -> V | None:
        """The entry of a key, which is used thereby; None if there is none."""
        found = self._entries.get(key)
        if found is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:
                return found  # another thread has just taken it out
        return found

    def put(self, key: K, value: V) -> V:
        """Makes an entry, unless there is one; gives the one that there is then."""
        with _lock:
            found = self._entries.setdefault(key, value)
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
            return found

    def drop(self, key: K) -> None:
        """Takes out an entry, if there is one."""
        with _lock:
            self._entries.pop(key, None)

    def take(self) -> list[tuple[K, V]]:
        """Takes out all entries, and gives them."""
        with _lock:
            found = list(self._entries.items())
            self._entries.clear()
            return found

    def clear(self) -> None:
        """Takes out all entries."""
        self.take()  # what they alone kept alive ends after the lock is given back

    def __len__(self) -> int:
        return len(self._entries)


class Facts[V](Remembered):
    """What is known of terms, by keys, at most so many of one term: the term itself has it, so it goes with the term.

    It may hold the term, as the value of a weak dictionary could not: that would keep the term alive for ever.
    """

    def __init__(self, name: str, entries: int):
        self.name, self._most = name, entries
        self._terms: weakref.WeakSet[Any] = weakref.WeakSet()
        _tables.append(self)

    def get(self, term: Any, key: Hashable = ()) -> V | None:
        """What is known of a term by this key; None if nothing is."""
        own = self._of(term)
        found = own.get(key)
        if found is not None:
            with _lock:
                if key in own:
                    own.move_to_end(key)
        return found

    def put(self, term: Any, value: V, key: Hashable = ()) -> V:
        """Makes an entry, unless there is one; gives the one that there is then."""
        with _lock:
            own = self._of(term)
            if not own:
                self._terms.add(term)
                term.facts[self] = own
            found = own.setdefault(key, value)
            if len(own) > self._most:
                own.popitem(last=False)
            return found

    def _of(self, term: Any) -> OrderedDict[Any, V]:
        try:
            return term.facts.get(self) or OrderedDict()
        except AttributeError:  # nothing is known of it
            object.__setattr__(term, "facts", {})
            return OrderedDict()

    def clear(self) -> None:
        """Takes out all entries."""
        with _lock:
            found = [term.facts.pop(self, None) for term in self._terms]
            self._terms.clear()
        del found

    def __len__(self) -> int:
        with _lock:
            return sum(len(self._of(term)) for term in self._terms)


class ByObject[K, V](weakref.WeakKeyDictionary[K, V], Remembered):
    """One entry for each object, until the object goes.  No value may hold its object, or it would never go."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        _tables.append(self)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def put(self, key: K, value: V) -> V:
        """Makes an entry, unless there is one; gives the one that there is then."""
        with _lock:
            return self.setdefault(key, value)

    def clear(self) -> None:
        """Takes out all entries."""
        with _lock:
            super().clear()


class OfMany(Remembered):
    """What many objects remember themselves, as one table; it keeps none of them alive."""

    def __init__(self, name: str):
        self.name = name
        self._owners: weakref.WeakSet[Any] = weakref.WeakSet()
        _tables.append(self)

    def add(self, owner: Any) -> None:
        """Notes an object that has a length, and can be cleared."""
        with _lock:
            self._owners.add(owner)

    def clear(self) -> None:
        """Has all of them forget."""
        with _lock:
            owners = list(self._owners)
            self._owners.clear()
        for owner in owners:
            owner.clear()

    def __len__(self) -> int:
        with _lock:
            return sum(map(len, self._owners))


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
    """Empties all tables, at any time, in any thread: it changes no answer, and the next calls take longer."""
    for table in _tables:
        table.clear()


def caches() -> dict[str, int]:
    """The tables by name, each with the number of its entries."""
    return {table.name: len(table) for table in sorted(_tables, key=lambda table: table.name)}
