"""Types of values.

    τ ::= Tensor(shape, dtype) | Function(τ, τ) | any pytree of types | Context(τ, ..., τ)

Tuples, dicts, dataclasses and every other registered pytree are products, `()` is the unit.  The type of a closure
whose code is known is the closure itself with types in place of its environment's arrays.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from combinators.depth import check_values
from combinators.errors import ArgumentError, BareFunctionError, FunctionArithmeticError, UnsupportedError, text
from combinators.identity.identity import OWN_KEYS
from combinators.identity.kinds import Kind, kind_with
from combinators.memo import remembered
from combinators.records import as_records

Type = Any  # a pytree of Tensor and Function
_KINDS = (np.number, np.bool_, jax.dtypes.extended, jax.dtypes.float0)  # of numbers, truth values and keys
_NAMES = {jax.tree_util.SequenceKey: "idx", jax.tree_util.GetAttrKey: "name"}  # of attributes of keys of pytrees
LEAF = jax.tree.structure(0)  # the form of what is no product


@dataclass(frozen=True)
class Tensor:
    """`Tensor(shape=(), dtype=float)`: arrays of one shape and dtype.

    `weak` is JAX's weak type, kept for promotion; two tensor types that differ in it alone are equal.
    """

    shape: tuple[int, ...] = ()
    dtype: Any = float
    weak: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        sizes: Any = self.shape if isinstance(self.shape, tuple | list | np.ndarray) else (self.shape,)
        dtype: Any = None
        try:
            shape = tuple([-1 if isinstance(size, bool) else operator.index(size) for size in sizes])
            dtype: Any = jax.dtypes.canonicalize_dtype(self.dtype, allow_extended_dtype=True)
        except (TypeError, ValueError):
            shape = (-1,)
        has_kind = any(map(jnp.issubdtype, repeat(dtype), _KINDS)) and isinstance(self.weak, bool)
        if min(shape, default=0) < 0 or not has_kind:
            raise ArgumentError(
                "this is no tensor type", expected="a shape of sizes from 0 on, and a dtype",
                got=f"Tensor({self.shape!r}, {self.dtype!r})",
                hint="for example Tensor((2, 3)), Tensor(3, 'int32'), Tensor(()) for a real number",
            )  # fmt: skip
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)

    def __repr__(self) -> str:
        return f"{_short(self.dtype)}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Function:
    """`Function(dom, cod)`: the exponential dom ⇝ cod.  `dom` and `cod` are types, that is, pytrees of types.

    A function of n ≠ 1 arguments has the n-tuple of their types as its domain.
    """

    dom: Type
    cod: Type
    _kind: Kind | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_types("the domain or codomain of a function", (self.dom, self.cod))
        leaves, form = jax.tree.flatten((self.dom, self.cod))
        try:
            kind = kind_with((form, tuple(leaves)))
        except TypeError:  # what a class keeps beside its parts has no hash
            kind = None
        object.__setattr__(self, "_kind", kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Function) or self._kind is None or other._kind is None:
            return isinstance(other, Function) and same_type((self.dom, self.cod), (other.dom, other.cod))
        return self._kind is other._kind

    def __hash__(self) -> int:
        return hash(tuple(jax.tree.leaves((self.dom, self.cod)))) if self._kind is None else hash(self._kind)

    def __reduce__(self) -> Any:
        return Function, (self.dom, self.cod)

    def __repr__(self) -> str:
        return f"({text(self.dom)} ⇝ {text(self.cod)})"


OWN_KEYS.add(Tensor)


def type_of(value: Any) -> Type:
    """The type of a value.  Leaves may be arrays, tracers, Python scalars, `jax.ShapeDtypeStruct`s or types.

    Raises `ArgumentError` for a leaf that is none of these.
    """
    if isinstance(value, (jax.Array, Tensor, jax.core.ShapedArray)):
        return leaf_type(value)
    check_values(value)
    return jax.tree.map(leaf_type, as_records(value), is_leaf=lambda node: isinstance(node, Opaque))


class Unknown:
    """The type of what nothing is said about."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN: Any = Unknown()


def require_types(name: str, type: Type) -> None:
    """Raises `ArgumentError` for what is no type."""
    check_values(type)
    for leaf in jax.tree.leaves(type):
        if not isinstance(leaf, Tensor | Function | Unknown):
            raise ArgumentError(
                f"{name} is no type", got=f"{leaf!r} of type {leaf.__class__.__name__}",
                expected="types: C.Tensor, C.Function, and tuples, dicts or other pytrees of them",
                hint="for example Function(Tensor(3), Tensor()); the type of a value v is C.type_of(v)",
            )  # fmt: skip


def require_values(values: Any) -> None:
    """Raises `ArgumentError`, or `BareFunctionError`, for what is no value of ours, and for types among values."""
    check_values(values)
    for leaf in jax.tree.leaves(values):
        if not isinstance(leaf, jax.Array):
            _no_type(leaf)
            leaf_type(leaf)


def no_types(values: Any) -> None:
    """Raises `ArgumentError` for types among values."""
    check_values(values)
    list(map(_no_type, jax.tree.leaves(values)))


