"""The plain meaning of folds over trees: step by step, each node after those below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from combinators.inductive.constructors import Constructor
from combinators.inductive.forest import Forest
from combinators.meaning.control import switch
from combinators.types import Type


def results(node: Callable[[Constructor, list[Any], Any], Any], forest: Forest, type: Type) -> Any:
    """The results of all nodes, of this type, in the order of `Forest`; rows that are no node have any.

    node(constructor, results below, row) is that of one node, whose payload is in this row.
    """
    starts, first, inner = forest.starts(), forest.first, forest.inner
    room = sum(map(forest.room, forest.constructors))
    rows = jax.tree.map(lambda t: jnp.zeros((room, *t.shape), t.dtype), type)
    for c in forest.leaves:
        own = jax.vmap(lambda row, c=c: node(c, [], row))(jnp.asarray(forest.source[c.name]))
        rows = jax.tree.map(lambda all, new, at=starts[c.name]: all.at[at : at + len(new)].set(new), rows, own)
    if not inner:
        return rows

    def step(number: Any, rows: Any) -> Any:
        at = jnp.asarray(forest.places)[number] + jnp.arange(forest.width, dtype=jnp.int32)

        def of(c: Constructor, at: Any) -> Any:
            below = [taken(rows, child) for child in jnp.asarray(forest.children)[at][: c.arity]]
            return node(c, below, jnp.asarray(forest.source[c.name])[first + at - starts[c.name]])

        new = switch(jnp.asarray(forest.tags)[number], [lambda c=c: jax.vmap(lambda at: of(c, at))(at) for c in inner])
        return jax.tree.map(lambda all, one: all.at[first + at].set(one), rows, new)

    return lax.fori_loop(0, forest.steps, step, rows)


def domain_at(c: Constructor, below: list[Any], forest: Forest, row: Any) -> Any:
    """What the function of a constructor is applied to."""
    return c.parts(below, taken(forest.payloads[c.name], row))


def taken(x: Any, at: Any) -> Any:
    """A row of arrays, or some of them."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[at], x)


def by_constructor(forest: Forest, rows: Any) -> dict[str, Any]:
    """The results of all nodes as those of each constructor's, zero in rows that are no node."""
    starts = forest.starts()

    def own(c: Constructor) -> Any:
        at, valid = starts[c.name], jnp.asarray(forest.valid[c.name])
        masked = lambda x: jnp.where(jnp.reshape(valid, (-1, *(1,) * (x.ndim - 1))), x, jnp.zeros_like(x))
        return jax.tree.map(lambda all: masked(all[at : at + len(valid)]), rows)

    return {c.name: own(c) for c in forest.constructors}
