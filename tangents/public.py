"""Cotangents that users give: pytrees of arrays with the structure of their primals (paper 003, figure 6)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from combinators.errors import ArgumentError
from combinators.types import Tensor, type_of
from combinators.values import Closure
from tangents.calls import Calls
from tangents.leaves import symbolic
from tangents.sparse import Cotangent, Held, IsLeaf, release


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
            raise ArgumentError("the list cotangent of a function is Calls", expected="Calls(...)", got=repr(cotangent))
        case _:
            expected, got = type_of(primal), type_of(cotangent)
            if got == expected:
                return cotangent
            if isinstance(got, Tensor) and got.weak and got.shape == expected.shape:
                return jnp.asarray(cotangent, expected.dtype)
            raise ArgumentError(
                "a cotangent has not the type of its primal",
                expected=expected,
                got=got,
                hint="cotangents have the shape and dtype of their primals",
            )
