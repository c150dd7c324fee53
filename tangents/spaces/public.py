"""Cotangents as users see them: pytrees with the structure of their primals (paper 003, figure 6).

At function types a cotangent is a closure over the cotangents of what was captured, or `Calls`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from combinators.depth import check_values
from combinators.edges import one_of
from combinators.errors import ArgumentError
from combinators.meaning.conform import described, stands_for
from combinators.terms import Term
from combinators.types import Tensor, is_discrete, require_values, type_of
from tangents.cotangents.calls import Calls
from tangents.cotangents.leaves import zero_leaf
from tangents.spaces.edges import component, is_tag, require_zero
from tangents.spaces.environment import ENVIRONMENT
from tangents.spaces.functions import is_unknown, require_known
from tangents.spaces.listing import LIST
from tangents.spaces.space import Space

SPACES: dict[str, Space] = {space.name: space for space in (ENVIRONMENT, LIST)}


def space_named(functions: str) -> Space:
    """The tangent space for functions of this name: "environment" or "list"."""
    one_of("functions", functions, SPACES, "the environment tangent is the fast one; the list tangent records calls")
    return SPACES[functions]


def zero(x: Any, functions: str | Space = "environment") -> Any:
    """0 : T[x], the zero cotangent of a value: zeros of the shapes and dtypes of its leaves.

    Of a function it is the closure over zeros (functions="environment") or the empty list of calls (functions="list"),
    and in a space of one's own, whichever that has.  Of a term, which has captured nothing, it is ().  (Paper 003,
    figure 6; paper 004, section 4.)
    """
    space = functions if isinstance(functions, Space) else space_named(functions)
    check_values(x)
    leaves, form = jax.tree.flatten(x, is_leaf=lambda v: is_unknown(v) or space.is_leaf(v))
    require_known(leaves)
    require_values([leaf for leaf in leaves if not isinstance(leaf, Term)])
    return form.unflatten([() if isinstance(leaf, Term) else zero_leaf(leaf) for leaf in leaves])


def add(g: Any, h: Any) -> Any:
    """g + h : T[x], for two cotangents of one value: leaf by leaf, lists of calls by concatenation.

    Raises `ArgumentError` if they differ in structure, or a leaf in its shape or dtype.  (Paper 003, figure 6.)
    """
    is_leaf = lambda v: is_unknown(v) or _is_calls(v)
    check_values((g, h))
    leaves, form = jax.tree_util.tree_flatten_with_path(g, is_leaf=is_leaf)
    others, other = jax.tree.flatten(h, is_leaf=is_leaf)
    require_known([*(leaf for _, leaf in leaves), *others])
    if form != other:
        raise _not_of_one_value(form, other)
    return form.unflatten([_sum(path, a, b) for (path, a), b in zip(leaves, others, strict=True)])


def _not_of_one_value(left: Any, right: Any) -> ArgumentError:
    return ArgumentError(
        "these are not of one value",
        expected=left,
        got=right,
        hint="cotangents and tangents have the structure, shapes and dtypes of their value: no part stands for several",
    )


def _sum(path: tuple[Any, ...], a: Any, b: Any) -> Any:
    if _is_calls(a) and _is_calls(b):
        return a + b
    if not _are_of_unit(a, b):
        return a + b
    for leaf in () if is_tag(path) else (a, b):
        require_zero(leaf, type_of(a), f"{component(path)}a cotangent")
    return a


def _are_of_unit(a: Any, b: Any) -> bool:
    """Whether two leaves are of the tangent space of what is discrete; raises if they are not of one space."""
    if _is_calls(a) or _is_calls(b):
        raise _not_of_one_value(described(a), described(b))
    require_values((a, b))
    left, right = type_of(a), type_of(b)
    if not (isinstance(left, Tensor) and isinstance(right, Tensor)):
        raise _not_of_one_value(left, right)
    if is_discrete(left) and is_discrete(right):
        return True
    if not (stands_for(left, right) or stands_for(right, left)):
        raise _not_of_one_value(left, right)
    return False


def inner(g: Any, t: Any) -> Any:
    """⟨g, t⟩, a scalar: a cotangent applied to a tangent of the same value, which is linear in both.

    Tangents have the structure of cotangents; only the tangent of a function with list cotangent is a function value δ,
    and ⟨[(x1, g1), ...], δ⟩ = ⟨g1, δ(x1)⟩ + ....  Discrete leaves count nothing.

    Raises `ArgumentError` if they differ in structure, or a leaf in its shape or dtype.
    """
    check_values((g, t))
    leaves, form = jax.tree.flatten(g, is_leaf=_is_calls)
    try:
        others = form.flatten_up_to(t)
    except (TypeError, ValueError):
        raise _not_of_one_value(form, jax.tree.structure(t)) from None
    with jax.numpy_dtype_promotion("standard"):  # leaves may be of several dtypes
        return sum((_inner_leaf(a, b) for a, b in zip(leaves, others, strict=True)), start=jnp.zeros(()))


def _inner_leaf(g: Any, t: Any) -> Any:
    if isinstance(g, Calls) and callable(t):
        return sum((inner(cotangent, t(argument)) for argument, cotangent in g), start=jnp.zeros(()))
    return jnp.zeros(()) if _are_of_unit(g, t) else jnp.sum(jnp.asarray(g) * t)


def _is_calls(value: Any) -> bool:
    return isinstance(value, Calls)
