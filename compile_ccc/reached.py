"""From the functions that ran to all that they can have read: one walk, which gives a `Watch`.

A function reads the variables that it names, its cells, its defaults and its attributes; of a module, what it names; of
an object, any attribute, its class's too.  Functions of other packages read nothing but what they were given, which
they may call at any time: so what these hold counts as if it had run.  Not looked into are JAX, NumPy and ourselves.
"""

from __future__ import annotations

import functools
import re
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np

from combinators.bytecode import attribute_names, loaded, noted
from combinators.identity import Interned
from combinators.memo import remembered
from combinators.rules import PLAIN, is_empty
from compile_ccc.ran import Ran, is_own, is_reported
from compile_ccc.watch import BYTES, LIMIT, Watch

_CONSTANT = (*PLAIN, jax.Array, types.CodeType, range, slice, re.Pattern, jax.tree_util.PyTreeDef, np.dtype, np.ufunc)
_SOMETHING = frozenset({types.FunctionType, types.ModuleType, types.MethodType, type, tuple, list, dict})
_NOTHING = frozenset({types.NoneType, bool, int, float, complex, str, bytes})
_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_JAX = frozenset({"jax", "jaxlib", "numpy", "ml_dtypes"})
_QUIET = _JAX | {"combinators", "compile_ccc", "tangents", "diffcurry"}
_STEADY = _QUIET | {"builtins", "types", "operator", "functools", "itertools", "math", "cmath", "collections", "typing"}
_STEADY |= {"logging", "enum", "abc", "_thread", "datetime", "decimal", "fractions", "numbers", "dataclasses", "re"}
_CHANGING = frozenset(
    {"time", "random", "_random", "secrets", "uuid", "posix", "nt"}
)  # what these give, nobody can know
_NOW = frozenset({"now", "today", "utcnow"})  # of dates
_BUILTINS = frozenset({"open", "input"})
_CONTAINERS = (dict, list, set, tuple, frozenset, deque, functools.partial, BaseException)
_METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property, *_DESCRIPTORS)
_FROZEN = frozenset(sys.builtin_module_names) | frozenset(sys.stdlib_module_names)


def reached(ran: Ran | None, roots: Iterable[Any]) -> Watch:
    """What these functions read, and what the roots hold.  None for `ran` means that any function may have run."""
    if ran is not None and not is_reported():
        return Watch(reason="what Python does not report, since other tools watch it")
    try:
        return _Walk(ran, roots).watch
    except Unwatched as unwatched:
        return Watch(reason=str(unwatched))


class Unwatched(Exception):
    """A program read what cannot be watched."""


