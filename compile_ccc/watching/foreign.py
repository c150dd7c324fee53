"""What is known of objects that are not the user's: which packages stay as they are, which objects of C do."""

from __future__ import annotations

import datetime
import decimal
import functools
import operator
import re
import sys
import threading
import types
import typing
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from combinators.errors import OURS
from combinators.identity.rules import PLAIN
from combinators.memo import remembered

_OF_JAX = (jax.Array, jax.tree_util.PyTreeDef, jax.sharding.Mesh, jax.sharding.Sharding)
CONSTANT = (*PLAIN, *_OF_JAX, types.CodeType, range, slice, re.Pattern, np.dtype, np.ufunc)
PARTS = frozenset({types.FunctionType, types.ModuleType, types.MethodType, type, tuple, list, dict})  # with parts
PLAINEST = frozenset({types.NoneType, bool, int, float, complex, str, bytes})  # without any: soon told from the rest
DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property, *DESCRIPTORS)
LOCK = type(threading.Lock())
CACHED = type(functools.lru_cache(lambda: None))
DATA = (dict, list, set, tuple, frozenset, deque)  # containers with a length
CONTAINERS = (*DATA, functools.partial, BaseException)

JAX = frozenset({"jax", "jaxlib", "numpy", "ml_dtypes"})
QUIET = JAX | OURS
_SOME = {"builtins", "types", "operator", "functools", "itertools", "math", "cmath", "collections", "typing"}
_MORE = {"logging", "enum", "abc", "_thread", "datetime", "decimal", "fractions", "numbers", "dataclasses", "re"}
STEADY = QUIET | _SOME | _MORE


class _Pair(NamedTuple):
    first: Any
    second: Any


STATELESS = (  # classes of C whose objects stay what they are, but for what they wrap
    types.NotImplementedType,
    types.EllipsisType,
    types.GenericAlias,
    types.UnionType,
    CACHED,
    type(vars(_Pair)["first"]),
    LOCK,
    type(threading.RLock()),
    type(vars(Collection)["_abc_impl"]),
    typing.TypeAliasType,
    typing.TypeVar,
    operator.itemgetter,
    operator.attrgetter,
    operator.methodcaller,
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    np.busdaycalendar,
    object,
)
MISSING = object()
_FROZEN = frozenset(sys.builtin_module_names) | frozenset(sys.stdlib_module_names)


def is_constant(value: Any) -> bool:
    """Whether a value stays what it is: text and numbers do, unless they have attributes of their own."""
    return isinstance(value, CONSTANT) and not has_attributes(value)


def has_attributes(value: Any) -> bool:
    """Whether text, a number or an array is of a class derived from these, and has been given attributes."""
    kind = type(value)
    if not kind.__dictoffset__ or not issubclass(kind, _DERIVED):
        return False
    return not _OF_ENUMS.issuperset(attribute(value, "__dict__"))


_DERIVED = (int, float, complex, str, bytes, np.ndarray)
_OF_ENUMS = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})  # attributes of members


def package(module: Any) -> str:
    """The package of a module with this name."""
    return module.partition(".")[0] if isinstance(module, str) else ""


@remembered(entries=4096)
def file_of(module: str) -> str:
    """The source file of a module; that of a user, if it has none."""
    return own_file(sys.modules.get(module)) or ("<frozen" if module in _FROZEN else "<string>")


def own_file(module: Any) -> str:
    """The source file of a module, which is not asked for what it does not have."""
    return str(vars(module).get("__file__") or "") if isinstance(module, types.ModuleType) else ""


def attribute(value: Any, name: str) -> Any:
    """An attribute of an object as Python keeps it, or `MISSING`; nothing of the user's runs."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return MISSING


def slots_of(kind: type) -> list[str]:
    """The attributes that a class written in Python keeps in slots; those of classes in C it may not set."""
    members = [item for base in kind.__mro__[:-1] if "__slots__" in vars(base) for item in vars(base).items()]
    return list(dict.fromkeys([name for name, member in members if type(member) is types.MemberDescriptorType]))


def is_of_python(kind: type, slots: int) -> bool:
    """Whether the objects of a class have no state but attributes, slots, and what containers hold."""
    base = [*filter(functools.partial(issubclass, kind), CONTAINERS), object][0]
    counted = slots + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ <= base.__basicsize__ + 8 * counted


def fixed_parts(form: Any) -> Iterator[Any]:
    """What the nodes of a pytree, but for our own, hold beside their parts."""
    waiting = [form]
    while waiting:
        form = waiting.pop()
        kind, fixed = form.node_data() or (None, None)
        if kind is dict:
            yield from [key for key in fixed or () if type(key) not in PLAINEST]
        elif fixed is not None and package(kind.__module__) not in QUIET:
            yield fixed
        waiting += [part for part in form.children() if part.num_nodes != part.num_leaves]  # which is no leaf
