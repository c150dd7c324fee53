"""From the functions that ran to all that they can have read: one walk, which gives a `Watch`.

A function reads the variables that it names, its cells, its defaults and its attributes; of a module, what it names,
or all, if it makes up names; of an object, any attribute, its class's too.  Functions of other packages read nothing
but what they were given, which they may call at any time: so what these hold counts as if it had run.  Not looked into
are JAX, NumPy and ourselves.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import numpy as np

from combinators.bytecode import attribute_names, imported, is_note, loaded, noted
from combinators.identity import Interned
from combinators.memo import Remembered
from combinators.rules import is_empty
from combinators.values import Closure
from compile_ccc.foreign import (
    CHANGING,
    CONSTANT,
    CONTAINERS,
    DESCRIPTORS,
    JAX,
    METHODS,
    NOW,
    PARTS,
    PLAINEST,
    QUIET,
    STATELESS,
    STEADY,
    file_of,
    is_of_python,
    package,
    slots_of,
)
from compile_ccc.ran import Ran, is_own, is_reported
from compile_ccc.watch import BYTES, LIMIT, Watch

_UNKNOWN = frozenset({"open", "input", "__import__"})  # functions of Python itself, and what reads as they do
_BY_NAME = frozenset({"getattr", "hasattr", "vars", "dir", "eval", "exec"})  # variables of modules
_OF_ITS_MODULE = frozenset({"globals", "eval", "exec"})


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
        self.by_name = False  # whether functions make up the names of what they read of modules
        self.absent: dict[int, tuple[dict[str, Any], set[str]]] = {}  # of modules: names that are not there
        self.named: set[tuple[int, str]] = set()  # variables that are watched
        self.waiting: list[tuple[Any, bool]] = [(root, False) for root in roots]
        self.roots = {id(root) for root, _ in self.waiting}
        for (code, _, without), variables in (ran or {}).items():
            self.code(code, variables, without)
        known: Any = None
        while self.waiting or known != (len(self.names), self.by_name):  # more names, more of the modules
            known = len(self.names), self.by_name
            while self.waiting:
                self.value(*self.waiting.pop())
                if self.watch.size > LIMIT or self.bytes > BYTES:
                    raise Unwatched("more values than can be looked at in a moment")
            for scope in list(self.scopes.values()):
                self.scope(scope)
        for variables, names in self.absent.values():
            self.watch.answers.append((functools.partial(variables.keys().isdisjoint, names), True))

    def push(self, values: Iterable[Any], held: bool = False) -> None:
        for value in values:
            kind = type(value)
            if kind not in PLAINEST and (kind in PARTS or not isinstance(value, CONSTANT)):
                self.waiting.append((value, held))

    def code(self, code: types.CodeType, variables: dict[str, Any], without: frozenset[str] = frozenset()) -> None:
        """The variables of its module that a function reads, itself or in functions inside it."""
        names, own = set(attribute_names(code)), noted(code)
        builtins = set(loaded(code)) - variables.keys() - without
        self.names |= names
        if not builtins.isdisjoint(_UNKNOWN) or "import_module" in names:
            raise Unwatched(f"the result of {min(builtins & _UNKNOWN, default='import_module')}")
        self.by_name |= not builtins.isdisjoint(_BY_NAME) or not names.isdisjoint(("__dict__", "attrgetter"))
        if not builtins.isdisjoint(_OF_ITS_MODULE):
            self.entries(variables, held=False)
        if builtins:
            self.missing(variables, builtins)
        self.push(sys.modules.get(name) for name in imported(code, variables.get("__package__")))
        for name in loaded(code):
            if name in variables and name not in without and not (name in own and is_note(variables[name])):
                self.variable(variables, name)

    def missing(self, variables: dict[str, Any], names: set[str]) -> None:
        """Names that a module does not have, and may get: such as those of builtins."""
        self.absent.setdefault(id(variables), (variables, set()))[1].update(names)

    def variable(self, variables: dict[str, Any], name: str) -> None:
        if (id(variables), name) not in self.named:
            self.named.add((id(variables), name))
            self.watch.variables.append((variables, name, variables[name]))
            self.push([variables[name]])

    def entries(self, d: Any, held: bool) -> None:
        """All of a dictionary, or of the attributes of an object or class."""
        keys, values = (dict.keys(d), dict.values(d)) if isinstance(d, dict) else (d.keys(), d.values())
        if isinstance(d, dict):
            self.watch.container(d)
        else:
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
            case Closure() if self.ran is None:
                pass  # what it captured is environment
            case weakref.ref():
                self.watch.answers.append((value, value()))
                self.push((value(),), held)
            case ContextVar():
                given = functools.partial(value.get, None)
                self.watch.answers.append((given, given()))
                self.push((given(),), held)
            case _ if isinstance(value, (*DESCRIPTORS, Remembered)):
                pass
            case _:
                self.object(value, held)
                return
        if isinstance(value, CONTAINERS) and package(type(value).__module__) not in STEADY:
            self.object(value, held)  # its attributes

    def function(self, f: types.FunctionType, held: bool) -> None:
        """A function's cells, defaults and attributes; its variables too, if it may have run and nobody saw it."""
        own = is_own(f.__code__.co_filename)
        runs = held or self.ran is None
        if own and f.__dict__:
            self.entries(f.__dict__, held)
        if own and not runs and (f.__code__, id(f.__globals__)) not in self.codes:
            return
        if not own and package(f.__module__) in QUIET and f.__closure__ is None:
            return
        if own and runs:
            self.code(f.__code__, f.__globals__)
        if own:
            self.watch.attributes.append((f, "__code__", f.__code__))
        kept = noted(f.__code__) if own else frozenset()
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if not is_empty(cell) and not (name in kept and is_note(cell.cell_contents)):
                if package(f.__globals__.get("__name__")) not in QUIET:
                    self.watch.attributes.append((cell, "cell_contents", cell.cell_contents))
                self.push((cell.cell_contents,), held or not own)
        if f.__defaults__:
            self.watch.attributes.append((f, "__defaults__", f.__defaults__))
            self.push(f.__defaults__, held or not own)
        if f.__kwdefaults__:
            self.watch.attributes.append((f, "__kwdefaults__", f.__kwdefaults__))
            self.entries(f.__kwdefaults__, held or not own)

    def scope(self, scope: Any) -> None:
        """A module or class, of which functions read what they name."""
        if isinstance(scope, types.ModuleType):
            self.module(scope)
        else:
            self.kind(scope)

    def module(self, module: types.ModuleType) -> None:
        """What the functions name of a module."""
        variables = vars(module)
        steady = package(module.__name__) in QUIET
        if is_own(getattr(module, "__file__", None) or file_of(module.__name__)):
            self.missing(variables, self.names - variables.keys())
            if self.by_name and (id(variables), "") not in self.named:
                self.named.add((id(variables), ""))
                self.entries(variables, held=False)
        for name in sorted(self.names & variables.keys()):
            value = variables[name]
            if module.__name__ == "numpy.random" and callable(value):
                raise Unwatched(f"the result of {module.__name__}.{name}")
            if not steady:
                self.variable(variables, name)
            elif (
                isinstance(value, types.ModuleType | types.BuiltinFunctionType) and (id(value), False) not in self.seen
            ):
                self.push((value,))

    def kind(self, kind: type) -> None:
        """A class of the user's, with its bases and its own class; of dates, those are refused that mean now."""
        if kind.__module__ == "datetime" and not self.names.isdisjoint(NOW):
            raise Unwatched(f"the result of {kind.__name__}")
        for base in kind.__mro__:
            if (
                (id(base), "") in self.named
                or package(base.__module__) in STEADY
                or not is_own(file_of(base.__module__))
            ):
                continue
            self.named.add((id(base), ""))
            self.watch.whole(vars(base).keys())
            self.watch.whole(vars(base).values())
            self.watch.attributes.append((base, "__mro__", base.__mro__))
            self.push(v for name, v in vars(base).items() if isinstance(v, METHODS) or not name.startswith("_"))
            self.push((type(base),))

    def builtin(self, f: Any) -> None:
        """A function of C: what its module may change is not watched; of a method, its object is."""
        owner = f.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            if package(getattr(owner, "__name__", f.__module__) or "") in CHANGING:
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
        whose = package(kind.__module__)
        if whose in CHANGING or kind.__module__.startswith("numpy.random"):
            raise Unwatched(f"the state of a {kind.__name__}")
        slots = slots_of(kind)
        if not is_of_python(kind, len(slots)):
            if kind not in STATELESS and whose not in QUIET:
                raise Unwatched(f"a {kind.__name__}")
            self.push((getattr(value, "__wrapped__", None),), held=True)  # such as what `jax.jit` gives
            return
        if (whose in JAX and not callable(value)) or whose == "logging":
            return
        if id(value) not in self.roots:  # whose classes are in the key
            self.watch.attributes.append((value, "__class__", value.__class__))
        for name in slots:
            if hasattr(value, name):
                self.watch.attributes.append((value, name, getattr(value, name)))
                self.push((getattr(value, name),), held or whose in QUIET)
            else:
                self.watch.answers.append((functools.partial(hasattr, value, name), False))
        if hasattr(value, "__dict__"):
            self.entries(vars(value), held or whose in QUIET)
        self.push((kind,), held)
