"""Cotangents of arguments as users state them: those of functions by their calls, and None for what is zero."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from combinators.errors import ArgumentError
from combinators.records import as_records
from combinators.types import Function, Tensor, same_type
from combinators.values import Closure
from tangents.cotangents.calls import ABSENT, Block, Calls
from tangents.cotangents.leaves import zero_leaf
from tangents.cotangents.sparse import ZERO, Cotangent, Held, release
from tangents.spaces.edges import from_public
from tangents.spaces.listing import LIST
from tangents.spaces.space import Representation, Space


def of_stated(rep: Representation, space: Space, x: Any, stated: Any, name: str) -> Cotangent:
    """The cotangent of one argument from what the user states, functions by their calls; None is zero."""
    if stated is None:
        return ZERO
    primals, form = jax.tree.flatten(x, is_leaf=LIST.is_leaf)
    try:
        given = form.flatten_up_to(stated := as_records(stated))
    except (ValueError, TypeError):
        given = []  # of another structure: from_public says so
    closures = any(isinstance(g, Closure) for g in given) and not any(map(space.is_leaf, primals))
    shown = space if closures else LIST
    if given:
        held = lambda f, g: _calls(f, g) if shown.is_leaf(f) else g
        zero = lambda f: jax.tree.map(zero_leaf, f, is_leaf=lambda v: isinstance(v, Held) or shown.is_leaf(v))
        stated = form.unflatten([zero(f) if g is None else held(f, g) for f, g in zip(primals, given, strict=True)])
    found = LIST.gather(from_public(stated, x, shown, name), x)
    parts = (
        ZERO if s is None or g is ZERO else space.of_calls(rep, f, g) if shown.is_leaf(f) else g
        for f, g, s in zip(primals, found, given or found, strict=True)
    )
    return LIST.scatter(parts, x)


def _calls(f: Closure, stated: Any) -> Calls:
    """The calls of a function that a user states, as pairs or as `Calls`, held against its type."""
    type = release(f).type
    try:
        calls = stated if isinstance(stated, Calls) else Calls(*(Block(x, g) for x, g in stated))
        return Calls(*(_fitted(block, type) for block in jax.tree.map(jnp.asarray, calls).blocks))
    except (TypeError, ValueError):
        pass
    raise ArgumentError(
        "the cotangent of a function argument is no list of its calls",
        expected=f"pairs of an argument and a cotangent of its result, of the types {type.dom} and {type.cod}",
        got=repr(stated),
        hint='a closure over cotangents is for functions="environment"' if isinstance(stated, Closure) else _HINT,
    )


_HINT = "[(x, g), ...], or Calls(Block(xs, gs, axes=1)) for many calls at once; [] is zero"


def _fitted(block: Block, type: Function) -> Block:
    """Calls of a function of this type, with `ABSENT` for what is None of a cotangent; else raises `TypeError`.

    Of what holds functions, the type is not looked at.
    """
    if any(isinstance(leaf, Function) for leaf in jax.tree.leaves((type.dom, type.cod))):
        return block
    row = lambda array: Tensor(array.shape[block.axes :], array.dtype)
    results, form = jax.tree.flatten(type.cod)
    given = form.flatten_up_to(block.cotangent)
    types = [t if g is None else jax.tree.map(row, g) for t, g in zip(results, given, strict=True)]
    if not same_type((jax.tree.map(row, block.argument), form.unflatten(types)), (type.dom, type.cod)):
        raise TypeError
    return replace(block, cotangent=form.unflatten([ABSENT if g is None else g for g in given]))
