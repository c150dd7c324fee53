"""Where functions can have read: the places that one walk has noted, and the values that it has still to look into."""

from __future__ import annotations

import builtins
import os
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterable, Set
from functools import partial
from itertools import accumulate
from operator import is_
from typing import Any

import numpy as np

from combinators.identity.bytecode import is_note, names_of
from compile_ccc.watching.foreign import (
    CONTAINERS,
    MISSING,
    PARTS,
    PLAINEST,
    attribute,
    is_constant,
    is_of_python,
    slots_of,
)
from compile_ccc.watching.ran import is_odd, is_own
from compile_ccc.watching.standard import Answers, cached
from compile_ccc.watching.watch import BYTES, LIMIT, Watch

_BUILTINS: Any = vars(builtins)
_UNKNOWN = frozenset({"open", "input", "__import__"})  # functions of Python itself, and what reads as they do
_BY_NAME = frozenset({"getattr", "hasattr", "vars", "dir", "eval", "exec"})  # variables of modules
_OF_ITS_MODULE = frozenset({"globals", "eval", "exec"})


class Unwatched(Exception):
    """A program read what cannot be watched."""


class Places:
    """The places that were read, and the names of all attributes that the functions use."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.bytes = 0  # of arrays
        self.names = set[str]()
        self.by_name = False  # whether functions make up the names of what they read of modules
        self.absent: dict[int, tuple[dict[str, Any], set[str]]] = {}  # of modules: names that are not there
        self.named: set[tuple[int, str]] = set()  # variables that are watched
        self.odd: dict[type, bool] = {}  # classes, and whether their objects say themselves what they are
        self.waiting: list[tuple[Any, bool]] = []

    def unwatched(self, what: str) -> None:
        """Something was read that cannot be watched."""
        raise Unwatched(what)

    def is_long(self) -> bool:
        """Whether there is more than can be looked at at each call."""
        return self.watch.size > LIMIT or self.bytes > BYTES

    def push(self, values: Iterable[Any], held: bool = False) -> None:
        for value in values:
            kind = type(value)
            if kind not in PLAINEST and (kind in PARTS or self.is_odd(kind) or not is_constant(value)):
                self.waiting.append((value, held))

    def is_odd(self, kind: type) -> bool:
        if kind not in self.odd:
            self.odd[kind] = is_odd(kind)
        return self.odd[kind]

    def ask(self, name: str, answers: Answers) -> None:
        """Watches what is answered, once for each name."""
        if (0, name) not in self.named:
            self.named.add((0, name))
            self.watch.answers += answers

    def code(
        self,
        code: types.CodeType,
        variables: dict[str, Any],
        without: frozenset[str] = frozenset(),
        held: bool = False,
    ) -> None:
        """The variables of its module that a function reads, itself or in functions inside it."""
        of = names_of(code)
        names, others = set(of.attributes), set(of.loaded) - variables.keys() - without
        self.names |= names
        if not others.isdisjoint(_UNKNOWN) or "import_module" in names:
            self.unwatched(f"the result of {min(others & _UNKNOWN, default='import_module')}")
        self.by_name |= not others.isdisjoint(_BY_NAME) or not names.isdisjoint(("__dict__", "attrgetter"))
        if not others.isdisjoint(_OF_ITS_MODULE):
            self.entries(variables, held=False)
        if "__subclasses__" in names:
            self.unwatched("the subclasses of a class")
        if others:
            self.missing(variables, others)
            for name in others & _BUILTINS.keys():
                self.variable(_BUILTINS, name)
        for name in of.imported(variables.get("__package__")) if of.imports else ():
            for whole in accumulate(name.split("."), "{}.{}".format):  # a package, and what is in it
                if whole in sys.modules:
                    self.variable(sys.modules, whole)
                else:
                    self.missing(sys.modules, {whole})
        for name in (*of.loaded, *of.stored):
            if name in variables and name not in without and not (name in of.noted and self.note(variables[name])):
                self.variable(variables, name, held)
        if unset := of.stored - variables.keys():
            self.missing(variables, unset)

    def note(self, value: Any) -> bool:
        """Whether a value is one to take notes in, which make no difference to a function; it is not watched then."""
        if is_note(value) and isinstance(value, list | deque):
            self.watch.notebooks.append(
                (value, 0 if isinstance(value, deque) else len(value))
            )  # a deque may lose its first
        return is_note(value)

    def weak(self, reference: weakref.ref[Any], held: bool) -> None:
        """What a weak reference refers to: a class, or an object with attributes, which the watch does not hold."""
        target = reference()
        if isinstance(target, type | None):
            self.watch.answers.append((reference, target))
            self.push((target,), held)
            return
        kind, attributes = type(target), attribute(target, "__dict__")
        plain = is_of_python(kind, 0) and not (slots_of(kind) or isinstance(target, CONTAINERS) or self.is_odd(kind))
        if attributes is MISSING or not plain:
            return self.unwatched("a weak reference")
        parts = dict(attributes)
        self.watch.answers.append((partial(_is_still, reference, kind, parts), True))
        self.push((kind, *parts.values()), held)

    def ref(self) -> None:
        """A ref was met."""
        self.unwatched("a ref, which programs change")

    def missing(self, variables: dict[str, Any], names: Set[str]) -> None:
        """Names that a module does not have, and may get: such as those of builtins."""
        self.absent.setdefault(id(variables), (variables, set()))[1].update(names)

    def variable(self, variables: dict[str, Any], name: str, held: bool = False) -> None:
        is_new = (id(variables), name) not in self.named
        if is_new:
            self.named.add((id(variables), name))
            self.watch.variables.append((variables, name, variables[name]))
        if is_new or held:
            self.push([variables[name]], held)

    def entries(self, d: Any, held: bool) -> None:
        """All of a dictionary, or of the attributes of an object or class."""
        if d is sys.modules:
            return self.modules()
        keys, values = (dict.keys(d), dict.values(d)) if isinstance(d, dict) else (d.keys(), d.values())
        if isinstance(d, dict):
            self.watch.container(d)
        else:
            self.watch.whole(keys)
            self.watch.whole(values)
        self.push(keys, held)
        self.push(values, held)

    def modules(self) -> None:
        """The modules of the process, of which a function may look up any."""
        self.unwatched("sys.modules")

    def array(self, array: np.ndarray, held: bool) -> None:
        if array.dtype.kind == "T":
            return self.unwatched("an array of texts of any length")
        if array.dtype.hasobject:
            self.push(array.ravel().tolist(), held)
        self.bytes += array.nbytes
        if self.bytes <= BYTES or array.dtype.hasobject:
            self.watch.array(array)

    def state(self, module: Any, name: str) -> None:
        """A function that tells of more than its arguments; of those, only one can be watched."""
        if (module, name) != ("os", "getenv"):
            return self.unwatched(f"the result of {module}.{name}")
        self.push((os.environ,))

    def cached(self, f: Any, held: bool) -> None:
        """A function of the user's with `lru_cache`: what it remembers, and what it would do."""
        code = attribute(attribute(f, "__wrapped__"), "__code__")
        if isinstance(code, types.CodeType) and is_own(code.co_filename):
            remembered = cached(f)
            if remembered is None:
                return self.unwatched("what a function with a cache remembers")
            self.watch.container(remembered[0])
            self.push(remembered[1], held=True)


def _is_still(reference: weakref.ref[Any], kind: type, parts: dict[str, Any]) -> bool:
    """Whether an object is there, of this class and with these attributes."""
    now = attribute(reference(), "__dict__")
    return type(reference()) is kind and now.keys() == parts.keys() and all(map(is_, now.values(), parts.values()))
