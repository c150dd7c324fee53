"""What a Python function captures: read anew at every call, replaced when the function is traced.

Python floats and inexact arrays (JAX's, tracers and NumPy's) and function values that are reached from the cells,
defaults and global names of a function, through containers, partial applications and captured functions, are its
*environment*, one entry for each variable.  All else is *code*: the key tells whether two functions are one program,
as long as what the program read beyond it is what it was (`reached`).  `const(v)` exempts a value.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Iterator, MappingView
from dataclasses import dataclass, field
from typing import Any, assert_never

import jax
import jax.numpy as jnp
import numpy as np

from combinators.bytecode import is_note, loaded, noted
from combinators.identity import key_of
from combinators.kinds import kind_with
from combinators.rules import PLAIN, global_names, is_empty
from combinators.terms import Const
from combinators.types import LEAF, Opaque, children
from combinators.values import Closure
from compile_ccc.ran import Replaced
from compile_ccc.watch import Variable, Watch


@dataclass
class Captured:
    """`key`: a function's code.  `names`, `values`: its environment.  `rebuild(values)`: the function with these.

    `kept` are the objects whose identity is in the key, `forms` those of the pytrees in it, `watch` the places that
    were read, but for the `variables` whose values are environment.
    """

    key: Hashable
    names: list[str]
    values: list[Any]
    rebuild: Callable[[list[Any]], Any]
    kept: list[Any] = field(default_factory=list)
    forms: list[Any] = field(default_factory=list)
    watch: Watch = field(default_factory=Watch)
    variables: list[Variable] = field(default_factory=list)


def captures(f: Any) -> Captured:
    """Reads the captures of a Python function, a partial application, or any callable pytree."""
    reader = _Reader()
    key, plan = reader.read(f, "f")
    rebuild = lambda values: _Rebuild(values).build(plan)
    return Captured(key, reader.names, reader.values, rebuild, reader.kept, reader.forms, reader.watch, reader.places)


@dataclass(frozen=True, eq=False)
class _Keep:
    """A value without environment: it stays the object that it is."""

    value: Any


@dataclass(frozen=True, eq=False)
class _Slot:
    """An entry of the environment."""

    index: int


@dataclass(frozen=True, eq=False)
class _Make:
    """A function or container that holds environment: made again from its parts."""

    value: Any
    parts: list[tuple[Any, _Plan]]


@dataclass(frozen=True, eq=False)
class _Copy:
    """An array of NumPy that is code: the program keeps what it holds now."""

    array: np.ndarray


_PLAIN = (types.NoneType, bool, int, str, bytes, np.generic, Const)
_LONG, _DEEP = 1024, 64  # containers of more parts, or inside of more containers, are objects
_NESTED = 16  # levels of keys within keys; those further inside are kinds

type _Plan = _Keep | _Slot | _Make | _Copy
type _Read = tuple[Hashable, _Plan]


class _Reader:
    """One walk over what a function reaches gives its key, its environment, and the plan to make it again."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.values: list[Any] = []
        self.kept: list[Any] = []
        self.forms: list[Any] = []
        self.watch = Watch()
        self.places: list[Variable] = []
        self.met: list[Any] = []  # held, so that no other value takes its place
        self.variables: dict[Hashable, _Read] = {}  # by cell, or by module and name
        self.seen: dict[int, tuple[int, _Plan]] = {}  # what has parts, by identity: its number and its plan

    def read(self, value: Any, name: str, depth: int = 0) -> _Read:
        if _is_environment(value):
            self.names.append(name)
            self.values.append(value)
            if isinstance(value, Closure):
                self.watch.function(value)
            return ("environment", len(self.values)), _Slot(len(self.values) - 1)
        if isinstance(value, _PLAIN):
            return ("code", key_of(value)), _Keep(value)
        if isinstance(value, np.ndarray):
            self.watch.array(value)
            return ("code", key_of(value)), _Copy(value)
        if id(value) in self.seen:
            number, plan = self.seen[id(value)]
            return ("again", number), plan
        self.met.append(value)
        parts = _parts(value) if depth < _DEEP or isinstance(value, types.FunctionType) else None
        if parts is None or len(parts) > _LONG:
            return self.object(value), _Keep(value)
        self.watch.container(value)
        made = _Make(value, [])
        self.seen[id(value)] = (len(self.seen), made)
        keys: list[Hashable] = []
        notes = noted(value.__code__) if isinstance(value, types.FunctionType) else ()
        for label, variable, part in parts:
            note = label in notes and is_note(part) and not _is_environment(part)
            key, plan = ("note", _Keep(part)) if note else self.variable(variable, part, str(label), depth)
            keys.append((label, key))
            made.parts.append((label, plan))
        if isinstance(value, types.FunctionType) and loaded(value.__code__):
            keys.append(("module", id(value.__globals__)))
        if isinstance(value, types.FunctionType) and value.__dict__:
            self.watch.container(value.__dict__)
            keys += [(name, self.attribute(part)) for name, part in value.__dict__.items() if name != "__wrapped__"]
        if all(isinstance(plan, _Keep) for _, plan in made.parts):
            self.seen[id(value)] = (self.seen[id(value)][0], _Keep(value))
        code = _code(value)
        if isinstance(code, jax.tree_util.PyTreeDef):
            self.forms.append(code)
        key = (code, tuple(keys))
        return key if depth < _NESTED else kind_with(key), self.seen[id(value)][1]

    def attribute(self, value: Any) -> Hashable:
        """The key of an attribute of a function, which is code."""
        return key_of(value) if isinstance(value, PLAIN) else self.object(value)

    def object(self, value: Any) -> Hashable:
        """The key of what counts by identity."""
        self.kept.append(value)
        self.watch.attributes.append((value, "__class__", value.__class__))
        return ("object", type(value), id(value))

    def variable(self, variable: Variable | None, value: Any, name: str, depth: int) -> _Read:
        """Reads a variable; two functions that share it share its entry."""
        if variable is None:
            return self.read(value, name, depth + 1)
        if not _is_environment(value):
            self.watch.place(variable, value)
            return self.read(value, name, depth + 1)
        if variable.key not in self.variables:
            if isinstance(value, Closure):
                self.watch.place(variable, value)
            else:
                self.places.append(variable.at(len(self.values), value))
            self.variables[variable.key] = self.read(value, name)
        return self.variables[variable.key]


