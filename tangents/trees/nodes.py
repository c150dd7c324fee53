"""Nodes of one constructor of a tree, many at a time: what its function gives, and the pullback of that."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import jax
import jax.numpy as jnp

from combinators.inductive.constructors import Constructor
from combinators.types import Type
from compile_ccc.jaxprs.recording import record, recorded, row_types
from tangents.at_once.contractions import masked
from tangents.at_once.once import Once
from tangents.at_once.steps import Step
from tangents.cotangents.residuals import Residuals
from tangents.cotangents.sparse import parts, release
from tangents.spaces.space import Representation, Space
from tangents.trees.ways import Found, Rows, Way


class Nodes:
    """What the function f of a constructor gives of its nodes, one way, where values have these `held` leaves.

    `stays`: which leaves of the values that it gives are held, if so.
    """

    stays: tuple[bool, ...]
    residuals: Residuals

    def __init__(
        self, rep: Representation, space: Space, way: Way, c: Constructor, f: Any, forest: Any, type: Type,
        held: tuple[bool, ...],
    ):  # fmt: skip
        payload = forest.payloads[c.name]
        of_payload, payload_form = space.marks(payload), jax.tree.structure(release(payload))
        form, self.held = jax.tree.structure(type), held
        reads, self._writes = way.sides(c)

        def forward(read: list[Rows], own: Rows) -> Any:
            values = [space.remark(form.unflatten(rows), held) for rows in read]
            x = way.domain(c, values, space.remark(payload_form.unflatten(own), of_payload))
            y, pb = space.eval(rep, f, x)
            of_sides = zip(*(space.marks(value) for value in way.written(c, y)), strict=True)
            self.stays = tuple(h and all(now) for h, now in zip(held, of_sides, strict=True))
            y = space.remark(release(y), held * self._writes)

            def pull(g: Found) -> tuple[Found, Found]:
                g_f, g_x = parts(pb(space.placed(g, y)))
                return space.present(g_f, f), space.present(g_x, x)

            outside, inputs = jax.tree.leaves(release(f)), jax.tree.leaves((read, own))
            self.residuals = Residuals(pull, (space.structs(y),), outside, inputs, opened=True)
            return jax.tree.leaves(release(y)), self.residuals.kept

        of_node = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in jax.tree.leaves(type)]
        of_row = row_types(jax.tree.leaves(release(payload)))
        program = record(forward, [of_node] * reads, of_row, stays=True)
        kept, leaves = len(self.residuals.kept), len(of_node)
        self.step = Step(program, kept, 0, reads * leaves + len(of_row))
        self.places = _places(way, c, reads, form, payload_form)

    def run(self, read: list[Rows], payload: Rows, count: int) -> tuple[Rows, Rows]:
        """The values that so many nodes give, by sides and leaves, and what is kept of them, as rows."""
        one = lambda _, read, payload: self.step(read, payload)
        return jax.vmap(recorded(one, "nodes"))(jnp.arange(count), read, payload)

    def blank(self, count: int) -> Rows:
        """Room for what is kept of so many nodes."""
        return [jnp.zeros((count, *t.shape), t.dtype) for t in self.step.put_out]

    def pulling(self, active: Set[int]) -> Pulling:
        """The pullback, if cotangents of these leaves of values arrive."""
        return Pulling(self, {side * len(self.held) + i for side in range(self._writes) for i in active})


def _places(way: Way, c: Constructor, reads: int, form: Any, payload: Any) -> list[tuple[int, int]]:
    """Of each leaf of what a function is applied to: the side of its value, and its number in that; -1 is the payload.

    Values have this form, and so many are read; the payload has the form `payload`.
    """
    own = [(-1, i) for i in range(payload.num_leaves)]
    places = [*((side, i) for side in range(reads) for i in range(form.num_leaves)), *own]
    numbers = iter(range(len(places)))
    next_of = lambda form: form.unflatten([next(numbers) for _ in range(form.num_leaves)])
    values = [next_of(form) for _ in range(reads)]
    return [places[number] for number in jax.tree.leaves(way.domain(c, values, next_of(payload)))]


class Pulling:
    """The pullback of nodes for cotangents of `active` leaves of what they give; `reached`: those of what they read."""

    def __init__(self, nodes: Nodes, active: set[int]):
        self._step, self._places = nodes.step, nodes.places
        pulled = nodes.residuals.at(active)
        self._once = Once(pulled, nodes.step.fixed)
        self.zeros = self._once.zeros
        found = {nodes.places[number]: aval for number, aval in pulled.result[1].items()}
        self.reached = {i for side, i in found if side >= 0}
        self._payload = sorted(i for side, i in found if side < 0)
        self._types = [*self._once.stacked, *(found[-1, i] for i in self._payload)]

    def blank(self, count: int) -> Rows:
        """Room for the rows that `run` gives of so many nodes."""
        return [jnp.zeros((count, *t.shape), t.dtype) for t in self._types]

    def run(self, saved: Rows, ys: Rows, inputs: Any, g: Found, valid: Any) -> tuple[Rows, Rows, dict[Any, Any]]:
        """What is added up over nodes, rows, and the cotangents of the values that were read, by sides and leaves."""

        def one(saved: Rows, x: Rows, g: Found) -> Any:
            return self._once(self._step.all_kept(saved, x, []), x, g)

        made = jax.vmap(recorded(one, "nodes"))(self._step.saved(saved, ys), jax.tree.leaves(inputs), g)
        added, stacked, (_, of_x) = jax.tree.map(lambda rows: masked(rows, valid), made)
        found = {self._places[number]: rows for number, rows in of_x.items()}
        summed = [jnp.sum(x, 0, dtype=x.dtype) for x in added]
        return summed, [*stacked, *(found[-1, i] for i in self._payload)], found

    def totals(
        self, rows: tuple[Rows, Rows] | None, saved: Rows, ys: Rows, inputs: Any, g: Found, valid: Any
    ) -> tuple[Found, Found]:
        """The cotangents of the function and of the payload, from what `run` gave; without that, of all nodes now."""
        added, stacked = self.run(saved, ys, inputs, g, valid)[:2] if rows is None else rows
        x = jax.tree.leaves(inputs)
        kept = self._step.all_rows(self._step.saved(saved, ys), x, [], False, self._once.read)
        count = len(self._once.stacked)
        total = self._once.totals(added, stacked[:count], kept, x, g, valid=valid)
        return total, dict(zip(self._payload, stacked[count:], strict=True))
