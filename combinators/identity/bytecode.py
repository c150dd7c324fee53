"""What Python's bytecode says of a function: the variables and attributes that it names, and its own notes."""

from __future__ import annotations

import dis
import types
from collections import deque
from collections.abc import Iterator
from importlib.util import resolve_name
from typing import Any, NamedTuple

from combinators.memo import remembered


def _numbers(*names: str) -> frozenset[int]:
    return frozenset(dis.opmap[name] for name in names)


_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"})
_STORES = frozenset({"STORE_GLOBAL", "STORE_DEREF"})
_ITEMS = _numbers("STORE_SUBSCR", "DELETE_SUBSCR")
_SETS = _STORES | {"DELETE_GLOBAL", "DELETE_DEREF"}
_STORING, _SETTING, _IMPORT = _numbers(*_STORES), _numbers(*_SETS), _numbers("IMPORT_NAME")
_SETTING_GLOBALS = _numbers("STORE_GLOBAL", "DELETE_GLOBAL")
_IN_PLACE = {(dis.opmap["BINARY_OP"], operand) for operand in range(13, 26)}  # +=, and so on
_GLOBAL, _EXTENDED = dis.opmap["LOAD_GLOBAL"], dis.opmap["EXTENDED_ARG"]
_NOTEBOOKS = (list, set, deque, int, float)
_NOTES = frozenset({"append", "add", "extend"})
_CHANGES = _NOTES | {"update", "setdefault", "insert", "appendleft", "pop", "popitem", "popleft", "remove", "clear"}


class Names(NamedTuple):
    """What the code of a function says of it and of the functions inside it.

    The variables of its module that it reads, in their order; those outside of it that it sets, of its module or in its
    cells; the names of the attributes that it uses; the variables outside of it that it takes notes in: counters that
    it counts, lists that it appends to.  It does nothing else with these, so they make no difference to what it gives,
    if what they hold `is_note`.
    """

    loaded: tuple[str, ...]
    stored: frozenset[str]
    attributes: tuple[str, ...]
    noted: frozenset[str]
    imports: tuple[tuple[str, int], ...]  # the modules, each with the number of dots before its name
    sets_items: bool

    @property
    def changes(self) -> bool:
        """Whether the function may change a container, of its own or another's."""
        return self.sets_items or not _CHANGES.isdisjoint(self.attributes)

    def imported(self, package: str | None) -> list[str]:
        """The modules that a function of this package imports when it runs."""
        return [
            resolve_name("." * level + name, package) if level and package else name for name, level in self.imports
        ]


@remembered(entries=4096)
def names_of(code: types.CodeType) -> Names:
    """What the code of a function says of it, found once."""
    whole = _whole(code)
    done = frozenset().union(*[part.co_code[::2] for part in whole])
    loaded = dict.fromkeys([name for part in whole for name in _globals(part)])
    attributes = dict.fromkeys([name for part in whole for name in part.co_names])
    counts = not _STORING.isdisjoint(done) and any(map(_may_count, whole))
    uses = list(_uses(code)) if counts or not _NOTES.isdisjoint(attributes) else ()
    noted = {name for name, note in uses if note} - {name for name, note in uses if not note}
    imports = [] if _IMPORT.isdisjoint(done) else [name for part in whole for name in _imports(part)]
    stored = frozenset[str]() if _SETTING.isdisjoint(done) else _stored(code)
    names = tuple(loaded), stored, tuple(attributes), frozenset(noted), tuple(dict.fromkeys(imports))
    return Names(*names, not _ITEMS.isdisjoint(done))


def operations(code: types.CodeType) -> frozenset[int]:
    """The numbers of the operations in a function: `dis` is slow, and many a function has none that is sought."""
    return frozenset(code.co_code[::2])


def _globals(code: types.CodeType) -> Iterator[str]:
    """The names after LOAD_GLOBAL, whose operand has a further bit at its end."""
    numbers, operands = code.co_code[::2], code.co_code[1::2]
    at = numbers.find(_GLOBAL)
    while at >= 0:
        operand, before, shift = operands[at], at - 1, 8
        while before >= 0 and numbers[before] == _EXTENDED:
            operand, before, shift = operand | operands[before] << shift, before - 1, shift + 8
        yield code.co_names[operand >> 1]
        at = numbers.find(_GLOBAL, at + 1)


def _imports(code: types.CodeType) -> Iterator[tuple[str, int]]:
    """The modules that a function imports, each with the number of dots before its name."""
    level = 0
    for step in () if _IMPORT.isdisjoint(operations(code)) else dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            yield step.argval, level
        elif isinstance(step.argval, int) and step.opname.startswith("LOAD"):
            level = step.argval


def _stored(code: types.CodeType) -> frozenset[str]:
    """The variables outside of a function that it sets, itself or in functions inside it."""
    sets = not (_SETTING if code.co_freevars else _SETTING_GLOBALS).isdisjoint(operations(code))
    names = {i.argval for i in dis.get_instructions(code) if i.opname in _SETS} if sets else set[str]()
    return frozenset(names.union(*map(_stored, _inner(code))) - {*code.co_cellvars, *code.co_varnames})


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


def _may_count(code: types.CodeType) -> bool:
    steps = code.co_code
    return not _STORING.isdisjoint(steps[::2]) and not _IN_PLACE.isdisjoint(zip(steps[::2], steps[1::2], strict=True))


def _counts(load: dis.Instruction, following: list[dis.Instruction | None]) -> bool:
    """Whether these steps are `n += 1`, whatever is added."""
    by, add, store = following[:3]
    whole = by and add and store and by.opname == "LOAD_CONST" and add.opname == "BINARY_OP" and add.argrepr[-1:] == "="
    return bool(whole and store and store.opname in _STORES and store.argval == load.argval)


def _whole(code: types.CodeType) -> list[types.CodeType]:
    """A function and those inside it, each before its own."""
    found, waiting = list[types.CodeType](), [code]
    while waiting:
        found.append(waiting.pop())
        waiting += _inner(found[-1])[::-1]
    return found


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]
