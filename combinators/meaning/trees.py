"""The plain meaning of folds over trees: step by step, each node after those below it, or before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from combinators.inductive.constructors import Constructor
from combinators.inductive.forest import Forest, Order
from combinators.meaning.control import switch
from combinators.types import Type


def results(node: Callable[[Constructor, list[Any], Any], Any], forest: Forest, type: Type) -> Any:
    """The results of all nodes, of this type, in the order of `Forest`; rows that are no node have any.

    node(constructor, results below, row) is that of one node, whose payload is in this row.
    """
    starts, first, order = forest.starts(), forest.first, forest.order()
    room = sum(map(forest.room, forest.constructors))
    rows = jax.tree.map(lambda t: jnp.zeros((room, *t.shape), t.dtype), type)
    for c in forest.leaves:
        own = jax.vmap(lambda row, c=c: node(c, [], row))(jnp.asarray(order.source[c.name]))
        rows = jax.tree.map(lambda all, new, at=starts[c.name]: all.at[at : at + len(new)].set(new), rows, own)

    def step(number: Any, rows: Any) -> Any:
        def of(c: Constructor, at: Any, row: Any) -> Any:
            return node(c, [taken(rows, child) for child in jnp.asarray(order.children)[at][: c.arity]], row)

        at, new = _worked_out(of, forest, order, number)
        return jax.tree.map(lambda all, one: all.at[first + at].set(one), rows, new)

    return lax.fori_loop(0, order.steps, step, rows) if forest.inner else rows


def states(node: Callable[[Constructor, Any, Any], list[Any]], forest: Forest, start: Any) -> Any:
    """The states of all nodes, in the order of `Forest`, from those of the roots; rows that are no node have any.

    node(constructor, state, row) are those of the nodes below one node, whose payload is in this row.
    """
    order = forest.order()
    room, most = order.children.shape
    blank = lambda x, count: jnp.zeros((count, *x.shape[1:]), x.dtype)
    slots = jax.tree.map(lambda x: jnp.concatenate([blank(x, room * most), x, blank(x, 1)]), start)
    parents = jnp.asarray(order.parents)

    def step(count: Any, slots: Any) -> Any:
        def of(c: Constructor, at: Any, row: Any) -> Any:
            below = node(c, taken(slots, parents[forest.first + at]), row)
            below += [jax.tree.map(jnp.zeros_like, below[0])] * (most - c.arity)
            return jax.tree.map(lambda *sides: jnp.stack(sides), *below)

        at, new = _worked_out(of, forest, order, order.steps - 1 - count)
        of_sides = at[:, None] * most + jnp.arange(most, dtype=at.dtype)[None]
        return jax.tree.map(lambda all, one: all.at[of_sides].set(one), slots, new)

    slots = lax.fori_loop(0, order.steps, step, slots) if forest.inner else slots
    return taken(slots, parents)


def _worked_out(
    of: Callable[[Constructor, Any, Any], Any], forest: Forest, order: Order, number: Any
) -> tuple[Any, Any]:
    """The nodes of a step, among those of constructors with nodes below, and of(constructor, node, row) of each."""
    at = jnp.asarray(order.places)[number] + jnp.arange(forest.width, dtype=jnp.int32)
    starts = forest.starts()

    def of_all(c: Constructor) -> Any:
        rows = jnp.asarray(order.source[c.name])[forest.first + at - starts[c.name]]
        return jax.vmap(lambda at, row: of(c, at, row))(at, rows)

    return at, switch(jnp.asarray(order.tags)[number], [lambda c=c: of_all(c) for c in forest.inner])


def strong(x: Any, type: Type) -> Any:
    """Rows of values of this type, of a weak type or of NumPy, as arrays of it."""
    return jax.tree.map(lambda t, leaf: jnp.asarray(leaf, t.dtype), type, x)


def taken(x: Any, at: Any) -> Any:
    """A row of arrays, or some of them."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[at], x)


def by_constructor(forest: Forest, rows: Any) -> dict[str, Any]:
    """The results of all nodes as those of each constructor's, zero in rows that are no node."""
    starts, is_node = forest.starts(), forest.valid

    def own(c: Constructor) -> Any:
        at, valid = starts[c.name], jnp.asarray(is_node[c.name])
        masked = lambda x: jnp.where(jnp.reshape(valid, (-1, *(1,) * (x.ndim - 1))), x, jnp.zeros_like(x))
        return jax.tree.map(lambda all: masked(all[at : at + len(valid)]), rows)

    return {c.name: own(c) for c in forest.constructors}
