"""Nodes of one constructor of a tree, many at a time: what its function gives, and the pullback of that."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from combinators.inductive.constructors import Constructor, Rec
from combinators.types import Type
from compile_ccc.jaxprs.recording import record, recorded, row_types
from tangents.at_once.contractions import masked
from tangents.at_once.once import Once
from tangents.at_once.steps import Step
from tangents.cotangents.leaves import placed, present, structs
from tangents.cotangents.residuals import Residuals
from tangents.cotangents.sparse import marks, parts, release, remark
from tangents.spaces.space import Representation, Space

type Rows = list[Any]
type Found = dict[int, Any]  # cotangents by the numbers of their leaves


class Nodes:
    """What the function f of a constructor gives of its nodes, whose results have these `held` leaves.

    `stays`: which leaves of the result are held, if so.
    """

    stays: tuple[bool, ...]
    residuals: Residuals

    def __init__(
        self, rep: Representation, space: Space, c: Constructor, f: Any, forest: Any, type: Type, held: tuple[bool, ...]
    ):
        leaf, payload = space.is_leaf, forest.payloads[c.name]
        of_payload, payload_form = marks(payload, leaf), jax.tree.structure(release(payload))
        form, self.held = jax.tree.structure(type), held

        def forward(inner: list[Rows], own: Rows) -> Any:
            below = [remark(form.unflatten(rows), held, leaf) for rows in inner]
            x = c.parts(below, remark(payload_form.unflatten(own), of_payload, leaf))
            y, pb = space.eval(rep, f, x)
            self.stays = tuple(h and now for h, now in zip(held, marks(y, leaf), strict=True))
            y = remark(release(y), held, leaf)

            def pull(g: Found) -> tuple[Found, Found]:
                g_f, g_x = parts(pb(placed(g, y, leaf)))
                return present(g_f, f, leaf), present(g_x, x, leaf)

            outside, inputs = jax.tree.leaves(release(f)), jax.tree.leaves((inner, own))
            self.residuals = Residuals(pull, (structs(y, leaf),), outside, inputs)
            return jax.tree.leaves(release(y)), self.residuals.kept

        of_node = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in jax.tree.leaves(type)]
        of_row = row_types(jax.tree.leaves(release(payload)))
        program = record(forward, [of_node] * c.arity, of_row, stays=True)
        kept = len(self.residuals.kept)
        self.step = Step(program, kept, 0, c.arity * len(of_node) + len(of_row))
        self.places = _places(c, len(held))

    def run(self, inner: list[Rows], payload: Rows, count: int) -> tuple[Rows, Rows]:
        """The results of so many nodes, and what is kept of them, as rows."""
        one = lambda _, inner, payload: self.step(inner, payload)
        return jax.vmap(recorded(one, "nodes"))(jnp.arange(count), inner, payload)

    def blank(self, count: int) -> Rows:
        """Room for what is kept of so many nodes."""
        return [jnp.zeros((count, *t.shape), t.dtype) for t in self.step.put_out]

    def pulling(self, active: set[int]) -> Pulling:
        """The pullback, if cotangents of these leaves of results arrive."""
        return Pulling(self, active)


def _places(c: Constructor, count: int) -> list[tuple[int, int]]:
    """Of each leaf of the parts: its node's side, and its number in the result of that; or -1, and in the payload."""
    found: list[tuple[int, int]] = []
    side = own = 0
    for part in c.leaves:
        found += [(side, i) for i in range(count)] if part is Rec else [(-1, own)]
        side, own = (side + 1, own) if part is Rec else (side, own + 1)
    return found


class Pulling:
    """The pullback of nodes for cotangents of the `active` leaves of their results; `reached`: of those below them."""

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
        """What is added up over nodes, rows, and the cotangents of the results below, by sides and leaves."""

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
        kept = self._step.all_rows(self._step.saved(saved, ys), x, [], False)
        count = len(self._once.stacked)
        total = self._once.totals(added, stacked[:count], kept, x, g, valid=valid)
        return total, dict(zip(self._payload, stacked[count:], strict=True))
