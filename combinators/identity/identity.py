"""Structural identity: a hashable key for whatever a term may hold, so that equal terms are one object."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import singledispatch
from hashlib import sha256
from types import FunctionType
from typing import Any, ClassVar
from weakref import WeakValueDictionary, ref

import jax
import jax.core
import jax.extend.core as jex
import jax.extend.linear_util as linear_util
import jax.numpy as jnp
import numpy as np

from combinators.depth import TERMS
from combinators.errors import ArgumentError, DepthError
from combinators.memo import ByObject, Table, remembered


class _Term(ref[Any]):
    """A reference to a term, which knows its key."""

    __slots__ = ("key",)
    key: Hashable


def _forget(gone: _Term) -> None:
    with _lock:
        known = _interned.pop(gone.key, gone)
        if known is not gone:  # it has been made again
            _interned[gone.key] = known


_interned: dict[Hashable, _Term] = {}  # no cache: it says what one term is
_lock = threading.RLock()  # two threads that make one term get one object


class Interned:
    """The base of terms: building a term gives the one object with these fields.

    `fill` is the method that a dataclass has for its fields: it takes names, and says what is missing.
    """

    __slots__ = ("__weakref__", "depth", "facts", "programs")
    facts: dict[Any, Any]  # what tables remember of it
    depth: int  # how many combinators are within each other, this one included
    programs: int  # how many of them hold a program of their own for JAX
    holds_program: ClassVar[bool] = False
    fill: ClassVar[Any]

    def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
        names, defaults, puts, check, count = _fields(cls)
        if keywords or len(arguments) != count:
            missing = count - len(arguments)
            if keywords or missing > len(defaults):
                term = object.__new__(cls)
                term.fill(*arguments, **keywords)
                return cls(*[getattr(term, name) for name in names])
            arguments += defaults[-missing:]
        parts = [
            a
            if (kind := type(a)) in OWN_KEYS or (kind is tuple and constructors.issuperset(map(type, a)))
            else key_of(a)
            for a in arguments
        ]
        key = (cls, *parts)
        known = _interned.get(key)
        if known is not None and (found := known()) is not None:
            return found
        depth = programs = 0
        for part in [part for a in arguments for part in (a if type(a) is tuple else (a,))]:
            if type(part) in constructors:
                depth = part.depth if part.depth > depth else depth
                programs = part.programs if part.programs > programs else programs
        if depth >= TERMS:
            raise _too_deep(depth + 1)
        term: Any = object.__new__(cls)
        for put, a in zip(puts, (depth + 1, programs + cls.holds_program, *arguments), strict=True):
            put(term, a)
        if check is not None:
            check(term)
        new = _Term(term, _forget)
        new.key = key
        with _lock:
            found = _interned.setdefault(key, new)()
            if found is None:  # it is about to be forgotten
                _interned[key], found = new, term
        return found


constructors: set[type] = set()  # the classes of terms
OWN_KEYS = {
    int,
    str,
    type(None),
    jax.tree_util.PyTreeDef,
    jax.core.ShapedArray,
}  # what equals its like alone, as terms do


def are_terms(values: Sequence[Any]) -> bool:
    """Whether all of these are terms."""
    return constructors.issuperset(map(type, values))


def _too_deep(depth: int) -> DepthError:
    return DepthError(
        "a term nests too deeply",
        expected=f"combinators within combinators, at most {TERMS} deep",
        got=f"{depth}",
        hint="compose(f, g, ...) of many arrows is flat, and so is prod(f, g, ...)",
    )


_PLAIN = (bool, int, str, bytes, np.dtype)
FUNCTIONS = (FunctionType, linear_util.WrappedFun)  # of Python, in programs of JAX
_FLOATS, _SEQUENCES = (float, complex), (tuple, list)
_NESTED = 64  # levels of tuples, lists and dicts in a key


@remembered(entries=256)
def _fields(term: Any) -> tuple[tuple[str, ...], tuple[Any, ...], list[Any], Any, int]:
    """Of a kind of term the names of its fields, the defaults of the last ones, what sets and checks them; their count.

    There are no defaults if something else is made of them.  What is frozen is set by its slots, `depth` and `programs`
    first.
    """
    if not is_dataclass(term):
        raise ArgumentError(
            f"there is no {term.__name__} that is nothing else",
            expected="one of the combinators",
            got=term.__name__,
            hint="C.id, C.proj(0) and C.primitive('sin') are terms; the class is for isinstance",
        )
    names, defaults = [field.name for field in fields(term)], [field.default for field in fields(term)]
    first = next((i for i in range(len(names)) if all(default is not MISSING for default in defaults[i:])), len(names))
    check = getattr(term, "__post_init__", None)
    puts = [getattr(term, name).__set__ for name in ("depth", "programs", *names)]
    return tuple(names), () if check else tuple(defaults[first:]), puts, check, len(names)


def key_of(value: Any, levels: int = _NESTED) -> Hashable:
    """A key that two values share exactly if they are interchangeable inside a term.

    Numbers differ by type and sign of zero, arrays compare by content, JAX's programs by their equations, and tracers
    and unhashable objects by identity.  What nests deeper than so many levels is written as a flat list of leaves.
    """
    kind = type(value)
    if kind in OWN_KEYS:
        return value
    if isinstance(value, _PLAIN):
        return (kind, value)
    if isinstance(value, _FLOATS):
        return (kind, repr(value))
    if not levels:
        leaves, form = jax.tree.flatten(value)
        return (form, *[key_of(leaf) for leaf in leaves])
    if isinstance(value, _SEQUENCES):
        if kind is tuple and {*map(type, value)} == {int}:
            return (int, value)
        return (kind, *[v if type(v) in OWN_KEYS else key_of(v, levels - 1) for v in value])
    if isinstance(value, dict):
        items = [(key_of(k, levels - 1), key_of(v, levels - 1)) for k, v in value.items()]
        return (kind, key_of(value.default_factory) if isinstance(value, defaultdict) else None, *items)
    if isinstance(value, FUNCTIONS):
        return ("function", function_key(value))
    match value:
        case jex.Jaxpr():
            return ("program", _program(value), tuple([key_of(constant) for constant in value.consts]))
        case jax.core.Tracer():
            return ("tracer", id(value))
        case np.ndarray() | np.generic() | jax.Array():
            return _array_key(value)
        case _:
            return _object_key(value)


@singledispatch
def function_key(f: Any) -> Hashable:
    """A key that two functions of Python share if they do the same: see `combinators.identity.rules`."""
    raise NotImplementedError


def _array_key(array: Any) -> Hashable:
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return ("keys", str(array.dtype), _array_key(jax.random.key_data(array)))
    weak = bool(getattr(array, "weak_type", False))
    return ("array", array.shape, array.dtype, weak, _content(array))


_SHORT = 256  # bytes that a key holds as they are
_digests: Table[int, tuple[ref[Any], bytes]] = Table("digests of arrays", entries=1024)  # by id; arrays of JAX stay


def _content(array: Any) -> bytes:
    """What tells the content of an array from all others: a digest of it, if it is long."""
    if array.nbytes <= _SHORT:
        return np.asarray(array).tobytes()
    of, known = _digests.get(id(array)) or (None, b"")
    if of is not None and of() is array:
        return known
    found = sha256(np.asarray(array).tobytes()).digest()
    if isinstance(array, jax.Array):
        _digests.drop(id(array))
        _digests.put(id(array), (ref(array), found))
    return found


class _Program:
    """What programs with the same equations have in common."""

    __slots__ = ("__weakref__",)


_programs: WeakValueDictionary[Hashable, _Program] = WeakValueDictionary()
_known: ByObject[Any, _Program] = ByObject("identities of programs")


def _program(program: Any) -> _Program:
    """One object for all programs with these equations; JAX has many a program in many others."""
    found = _known.get(program)
    if found is None:
        key = _program_key(program)
        with _lock:
            found = _known.put(program, _programs.setdefault(key, _Program()))
    return found


def _program_key(program: Any) -> Hashable:
    """Equations over numbered variables, so that two traces of one function agree."""
    number: dict[Any, int] = {}

    def atom(x: Any) -> Hashable:
        return (key_of(x.val), x.aval) if isinstance(x, jex.Literal) else number.setdefault(x, len(number))

    inputs = tuple((atom(v), v.aval) for v in (*program.constvars, *program.invars))
    equations = [
        (
            eqn.primitive,
            tuple(map(atom, eqn.invars)),
            tuple([(atom(v), v.aval) for v in eqn.outvars]),
            *[(name, key_of(param)) for name, param in eqn.params.items()],
        )
        for eqn in program.eqns
    ]
    return (inputs, *equations, tuple(map(atom, program.outvars)))


def _object_key(value: Any) -> Hashable:
    if not jax.tree_util.all_leaves((value,)):
        leaves, form = jax.tree.flatten(value)
        return (form, tuple(map(key_of, leaves)))
    try:
        hash(value)
    except TypeError:
        return (type(value), id(value))
    types = getattr(value, "in_avals", None)  # primitives of JAX that are objects equal those of other types
    return (type(value), value, None if types is None else key_of(types))
