"""From the functions that ran to all that they can have read: one walk, which gives a `Watch`.

A function reads the variables that it names, its cells, its defaults and its attributes; of a module, what it names,
or all, if it makes up names; of an object, any attribute, its class's too.  Functions of other packages read nothing
but what they were given, which they may call at any time: so what these hold counts as if it had run.  Not looked into
are JAX, ourselves, and NumPy, but for objects of it that cannot be called, such as its iterators.
"""

from __future__ import annotations

import functools
import logging
import types
import warnings
import weakref
from abc import ABCMeta
from collections import deque
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np

from combinators.identity.bytecode import names_of
from combinators.identity.held import contents, wrapped
from combinators.identity.identity import constructors
from combinators.memo import Remembered
from combinators.values import Closure
from compile_ccc.watching.foreign import (
    CACHED,
    CONTAINERS,
    DESCRIPTORS,
    JAX,
    LOCK,
    METHODS,
    MISSING,
    PARTS,
    QUIET,
    STATELESS,
    STEADY,
    attribute,
    file_of,
    is_of_python,
    own_file,
    package,
    slots_of,
)
from compile_ccc.watching.places import Places, Unwatched
from compile_ccc.watching.ran import Ran, is_own, is_reported, is_users_own
from compile_ccc.watching.standard import (
    is_state,
    methods_of_state,
    of_abstract_classes,
    of_decimals,
    of_logger,
    of_settings,
)
from compile_ccc.watching.watch import Watch

_Settings: Any = type(jax.config)


def reached(ran: Ran | None, roots: Iterable[Any]) -> Watch:
    """What these functions read, and what the roots hold.  None for `ran` means that any function may have run."""
    if ran is not None and not is_reported():
        return Watch(reason="what Python does not report, since other tools watch it")
    try:
        walk = Walk(ran, roots)
        walk.walk()
        return walk.watch
    except Unwatched as unwatched:
        return Watch(reason=str(unwatched))
    except Exception as error:  # of a user's class, which Python asks what its objects are
        return Watch(reason=f"an object that cannot be looked into ({type(error).__name__})")


