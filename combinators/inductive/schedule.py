"""Which nodes of trees are worked out together: steps of at most `width` nodes of one constructor, deepest first.

A node is ready when the nodes below it are done.  Of those that are ready, a step takes the deepest, and others of its
constructor, the deepest of them first.  With one constructor that has nodes below it, no schedule has fewer steps
(T. C. Hu 1961).  It is plain NumPy, and knows nothing of types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

WIDTHS = (32, 16, 8, 1)  # that are chosen among: each is a program of its own, and few rows cost more than they save
WASTE = 1.15  # slots for each node, at most, in the width that is chosen


@dataclass(frozen=True)
class Schedule:
    """For each node its `step` and its `slot` in that; for each step the constructor, `kinds`, of its nodes."""

    width: int
    step: Any
    slot: Any
    kinds: Any


def schedule(kinds: Any, parents: Any, depths: Any, width: int | None = None) -> Schedule:
    """The schedule of nodes with these constructors, parents (-1: none) and distances from their roots.

    Without a width, the largest of `WIDTHS` whose steps have at most `WASTE` slots for each node.
    """
    nodes = len(kinds)
    if width is not None or nodes == 0:
        return _of_width(kinds, parents, depths, width or 1)
    least, one_kind = _least_steps(depths), bool((kinds == kinds[0]).all())
    for width in WIDTHS:
        if width * least(width) <= WASTE * nodes:
            found = _of_width(kinds, parents, depths, width)
            if one_kind or width * len(found.kinds) <= WASTE * nodes:
                return found
    return _of_width(kinds, parents, depths, 1)


def _least_steps(depths: Any) -> Any:
    """How many steps of a width there are at least: those from the root down to a level, and below as many as fill."""
    below = np.cumsum(np.bincount(depths)[::-1])[::-1]
    return lambda width: int((np.arange(len(below)) + -(-below // width)).max())


def _of_width(kinds: Any, parents: Any, depths: Any, width: int) -> Schedule:
    nodes = len(kinds)
    if width == 1:
        order = np.argsort(-depths, kind="stable")
        step = np.empty(nodes, np.int64)
        step[order] = np.arange(nodes)
        return Schedule(1, step, np.zeros(nodes, np.int64), kinds[order])
    inner = parents >= 0
    waiting = np.bincount(parents[inner], minlength=nodes)
    ready = np.flatnonzero(waiting == 0)
    step, slot, taken = np.empty(nodes, np.int64), np.empty(nodes, np.int64), []
    several = not (kinds == kinds[:1]).all()
    while len(ready):
        able = ready
        if several:
            able = ready[kinds[ready] == kinds[ready[np.argmax(depths[ready])]]]
        now = able if len(able) <= width else able[np.argpartition(-depths[able], width - 1)[:width]]
        step[now], slot[now] = len(taken), np.arange(len(now))
        taken.append(kinds[now[0]])
        waiting[now] = -1
        above = parents[now]
        above = above[above >= 0]
        np.subtract.at(waiting, above, 1)
        above = np.unique(above)
        ready = np.concatenate([ready[waiting[ready] == 0], above[waiting[above] == 0]])
    return Schedule(width, step, slot, np.asarray(taken, np.int64))


def size_class(count: int) -> int:
    """How many there is room for: a power of two up to 64, then one of four sizes between two powers, 8 at least."""
    if count <= 64:
        return max(8, 1 << max(0, count - 1).bit_length())
    unit = 1 << ((count - 1).bit_length() - 3)
    return -(-count // unit) * unit
