"""Identity of the Python functions that programs of JAX hold: users' rules of derivatives, policies, callbacks.

JAX wraps a rule of `jax.custom_jvp` or `jax.custom_vjp` anew at every call, so two traces of one program hold different
objects around it.  The key looks through the wrapping, down to code objects and to the values that they capture or read
by global names.  What is not known to be wrapping counts by identity: a JAX that wraps differently costs time, and
never makes one rule of two.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.extend.linear_util as linear_util
import numpy as np

from combinators.errors import INSTALLED, OURS
from combinators.identity.bytecode import names_of
from combinators.identity.held import contents, is_empty
from combinators.identity.identity import FUNCTIONS, OWN_KEYS, function_key, key_of
from combinators.memo import ByObject, Remembered, remembered

PLAIN = (types.NoneType, bool, int, float, complex, str, bytes, np.generic)
_LARGE = 4096  # elements from which on an array counts by identity
_STATE = frozenset({"Store", "EqualStore", "DebugInfo", "InitialResultPaths", "DynamicJaxprTrace"})  # without meaning
_ALIKE = _STATE | {"TraceTag", "object"}  # of JAX's, also what only says where the same one stands again
_MEMO = "cells"  # how JAX's functions call the dictionary of their earlier results
_HELD = "Unhashable"  # how JAX holds what is static and has no hash
_RULED = ("custom_jvp3", "custom_vjp3")
_PARTED = frozenset({types.FunctionType, tuple, list, linear_util.WrappedFun})  # soon told from what is plain
_MEMBER = types.MemberDescriptorType  # an attribute in a slot


@function_key.register(object)
def _function_key(f: Any) -> Hashable:
    return walked(f)[0]


def is_function(value: Any) -> bool:
    """Whether a parameter of a program of JAX is a Python function."""
    return isinstance(value, FUNCTIONS)


def captured_tracers(f: Any) -> list[Any]:
    """The tracers that a function captures: all that its key goes by."""
    return walked(f)[1]


def walked(f: Any) -> tuple[Hashable, list[Any]]:
    """The key of a function, and the tracers that it captures."""
    walk = _Walk()
    return walk.of(f), walk.tracers


def held_tracers(program: Any) -> list[Any]:
    """The tracers that functions in a program of JAX capture."""
    functions = held_functions(program)
    if not functions:
        return []
    walk = _Walk()
    for f in functions:
        walk.of(f)
    return walk.tracers


def held_functions(program: Any) -> list[Any]:
    """The functions in a program of JAX, and in the programs in it."""
    functions, seen, waiting, whole = [], set[Any](), [program], program
    while waiting:
        program = waiting.pop()
        if program in seen or _without_functions.get(program):
            continue
        seen.add(program)
        for eqn in program.eqns:
            for value in eqn.params.values():
                kind = type(value)
                if kind in _PLAIN or not _may_hold(kind):
                    continue
                if kind is tuple or kind is list:
                    waiting += [p for p in value if type(p) is jex.Jaxpr]
                elif kind is jex.Jaxpr:
                    waiting.append(value)
                elif isinstance(value, FUNCTIONS):
                    functions.append(value)
                else:  # a callback of the host
                    functions += [getattr(value, field.name) for field in fields(value)]
    if not functions:
        for inner in seen - {whole}:  # which others may hold, too
            _without_functions.put(inner, True)
    return functions


def held_in(program: Any, values: Sequence[Any]) -> list[int]:
    """The places of those of these values, or cells, that a function in a program of JAX reaches when it runs."""
    met = _met(program) if values else []
    reached = {*map(id, met), *map(id, _cells_of(met))}
    return [i for i, value in enumerate(values) if id(value) in reached]


def put_back(program: Any, originals: dict[int, Any]) -> None:
    """Lets the functions in a program of JAX see these values in the place of those with these identities."""
    for cell in _cells_of(_met(program)) if originals else ():
        if not is_empty(cell) and id(cell.cell_contents) in originals:
            cell.cell_contents = originals[id(cell.cell_contents)]


def _met(program: Any) -> list[Any]:
    walk = _Walk()
    for f in held_functions(program):
        walk.of(f)
    return [value for _, value in walk.numbers.values()]


def _cells_of(values: list[Any]) -> list[Any]:
    return [cell for f in values if isinstance(f, types.FunctionType) for cell in f.__closure__ or ()]


_without_functions: ByObject[Any, bool] = ByObject("programs without functions")  # so that loops in loops are quick


_PLAIN = frozenset({types.NoneType, bool, int, float, complex, str, bytes})


@remembered(entries=1024)
def _may_hold(kind: type) -> bool:
    """Whether parameters of this class are functions, or hold some."""
    is_callback = _is_jaxs(kind) and is_dataclass(kind) and issubclass(kind, Callable)
    return kind in (tuple, list, jex.Jaxpr) or issubclass(kind, FUNCTIONS) or is_callback


def _cells(f: types.FunctionType, jaxs: bool) -> list[Any]:
    """What a function captures, but for the memory of JAX's."""
    return [value for name, value in contents(f).items() if not (jaxs and name == _MEMO)]