class Walk(Places):
    """The walk from these functions and roots."""

    def __init__(self, ran: Ran | None, roots: Iterable[Any]):
        super().__init__()
        self.ran = ran
        self.seen: dict[tuple[int, bool], Any] = {}  # held, so that no other value takes its place
        self.scopes: dict[int, tuple[Any, bool]] = {}  # modules and classes, and whether they are held
        self.codes = {(code, module) for code, module, _ in ran or ()}
        self.waiting += [(root, False) for root in roots]
        self.roots = {id(root) for root, _ in self.waiting}

    def walk(self) -> None:
        """Walks to the end.  Raises `Unwatched`."""
        for (code, _, without), variables in (self.ran or {}).items():
            self.code(code, variables, without)
        looked: dict[int, Any] = {}  # at modules and classes, for so many names, or all
        while self.waiting or self.scopes:
            while self.waiting:
                for _ in range(min(16, len(self.waiting))):
                    self.value(*self.waiting.pop())
                if self.is_long():
                    raise Unwatched("more values than can be looked at in a moment")
            asked = len(self.names), self.by_name
            due = [key for key, (_, held) in self.scopes.items() if looked.get(key) != (asked, held)]
            for key in due:
                looked[key] = asked, self.scopes[key][1]
                self.scope(*self.scopes[key])
            if not due:
                break
        for variables, names in self.absent.values():
            self.watch.answers.append((functools.partial(variables.keys().isdisjoint, names), True))

    def value(self, value: Any, held: bool) -> None:
        """Watches a value; if it is `held` by functions of others, what it can call may have run."""
        if type(value) in constructors or (id(value), held) in self.seen or (id(value), True) in self.seen:
            return
        self.seen[id(value), held] = value
        if type(value) not in PARTS and self.is_odd(type(value)):
            return self.unwatched(f"a {type(value).__name__}, which says itself what it is")
        match value:
            case types.FunctionType():
                self.function(value, held)
            case types.MethodWrapperType():
                self.push((value.__self__,), held)
            case functools.partial():
                self.watch.partial(value)
                self.push((value.func, *value.args, value.keywords), held)
            case types.ModuleType() | type() | _Settings():
                self.scopes[id(value)] = value, held or (value, True) == self.scopes.get(id(value))
            case types.BuiltinFunctionType():
                self.builtin(value)
            case np.ndarray():
                self.array(value, held)
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
                self.weak(value, held)
            case jax.Ref():
                self.ref()
            case ContextVar():
                given = functools.partial(value.get, None)
                self.watch.answers.append((given, given()))
                self.push((given(),), held)
            case _ if isinstance(value, (*DESCRIPTORS, Remembered)):
                pass
            case _ if (inside := wrapped(value)) is not None:
                self.push(inside, held)
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
        if not own and is_state(f.__module__, f.__name__):
            self.state(f.__module__, f.__name__)
        if not own and package(f.__module__) in QUIET and f.__closure__ is None:
            return
        if own and runs:
            self.code(f.__code__, f.__globals__, held=held)
        if own:
            self.watch.attributes.append((f, "__code__", f.__code__))
        kept = names_of(f.__code__).noted if own else frozenset()
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        for name, content in contents(f).items():
            if not (name in kept and self.note(content)):
                if package(f.__globals__.get("__name__")) not in QUIET:
                    self.watch.attributes.append((cells[name], "cell_contents", content))
                self.push((content,), held or not own)
        if f.__defaults__:
            self.watch.attributes.append((f, "__defaults__", f.__defaults__))
            self.push(f.__defaults__, held or not own)
        if f.__kwdefaults__:
            self.watch.attributes.append((f, "__kwdefaults__", f.__kwdefaults__))
            self.entries(f.__kwdefaults__, held or not own)

    def scope(self, scope: Any, held: bool) -> None:
        """A module or class, of which functions read what they name."""
        if isinstance(scope, types.ModuleType):
            self.module(scope)
        elif isinstance(scope, _Settings):
            every = self.by_name or not self.names.isdisjoint(("read", "values"))
            for name in (None,) if every else self.names:
                self.ask(f"setting {name}", of_settings(name if name is None else (name,)))
        else:
            self.kind(scope, held)

    def module(self, module: types.ModuleType) -> None:
        """What the functions name of a module."""
        variables = vars(module)
        own_name = variables.get("__name__")
        steady = package(own_name) in QUIET
        if own_name == "decimal":
            self.ask("decimal", of_decimals())
        if is_own(own_file(module) or file_of(str(own_name))):
            self.missing(variables, (self.names | {"__getattr__"}) - variables.keys())
            if "__getattr__" in variables:
                self.variable(variables, "__getattr__")
            if self.by_name and (id(variables), "") not in self.named:
                self.named.add((id(variables), ""))
                self.entries(variables, held=False)
        parts = types.ModuleType | types.BuiltinFunctionType | _Settings
        for name in sorted(self.names & variables.keys()):
            value = variables[name]
            if callable(value) and (own_name == "numpy.random" or is_state(own_name, name)):
                self.push((getattr(value, "__self__", None),))
                self.state(own_name, name)
            elif not steady or isinstance(value, parts) or is_users_own(value):
                self.variable(variables, name)
            elif (id(variables), name) not in self.named:  # what JAX put there is not looked into
                self.named.add((id(variables), name))
                self.watch.variables.append((variables, name, value))

    def kind(self, kind: type, held: bool) -> None:
        """A class of the user's, with its bases and its own class; of Python's, what tells of more than its objects."""
        if isinstance(kind, ABCMeta):
            self.ask("abstract classes", of_abstract_classes())
        if kind.__module__ in ("decimal", "_decimal"):
            self.ask("decimal", of_decimals())
        for base in kind.__mro__[:-1]:  # without `object`
            found = is_state(base.__module__, base.__name__) or methods_of_state(base) & self.names
            if found:
                self.unwatched(f"the result of {base.__module__}.{base.__name__}")
            own = package(base.__module__) not in STEADY and is_own(file_of(base.__module__))
            if not own or (id(base), "held" * held) in self.named:
                continue
            self.named.add((id(base), "held" * held))
            self.watch.whole(vars(base).keys())
            self.watch.whole(vars(base).values())
            self.watch.attributes.append((base, "__mro__", base.__mro__))
            self.push((v for name, v in vars(base).items() if isinstance(v, METHODS) or not name.endswith("_")), held)
            self.push((type(base),), held)

    def builtin(self, f: Any) -> None:
        """A function of C: what its module may change is not watched; of a method, its object is."""
        owner = f.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            module = f.__module__ if owner is None else vars(owner).get("__name__")
            if is_state(module, f.__name__):
                self.state(module, f.__name__)
            if module == "_warnings":
                self.variable(warnings.__dict__, "filters")
        elif isinstance(owner, type) and is_state(owner.__module__, f.__name__):
            self.state(owner.__module__, f.__name__)
        else:
            self.push((owner,))

    def object(self, value: Any, held: bool) -> None:
        """The attributes of an object, and its class."""
        kind: Any = type(value)
        whose = package(kind.__module__)
        if is_state(kind.__module__, kind.__name__) or kind.__module__.startswith("numpy.random"):
            return self.unwatched(f"the state of a {kind.__name__}")
        if kind is CACHED:
            self.cached(value, held)
        if kind is LOCK:
            self.watch.answers.append((value.locked, value.locked()))
        if isinstance(value, logging.Logger):
            self.watch.answers += of_logger(value)
        slots, moves = slots_of(kind), whose == "numpy" and not callable(value)  # such as an iterator
        if not is_of_python(kind, len(slots)):
            if kind not in STATELESS and (moves or whose not in QUIET):
                self.unwatched(f"a {kind.__name__}")
            if whose in ("decimal", "_decimal"):
                self.ask("decimal", of_decimals())
            wrapped = attribute(value, "__wrapped__")
            self.push(() if wrapped is MISSING else (wrapped,), held=True)  # such as what `jax.jit` gives
            return
        if (whose in JAX and not callable(value) and not moves) or whose == "logging":
            return
        if id(value) not in self.roots:  # whose classes are in the key
            self.watch.attributes.append((value, "__class__", kind))
        for name in slots:
            part = attribute(value, name)
            if part is MISSING:
                self.watch.answers.append((functools.partial(attribute, value, name), MISSING))
            else:
                self.watch.attributes.append((value, name, part))
                self.push((part,), held or whose in QUIET)
        attributes = attribute(value, "__dict__")
        if attributes is not MISSING:
            self.entries(attributes, held or whose in QUIET)
        self.push((kind,), held)
