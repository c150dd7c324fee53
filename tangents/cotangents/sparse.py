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
from combinators.values import Closure
from compile_ccc.jaxprs.recorder import added
from tangents.cotangents.calls import Calls

type Cotangent = Any  # ZERO, an array, a Sparse or Calls
type LinearMap = Callable[[Cotangent], Cotangent]


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


def release(x: Any) -> Any:
    """The primal without its marks."""
    return jax.tree.map(_released, x)


def _released(leaf: Any) -> Any:
    value = leaf.value if isinstance(leaf, Held) else leaf
    return release(value) if isinstance(value, Closure) else value


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
