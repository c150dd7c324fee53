"""What a program read while it was traced: where that stands, and what it was.

A trace may be used again while all of it is the same.  What is read: the variables and attributes that the functions
which ran name, what functions captured, and what these values hold, down to what never changes.  Values count by
identity, arrays of NumPy by their bytes.  What Python cannot look at in a moment, or at all, is not watched: such a
program is traced anew at each call.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import call, is_
from typing import Any

import jax
import numpy as np

from combinators.values import Closure

LIMIT = 600  # entries at most: some 20 microseconds
_ARRAYS = frozenset({np.ndarray, np.recarray, np.matrix})  # which hold nothing but numbers
BYTES = 2**17  # of arrays at most, for the same reason


@dataclass(frozen=True)
class Variable:
    """A variable that is read anew at each call: a cell, or a name of a module.  It held a value of this type."""

    owner: Any
    name: str
    slot: int = -1  # of the environment
    type: Any = None

    @property
    def key(self) -> tuple[int, str]:
        """The same for two mentions of one variable."""
        return id(self.owner), self.name

    def at(self, slot: int, value: Any) -> Variable:
        """The variable with its slot, and the type of what it holds now."""
        return Variable(self.owner, self.name, slot, _kind(value))

    def write(self, new: Callable[[Any], Any]) -> None:
        """Makes of what it holds something else, if it holds anything."""
        try:
            old = self._now()
        except (LookupError, ValueError):  # deleted: a cell is empty then
            return
        if (value := new(old)) is old:
            return
        if isinstance(self.owner, dict):
            self.owner[self.name] = value
        else:
            setattr(self.owner, self.name, value)

    def put(self, value: Any) -> None:
        """Has it hold a value again."""
        self.write(lambda old: value)

    def read(self) -> Any:
        """What it holds now.  Raises `Changed` if that is of another type."""
        value = self._now()
        if type(value) is not self.type and _kind(value) is not self.type:
            raise Changed
        return value

    def _now(self) -> Any:
        return self.owner[self.name] if isinstance(self.owner, dict) else getattr(self.owner, self.name)


def _kind(value: Any) -> Any:
    return value.dtype if isinstance(value, np.ndarray) else type(value)


_call: Any = call  # of any number of arguments


class Changed(Exception):
    """A variable holds a value of another type than before."""


@dataclass
class Watch:
    """Places and what stood there.  `holds()` says whether it still does."""

    variables: list[tuple[dict[str, Any], str, Any]] = field(default_factory=list)  # of modules, by name
    attributes: list[tuple[Any, str, Any]] = field(default_factory=list)  # contents of cells, slots
    wholes: list[tuple[Any, tuple[Any, ...]]] = field(default_factory=list)  # containers with all that they hold
    answers: list[tuple[Callable[[], Any], Any]] = field(default_factory=list)  # of context variables, of references
    arrays: list[tuple[Any, tuple[Any, ...], Any]] = field(default_factory=list)  # with copies
    dicts: list[tuple[Any, dict[Any, Any]]] = field(default_factory=list)  # with what they held
    notebooks: list[tuple[Any, int]] = field(default_factory=list)  # lists that are appended to, with their lengths
    reason: str = ""  # what was read and cannot be watched
    told: bool = False  # whether the user was told so
    _places: Any = None

    def holds(self) -> bool:
        """Whether all that is read is watched, and what it was."""
        return not self.reason and self.stands()

    def stands(self) -> bool:
        """Whether all that is watched is what it was."""
        if self._places is None:
            self._places = self._transposed()
        (reads, owners, names, values), (containers, lengths, parts), (givens, given) = self._places
        try:
            if not all(map(is_, map(_call, reads, owners, names), values)):
                return False
            if containers and list(map(len, containers)) != lengths:
                return False
            if parts and not all(map(is_, chain.from_iterable(containers), parts)):
                return False
            if givens and not all(map(is_, map(_call, givens), given)):
                return False
            for array, held, _ in self.arrays:
                if bytes_of(array) != held:
                    return False
        except Exception:  # deleted, emptied, changed by another thread, or a user's `__getattr__`
            return False
        return True

    def restore(self) -> None:
        """Puts back what stood in variables, containers and arrays, before a function runs once more."""
        for variables, name, value in self.variables:
            variables[name] = value
        for owner, name, value in self.attributes:
            if getattr(owner, name, None) is not value:
                with suppress(AttributeError, TypeError):  # of what cannot be set, and was not
                    setattr(owner, name, value)
        for container, parts in self.wholes:
            if isinstance(container, list | deque | set) and not _same(container, parts):
                container.clear()
                container.update(parts) if isinstance(container, set) else container.extend(parts)
        for container, entries in self.dicts:
            kind = (
                OrderedDict if isinstance(container, OrderedDict) else dict
            )  # the first has its order beside the entries
            if not _same(kind.keys(container), entries) or not _same(kind.values(container), entries.values()):
                kind.clear(container)
                kind.update(container, entries)
        for array, held, copy in self.arrays:
            if bytes_of(array) != held and array.flags.writeable and array.shape == copy.shape:
                array[...] = copy
        for book, length in self.notebooks:
            if isinstance(book, list):
                del book[length:]

    def may_hold(self, kind: type) -> bool:
        """Whether something of this type may have been put where this looks, or into a list that notes are taken in."""
        new = [list(islice(book, start, None)) for book, start in self.notebooks]
        noted = True in [isinstance(part, kind) for part in jax.tree.leaves(new)]
        return noted or bool(self.reason) or not self.stands()

    def place(self, variable: Variable, value: Any) -> None:
        """Watches a variable."""
        if isinstance(variable.owner, dict):
            self.variables.append((variable.owner, variable.name, value))
        else:
            self.attributes.append((variable.owner, variable.name, value))

    def function(self, f: Closure) -> None:
        """Watches what a function value captured, which can be exchanged for something else."""
        self.attributes.append((f, "environment", f.environment))

    def container(self, value: Any) -> None:
        """Watches what a container holds, and what a function has for defaults."""
        match value:
            case dict():
                if isinstance(value, OrderedDict):
                    self.whole(value.keys())  # in an order of its own
                self.whole(dict.keys(value))
                self.whole(dict.values(value))
                self.dicts.append((value, {**value}))
            case list() | deque():
                self.whole(value)
            case types.FunctionType():
                self.attributes.append((value, "__code__", value.__code__))
                if value.__defaults__:
                    self.attributes.append((value, "__defaults__", value.__defaults__))
                if value.__kwdefaults__:
                    self.attributes.append((value, "__kwdefaults__", value.__kwdefaults__))
                    self.container(value.__kwdefaults__)
            case functools.partial():
                self.partial(value)
            case tuple() | types.MethodType():
                pass
            case _ if hasattr(value, "__dict__"):
                self.container(vars(value))
            case _:
                self.reason = f"a {type(value).__name__}"

    def partial(self, value: functools.partial[Any]) -> None:
        """Watches what a partial application is of."""
        self.attributes += ((value, name, getattr(value, name)) for name in ("func", "args", "keywords"))
        self.container(value.keywords)

    def whole(self, container: Any) -> None:
        """Watches all that a container holds."""
        self.wholes.append((container, tuple(container)))

    def array(self, array: np.ndarray) -> None:
        """Watches what an array of NumPy holds."""
        if type(array) not in _ARRAYS:
            self.reason = f"a {type(array).__name__}"
        else:
            self.arrays.append((array, bytes_of(array), array.copy()))  # which also holds the objects in it

    def _transposed(self) -> tuple[Any, Any, Any]:
        """For loops in C: how to read each single place, of what, by what name, what was there; likewise the rest."""
        groups = (dict.__getitem__, self.variables), (getattr, self.attributes)
        places = [(read, *place) for read, group in groups for place in group]
        containers, parts = zip(*self.wholes, strict=True) if self.wholes else ((), ())
        return (
            tuple(zip(*places, strict=True)) if places else ((), (), (), ()),
            (containers, list(map(len, parts)), tuple(chain.from_iterable(parts))),
            tuple(zip(*self.answers, strict=True)) if self.answers else ((), ()),
        )

    @property
    def size(self) -> int:
        """How many places there are to look at."""
        groups = self.variables, self.attributes, self.answers, self.arrays
        return sum(map(len, groups)) + sum([4 + len(held) for _, held in self.wholes])

    def __add__(self, other: Watch) -> Watch:
        return Watch(
            self.variables + other.variables,
            self.attributes + other.attributes,
            self.wholes + other.wholes,
            self.answers + other.answers,
            self.arrays + other.arrays,
            self.dicts + other.dicts,
            self.notebooks + other.notebooks,
            self.reason or other.reason,
        )


def _same(some: Any, others: Any) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def bytes_of(array: Any) -> tuple[Any, ...]:
    """What an array of NumPy is and holds now."""
    return array.shape, array.strides, array.dtype, array.flags.num, array.tobytes()


NOTHING = Watch()