class _Rebuild:
    """Follows a plan with new environment values."""

    def __init__(self, values: list[Any]):
        self.values = values
        self.made: dict[int, Any] = {}

    def build(self, plan: _Plan) -> Any:
        match plan:
            case _Keep(value):
                return value
            case _Slot(index):
                return self.values[index]
            case _Copy(array):
                return array.copy()
            case _Make():
                if id(plan) not in self.made:
                    self.made[id(plan)] = self._make(plan)
                return self.made[id(plan)]
            case _:
                assert_never(plan)

    def _make(self, plan: _Make) -> Any:
        value = plan.value
        if isinstance(value, types.FunctionType):
            return self._function(plan, value)
        parts = [(label, self.build(part)) for label, part in plan.parts]
        match value:
            case types.MethodType():
                return types.MethodType(parts[1][1], parts[0][1])
            case functools.partial():
                count = len(value.args)
                return functools.partial(*(part for _, part in parts[: count + 1]), **dict(parts[count + 1 :]))
            case dict():
                return dict(parts)
            case _:
                return children(value)[1].unflatten([part for _, part in parts])

    def _function(self, plan: _Make, f: types.FunctionType) -> Any:
        """A cell without environment stays the same object, since the function may assign to it."""
        plans = dict(zip(_places(f), (part for _, part in plan.parts), strict=True))
        cells = f.__closure__ or ()
        varying = [("cell", i) in plans and not isinstance(plans["cell", i], _Keep) for i in range(len(cells))]
        new_cells = tuple(types.CellType() if v else cell for v, cell in zip(varying, cells, strict=True))
        new_globals = f.__globals__
        if any(kind == "global" for kind, _ in plans):
            new_globals = Replaced(
                f.__globals__, {n: self.build(p) for (kind, n), p in plans.items() if kind == "global"}
            )
        new = types.FunctionType(f.__code__, new_globals, f.__name__, None, new_cells)
        self.made[id(plan)] = new  # before its parts: it may capture itself
        new.__dict__.update(f.__dict__)
        new.__qualname__, new.__module__ = f.__qualname__, f.__module__
        new.__defaults__ = tuple(self.build(p) for (kind, _), p in plans.items() if kind == "default") or None
        new.__kwdefaults__ = {n: self.build(p) for (kind, n), p in plans.items() if kind == "keyword"} or None
        for i, cell in enumerate(new_cells):
            if varying[i]:
                cell.cell_contents = self.build(plans["cell", i])
        return new


def _is_environment(value: Any) -> bool:
    match value:
        case bool() | int():
            return False
        case float() | complex() | jax.Array() | Closure() | Opaque():
            return True
        case np.ndarray() | np.generic():
            return bool(jnp.issubdtype(value.dtype, np.inexact))
        case _:
            return False


def _parts(value: Any) -> list[tuple[Any, Variable | None, Any]] | None:
    """What a value is made of: (label, the variable that holds it if there is one, part); None for a plain object."""
    match value:
        case types.FunctionType():
            return [_place(value, *place) for place in _places(value)]
        case types.MethodType():
            return [("self", None, value.__self__), ("method", None, value.__func__)]
        case functools.partial():
            pairs = [("function", value.func), *enumerate(value.args), *value.keywords.items()]
        case dict() if type(value) is dict:
            pairs = list(value.items())
        case Iterator() | MappingView():  # which JAX takes for leaves, with a warning
            return None
        case _:
            pairs, form = children(value)
            return None if form == LEAF else [(label, None, part) for label, part in pairs]
    return [(label, None, part) for label, part in pairs]


def _places(f: types.FunctionType) -> list[tuple[str, Any]]:
    """Where a function holds values: its cells, defaults, and the global names of its environment."""
    return [
        *(("cell", i) for i, cell in enumerate(f.__closure__ or ()) if not is_empty(cell)),
        *(("default", i) for i in range(len(f.__defaults__ or ()))),
        *(("keyword", name) for name in f.__kwdefaults__ or ()),
        *(("global", name) for name in global_names(f) if _is_environment(f.__globals__[name])),
    ]


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
    has_no_form = isinstance(value, types.MethodType | functools.partial | dict)
    return type(value) if has_no_form else children(value)[1]
