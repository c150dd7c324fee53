"""Calling a function value: arguments are checked against its domain, and never cast."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.errors import ArgumentError, ArityError, BareFunctionError, DiffcurryError
from combinators.meaning.infer import accepts
from combinators.records import as_records
from combinators.text.outline import outline
from combinators.types import Function, Opaque, Tensor, Type, pack, type_of
from combinators.values import Closure


def conform(arguments: tuple[Any, ...], domain: Type, f: object) -> Any:
    """The one argument that `domain` asks for, from the arguments of a call of `f`.

    Numbers that are weakly typed take the dtype of the domain as JAX's promotion lets them; nothing else is converted.
    Raises `ArityError`, `ArgumentError`, and `BareFunctionError` for a Python function.
    """
    x = as_records(_packed(arguments, domain, f))
    expected, form = jax.tree.flatten(domain)
    try:
        leaves = form.flatten_up_to(x)
    except (ValueError, TypeError):
        raise ArgumentError(
            "a function is called with an argument of another structure",
            part=f,
            expected=domain,
            got=described(x),
            hint="tuples, dicts and other pytrees have to be those of the domain",
        ) from None
    return form.unflatten([_leaf(value, type, f) for value, type in zip(leaves, expected, strict=True)])


def _packed(arguments: tuple[Any, ...], domain: Type, f: object) -> Any:
    arity = len(domain) if type(domain) is tuple and len(domain) != 1 else 1
    if len(arguments) == arity:
        return pack(arguments)
    if len(arguments) == 1 and isinstance(arguments[0], tuple):
        return arguments[0]
    raise ArityError(
        "a function is called with a wrong number of arguments",
        part=f,
        expected=f"{arity} ({outline(domain)})",
        got=str(len(arguments)),
        hint="f(x, y) and f((x, y)) are one call: several arguments are one tuple",
    )


def _leaf(value: Any, expected: Tensor | Function, f: object) -> Any:
    if isinstance(expected, Function):
        return _function(value, expected, f)
    if callable(value):
        raise ArgumentError(
            "a function is given where an array is expected",
            part=f,
            expected=expected,
            got=described(value),
            hint="apply it first, or make the function for an argument of type Function(dom, cod)",
        )
    got = type_of(value)
    if got == expected:
        return value
    if stands_for(got, expected):
        return jnp.asarray(value, expected.dtype)
    raise ArgumentError(
        "a function is called with an argument of another type",
        part=f,
        expected=expected,
        got=got,
        hint="arguments are never cast: convert with .astype or jnp.asarray, or make the function for this type",
    )


def _function(value: Any, expected: Function, f: object) -> Any:
    if not isinstance(value, Closure | Opaque):
        kind, what = (ArgumentError, "an array is given where a function is expected")
        if callable(value):
            kind, what = (BareFunctionError, "a Python function is passed where a function value is expected")
        raise kind(
            what,
            part=f,
            expected=expected,
            got=described(value),
            hint=f"write function(f, domain) with the domain {expected.dom}",
        )
    if not accepts(expected, type_of(value)):
        raise ArgumentError(
            "a function of another type is passed", part=f, expected=expected, got=getattr(value, "type", value)
        )
    return value


def described(value: Any) -> str:
    """What a value is, for errors: its type, or itself if it has none."""
    try:
        return outline(type_of(value))
    except DiffcurryError:
        return repr(value)


def stands_for(got: Type, expected: Tensor) -> bool:
    """Whether a value of type `got` is one of a tensor type, or a number that JAX's promotion makes one of it."""
    is_weak = isinstance(got, Tensor) and got.weak and got.shape == expected.shape
    return bool(got == expected) or (is_weak and _promotes(got.dtype, expected.dtype))


def _promotes(weak: Any, dtype: Any) -> bool:
    order = (np.bool_, np.integer, np.floating, np.complexfloating)
    rank = [next((i for i, kind in enumerate(order) if jnp.issubdtype(d, kind)), -1) for d in (weak, dtype)]
    return 0 <= rank[0] <= rank[1]
