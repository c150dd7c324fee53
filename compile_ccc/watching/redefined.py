"""Rules of derivatives that are defined again: `f.defjvp` and `f.defvjp` change a function that others have captured.

What JAX keeps of jitted functions and of the bodies of loops holds the rules that it met.  So JAX forgets it when one
of the rules has changed that a function reaches which is traced.
"""

from __future__ import annotations

import types
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from combinators.identity.bytecode import Names, names_of
from combinators.identity.held import held, wrapped
from combinators.identity.identity import Interned
from combinators.identity.rules import PLAIN, has_rule, is_global_of_jax, walked
from combinators.memo import remembered
from combinators.types import Opaque
from combinators.values import Closure
from compile_ccc.watching.foreign import DESCRIPTORS, PLAINEST, file_of, own_file
from compile_ccc.watching.ran import is_odd, is_own

_last: WeakKeyDictionary[Any, Hashable] = WeakKeyDictionary()  # what a rule was when it was last seen
_LONG = 1024  # containers of more parts are data, and hold no functions
_NOTHING = PLAINEST.union(DESCRIPTORS, (types.ModuleType, types.BuiltinFunctionType, np.ndarray))  # what holds none
_ABOUT = frozenset({"__annotations__", "__dataclass_fields__", "__dataclass_params__", "__match_args__"})  # of classes
_CALLERS = frozenset({types.FunctionType, types.MethodType, type, tuple, list, dict, set, frozenset})
_CONTAINERS = (Mapping, Sequence, Set)
_NO_CALLERS = (*PLAIN, np.ndarray, jax.Array, Opaque, Closure, Interned)  # values that hold no Python function


def has_lasting_rules(f: Any) -> bool:
    """Whether all rules that a function reaches may be kept beyond the trace that is running: they capture none of it.

    JAX forgets its programs if one of them was another when it was last seen.
    """
    rules = [(g, *walked(g)) for g in _reached(f)]
    if not rules:
        return True
    if any(_last.get(g, key) != key for g, key, _ in rules):
        jax.clear_caches()
    _last.update((g, key) for g, key, tracers in rules if not tracers)
    return not any(tracers for _, _, tracers in rules)


def _reached(f: Any) -> list[Any]:
    """The users' functions with rules that a function can call, as far as variables and attributes tell."""
    found: list[Any] = []
    waiting, seen = [f], dict[int, bool]()
    for value in waiting:  # which grows, and holds what is in it, so that no other value takes its place
        kind, number = type(value), id(value)
        if number in seen:
            continue
        seen[number] = True
        if kind not in _CALLERS:
            if is_odd(kind) or isinstance(value, _NO_CALLERS):
                continue
            if has_rule(value):
                if is_global_of_jax(value):
                    continue
                found.append(value)
        waiting += [part for part in _parts(value) if type(part) not in _NOTHING]
    return found


def _parts(value: Any) -> Iterable[Any]:
    """What a value holds that a function can call; of installed packages, only what functions and objects captured."""
    match value:
        case types.FunctionType():
            names = _own_names(value.__code__)
            return held(value) + (_read(names, value.__globals__) if names and names.loaded else [])
        case types.MethodType():
            return (value.__self__, value.__func__)
        case type():
            own = is_own(file_of(value.__module__))
            entries = [entry for kind in value.__mro__[:-1] for entry in kind.__dict__.items()] if own else ()
            return [part for name, part in entries if name not in _ABOUT]
        case types.ModuleType():
            return ()
        case _ if type(value) not in _CALLERS and not (
            hasattr(type(value), "__len__") and isinstance(value, _CONTAINERS)
        ):
            inside = wrapped(value)
            return (*getattr(value, "__dict__", {}).values(), type(value)) if inside is None else inside
        case _ if len(value) > _LONG:
            return ()
        case _:
            return value.values() if isinstance(value, dict | Mapping) else value


@remembered(entries=4096)
def _own_names(code: types.CodeType) -> Names | None:
    """What the code of a function of the user's says of it."""
    return names_of(code) if is_own(code.co_filename) else None


def _read(names: Names, variables: dict[str, Any]) -> list[Any]:
    """What a function reads by global names; of modules, the attributes of the names that it uses."""
    read = [variables[name] for name in names.loaded if name in variables]
    for module in [value for value in read if issubclass(type(value), types.ModuleType)]:
        own = vars(module) if is_own(own_file(module)) else {}
        read += [own[name] for name in names.attributes if name in own]
    return read