class _Walk:
    def __init__(self, ran: Ran | None, roots: Iterable[Any]):
        self.watch = Watch()
        self.ran, self.names = ran, set[str]()
        self.bytes = 0
        self.seen: dict[tuple[int, bool], Any] = {}  # held, so that no other value takes its place
        self.scopes: dict[int, Any] = {}  # modules and classes
        self.codes = {(code, module) for code, module, _ in ran or ()}
        self.named: set[tuple[int, str]] = set()  # variables that are watched
        self.waiting: list[tuple[Any, bool]] = [(root, False) for root in roots]
        for (code, _, without), variables in (ran or {}).items():
            self.code(code, variables, without)
        size = -1
        while self.waiting or size != len(self.names):  # more names, more of the modules
            size = len(self.names)
            while self.waiting:
                self.value(*self.waiting.pop())
                if self.watch.size > LIMIT or self.bytes > BYTES:
                    raise Unwatched("more values than can be looked at in a moment")
            for scope in list(self.scopes.values()):
                self.scope(scope)

    def push(self, values: Iterable[Any], held: bool = False) -> None:
        for value in values:
            kind = type(value)
            if kind not in _NOTHING and (kind in _SOMETHING or not isinstance(value, _CONSTANT)):
                self.waiting.append((value, held))

    def code(self, code: types.CodeType, variables: dict[str, Any], without: frozenset[str] = frozenset()) -> None:
        """The variables of its module that a function reads, itself or in functions inside it."""
        self.names.update(attribute_names(code))
        own = noted(code)
        for name in loaded(code):
            if name in own or name in without:
                continue
            if name in variables:
                self.variable(variables, name)
            elif name in _BUILTINS:
                raise Unwatched(f"the result of {name}")

    def variable(self, variables: dict[str, Any], name: str) -> None:
        if (id(variables), name) not in self.named:
            self.named.add((id(variables), name))
            self.watch.variables.append((variables, name, variables[name]))
            self.push([variables[name]])

    def entries(self, d: Any, held: bool) -> None:
        """All of a dictionary, or of the attributes of an object or class."""
        keys, values = (dict.keys(d), dict.values(d)) if isinstance(d, dict) else (d.keys(), d.values())
        self.watch.whole(keys)
        self.watch.whole(values)
        self.push(keys, held)
        self.push(values, held)

    def value(self, value: Any, held: bool) -> None:
        """Watches a value; if it is `held` by functions of others, what it can call may have run."""
        if type(type(value)) is Interned or (id(value), held) in self.seen or (id(value), True) in self.seen:
            return
        self.seen[id(value), held] = value
        match value:
            case types.FunctionType():
                self.function(value, held)
            case types.MethodType() | types.MethodWrapperType():
                self.push((value.__self__, getattr(value, "__func__", None)), held)
            case staticmethod() | classmethod():
                self.push((value.__func__,), held)
            case property():
                self.push((value.fget,), held)
            case functools.cached_property():
                self.push((value.func,), held)
            case functools.partial():
                self.push((value.func, *value.args, value.keywords), held)
            case types.ModuleType() | type():
                self.scopes[id(value)] = value
                self.scope(value)
            case types.BuiltinFunctionType():
                self.builtin(value)
            case np.ndarray():
                self.array(value)
            case tuple() | frozenset():
                self.push(value, held)
            case dict() | types.MappingProxyType():
                self.entries(value, held)
            case list() | set() | deque():
                self.watch.whole(value)
                self.push(value, held)
            case weakref.ref():
                self.watch.answers.append((value, value()))
                self.push((value(),), held)
            case ContextVar():
                given = functools.partial(value.get, None)
                self.watch.answers.append((given, given()))
                self.push((given(),), held)
            case _ if isinstance(value, _DESCRIPTORS):
                pass
            case _:
                self.object(value, held)
                return
        if isinstance(value, _CONTAINERS) and _package(type(value).__module__) not in _STEADY:
            self.object(value, held)  # its attributes

    def function(self, f: types.FunctionType, held: bool) -> None:
        """A function's cells, defaults and attributes; its variables too, if it may have run and nobody saw it."""
        own = is_own(f.__code__.co_filename)
        runs = held or self.ran is None
        if own and not runs and (f.__code__, id(f.__globals__)) not in self.codes:
            return
        if not own and _package(f.__module__) in _QUIET and f.__closure__ is None:
            return
        if own and runs:
            self.code(f.__code__, f.__globals__)
        kept = noted(f.__code__) if own else frozenset()
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if name not in kept and not is_empty(cell):
                self.watch.attributes.append((cell, "cell_contents", cell.cell_contents))
                self.push((cell.cell_contents,), held or not own)
        if f.__defaults__:
            self.watch.attributes.append((f, "__defaults__", f.__defaults__))
            self.push(f.__defaults__, held or not own)
        for entries in filter(None, (f.__kwdefaults__, f.__dict__ if own else None)):
            self.entries(entries, held or not own)

    def scope(self, scope: Any) -> None:
        """A module or class, of which functions read what they name."""
        (self.module if isinstance(scope, types.ModuleType) else self.kind)(scope)

    def module(self, module: types.ModuleType) -> None:
        """What the functions name of a module."""
        steady = _package(module.__name__) in _QUIET
        for name in sorted(self.names & vars(module).keys()):
            value = vars(module)[name]
            if module.__name__ == "numpy.random" and callable(value):
                raise Unwatched(f"the result of {module.__name__}.{name}")
            if not steady:
                self.variable(vars(module), name)
            elif (
                isinstance(value, types.ModuleType | types.BuiltinFunctionType) and (id(value), False) not in self.seen
            ):
                self.push((value,))

    def kind(self, kind: type) -> None:
        """What functions name of a class of the user's, and its data; of dates, those are refused that mean now."""
        if kind.__module__ == "datetime" and not self.names.isdisjoint(_NOW):
            raise Unwatched(f"the result of {kind.__name__}")
        for base in kind.__mro__:
            if _package(base.__module__) in _STEADY or not is_own(_file(base.__module__)):
                continue
            members = vars(base)
            for name, value in members.items():
                wanted = name in self.names or not (isinstance(value, _METHODS) or name.startswith("__"))
                if wanted and (id(base), name) not in self.named:
                    self.named.add((id(base), name))
                    self.watch.members.append((members, name, value))
                    self.push([value])

    def builtin(self, f: Any) -> None:
        """A function of C: what its module may change is not watched; of a method, its object is."""
        owner = f.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            if _package(getattr(owner, "__name__", f.__module__) or "") in _CHANGING:
                raise Unwatched(f"the result of {f.__name__}")
        else:
            self.push((owner,))

    def array(self, array: np.ndarray) -> None:
        if array.dtype.hasobject:
            raise Unwatched("an array of objects")
        self.bytes += array.nbytes
        if self.bytes <= BYTES:
            self.watch.array(array)

    def object(self, value: Any, held: bool) -> None:
        """The attributes of an object, and its class."""
        kind: Any = type(value)
        package = _package(kind.__module__)
        if package in _CHANGING or kind.__module__.startswith("numpy.random"):
            raise Unwatched(f"the state of a {kind.__name__}")
        slots = _slots(kind)
        if not _is_of_python(kind, len(slots)):
            if package not in _STEADY:
                raise Unwatched(f"a {kind.__name__}")
            self.push((getattr(value, "__wrapped__", None),), held=True)  # such as what `jax.jit` gives
            return
        if package in _JAX and not callable(value):
            return
        for name in slots:
            if hasattr(value, name):
                self.watch.attributes.append((value, name, getattr(value, name)))
                self.push((getattr(value, name),), held or package in _QUIET)
        if hasattr(value, "__dict__"):
            self.entries(vars(value), held or package in _QUIET)
        self.push((kind,), held)


def _package(module: Any) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


@remembered(entries=4096)
def _file(module: str) -> str:
    """The source file of a module; that of a user, if it has none."""
    return getattr(sys.modules.get(module), "__file__", None) or ("<frozen" if module in _FROZEN else "<string>")


def _slots(kind: type) -> list[str]:
    """The attributes that a class written in Python keeps in slots."""
    members = (item for base in kind.__mro__ for item in vars(base).items())
    return list(dict.fromkeys(name for name, member in members if isinstance(member, types.MemberDescriptorType)))


def _is_of_python(kind: type, slots: int) -> bool:
    """Whether the objects of a class have no state but attributes, slots, and what containers hold."""
    bases = (base for base in _CONTAINERS if issubclass(kind, base))
    return kind.__basicsize__ <= next(bases, object).__basicsize__ + 8 * (slots + 2)
