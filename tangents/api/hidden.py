"""Values of a program inside of objects that are no pytrees, which would be lost there: auxiliary results."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable
from typing import Any

import jax
import jax.core
import numpy as np

from combinators.errors import ArgumentError, user_line
from combinators.identity.held import held
from combinators.types import FunctionLike
from compile_ccc.asking.jax_traces import running_trace, trace_of

_MANY = 2_000  # objects that are looked at
_ENDS = (
    type,
    types.ModuleType,
    types.FrameType,
    types.CodeType,
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    FunctionLike,
)


def check_hidden(path: Any, value: Any) -> None:
    """Raises `ArgumentError` for an object, at this path of an auxiliary result, that holds a value of the program."""
    found = _inside(value)
    if found is None:
        return
    kind = type(value)
    where = f"aux{jax.tree_util.keystr(path)}"
    name = next((f" as {where}.{name}" for name in _names(value) if getattr(value, name, None) is found), "")
    raise ArgumentError(
        "an auxiliary result hides a value of the program in an object that is no pytree",
        expected="arrays in tuples, lists, dicts and registered classes",
        got=f"an object of class {kind.__name__}, {where}, which holds a {jax.typeof(found).str_short()}{name}",
        line=user_line(),
        hint=_hint(kind),
    )


def _hint(kind: type) -> str:
    if kind.__module__ in ("builtins", "collections", "itertools", "functools"):
        return "return a list, a tuple or a dict of the values"
    if kind.__module__ == "numpy":
        return "return a list, or jnp.stack of the values"
    return (
        f"return its parts as a tuple or a dict, and make the {kind.__name__} outside; "
        "or make its class a pytree, by jax.tree_util.register_dataclass or register_pytree_node"
    )


def _inside(value: Any) -> Any:
    """A tracer of the running trace that an object holds, at any depth; None if there is none among so many objects."""
    trace = running_trace()
    waiting, seen = [value], {id(value)}
    while waiting and len(seen) < _MANY:
        inner = waiting.pop(0)
        if isinstance(inner, jax.core.Tracer):
            if trace_of(inner) is trace:
                return inner
            continue
        new = [part for part in _parts(inner) if id(part) not in seen and not isinstance(part, _ENDS)]
        seen.update(map(id, new))
        waiting += new
    return None


def _parts(value: Any) -> Iterable[Any]:
    """What an object holds; of a function, what it captured."""
    match value:
        case types.FunctionType():
            return held(value)
        case np.ndarray():
            return value.ravel().tolist() if value.dtype.hasobject else ()
        case jax.Array() | np.generic():
            return ()
        case _:
            return gc.get_referents(value)


def _names(value: Any) -> list[str]:
    """The names of the attributes of an object."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(value, "__dict__", {}), *slots]
