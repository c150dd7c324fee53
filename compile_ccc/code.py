"""The key of what is code: what a program reaches that is no environment, by what it holds now.

Two programs with one key are traced once, so the key has to change with whatever Python would see changed: numbers and
text, arrays of NumPy, the items of containers, the attributes of objects, and the module's other functions that a
function calls by name.  JAX's arrays never change; modules, classes and functions of other modules count by identity.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Hashable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

import numpy as np

from combinators.identity import Interned, key_of
from combinators.rules import PLAIN, global_names, is_empty

_LARGE = (
    4096  # elements from which on an array of NumPy counts by identity: reading it at each call would cost too much
)
_OTHERS = ("jax", "jaxlib", "numpy", "functools", "builtins")  # whose objects count by identity


class CodeKey:
    """One walk.  `kept` collects the objects whose identity is in the key: they must stay alive with it."""

    def __init__(self, kept: list[Any]):
        self.kept = kept
        self.numbers: dict[int, int] = {}

    def of(self, value: Any, module: dict[str, Any] | None = None) -> Hashable:
        """The key of a value; functions are looked into if they are of the given module."""
        if isinstance(value, PLAIN):
            return key_of(value)
        if isinstance(type(value), Interned):
            return value
        if isinstance(value, np.ndarray) and value.size < _LARGE:
            return key_of(value)
        if id(value) in self.numbers:
            return ("again", self.numbers[id(value)])
        self.numbers[id(value)] = len(self.numbers)
        self.kept.append(value)
        return (type(value), id(value), self._parts(value, module))

    def function(self, f: types.FunctionType, names: list[str]) -> Hashable:
        """The key of what a function reads under these global names."""
        return tuple((name, self.of(f.__globals__[name], f.__globals__)) for name in names)

    def _parts(self, value: Any, module: dict[str, Any] | None) -> Hashable:
        match value:
            case types.FunctionType() if value.__globals__ is module:
                cells = [cell.cell_contents for cell in value.__closure__ or () if not is_empty(cell)]
                held = tuple(self.of(v, module) for v in (*cells, *(value.__defaults__ or ())))
                return (value.__code__, held, self.function(value, global_names(value)))
            case types.MethodType():
                return (self.of(value.__self__, module), self.of(value.__func__, module))
            case Mapping():
                return tuple((self.of(k, module), self.of(v, module)) for k, v in value.items())
            case Sequence() | Set():
                return tuple(self.of(v, module) for v in value)
            case types.FunctionType() | types.ModuleType() | type():
                return ()
            case _ if type(value).__module__.partition(".")[0] in _OTHERS:
                return ()
            case _:
                attributes: dict[str, Any] = getattr(value, "__dict__", {})
                return tuple((name, self.of(v, module)) for name, v in attributes.items())


def assigned(f: types.FunctionType) -> frozenset[str]:
    """The captured variables that a function assigns itself: its own state, such as a counter, and no code."""
    return _stored(f.__code__)


@lru_cache(maxsize=16384)
def _stored(code: types.CodeType) -> frozenset[str]:
    own = {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_DEREF"}
    inner = (_stored(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return frozenset(own & set(code.co_freevars)).union(*(names & set(code.co_freevars) for names in inner))
