"""Cotangents as users see them: pytrees with the structure of their primals (paper 003, figure 6).

At function types a cotangent is a closure over the cotangents of what was captured, or `Calls`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import dtypes

from combinators.depth import check_values
from combinators.edges import one_of
from combinators.errors import ArgumentError
from combinators.meaning.conform import described, stands_for
from combinators.records import as_records
from combinators.sums import TAG
from combinators.terms import Term
from combinators.types import Tensor, is_discrete, require_values, type_of
from combinators.values import Closure
from tangents.cotangents.calls import Calls
from tangents.cotangents.leaves import Primals, zero_leaf
from tangents.cotangents.sparse import Cotangent, Held, release
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


def require_zero(t: Any, type: Tensor, name: str) -> None:
    """Raises `ArgumentError` for what is no zero tangent, or cotangent, of a discrete leaf of this type.

    Zeros are None, `float0`, and zeros of any dtype.  Of traced values only the dtype is known: a discrete one.
    """
    if t is None or (isinstance(t, tuple) and not t):
        return
    require_values(t)
    got = type_of(t)
    if not (isinstance(got, Tensor) and got.shape in ((), type.shape) and _is_zero(t, got.dtype)):
        raise ArgumentError(
            f"{name} of what is discrete is not zero",
            expected=f"None, float0, or zeros: {type} has no other tangents",
            got=f"{t!r}",
            hint="integers, truth values and keys do not vary: pass a float, such as 2.0 for 2, to move along it",
        )


def _is_zero(t: Any, dtype: Any) -> bool:
    if dtype == dtypes.float0:
        return True
    if isinstance(t, jax.core.Tracer):
        return not jnp.issubdtype(dtype, np.inexact)
    return not jnp.issubdtype(dtype, dtypes.extended) and not np.any(np.asarray(t))


def from_public(g: Any, y: Any, space: Primals, name: str = "a cotangent") -> Cotangent:
    """The symbolic form of a cotangent that a user gives for the primal y; errors call it by the name.

    Raises `ArgumentError` if it has not the structure of y, or a leaf of another shape or dtype.
    """
    hint = "a cotangent has the structure, shapes and dtypes of its primal: no part of it stands for several"
    checked = [_leaf(c, x, path, name) for path, x, c in by_leaves(as_records(g), y, space, name, hint)]
    return space.symbolic(jax.tree.structure(y, is_leaf=space.is_leaf).unflatten(checked), y)


def by_leaves(t: Any, x: Any, space: Primals, name: str, hint: str) -> list[tuple[Any, Any, Any]]:
    """(path, leaf, part) of each leaf of the primal x, with the part of a tangent, or cotangent, that is given for it.

    Raises `ArgumentError`, which calls that by the name, if it has not the structure of x.
    """
    primals, form = jax.tree_util.tree_flatten_with_path(x, is_leaf=space.is_leaf)
    try:
        parts = form.flatten_up_to(t)
    except (ValueError, TypeError):
        path, primal, part = _misfit(x, t, space)
        raise ArgumentError(
            f"{component(path)}{name} has not the structure of its primal",
            expected=type_of(release(primal)),
            got=described(part),
            hint=hint,
        ) from None
    return [(path, leaf, part) for (path, leaf), part in zip(primals, parts, strict=True)]


def _misfit(x: Any, given: Any, space: Primals, path: tuple[Any, ...] = ()) -> tuple[Any, Any, Any]:
    """The first component of x for which a part of another structure is given: its path, itself, and that part."""
    pairs, form = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda node: node is not x)
    try:
        parts = form.flatten_up_to(given)
    except (ValueError, TypeError):
        return path, x, given
    for (key, component), part in zip(pairs, parts, strict=True):
        try:
            jax.tree.structure(component, is_leaf=space.is_leaf).flatten_up_to(part)
        except (ValueError, TypeError):
            return _misfit(component, part, space, (*path, *key))
    return path, x, given


def is_tag(path: tuple[Any, ...]) -> bool:
    """Whether the tag of a sum stands here, which of a tangent of a sum says that of which alternative it is."""
    return bool(path) and path[-1] is TAG


def component(path: tuple[Any, ...]) -> str:
    """The words in front of the name of a value which say that a component of it is meant; none for all of it."""
    return f"the component {jax.tree_util.keystr(path, simple=True, separator='.')} of " if path else ""


def _leaf(cotangent: Any, primal: Any, path: tuple[Any, ...], name: str) -> Any:
    name = component(path) + name
    match primal:
        case Held(value):
            if isinstance(type := type_of(release(value)), Tensor) and is_discrete(type) and not is_tag(path):
                require_zero(cotangent, type, name)
            return cotangent
        case Closure():
            if isinstance(cotangent, Calls):
                return cotangent
            raise ArgumentError(
                f"{name} is no Calls, the list cotangent of a function",
                expected="Calls(...)",
                got=repr(cotangent),
                hint="Calls(Block(x, g)) is one call at x with the cotangent g, Calls() is zero",
            )
        case _:
            return converted(cotangent, type_of(primal), name)


def converted(t: Any, expected: Tensor, name: str) -> Any:
    """A tangent or cotangent, that errors call by the name, as an array of this type, which numbers become."""
    require_values(t)
    got = type_of(t)
    if stands_for(got, expected):
        return jnp.asarray(t, expected.dtype)
    raise ArgumentError(
        f"{name} has not the type of its primal",
        expected=expected,
        got=str(got),
        hint="it has the shape and dtype of its primal, in which complex numbers are no real ones",
    )
