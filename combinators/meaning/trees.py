"""The plain meaning of folds over trees: node by node, each after those below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from combinators.inductive.forest import Forest
from combinators.meaning.control import switch
from combinators.types import Type


def results(apply: Callable[[Any, Any], Any], functions: Any, forest: Forest, type: Type) -> Any:
    """What the functions give of all nodes, of this type, in the order of `Forest`; rows that are no node have any."""
    starts, inner = forest.starts(), forest.inner
    rows = jax.tree.map(lambda t: jnp.zeros((starts[""], *t.shape), t.dtype), type)
    for c in forest.leaves:
        of_node = lambda payload, c=c: apply(functions[c.name], c.parts((), payload))
        own = jax.vmap(of_node)(_rows(forest.payloads[c.name], forest.source[c.name]))
        rows = jax.tree.map(lambda all, new, at=starts[c.name]: all.at[at : at + len(new)].set(new), rows, own)
    if not inner:
        return rows

    def node(number: Any, rows: Any) -> Any:
        step, slot = number // forest.width, number % forest.width

        def of(c: Any) -> Any:
            row = jnp.asarray(forest.source[c.name])[forest.places[step] * forest.width + slot]
            below = [_rows(rows, child) for child in jnp.asarray(forest.children[c.name])[row]]
            return apply(functions[c.name], c.parts(below, _rows(forest.payloads[c.name], row)))

        tag = jnp.asarray(forest.tags)[step]
        new = switch(tag, [lambda c=c: of(c) for c in inner])
        start = jnp.asarray([starts[c.name] for c in inner], jnp.int32)[tag]
        at = start + forest.places[step] * forest.width + slot
        return jax.tree.map(lambda all, one: all.at[at].set(one), rows, new)

    return lax.fori_loop(0, forest.steps * forest.width, node, rows)


def of_roots(rows: Any, forest: Forest) -> Any:
    """The results of the roots."""
    return _rows(rows, forest.roots)


def _rows(x: Any, at: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[at], x)
