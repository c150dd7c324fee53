"""The loops over the steps of trees, forwards and backwards.

Results are rows of one array, in the order of the steps, so that each step reads rows and writes those next to each
other.  So are the cotangents of a node's children, at the place of the node: it is the child of one alone, reads its
cotangents there, and nothing is added up.  What is kept for the way back, and cotangents, have arrays of their own, and
no array that is written in a loop is read there but by rows, or XLA would copy it in each step.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from combinators.inductive.constructors import Constructor
from combinators.inductive.forest import Forest
from combinators.types import Type
from compile_ccc.jaxprs.conds import switch
from tangents.at_once.contractions import masked
from tangents.trees.nodes import Nodes, Pulling

type Rows = list[Any]
type Found = dict[int, Any]  # cotangents by the numbers of their leaves


class Loops:
    """The loops over the steps of a forest, for the nodes of its constructors."""

    def __init__(self, forest: Forest, nodes: dict[str, Nodes], type: Type):
        self.forest, self.nodes, self.types = forest, nodes, jax.tree.leaves(type)
        self.inner, self.starts, self.width, self.first = forest.inner, forest.starts(), forest.width, forest.first
        self.ordered = [*forest.leaves, *forest.inner]  # as their results are
        self.spare = 0 if len(self.inner) == 1 else self.width  # rows to which what is nobody's is written

    def forwards(self) -> tuple[Rows, dict[str, Rows]]:
        """The results of all nodes, by the leaves of their type, and what is kept of them by constructors."""
        of_leaves = {
            c.name: self.nodes[c.name].run([], self._payload(c), self.forest.room(c)) for c in self.forest.leaves
        }
        kept = {name: rows for name, (_, rows) in of_leaves.items()}
        room = sum(map(self.forest.room, self.inner))
        blank = [jnp.zeros((room, *t.shape), t.dtype) for t in self.types]
        results = [jnp.concatenate(column) for column in zip(*(ys for ys, _ in of_leaves.values()), blank, strict=True)]
        if not self.inner:
            return results, kept
        buffers = {c.name: self.nodes[c.name].blank(self.forest.room(c) + self.spare) for c in self.inner}

        def body(step: Any, carry: Any) -> Any:
            results, buffers = carry
            tag, at = self._step(step)
            below = self._below(results, at)

            def of(c: Constructor) -> Any:
                ys, new = self.nodes[c.name].run(below[: c.arity], self._payload(c, at), self.width)
                return ys, {d.name: new if d is c else self.nodes[d.name].blank(self.width) for d in self.inner}

            ys, new = switch(tag, [lambda c=c: of(c) for c in self.inner])
            results = [_written(x, rows, self.first + at) for x, rows in zip(results, ys, strict=True)]
            return results, {c.name: self._noted(c, tag, at, buffers[c.name], new[c.name]) for c in self.inner}

        results, buffers = lax.fori_loop(0, self.forest.steps, body, (results, buffers))
        return results, kept | buffers

    def backwards(
        self, results: Rows, kept: dict[str, Rows], of_roots: Found, of_all: Found
    ) -> dict[str, tuple[Found, Found]]:
        """The cotangents of function and payload of each constructor, from those of the roots, and of all results."""
        numbers, pulling = self._active({*of_roots, *of_all})
        room, most = self.forest.children.shape
        zeros = lambda i, count: jnp.zeros((count, *self.types[i].shape), self.types[i].dtype)
        given = lambda i: of_roots[i] if i in of_roots else zeros(i, self.forest.roots.shape[0])
        above = {i: jnp.concatenate([zeros(i, room * most), given(i), zeros(i, 1)]) for i in numbers}
        sums = {c.name: pulling[c.name].zeros for c in self.inner}
        buffers = {c.name: pulling[c.name].blank(self.forest.room(c) + self.spare) for c in self.inner}

        def body(count: Any, carry: Any) -> Any:
            above, sums, buffers = carry
            tag, at = self._step(self.forest.steps - 1 - count)
            own = {i: _slice(g, self.first + at, self.width) for i, g in of_all.items()}
            g = _arriving(above, _slice(self.forest.parents, self.first + at, self.width), own)
            below = self._below(results, at)

            def of(c: Constructor) -> Any:
                place = self._place(c, at)
                saved = [_slice(x, place, self.width) for x in kept[c.name]]
                ys = [_slice(x, self.first + at, self.width) for x in results]
                valid = _slice(self.forest.valid[c.name], place, self.width)
                inputs = below[: c.arity], self._payload(c, at)
                added, rows, inner = pulling[c.name].run(saved, ys, inputs, g, valid)
                wide = {
                    i: self._beside([inner.get((side, i)) for side in range(most)], zeros(i, self.width)) for i in g
                }
                others = {d.name: pulling[d.name] for d in self.inner}
                all_added = {name: added if name == c.name else p.zeros for name, p in others.items()}
                return wide, all_added, {n: rows if n == c.name else p.blank(self.width) for n, p in others.items()}

            wide, added, new = switch(tag, [lambda c=c: of(c) for c in self.inner])
            above = {i: _written(above[i], wide[i], at * most) for i in numbers}
            sums = jax.tree.map(lax.add, sums, added)
            return above, sums, {c.name: self._noted(c, tag, at, buffers[c.name], new[c.name]) for c in self.inner}

        if self.inner:
            start = (above, sums, buffers)
            above, sums, buffers = lax.fori_loop(0, self.forest.steps, body, start)
        found: dict[str, tuple[Found, Found]] = {}
        for c in self.ordered:
            rows, room = self._rows(c), self.forest.room(c)
            g = _arriving(above, self.forest.parents[rows], {i: g[rows] for i, g in of_all.items()})
            inputs = [self._all_below(c, results), self._payload(c)]
            stacked = None if not c.arity else (sums[c.name], [x[:room] for x in buffers[c.name]])
            saved, ys = [x[:room] for x in kept[c.name]], [x[rows] for x in results]
            found[c.name] = pulling[c.name].totals(stacked, saved, ys, inputs, g, self.forest.valid[c.name])
        return found

    def of_constructors(self, results: Rows) -> dict[str, Rows]:
        """The results by constructors, zero in rows that are no node."""
        return {c.name: [masked(x[self._rows(c)], self.forest.valid[c.name]) for x in results] for c in self.ordered}

    def of_all(self, given: dict[str, Found]) -> Found:
        """The cotangents of all results from those of each constructor's nodes."""
        numbers = sorted({i for found in given.values() for i in found})

        def of(c: Constructor, i: int) -> Any:
            zeros = jnp.zeros((self.forest.room(c), *self.types[i].shape), self.types[i].dtype)
            return given[c.name].get(i, zeros)

        return {i: jnp.concatenate([of(c, i) for c in self.ordered]) for i in numbers}

    def _rows(self, c: Constructor) -> slice:
        """Where the results of a constructor are."""
        return slice(self.starts[c.name], self.starts[c.name] + self.forest.room(c))

    def _active(self, active: set[int]) -> tuple[list[int], dict[str, Pulling]]:
        """The leaves of the results whose cotangents arrive at some node, and the pullbacks of nodes for these."""
        while True:
            pulling = {name: n.pulling(active) for name, n in self.nodes.items()}
            more = {i for p in pulling.values() for i in p.reached} - active
            if not more:
                return sorted(active), pulling
            active = active | more

    def _step(self, step: Any) -> tuple[Any, Any]:
        """The number of the constructor of a step, and its first row."""
        one = lambda x: lax.dynamic_index_in_dim(jnp.asarray(x), step, 0, keepdims=False)
        return one(self.forest.tags), one(self.forest.places)

    def _place(self, c: Constructor, at: Any) -> Any:
        """A row of all nodes with others below them, as one of those of their constructor."""
        return at - (self.starts[c.name] - self.first)

    def _noted(self, c: Constructor, tag: Any, at: Any, buffers: Rows, rows: Rows) -> Rows:
        """The buffers of a constructor with these rows of a step, which may be that of another one."""
        place = self._place(c, at)
        if self.spare:
            place = jnp.where(tag == self.inner.index(c), place, self.forest.room(c))
        return [_written(x, new, place) for x, new in zip(buffers, rows, strict=True)]

    def _payload(self, c: Constructor, at: Any = None) -> Rows:
        """The payloads of the nodes of a constructor, by leaves: of those of a step, or of all."""
        source = jnp.asarray(self.forest.source[c.name])
        source = source if at is None else _slice(source, self._place(c, at), self.width)
        return [gathered(x, source) for x in jax.tree.leaves(self.forest.payloads[c.name])]

    def _below(self, results: Rows, at: Any) -> list[Rows]:
        """The results of the nodes below those of a step: for each side, by leaves."""
        children = _slice(self.forest.children, at, self.width)
        return self._sides(results, children)

    def _all_below(self, c: Constructor, results: Rows) -> list[Rows]:
        """The results of the nodes below all nodes of a constructor."""
        start = self._place(c, 0)
        return self._sides(results, self.forest.children[-start:][: self.forest.room(c), : c.arity]) if c.arity else []

    def _sides(self, results: Rows, children: Any) -> list[Rows]:
        count, sides = children.shape
        rows = [jnp.reshape(gathered(x, jnp.reshape(children, -1)), (count, sides, *x.shape[1:])) for x in results]
        return [[x[:, side] for x in rows] for side in range(sides)]

    def _beside(self, columns: Rows, blank: Any) -> Any:
        """The cotangents of the children of each node next to each other."""
        rows = jnp.stack([blank if x is None else x for x in columns], 1)
        return jnp.reshape(rows, (rows.shape[0] * rows.shape[1], *rows.shape[2:]))  # which may be empty


def _arriving(above: Found, parents: Any, own: Found) -> Found:
    """The cotangents of nodes: what their parents have for them, and what comes from outside."""
    of_parents = {i: gathered(g, parents) for i, g in above.items()}
    return {i: lax.add(g, own[i]) if i in own else g for i, g in of_parents.items()}


def gathered(x: Any, rows: Any) -> Any:
    """These rows of an array; of a single one, which XLA would read otherwise and copy the array, twice that."""
    count = rows.shape[0]
    rows = rows if count > 1 else jnp.concatenate([rows, rows])
    return jnp.asarray(x).at[rows].get(mode="promise_in_bounds")[:count]


def _slice(x: Any, start: Any, count: int) -> Any:
    return lax.dynamic_slice_in_dim(jnp.asarray(x), start, count)


def _written(x: Any, rows: Any, start: Any) -> Any:
    return lax.dynamic_update_slice_in_dim(x, rows.astype(x.dtype), start, 0)
