"""The two ways of values through trees, from children to their parent, and from there to them.

The way back of each is the other one: cotangents of results go down, and those of states go up.  Values of a type are
arrays by the numbers of its leaves.  They stand in slots: a step reads them where they are, and writes its own next to
each other.  `p` is the first row of a step, among those of the results of all nodes; `count` is how many there are.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from combinators.inductive.constructors import Constructor
from combinators.inductive.forest import Forest, Order

type Rows = list[Any]
type Found = dict[int, Any]  # by the numbers of leaves


class Up:
    """A slot for each node, in which the nodes of a step write one value, and where their parents read several."""

    def __init__(self, forest: Forest, order: Order):
        self._first, self._count, self._order = forest.first, forest.count, order

    def sides(self, c: Constructor) -> tuple[int, int]:
        """How many values a node reads, and how many it writes."""
        return c.arity, 1

    def domain(self, c: Constructor, values: list[Any], payload: Any) -> Any:
        """What the function of a constructor is applied to."""
        return c.parts(values, payload)

    def written(self, c: Constructor, y: Any) -> list[Any]:
        """The values that it gives."""
        return [y]

    def opened(self, type: Any, given: Any = None) -> Any:
        """The slots, with the values of nodes without others below them."""
        room = self._order.children.shape[0]
        return jnp.concatenate([_blank(type, self._first) if given is None else given, _blank(type, room)])

    def read(self, slots: Found, p: Any, count: int, c: Constructor | None = None) -> list[Found]:
        """What nodes read, from each side: those of one constructor, or of any."""
        children = sliced(self._order.children, p - self._first, count)[:, : None if c is None else c.arity]
        sides, all = children.shape[1], jnp.reshape(children, -1)
        rows = {i: gathered(x, all) for i, x in slots.items()}
        rows = {i: jnp.reshape(x, (count, sides, *x.shape[1:])) for i, x in rows.items()}
        return [{i: x[:, side] for i, x in rows.items()} for side in range(sides)]

    outside = read  # values that nodes have from elsewhere are of each node, too

    def roots(self, slots: Found, outside: Found) -> Found:
        """What roots have written, and have from elsewhere."""
        return plus(*({i: gathered(x, self._order.roots) for i, x in found.items()} for found in (slots, outside)))

    def wrote(self, slots: Found, c: Constructor, p: Any, count: int) -> Rows:
        """The values that nodes of a constructor have written, by sides and leaves."""
        return [sliced(x, p, count) for x in slots.values()]

    def wide(self, columns: Rows, type: Any, count: int) -> Any:
        """One value of each node, by sides, as `write` takes them; None is zero."""
        return _blank(type, count) if columns[0] is None else columns[0]

    def write(self, slots: Any, rows: Any, p: Any) -> Any:
        """The slots with the values of the nodes of a step."""
        return updated(slots, rows, p)


class Down:
    """A slot for each side of each node, where the nodes of a step write several values, and those below read one.

    After these are the slots of roots, and one for nobody, which holds zero.
    """

    def __init__(self, forest: Forest, order: Order):
        self._first, self._count, self._order = forest.first, forest.count, order
        self._room, self._most = order.children.shape

    def sides(self, c: Constructor) -> tuple[int, int]:
        """How many values a node reads, and how many it writes."""
        return 1, c.arity

    def domain(self, c: Constructor, values: list[Any], payload: Any) -> Any:
        """What the function of a constructor is applied to."""
        return values[0], payload

    def written(self, c: Constructor, y: Any) -> list[Any]:
        """The values that it gives."""
        return c.places.flatten_up_to(y)

    def opened(self, type: Any, given: Any = None) -> Any:
        """The slots, with the values of roots."""
        given = _blank(type, self._count) if given is None else given
        return jnp.concatenate([_blank(type, self._room * self._most), given, _blank(type, 1)])

    def read(self, slots: Found, p: Any, count: int, c: Constructor | None = None) -> list[Found]:
        """What nodes read."""
        parents = sliced(self._order.parents, p, count)
        return [{i: gathered(x, parents) for i, x in slots.items()}]

    def outside(self, values: Found, p: Any, count: int, c: Constructor | None = None) -> list[Found]:
        """What nodes have from elsewhere."""
        return [{i: sliced(x, p, count) for i, x in values.items()}]

    def wrote(self, slots: Found, c: Constructor, p: Any, count: int) -> Rows:
        """The values that nodes of a constructor have written, by sides and leaves."""
        start, count = (p - self._first) * self._most, count * self._most
        rows = [sliced(x, start, count) for x in slots.values()]
        rows = [jnp.reshape(x, (count // self._most, self._most, *x.shape[1:])) for x in rows]
        return [x[:, side] for side in range(c.arity) for x in rows]

    def wide(self, columns: Rows, type: Any, count: int) -> Any:
        """One value of each node and side next to each other, as `write` takes them; None is zero."""
        more = [None] * (self._most - len(columns))
        rows = jnp.stack([_blank(type, count) if x is None else x for x in (*columns, *more)], 1)
        return jnp.reshape(rows, (count * self._most, *rows.shape[2:]))  # which may be empty

    def write(self, slots: Any, rows: Any, p: Any) -> Any:
        """The slots with the values of the nodes of a step."""
        return updated(slots, rows, (p - self._first) * self._most)


type Way = Up | Down


def plus(values: Found, more: Found) -> Found:
    """The sums of arrays, of which some may not be there."""
    return values | {i: lax.add(values[i], x) if i in values else x for i, x in more.items()}


def gathered(x: Any, rows: Any) -> Any:
    """These rows of an array; of a single one, which XLA would read otherwise and copy the array, twice that."""
    count = rows.shape[0]
    rows = rows if count > 1 else jnp.concatenate([rows, rows])
    return jnp.asarray(x).at[rows].get(mode="promise_in_bounds")[:count]


def sliced(x: Any, start: Any, count: int) -> Any:
    """So many rows of an array from one on."""
    return lax.dynamic_slice_in_dim(jnp.asarray(x), start, count)


def updated(x: Any, rows: Any, start: Any) -> Any:
    """The array with other rows from one on."""
    return lax.dynamic_update_slice_in_dim(x, rows.astype(x.dtype), start, 0)


def _blank(type: Any, count: int) -> Any:
    return jnp.zeros((count, *type.shape), type.dtype)
