"""What a Python function captures, read anew at every call and replaced when the function is traced.

Python floats and inexact arrays (JAX's, tracers and NumPy's) and function values that are reached from cells, defaults,
or the function's own global names, through containers, partial applications and captured functions, are *environment*.
The rest is *code*: its `key` says whether two functions are one program.  `const(v)` exempts a value.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.identity import key_of
from combinators.terms import Const
from combinators.types import LEAF, Opaque, children
from combinators.values import Closure


@dataclass
class Captured:
    """`key`: the code of a function.  `names`, `values`: its environment.  `rebuild(values)`: the function with others."""

    key: Hashable
    names: list[str]
    values: list[Any]
    rebuild: Callable[[list[Any]], Any]
    kept: list[Any]  # objects whose identity is in the key


def captures(f: Any) -> Captured:
    """Reads the captures of a Python function, of a partial application, or of any callable pytree."""
    reader = _Reader()
    key = reader.read(f, "f")

    def rebuild(values: list[Any]) -> Any:
        return _Rebuilder(reader, values).build(f)

    return Captured(key, reader.names, reader.values, rebuild, reader.kept)


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


class _Reader:
    """One walk over what a function reaches: environment into `values`, the rest into the key."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.values: list[Any] = []
        self.kept: list[Any] = []
        self.places: dict[int, int] = {}  # identity of an environment value: its place in values
        self.number: dict[int, int] = {}  # identity of what has parts: its number, so that cycles and sharing end
        self.fixed: set[int] = set()  # identities of what has parts, none of them environment

    def read(self, value: Any, name: str) -> Hashable:
        if _is_environment(value):
            return ("environment", self._place(value, name))
        if id(value) in self.number:
            return ("again", self.number[id(value)])
        if isinstance(value, NoneType | bool | int | str | bytes | np.ndarray | np.generic | Const):
            return ("code", key_of(value))
        parts = _parts(value)
        if parts is None:
            self.kept.append(value)
            return ("object", type(value), id(value))
        self.number[id(value)] = len(self.number)
        self.kept.append(value)
        keys = tuple((label, self.read(part, str(label))) for label, part in parts)
        if not any(self._varies(part) for _, part in parts):
            self.fixed.add(id(value))
        return (_code(value), keys)

    def _place(self, value: Any, name: str) -> int:
        if id(value) not in self.places:
            self.places[id(value)] = len(self.values)
            self.names.append(name)
            self.values.append(value)
        return self.places[id(value)]

    def _varies(self, value: Any) -> bool:
        return id(value) in self.places or (id(value) in self.number and id(value) not in self.fixed)


class _Rebuilder:
    """The same walk, giving again, with new environment values, what holds environment; the rest stays the object it is."""

    def __init__(self, reader: _Reader, values: list[Any]):
        self.reader, self.values = reader, values
        self.built: dict[int, Any] = {}

    def build(self, value: Any) -> Any:
        if id(value) in self.reader.places:
            return self.values[self.reader.places[id(value)]]
        if id(value) in self.reader.fixed or id(value) not in self.reader.number:
            return value
        if id(value) not in self.built:
            self.built[id(value)] = self._again(value)
        return self.built[id(value)]

    def _again(self, value: Any) -> Any:
        match value:
            case types.FunctionType():
                return self._function(value)
            case types.MethodType():
                return types.MethodType(self.build(value.__func__), self.build(value.__self__))
            case functools.partial():
                args, keywords = map(self.build, value.args), {k: self.build(v) for k, v in value.keywords.items()}
                return functools.partial(self.build(value.func), *args, **keywords)
            case dict() if type(value) is dict:
                return {key: self.build(part) for key, part in value.items()}
            case _:
                pairs, form = children(value)
                return form.unflatten([self.build(part) for _, part in pairs])

    def _function(self, f: types.FunctionType) -> Any:
        read_globals = _read_globals(f)
        new_globals = (
            {**f.__globals__, **{n: self.build(v) for n, v in read_globals}} if read_globals else f.__globals__
        )
        cells = tuple(
            types.CellType() if self._rebuilds(cell) else cell for cell in f.__closure__ or ()
        )  # a cell without environment stays the same object: the function may assign to it
        new = types.FunctionType(f.__code__, new_globals, f.__name__, None, cells)
        self.built[id(f)] = new
        new.__dict__.update(f.__dict__)
        new.__qualname__, new.__module__ = f.__qualname__, f.__module__
        new.__defaults__ = f.__defaults__ and tuple(map(self.build, f.__defaults__))
        new.__kwdefaults__ = f.__kwdefaults__ and {k: self.build(v) for k, v in f.__kwdefaults__.items()}
        for old, cell in zip(f.__closure__ or (), cells, strict=True):
            if cell is not old:
                cell.cell_contents = self.build(old.cell_contents)
        return new

    def _rebuilds(self, cell: Any) -> bool:
        if _is_empty(cell):
            return False
        value = cell.cell_contents
        return id(value) in self.reader.places or (
            id(value) in self.reader.number and id(value) not in self.reader.fixed
        )


def _parts(value: Any) -> list[tuple[Any, Any]] | None:
    """What a value is made of, labelled; None for an object that is not looked into."""
    match value:
        case types.FunctionType():
            cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
            return [
                *((name, cell.cell_contents) for name, cell in cells if not _is_empty(cell)),
                *zip(
                    reversed(value.__code__.co_varnames[: value.__code__.co_argcount]),
                    reversed(value.__defaults__ or ()),
                ),
                *(value.__kwdefaults__ or {}).items(),
                *_read_globals(value),
            ]
        case types.MethodType():
            return [("self", value.__self__), ("method", value.__func__)]
        case functools.partial():
            return [("function", value.func), *enumerate(value.args), *value.keywords.items()]
        case dict() if type(value) is dict:
            return list(value.items())
        case _:
            pairs, form = children(value)
            return None if form == LEAF else pairs


def _code(value: Any) -> Hashable:
    match value:
        case types.FunctionType():
            return value.__code__
        case types.MethodType() | functools.partial() | dict():
            return type(value)
        case _:
            return children(value)[1]


def _read_globals(f: types.FunctionType) -> list[tuple[str, Any]]:
    """The global names that a function itself reads and that hold environment; other globals are code, as in JAX."""
    present = ((name, f.__globals__[name]) for name in _global_names(f.__code__) if name in f.__globals__)
    return [(name, value) for name, value in present if _is_environment(value)]


@lru_cache(maxsize=16384)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    own = [i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"]
    inner = [name for const in code.co_consts if isinstance(const, types.CodeType) for name in _global_names(const)]
    return tuple(dict.fromkeys([*own, *inner]))


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True
