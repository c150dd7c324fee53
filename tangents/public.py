"""Cotangents as users see them: pytrees with the structure of their primals (paper 003, figure 6).

At function types a cotangent is a closure over the cotangents of what was captured, or `Calls`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from combinators.errors import ArgumentError, DiffcurryError
from combinators.records import as_records
from combinators.terms import Term
from combinators.types import Tensor, is_discrete, type_of
from combinators.values import Closure
from tangents.calls import Calls
from tangents.functions import code_of, is_unknown
from tangents.leaves import symbolic, zero_leaf
from tangents.sparse import Cotangent, Held, IsLeaf, release


def zero(x: Any, functions: str = "environment") -> Any:
    """0 : T[x], the zero cotangent of a value: zeros of the shapes and dtypes of its leaves.

    Of a function it is the closure over zeros (functions="environment") or the empty list of calls (functions="list").
    Of a term, which has captured nothing, it is ().  (Paper 003, figure 6; paper 004, section 4.)
    """
    listed = functions == "list"
    leaves, form = jax.tree.flatten(x, is_leaf=lambda v: is_unknown(v) or (listed and isinstance(v, Closure)))
    _require_known(leaves)
    return form.unflatten([() if isinstance(leaf, Term) else zero_leaf(leaf) for leaf in leaves])


def add(g: Any, h: Any) -> Any:
    """g + h : T[x], for two cotangents of one value: leaf by leaf, lists of calls by concatenation.

    Raises `ArgumentError` if the structures differ.  (Paper 003, figure 6.)
    """
    leaves, form = jax.tree.flatten(g, is_leaf=lambda v: is_unknown(v) or _is_calls(v))
    _require_known(leaves)
    others, other = jax.tree.flatten(h, is_leaf=lambda v: is_unknown(v) or _is_calls(v))
    if form != other:
        raise ArgumentError("these cotangents are not of one value", expected=form, got=other)
    return form.unflatten([a if _is_zero_of_unit(a) else a + b for a, b in zip(leaves, others, strict=True)])


def _require_known(leaves: list[Any]) -> None:
    for f in filter(is_unknown, leaves):
        code_of(f)  # raises: of what it captured, which would be zero or added, nothing is known


def inner(g: Any, t: Any) -> Any:
    """⟨g, t⟩, a scalar: a cotangent applied to a tangent of the same value, which is linear in both.

    Tangents have the structure of cotangents; only the tangent of a function with list cotangent is a function value δ,
    and ⟨[(x1, g1), ...], δ⟩ = ⟨g1, δ(x1)⟩ + ....  Discrete leaves count nothing.
    """
    leaves, form = jax.tree.flatten(g, is_leaf=_is_calls)
    terms = [_inner_leaf(a, b) for a, b in zip(leaves, form.flatten_up_to(t), strict=True)]
    return sum(terms, start=jnp.zeros(()))


def _inner_leaf(g: Any, t: Any) -> Any:
    if isinstance(g, Calls):
        return sum((inner(cotangent, t(argument)) for argument, cotangent in g), start=jnp.zeros(()))
    return jnp.zeros(()) if is_discrete(type_of(g)) else jnp.sum(jnp.asarray(g) * t)


def _is_calls(value: Any) -> bool:
    return isinstance(value, Calls)


def _is_zero_of_unit(g: Any) -> bool:
    return not _is_calls(g) and is_discrete(type_of(g))


def from_public(g: Any, y: Any, is_leaf: IsLeaf, name: str = "a cotangent") -> Cotangent:
    """The symbolic form of a cotangent that a user gives for the primal y; errors call it by the name.

    Raises `ArgumentError` if it has not the structure of y, or a leaf of another shape or dtype.
    """
    primals, form = jax.tree_util.tree_flatten_with_path(y, is_leaf=is_leaf)
    try:
        cotangents = form.flatten_up_to(as_records(g))
    except (ValueError, TypeError):
        path, primal, part = misfit(y, as_records(g), is_leaf)
        raise ArgumentError(
            f"{component(path)}{name} has not the structure of its primal",
            expected=type_of(release(primal)),
            got=described(part),
            hint="a cotangent has the structure, shapes and dtypes of its primal: no part of it stands for several",
        ) from None
    checked = [_leaf(c, x, component(path) + name) for c, (path, x) in zip(cotangents, primals, strict=True)]
    return symbolic(form.unflatten(checked), y, is_leaf)


def misfit(x: Any, given: Any, is_leaf: IsLeaf, path: tuple[Any, ...] = ()) -> tuple[Any, Any, Any]:
    """The first component of x for which a part of another structure is given: its path, itself, and that part."""
    pairs, form = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda node: node is not x)
    try:
        parts = form.flatten_up_to(given)
    except (ValueError, TypeError):
        return path, x, given
    for (key, component), part in zip(pairs, parts, strict=True):
        try:
            jax.tree.structure(component, is_leaf=is_leaf).flatten_up_to(part)
        except (ValueError, TypeError):
            return misfit(component, part, is_leaf, (*path, *key))
    return path, x, given


def component(path: tuple[Any, ...]) -> str:
    """The words in front of the name of a value which say that a component of it is meant; none for all of it."""
    return f"the component {jax.tree_util.keystr(path, simple=True, separator='.')} of " if path else ""


def described(value: Any) -> str:
    """What a value is, for errors: its type, or itself if it has none."""
    try:
        return repr(type_of(value))
    except DiffcurryError:
        return repr(value)


def _leaf(cotangent: Any, primal: Any, name: str) -> Any:
    match primal:
        case Held():
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
            expected, got = type_of(primal), type_of(cotangent)
            if got == expected or (isinstance(got, Tensor) and got.weak and got.shape == expected.shape):
                return jnp.asarray(cotangent, expected.dtype)
            raise ArgumentError(
                f"{name} has not the type of its primal",
                expected=expected,
                got=str(got),
                hint="cotangents have the shape and dtype of their primals",
            )
