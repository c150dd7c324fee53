"""What a Python function captures: read anew at every call, replaced when the function is traced.

Python floats and inexact arrays (JAX's, tracers and NumPy's) and function values that are reached from the cells,
defaults and global names of a function, through containers, partial applications, arrows and captured functions, are
its *environment*, one entry for each variable.  All else is *code*: the key tells whether two functions are one
program, as long as what the program read beyond it is what it was (`reached`).  `const(v)` exempts a value.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Iterator, MappingView
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from combinators.base import Composable
from combinators.identity.bytecode import Names, is_note, names_of
from combinators.identity.identity import key_of
from combinators.identity.kinds import kind_with
from combinators.identity.rules import PLAIN
from combinators.terms import Const
from combinators.types import LEAF, children
from combinators.values import Closure
from compile_ccc.watching.before import Before, Still
from compile_ccc.watching.foreign import PARTS, has_attributes
from compile_ccc.watching.rebuilt import Keep, Make, Plan, Slot, is_environment, is_guarded, places, rebuilt
from compile_ccc.watching.watch import Variable, Watch


@dataclass
class Captured:
    """`key`: a function's code.  `names`, `values`: its environment.

    `rebuilt(values, settled)` is the function with other values, inside of a `with`.  `kept` are the objects whose
    identity is in the key, `forms` those of the pytrees in it, `watch` the places that were read, but for the
    `variables` whose values are environment, and `written` the variables that it sets itself.  `shared` are the objects
    that may change and are in no key themselves: containers, and where numbers stand that it counts.
    """

    key: Hashable
    names: list[str]
    values: list[Any]
    rebuilt: Callable[[list[Any], Callable[[Any], Any]], Any]
    kept: list[Any] = field(default_factory=list)
    forms: list[Any] = field(default_factory=list)
    watch: Watch = field(default_factory=Watch)
    variables: list[Variable] = field(default_factory=list)
    written: list[Variable] = field(default_factory=list)
    shared: list[Any] = field(default_factory=list)

    def undo(self, f: Any, before: Before | Still) -> None:
        """Puts back what the function f reached, before it runs once more."""
        before.restore(f)
        for variable in self.variables:
            variable.put(self.values[variable.slot])


def captures(f: Any) -> Captured:
    """Reads the captures of a Python function, a partial application, or any callable pytree."""
    reader = _Reader({}, frozenset())
    key, plan = reader.read(f, "f")
    while (reader.written and not reader.written.keys().isdisjoint(reader.variables)) or (
        reader.notes and not reader.notes.isdisjoint(reader.seen)
    ):
        # it was found out later that variables are set, or that notes are read
        reader = _Reader(reader.written, reader.are_read | (reader.notes & reader.seen.keys()))
        key, plan = reader.read(f, "f")
    written = list(reader.written.values())
    with_values = functools.partial(rebuilt, plan, reader.values, written)
    return Captured(
        key,
        reader.names,
        reader.values,
        with_values,
        reader.kept,
        reader.forms,
        reader.watch,
        reader.places,
        written,
        reader.shared,
    )


_PLAIN = (types.NoneType, bool, int, str, bytes, np.generic, Const)
_CONTAINERS = frozenset({tuple, list, dict})
_LONG, _DEEP = 1024, 64  # containers of more parts, or inside of more containers, are objects
_NESTED = 16  # levels of keys within keys; those further inside are kinds

type _Read = tuple[Hashable, Plan]


class _Reader:
    """One walk over what a function reaches gives its key, its environment, and the plan to make it again."""

    def __init__(self, written: dict[Hashable, Variable], are_read: frozenset[int]) -> None:
        self.written = written  # variables that are set by functions, so they are no environment
        self.are_read = are_read  # lists, by identity, in which one function takes notes and another one reads
        self.notes = set[int]()  # the other lists in which functions take notes
        self.shared: list[Any] = []  # see `Captured`
        self.names: list[str] = []
        self.values: list[Any] = []
        self.kept: list[Any] = []
        self.forms: list[Any] = []
        self.watch = Watch()
        self.places: list[Variable] = []
        self.met: list[Any] = []  # held, so that no other value takes its place
        self.variables: dict[Hashable, _Read] = {}  # by cell, or by module and name
        self.seen: dict[int, tuple[int, Plan]] = {}  # what has parts, by identity: its number and its plan

    def read(self, value: Any, name: str, depth: int = 0) -> _Read:
        if is_environment(value):
            self.names.append(name)
            self.values.append(value)
            if isinstance(value, Closure):
                self.watch.function(value)
            return ("environment", len(self.values)), Slot(len(self.values) - 1)
        if type(value) not in PARTS:
            if is_guarded(value):
                self.watch.reason = f"a {type(value).__name__}, which says itself what it is"
                return ("object", type(value), id(value)), Keep(value)
            if has_attributes(value):
                return self.object(value), Keep(value)
            if isinstance(value, _PLAIN):
                return ("code", key_of(value)), Keep(value)
        if (own := id(value)) in self.seen:
            number, plan = self.seen[own]
            return ("again", number), plan
        self.met.append(value)
        if isinstance(value, np.ndarray):
            self.shared.append(value)
            plan = Keep(value)
            self.seen[own] = (len(self.seen), plan)
            if value.dtype.hasobject:
                return self.object(value), plan
            self.watch.array(value)
            return ("code", key_of(value)), plan
        runs = type(value) is types.FunctionType
        is_long = type(value) in _CONTAINERS and len(value) > _LONG  # which is told before all parts are listed
        parts = _parts(value) if (depth < _DEEP or runs) and not is_long else None
        if parts is None or len(parts) > _LONG:
            return self.object(value), Keep(value)
        self.watch.container(value)
        self.shared += [value] if issubclass(type(value), list | dict) else []
        names = names_of(value.__code__) if runs else None
        if names is not None:
            self.sets(value, names)
        made = Make(value, [])
        self.seen[own] = (len(self.seen), made)
        keys: list[Hashable] = []
        for label, variable, part in parts:
            note = (
                names is not None
                and label in names.noted
                and is_note(part)
                and not is_environment(part)
                and id(part) not in self.are_read
            )
            if note:
                self.notes.add(id(part))
                self.shared.append(variable.owner if variable and isinstance(part, int | float) else part)
            key, plan = ("note", Keep(part)) if note else self.variable(variable, part, str(label), depth)
            keys.append((label, key))
            made.parts.append((label, plan))
        if names is not None and names.loaded:
            keys.append(("module", id(value.__globals__)))
        if runs and value.__dict__:
            self.watch.container(value.__dict__)
            keys += [(name, self.attribute(part)) for name, part in value.__dict__.items() if name != "__wrapped__"]
        if {type(plan) for _, plan in made.parts} <= {Keep}:
            self.seen[own] = (self.seen[own][0], Keep(value))
        code = _code(value)
        if isinstance(code, jax.tree_util.PyTreeDef):
            self.forms.append(code)
        key = (code, tuple(keys))
        return key if depth < _NESTED else kind_with(key), self.seen[own][1]

    def attribute(self, value: Any) -> Hashable:
        """The key of an attribute of a function, which is code."""
        return key_of(value) if isinstance(value, PLAIN) else self.object(value)

    def object(self, value: Any) -> Hashable:
        """The key of what counts by identity."""
        self.kept.append(value)
        self.watch.attributes.append((value, "__class__", value.__class__))
        return ("object", type(value), id(value))

    def sets(self, f: types.FunctionType, own: Names) -> None:
        """Notes the variables that a function sets, and the global ones that functions of its module set for it.

        A function whose global variables are set needs the variables of its module themselves.
        """
        module = f.__globals__
        waiting = [g for name in own.loaded if type(g := module.get(name)) is types.FunctionType]
        if not own.stored and not waiting:
            return
        seen, names = {f.__code__}, {*own.stored} - {*f.__code__.co_freevars}
        while waiting:
            g = waiting.pop()
            if g.__code__ not in seen and g.__globals__ is module:
                seen.add(g.__code__)
                others = names_of(g.__code__)
                names |= others.stored - {*g.__code__.co_freevars}
                waiting += [h for name in others.loaded if type(h := module.get(name)) is types.FunctionType]
        cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        found = [Variable(cell, "cell_contents") for name, cell in cells if name in own.stored]
        if not names.isdisjoint(module):
            found += [Variable(module, name) for name in {*names, *own.loaded} & module.keys()]
        self.written.update((variable.key, variable) for variable in found)
        self.shared += [variable.owner for variable in found]

    def variable(self, variable: Variable | None, value: Any, name: str, depth: int) -> _Read:
        """Reads a variable; two functions that share it share its entry."""
        if variable is None:
            return self.read(value, name, depth + 1)
        if not is_environment(value):
            self.watch.place(variable, value)
            return self.read(value, name, depth + 1)
        if variable.key in self.written:
            self.watch.place(variable, value)
            number = isinstance(value, float | complex | np.generic)
            return ("code", key_of(value)) if number else self.object(value), Keep(value)
        if variable.key not in self.variables:
            if isinstance(value, Closure):
                self.watch.place(variable, value)
            else:
                self.places.append(variable.at(len(self.values), value))
            self.variables[variable.key] = self.read(value, name)
        return self.variables[variable.key]


def _parts(value: Any) -> list[tuple[Any, Variable | None, Any]] | None:
    """What a value is made of: (label, the variable that holds it if there is one, part); None for a plain object."""
    match value:
        case types.FunctionType():
            return [_place(value, *place) for place in places(value)]
        case types.MethodType():
            return [("self", None, value.__self__), ("method", None, value.__func__)]
        case functools.partial():
            pairs = [("function", value.func), *enumerate(value.args), *value.keywords.items()]
        case Composable():
            pairs = list(enumerate(value.functions))
        case dict() if type(value) is dict:
            pairs = list(value.items())
        case Iterator() | MappingView():  # which JAX takes for leaves, with a warning
            return None
        case _:
            pairs, form = children(value)
            return None if form == LEAF else [(label, None, part) for label, part in pairs]
    return [(label, None, part) for label, part in pairs]


def _place(f: types.FunctionType, kind: str, where: Any) -> tuple[Any, Variable | None, Any]:
    code = f.__code__
    match kind:
        case "cell":
            cell: Any = f.__closure__[where] if f.__closure__ else None
            return code.co_freevars[where], Variable(cell, "cell_contents"), cell.cell_contents
        case "default":
            names = code.co_varnames[: code.co_argcount]
            defaults = f.__defaults__ or ()
            return names[len(names) - len(defaults) + where], None, defaults[where]
        case "keyword":
            return where, None, (f.__kwdefaults__ or {})[where]
        case _:
            return where, Variable(f.__globals__, where), f.__globals__[where]


def _code(value: Any) -> Hashable:
    if isinstance(value, types.FunctionType):
        return value.__code__
    if isinstance(value, Composable):
        return value.form
    has_no_form = isinstance(value, types.MethodType | functools.partial | dict)
    return type(value) if has_no_form else children(value)[1]