def _no_type(leaf: Any) -> None:
    if isinstance(leaf, Tensor | Function | jax.ShapeDtypeStruct | jax.core.ShapedArray):
        raise ArgumentError(
            "a type stands where a value is needed", expected="arrays, numbers, closures, and pytrees of them",
            got=repr(leaf), hint="C.infer(term, type) and trace(f, type) work on types; jnp.zeros(shape) is a value",
        )  # fmt: skip


class FunctionLike:
    """What all function values have in common: they can be called, and are no arrays."""

    __slots__ = ()

    def no_array(self, *_: Any) -> Any:
        raise FunctionArithmeticError(
            "arithmetic on a function", expected="an array", got=repr(self),
            hint="call it first: f(x) is an array where f is not; functions are stacked and indexed by jax.tree.map",
        )  # fmt: skip

    __jax_array__ = __array__ = __float__ = __int__ = __getitem__ = __iter__ = no_array
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = no_array
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = no_array
    __neg__ = __abs__ = __lt__ = __le__ = __gt__ = __ge__ = no_array


class Opaque(FunctionLike):
    """A function value that is known by its type alone: base class of those that live in a trace.

    It has a `type`, a `Function`, and can be called.  `recorded(term, x)` is an arrow at a value x that holds it, which
    waits for its code.
    """

    type: Function

    def __call__(self, *arguments: Any) -> Any:
        raise NotImplementedError

    def recorded(self, term: Any, x: Any) -> Any:
        raise NotImplementedError


_TYPED = (Tensor, Function, Opaque, jax.ShapeDtypeStruct, jax.core.ShapedArray)


def leaf_type(leaf: Any) -> Tensor | Function:
    """The type of a leaf: see `type_of`."""
    if isinstance(leaf, _TYPED):
        return leaf if isinstance(leaf, Tensor | Function) else leaf.type if isinstance(leaf, Opaque) else of_aval(leaf)
    try:
        aval = jax.typeof(leaf)
    except (TypeError, ValueError, AttributeError, OverflowError):
        if callable(leaf):
            raise BareFunctionError(
                "a Python function stands where a value is needed, and its domain is not known",
                expected="a value; a function as a function value", got=repr(leaf),
                hint="write function(f, domain), for example function(lambda x: ..., C.Tensor(()))",
            ) from None  # fmt: skip
        raise ArgumentError(
            "this is not a value of ours", got=f"{leaf!r} of type {type(leaf).__name__}",
            expected="arrays, numbers, closures, and tuples, dicts or other pytrees of them",
            hint="keep other data out of arguments and results: capture it in the lambda, where it is part of the code",
        ) from None  # fmt: skip
    return of_aval(aval)


def is_discrete(type: Any) -> bool:
    """Whether the tangent space of a tensor type, or an array, is the unit: integers, booleans, keys (figure 6)."""
    return _discrete(type.dtype)


@remembered(entries=256)
def _discrete(dtype: Any) -> bool:
    return not jnp.issubdtype(dtype, np.inexact)


def shape_struct(type: Tensor) -> jax.ShapeDtypeStruct:
    """JAX's own word for a tensor type."""
    return jax.ShapeDtypeStruct(type.shape, type.dtype, weak_type=type.weak)


@remembered(entries=8192)
def of_aval(aval: Any) -> Tensor:
    """The type of an array by JAX's word for it, an abstract value or a `ShapeDtypeStruct`."""
    if not isinstance(aval, jax.core.ShapedArray | jax.ShapeDtypeStruct):
        raise UnsupportedError(
            "this changes while a program runs, and is no value", expected="an array", got=aval,
            hint="read a Ref by ref[...] outside of the program, and hand in the array",
        )  # fmt: skip
    return Tensor(aval.shape, aval.dtype, bool(aval.weak_type))


def same_type(left: Type, right: Type) -> bool:
    """Whether two types are equal; weak types count as their strong ones."""
    return jax.tree.structure(left) == jax.tree.structure(right) and jax.tree.leaves(left) == jax.tree.leaves(right)


def pack(arguments: tuple[Any, ...]) -> Any:
    """The one domain of several arguments: a single argument is itself, any other number is the tuple."""
    return arguments[0] if len(arguments) == 1 else arguments


@remembered(entries=256)
def _form_of(length: int) -> Any:
    return jax.tree.structure((0,) * length)


def children(product: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """One level of a product: its (key, component) pairs, and the form that puts components together again.

    Keys are what `proj` takes: positions of tuples and contexts, keys of dicts, names of attributes.
    """
    if type(product) is tuple:
        return list(enumerate(product)), _form_of(len(product))
    inside = chain((False,), repeat(True))  # the product itself is looked at first; it may hold itself
    pairs, form = jax.tree_util.tree_flatten_with_path(product, is_leaf=lambda _: next(inside))
    if form == LEAF:
        return [(None, product)], LEAF
    return [(getattr(path[-1], _NAMES.get(type(path[-1]), "key")), component) for path, component in pairs], form


def _short(dtype: Any) -> str:
    kind = getattr(dtype, "kind", "V")
    return f"{kind}{8 * dtype.itemsize}" if kind in "fiuc" else str(dtype).replace("bfloat", "bf")
