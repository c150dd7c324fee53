"""Cotangents while they are pulled back: symbolic, sparse, and used once.

    g ::= ZERO | array | Sparse{key: g} | Calls

A `Sparse` is the cotangent of a product, a context or (figure 5) a closure, whose cotangent is that of its environment;
absent components are zero.  Every cotangent is consumed by exactly one pullback or one sum, so `plus` may reuse the
larger of its arguments: summing the n sparse cotangents of a chain of n extensions takes O(n) steps in all.

`Held` marks the leaves of a primal that no derivative is asked for: what depends on held leaves alone is held too, and
gets no pullback.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from combinators.context import Context
from combinators.types import is_discrete, leaf_type
from combinators.values import Closure
from compile_ccc.jaxprs.recorder import added
from tangents.cotangents.calls import Calls

type Cotangent = Any  # ZERO, an array, a Sparse or Calls
type LinearMap = Callable[[Cotangent], Cotangent]
type IsLeaf = Callable[[Any], bool]  # what a tangent space takes as one leaf of a primal, beside arrays


class _Zero:
    """The symbolic zero of every cotangent space."""

    def __repr__(self) -> str:
        return "0"


ZERO = _Zero()


class Sparse(dict[Any, Cotangent]):
    """A cotangent of a product by its components; keys are those of `proj`."""

    def part(self, key: Any) -> Cotangent:
        return self.get(key, ZERO)


def plus(g: Cotangent, h: Cotangent) -> Cotangent:
    """g + h (paper 003, figure 6); both arguments are used up."""
    if g is ZERO:
        return h
    if h is ZERO:
        return g
    match g:
        case Sparse():
            if len(g) < len(h):
                g, h = h, g
            for key, part in h.items():
                g[key] = plus(g[key], part) if key in g else part
            return g
        case Calls():
            return g + h
        case _:
            return added(g, h)


def masked(g: Cotangent, made: Any) -> Cotangent:
    """g where `made`, a boolean scalar, else zero, whatever g holds there."""
    match g:
        case _ if g is ZERO or made is None:
            return g
        case Sparse():
            return Sparse((key, masked(part, made)) for key, part in g.items())
        case Calls():
            return g.where(made)
        case _:
            return jnp.where(made, g, jnp.zeros_like(g))


def nothing(_: Cotangent) -> Cotangent:
    """The pullback of a map that depends on no asked-for input."""
    return ZERO


@dataclass(frozen=True, eq=False)
class Held:
    """A leaf of a primal of which no derivative is asked; inside of a function there may be further marks."""

    value: Any


def hold(x: Any, is_leaf: IsLeaf) -> Any:
    """Marks every leaf of a primal."""
    return jax.tree.map(
        lambda leaf: leaf if isinstance(leaf, Held) else Held(leaf),
        x,
        is_leaf=is_leaf,
    )


def hold_discrete(x: Any, is_leaf: IsLeaf) -> Any:
    """Marks the leaves whose tangent space is the unit."""
    return jax.tree.map(lambda leaf: Held(leaf) if not is_leaf(leaf) and _discrete(leaf) else leaf, x, is_leaf=is_leaf)


def release(x: Any) -> Any:
    """The primal without its marks."""
    return jax.tree.map(_released, x)


def _released(leaf: Any) -> Any:
    value = leaf.value if isinstance(leaf, Held) else leaf
    return release(value) if isinstance(value, Closure) else value


def activate(x: Any, is_leaf: IsLeaf) -> Any:
    """The primal with only its discrete leaves marked."""
    return hold_discrete(release(x), is_leaf)


def marks(x: Any, is_leaf: IsLeaf) -> tuple[bool, ...]:
    """Which leaves of a primal are held."""
    return tuple(isinstance(leaf, Held) for leaf in jax.tree.leaves(x, is_leaf=is_leaf))


def remark(x: Any, held: tuple[bool, ...], is_leaf: IsLeaf) -> Any:
    """A released primal with these marks on its leaves."""
    leaves, form = jax.tree.flatten(x, is_leaf=is_leaf)
    return form.unflatten([Held(leaf) if h else leaf for leaf, h in zip(leaves, held, strict=True)])


def is_active(x: Any, is_leaf: IsLeaf) -> bool:
    """Whether some leaf of a primal is not held."""
    return not all(marks(x, is_leaf))


def split(g: Cotangent, ctx: Any) -> tuple[Cotangent, Cotangent]:
    """The cotangents of Δ and of τ from one of Δ·τ; of a and τ from one of the pair (a, τ)."""
    if g is ZERO:
        return ZERO, ZERO
    if isinstance(ctx, Context):
        last = g.pop(len(ctx), ZERO)
        return (g if g else ZERO), last
    return g.part(0), g.part(1)


def pair(g: Cotangent, h: Cotangent) -> Cotangent:
    """The cotangent of a pair."""
    return Sparse((i, part) for i, part in enumerate((g, h)) if part is not ZERO) or ZERO


def parts(g: Cotangent) -> tuple[Cotangent, Cotangent]:
    """The two components of the cotangent of a pair."""
    return (ZERO, ZERO) if g is ZERO else (g.part(0), g.part(1))


def _discrete(leaf: Any) -> bool:
    return not isinstance(leaf, Held) and is_discrete(leaf_type(leaf))