class _Walk:
    """One walk; what it meets again has a number, and the tracers that it meets are noted."""

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[int, Any]] = {}
        self.tracers: list[Any] = []

    def of(self, value: Any) -> Hashable:
        kind, numbers = type(value), self.numbers
        if kind in OWN_KEYS:
            return value
        if kind not in _PARTED and isinstance(value, PLAIN):
            return key_of(value)
        known = numbers.get(id(value))
        if known is not None:
            return ("again", known[0])
        numbers[id(value)] = (len(numbers), value)  # held, so that no other value takes its place
        if kind not in _PARTED and kind.__name__ in _ALIKE and (kind is object or _is_jaxs(kind)):
            return kind
        match value:
            case types.FunctionType():
                return self.function(value)
            case tuple() | list():
                return (type(value), *[self.of(v) for v in value])
            case linear_util.WrappedFun():
                return (linear_util.WrappedFun, self.of(value.f), self.of(value.transforms))
            case types.MethodType():
                return (types.MethodType, self.of(value.__self__), self.of(value.__func__))
            case functools.partial():
                return (functools.partial, self.of(value.func), self.of(value.args), self.of(value.keywords))
            case jax.core.Tracer():
                self.tracers.append(value)
                return Same(value)
            case np.ndarray() | jax.Array():
                return key_of(value) if value.size < _LARGE else Same(value)
            case set() | frozenset():
                return (type(value), frozenset(map(key_of, value)))
            case Remembered():
                return kind
            case type():
                return self.kind(value)
            case property():
                return (property, self.of(value.fget))
            case staticmethod() | classmethod():
                return (kind, self.of(value.__func__))
            case dict():
                return (dict, tuple((self.of(k), self.of(v)) for k, v in value.items()))
            case _ if has_rule(value) and is_global_of_jax(value):
                return Same(value)
            case _ if has_rule(value):
                return (type(value), self.of({k: v for k, v in vars(value).items() if not k.startswith("__")}))
            case _:
                return self.object(value)

    def function(self, f: types.FunctionType) -> Hashable:
        """The code of a function with what it captures; JAX's and our own read no variable of their module that varies.

        A user's that sets variables, or takes notes in them, or changes containers that it captured, counts by
        identity, too: another one has others.
        """
        jaxs = _is_jaxs(f)
        contents = _cells(f, jaxs)
        captured = tuple([self.of(v) for v in contents])
        defaults = (
            [self.of(v) for v in (f.__defaults__, f.__kwdefaults__)] if f.__defaults__ or f.__kwdefaults__ else ()
        )
        if jaxs or _package_of(f.__globals__.get("__name__")) in OURS:
            return (f.__code__, captured, *defaults)
        read = tuple([(name, self.read(f, f.__globals__[name])) for name in global_names(f)])
        holds_containers = True in [isinstance(v, list | dict | set | deque) for v in contents]
        names = names_of(f.__code__)
        is_own = names.stored or names.noted or (holds_containers and names.changes)
        own = Same(f) if is_own else None
        return (f.__code__, captured, read, self.modules(f, contents), own, *defaults)

    def modules(self, f: types.FunctionType, contents: list[Any]) -> Hashable:
        """The attributes that a function may read of the user's modules."""
        held = [*contents, *[f.__globals__[name] for name in global_names(f)]]
        modules = [v for v in held if isinstance(v, types.ModuleType) and _is_own(v.__name__)]
        names = sorted(names_of(f.__code__).attributes) if modules else ()
        return tuple([(name, self.of(vars(m)[name])) for m in modules for name in names if name in vars(m)])

    def kind(self, kind: type) -> Hashable:
        """A class, with what the user's classes among its bases, and itself, hold."""
        parts = [part for base in kind.__mro__[:-1] if _is_own(base.__module__) for part in vars(base).items()]
        read = [(n, v) for n, v in parts if not n.startswith("__") or isinstance(v, types.FunctionType)]
        return (Same(kind), *[(n, self.of(v)) for n, v in read])

    def read(self, f: types.FunctionType, value: Any) -> Hashable:
        """The key of a global; functions of modules that are not the user's count by identity."""
        is_function = isinstance(value, types.FunctionType)
        own = not is_function or value.__globals__ is f.__globals__ or _is_own(value.__module__)
        return self.of(value) if own else Same(value)

    def object(self, value: Any) -> Hashable:
        """The key of an object: what it equals, and its attributes if it equals itself alone."""
        kind: type = type(value)
        if _is_jaxs(kind):
            return (kind, self.of(value.val)) if kind.__name__ == _HELD else key_of(value)
        alone = kind.__hash__ in (None, object.__hash__) and not isinstance(value, types.ModuleType | type)
        if not alone:
            return key_of(value)
        members = [n for base in kind.__mro__[:-1] for n, m in vars(base).items() if type(m) is _MEMBER]
        slots = [(n, self.of(getattr(value, n, None))) for n in members]
        return (Same(value), self.of(getattr(value, "__dict__", {})), *slots, self.of(kind))


class Same:
    """A value that equals itself alone, and stays alive."""

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def global_names(f: types.FunctionType) -> list[str]:
    """The global names that a function reads, itself or in functions inside it, and that are bound."""
    return [name for name in names_of(f.__code__).loaded if name in f.__globals__]


def has_rule(value: Any) -> bool:
    """Whether this is what `jax.custom_jvp` or `jax.custom_vjp` gives, of whatever class by JAX's settings."""
    return isinstance(value, jax.custom_jvp | jax.custom_vjp) or type(value).__name__ in _RULED


def is_global_of_jax(f: Any) -> bool:
    """Whether a function with a rule is JAX's own, such as `jax.nn.relu`, and made once, with the module it is in."""
    return _is_jaxs(f) and getattr(sys.modules.get(f.__module__), f.__name__, None) is f


def _is_jaxs(value: Any) -> bool:
    return _package_of(value.__module__) in ("jax", "jaxlib")


def _is_own(module: str) -> bool:
    """Whether a module of this name is of the user's program, rather than installed."""
    if (package := _package_of(module)) in ("jax", "jaxlib", *OURS) or package in sys.stdlib_module_names:
        return False
    return INSTALLED.isdisjoint(PurePath(getattr(sys.modules.get(module), "__file__", None) or "").parts)


@remembered(entries=4096)
def _package_of(module: str | None) -> str:
    return (module or "").partition(".")[0]
