"""What Python's bytecode says of a function: the variables and attributes that it names, and its own notes."""

from __future__ import annotations

import dis
import types
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import resolve_name
from typing import Any

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"})
_STORES = frozenset({"STORE_GLOBAL", "STORE_DEREF"})
_NOTEBOOKS = (list, set, deque, int, float)
_NOTES = frozenset({"append", "add", "extend"})


@lru_cache(maxsize=16384)
def loaded(code: types.CodeType) -> tuple[str, ...]:
    """The names of the variables of its module that a function reads, itself or in functions inside it."""
    own = [i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"]
    return tuple(dict.fromkeys([*own, *(name for inner in _inner(code) for name in loaded(inner))]))


@lru_cache(maxsize=16384)
def attribute_names(code: types.CodeType) -> tuple[str, ...]:
    """The names of the attributes that a function uses, itself or in functions inside it."""
    return tuple(dict.fromkeys([*code.co_names, *(name for i in _inner(code) for name in attribute_names(i))]))


@lru_cache(maxsize=16384)
def imported(code: types.CodeType, package: str | None) -> tuple[str, ...]:
    """The modules that a function of this package imports when it runs, itself or in functions inside it."""
    found: list[str] = []
    steps = list(dis.get_instructions(code))
    for i, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level = next(
                s.argval for s in reversed(steps[:i]) if s.opname == "LOAD_CONST" and isinstance(s.argval, int)
            )
            name = "." * level + step.argval
            found.append(resolve_name(name, package) if level and package else name)
    return tuple(dict.fromkeys([*found, *(name for inner in _inner(code) for name in imported(inner, package))]))


@lru_cache(maxsize=16384)
def noted(code: types.CodeType) -> frozenset[str]:
    """The variables outside of a function that it takes notes in: counters that it counts, lists that it appends to.

    It does nothing else with them, so they make no difference to what it gives, if what they hold `is_note`.
    """
    notes, read = set[str](), set[str]()
    for name, note in _uses(code):
        (notes if note else read).add(name)
    return frozenset(notes - read)


def is_note(value: Any) -> bool:
    """Whether notes can be taken in a value without an effect on anything else."""
    return type(value) in _NOTEBOOKS


def _uses(code: types.CodeType) -> Iterator[tuple[str, bool]]:
    """The variables from outside that a function loads, and whether only for a note."""
    steps = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
    for i, step in enumerate(steps):
        if step.opname in _LOADS:
            following = [*steps[i + 1 : i + 4], None, None, None]
            appends = following[0] and following[0].opname == "LOAD_ATTR" and following[0].argval in _NOTES
            yield step.argval, bool(appends) or _counts(step, following)
    for inner in _inner(code):
        yield from _uses(inner)


def _counts(load: dis.Instruction, following: list[dis.Instruction | None]) -> bool:
    """Whether these steps are `n += 1`, whatever is added."""
    by, add, store = following[:3]
    whole = by and add and store and by.opname == "LOAD_CONST" and add.opname == "BINARY_OP" and add.argrepr[-1:] == "="
    return bool(whole and store and store.opname in _STORES and store.argval == load.argval)


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]
