"""The loops over the steps of trees, forwards and backwards.

Results are rows of one array, in the order of the steps, so that each step reads rows and writes those next to each
other.  So are the values of a node's children that come from above, at the place of the node: a child reads its own
there, and nothing is added up.  The way back of one is the way of the other (`ways.py`).  What is kept for the way
back, and cotangents, have arrays of their own, and no array that is written in a loop is read there but by rows, or XLA
would copy it in each step.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from combinators.fixpoint import fixpoint
from combinators.inductive.constructors import Constructor
from combinators.inductive.forest import Forest
from combinators.types import Type
from compile_ccc.jaxprs.conds import switch
from tangents.at_once.contractions import masked
from tangents.trees.nodes import Nodes, Pulling
from tangents.trees.ways import Down, Found, Rows, Up, Way, gathered, plus, sliced, updated


class Loops:
    """The loops over the steps of a forest, one way, for the nodes of those constructors that have some."""

    def __init__(self, forest: Forest, way: Way, nodes: dict[str, Nodes], type: Type):
        self.forest, self.nodes, self.types = forest, nodes, dict(enumerate(jax.tree.leaves(type)))
        self.way, self.order = way, forest.order()
        self.back = (Up if isinstance(way, Down) else Down)(forest, self.order)
        self.inner, self.starts, self.width, self.first = forest.inner, forest.starts(), forest.width, forest.first
        self.ordered = [*forest.leaves, *forest.inner]  # as their results are
        self.spare = 0 if len(self.inner) == 1 else self.width  # rows to which what is nobody's is written

    def forwards(self, start: Found | None) -> tuple[Found, dict[str, Rows]]:
        """The values of all nodes in their slots, and what is kept by constructors; `start` are those of roots."""
        at_once = {
            c.name: self.nodes[c.name].run([], self._payload(c), self.forest.room(c))
            for c in self.forest.leaves
            if c.name in self.nodes
        }
        if start is None:
            start = {i: jnp.concatenate([ys[i] for ys, _ in at_once.values()]) for i in self.types}
        slots = {i: self.way.opened(t, start[i]) for i, t in self.types.items()}
        kept = {name: rows for name, (_, rows) in at_once.items()}
        if not self.inner:
            return slots, kept
        buffers = {c.name: self.nodes[c.name].blank(self.forest.room(c) + self.spare) for c in self.inner}

        def body(count: Any, carry: Any) -> Any:
            slots, buffers = carry
            tag, p = self._step(count, self.way)
            read = self.way.read(slots, p, self.width)

            def of(c: Constructor) -> Any:
                ys, new = self.nodes[c.name].run(self._of(c, read), self._payload(c, p), self.width)
                columns = {i: ys[i :: len(self.types)] for i in self.types}
                wide = {i: self.way.wide(columns[i], t, self.width) for i, t in self.types.items()}
                return wide, {d.name: new if d is c else self.nodes[d.name].blank(self.width) for d in self.inner}

            wide, new = switch(tag, [lambda c=c: of(c) for c in self.inner])
            slots = {i: self.way.write(x, wide[i], p) for i, x in slots.items()}
            return slots, {c.name: self._noted(c, tag, p, buffers[c.name], new[c.name]) for c in self.inner}

        slots, buffers = lax.fori_loop(0, self.order.steps, body, (slots, buffers))
        return slots, kept | buffers

    def backwards(
        self, slots: Found, kept: dict[str, Rows], of_roots: Found, of_all: Found
    ) -> tuple[dict[str, tuple[Found, Found]], Found]:
        """The cotangents of function and payload of each constructor, and those of the states of roots, if they have.

        They come from those of the results of roots, if there are such, and of the values of all nodes.
        """
        active, pulling = self._active(frozenset({*of_roots, *of_all}))
        numbers = sorted(active)
        given = of_roots if isinstance(self.back, Down) else {}
        flow = {i: self.back.opened(self.types[i], given.get(i)) for i in numbers}
        sums = {c.name: pulling[c.name].zeros for c in self.inner}
        buffers = {c.name: pulling[c.name].blank(self.forest.room(c) + self.spare) for c in self.inner}

        def body(count: Any, carry: Any) -> Any:
            flow, sums, buffers = carry
            tag, p = self._step(count, self.back)
            g, read = self._arriving(flow, of_all, p, self.width), self.way.read(slots, p, self.width)

            def of(c: Constructor) -> Any:
                place = self._place(c, p)
                saved = [sliced(x, place, self.width) for x in kept[c.name]]
                ys = self.way.wrote(slots, c, p, self.width)
                valid = sliced(self.order.valid[c.name], place, self.width)
                inputs = self._of(c, read), self._payload(c, p)
                added, rows, inner = pulling[c.name].run(saved, ys, inputs, self._numbered(c, g), valid)
                sides = range(self.way.sides(c)[0])
                columns = {i: [inner.get((side, i)) for side in sides] for i in numbers}
                wide = {i: self.back.wide(columns[i], self.types[i], self.width) for i in numbers}
                others = {d.name: pulling[d.name] for d in self.inner}
                all_added = {name: added if name == c.name else p.zeros for name, p in others.items()}
                return wide, all_added, {n: rows if n == c.name else p.blank(self.width) for n, p in others.items()}

            wide, added, new = switch(tag, [lambda c=c: of(c) for c in self.inner])
            flow = {i: self.back.write(x, wide[i], p) for i, x in flow.items()}
            sums = jax.tree.map(lax.add, sums, added)
            return flow, sums, {c.name: self._noted(c, tag, p, buffers[c.name], new[c.name]) for c in self.inner}

        if self.inner:
            flow, sums, buffers = lax.fori_loop(0, self.order.steps, body, (flow, sums, buffers))
        found: dict[str, tuple[Found, Found]] = {}
        for c in self.ordered:
            if c.name not in self.nodes:
                continue
            p, room = self.starts[c.name], self.forest.room(c)
            stacked = (sums[c.name], [x[:room] for x in buffers[c.name]]) if c.arity else None
            g = self._numbered(c, self._arriving(flow, of_all, p, room, c))
            inputs = [self._of(c, self.way.read(slots, p, room, c)) if c.arity else [], self._payload(c)]
            saved, ys = [x[:room] for x in kept[c.name]], self.way.wrote(slots, c, p, room)
            found[c.name] = pulling[c.name].totals(stacked, saved, ys, inputs, g, self.order.valid[c.name])
        return found, self.back.roots(flow, of_all) if isinstance(self.back, Up) else {}

    def of_nodes(self, slots: Found) -> Found:
        """The values of nodes, one for each, in the order of the results."""
        if isinstance(self.way, Up):
            return slots
        return {i: gathered(x, self.order.parents) for i, x in slots.items()}

    def of_constructors(self, values: Found) -> dict[str, Rows]:
        """The values of nodes by constructors, zero in rows that are no node."""
        own = lambda c: [masked(x[self._rows(c)], self.order.valid[c.name]) for x in values.values()]
        return {c.name: own(c) for c in self.ordered}

    def of_all(self, given: dict[str, Found]) -> Found:
        """The cotangents of the values of all nodes from those of each constructor's."""
        numbers = sorted({i for found in given.values() for i in found})

        def of(c: Constructor, i: int) -> Any:
            zeros = jnp.zeros((self.forest.room(c), *self.types[i].shape), self.types[i].dtype)
            return given[c.name].get(i, zeros)

        return {i: jnp.concatenate([of(c, i) for c in self.ordered]) for i in numbers}

    def _rows(self, c: Constructor) -> slice:
        """Where the results of a constructor are."""
        return slice(self.starts[c.name], self.starts[c.name] + self.forest.room(c))

    def _active(self, active: frozenset[int]) -> tuple[frozenset[int], dict[str, Pulling]]:
        """The leaves of values whose cotangents arrive at some node, and the pullbacks of nodes for these."""

        def attempt(active: frozenset[int]) -> tuple[frozenset[int], dict[str, Pulling]]:
            pulling = {name: n.pulling(active) for name, n in self.nodes.items()}
            return active.union(*(p.reached for p in pulling.values())), pulling

        return fixpoint(active, attempt)

    def _step(self, count: Any, way: Way) -> tuple[Any, Any]:
        """Of a step that way, the number of its constructor, and its first row among all results."""
        step = count if isinstance(way, Up) else self.order.steps - 1 - count
        one = lambda x: lax.dynamic_index_in_dim(jnp.asarray(x), step, 0, keepdims=False)
        return one(self.order.tags), self.first + one(self.order.places)

    def _arriving(self, flow: Found, of_all: Found, p: Any, count: int, c: Constructor | None = None) -> list[Found]:
        """The cotangents of what nodes gave, by sides: what others have for them, and what comes from outside."""
        sides = zip(self.back.read(flow, p, count, c), self.back.outside(of_all, p, count, c), strict=True)
        return [plus(*both) for both in sides]

    def _numbered(self, c: Constructor, sides: list[Found]) -> Found:
        """Values of sides by the numbers of the leaves of all that a function gives."""
        own = enumerate(sides[: self.way.sides(c)[1]])
        return {side * len(self.types) + i: x for side, found in own for i, x in found.items()}

    def _of(self, c: Constructor, sides: list[Found]) -> list[Rows]:
        """What the nodes of a constructor read."""
        return [list(side.values()) for side in sides[: self.way.sides(c)[0]]]

    def _place(self, c: Constructor, p: Any) -> Any:
        """A row of all results as one of those of their constructor."""
        return p - self.starts[c.name]

    def _noted(self, c: Constructor, tag: Any, p: Any, buffers: Rows, rows: Rows) -> Rows:
        """The buffers of a constructor with these rows of a step, which may be that of another one."""
        place = self._place(c, p)
        if self.spare:
            place = jnp.where(tag == self.inner.index(c), place, self.forest.room(c))
        return [updated(x, new, place) for x, new in zip(buffers, rows, strict=True)]

    def _payload(self, c: Constructor, p: Any = None) -> Rows:
        """The payloads of the nodes of a constructor, by leaves: of those of a step, or of all."""
        source = jnp.asarray(self.order.source[c.name])
        source = source if p is None else sliced(source, self._place(c, p), self.width)
        return [gathered(x, source) for x in jax.tree.leaves(self.forest.payloads[c.name])]
