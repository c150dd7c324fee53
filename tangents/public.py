"""Cotangents as users see them: pytrees with the structure of their primals (paper 003, figure 6).

At function types a cotangent is a closure over the cotangents of what was captured, or `Calls`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from combinators.errors import ArgumentError
from combinators.terms import Term
from combinators.types import Tensor, is_discrete, type_of
from combinators.values import Closure
from tangents.calls import Calls
from tangents.leaves import symbolic, zero_leaf
from tangents.sparse import Cotangent, Held, IsLeaf, release


def zero(x: Any, functions: str = "environment") -> Any:
    """0 : T[x], the zero cotangent of a value: zeros of the shapes and dtypes of its leaves.

    Of a function it is the closure over zeros (functions="environment") or the empty list of calls (functions="list").
    Of a term, which has captured nothing, it is ().  (Paper 003, figure 6; paper 004, section 4.)
    """
    leaves, form = jax.tree.flatten(x, is_leaf=(lambda v: isinstance(v, Closure)) if functions == "list" else None)
    return form.unflatten([() if isinstance(leaf, Term) else zero_leaf(leaf) for leaf in leaves])


def add(g: Any, h: Any) -> Any:
    """g + h : T[x], for two cotangents of one value: leaf by leaf, lists of calls by concatenation.

    Raises `ArgumentError` if the structures differ.  (Paper 003, figure 6.)
    """
    leaves, form = jax.tree.flatten(g, is_leaf=_is_calls)
    others, other = jax.tree.flatten(h, is_leaf=_is_calls)
    if form != other:
        raise ArgumentError("these cotangents are not of one value", expected=form, got=other)
    return form.unflatten([a if _is_zero_of_unit(a) else a + b for a, b in zip(leaves, others, strict=True)])


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


def from_public(g: Any, y: Any, is_leaf: IsLeaf) -> Cotangent:
    """The symbolic form of a cotangent that a user gives for the primal y.

    Raises `ArgumentError` if it has not the structure of y, or a leaf of another shape or dtype.
    """
    primals, form = jax.tree.flatten(y, is_leaf=is_leaf)
    try:
        cotangents = form.flatten_up_to(g)
    except (ValueError, TypeError):
        raise ArgumentError(
            "a cotangent has not the structure of its primal",
            expected=type_of(release(y)),
            got=jax.tree.structure(g),
            hint="a pullback takes a cotangent with the structure, shapes and dtypes of the function's result",
        ) from None
    return symbolic(form.unflatten(map(_leaf, cotangents, primals)), y, is_leaf)


def _leaf(cotangent: Any, primal: Any) -> Any:
    match primal:
        case Held():
            return cotangent
        case Closure():
            if isinstance(cotangent, Calls):
                return cotangent
            raise ArgumentError(
                "the list cotangent of a function is Calls",
                expected="Calls(...)",
                got=repr(cotangent),
                hint="Calls(Block(x, g)) is one call at x with the cotangent g, Calls() is zero",
            )
        case _:
            expected, got = type_of(primal), type_of(cotangent)
            if got == expected or (isinstance(got, Tensor) and got.weak and got.shape == expected.shape):
                return jnp.asarray(cotangent, expected.dtype)
            raise ArgumentError(
                "a cotangent has not the type of its primal",
                expected=expected,
                got=str(got),
                hint="cotangents have the shape and dtype of their primals",
            )
