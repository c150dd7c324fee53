"""Dual numbers at the leaves of values, and the pairs of primals and tangents that JAX sees.

    D[ℝ] = ℝ × δℝ        a leaf with a tangent is `Dual(x, t)`, any other leaf has the tangent zero

A pair is (value, {number of leaf: its tangent}): a pytree of arrays, as inputs and results of programs have to be.
Duals live while one derivative is worked out, and never in a program: see docs/derivatives.md.  (Paper 002, figure 3.)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import jax

from combinators.types import is_discrete, type_of
from tangents.cotangents.leaves import ARRAYS, as_weak, zero_leaf
from tangents.spaces.edges import by_leaves, component, converted, is_tag, require_zero

type Tangents = dict[int, Any]  # tangents by the numbers of their leaves


@dataclass(frozen=True, eq=False)
class Dual:
    """A real leaf with its tangent, of the same shape and dtype."""

    primal: Any
    tangent: Any


def dual(x: Any, tangents: Tangents) -> Any:
    """The value x with these tangents at its leaves."""
    leaves, form = jax.tree.flatten(x)
    return form.unflatten([Dual(leaf, tangents[i]) if i in tangents else leaf for i, leaf in enumerate(leaves)])


def primal(x: Any) -> Any:
    """The value without its tangents."""
    return jax.tree.map(lambda leaf: leaf.primal if isinstance(leaf, Dual) else leaf, x)


def tangents(x: Any) -> Tangents:
    """The tangents of a value, zeros left out."""
    return {i: leaf.tangent for i, leaf in enumerate(jax.tree.leaves(x)) if isinstance(leaf, Dual)}


def pair(x: Any) -> tuple[Any, Tangents]:
    """A value with duals as a primal and its tangents: `dual` backwards."""
    return primal(x), tangents(x)


def widened(x: Any, active: Collection[int]) -> tuple[Any, Tangents]:
    """The pair of x with tangents at these leaves and no others, zeros written out."""
    leaves = jax.tree.leaves(x)
    return primal(x), {i: _tangent(leaves[i]) for i in sorted(active)}


def dense(x: Any) -> Any:
    """The tangent of x with the structure of x, zeros written out; those of discrete leaves are of their own dtype.

    It has a weak type where x has.
    """
    return jax.tree.map(lambda leaf: as_weak(_tangent(leaf), primal(leaf)), x)


def activated(x: Any, t: Any) -> Any:
    """The value x with the tangent t, a pytree of its structure, at its real leaves."""
    leaves, form = jax.tree.flatten(x)
    given = zip(leaves, form.flatten_up_to(t), strict=True)
    return form.unflatten([leaf if is_discrete(type_of(leaf)) else Dual(leaf, tangent) for leaf, tangent in given])


def tangents_from_public(t: Any, x: Any) -> Tangents:
    """The tangents that a user gives for the value x, by leaves; those of discrete leaves are zero, and left out.

    Raises `ArgumentError` if t has not the structure of x, or a leaf of another shape or dtype.
    """
    hint = "jvp(f, (x, y), (dx, dy)): tangents have the structure, shapes and dtypes of the arguments"
    tangents: Tangents = {}
    for i, (path, leaf, given) in enumerate(by_leaves(t, x, ARRAYS, "the tangent", hint)):
        name, type = f"{component(path)}the tangent", type_of(leaf)
        if not is_discrete(type):
            tangents[i] = converted(given, type, name)
        elif not is_tag(path):
            require_zero(given, type, name)
    return tangents


def _tangent(leaf: Any) -> Any:
    return leaf.tangent if isinstance(leaf, Dual) else zero_leaf(leaf)
