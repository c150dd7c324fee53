"""Trees as arrays, and which of their nodes are joined in one step."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from examples.syntax_trees import Leaf, Tree


@dataclass(frozen=True)
class Flat:
    """The n nodes of a batch of trees, all roots first, then the nodes of depth 1, and so on, from left to right."""

    word: np.ndarray  # [n]: 0 where there is none
    label: np.ndarray  # [n]: 1 if there is a loop, else 0
    left: np.ndarray  # [n]: the node that is the left part, whose right neighbour is the other; -1 at leaves
    parent: np.ndarray  # [n]: -1 at roots
    depths: np.ndarray  # where each depth begins, and n


def flatten(trees: Sequence[Tree]) -> Flat:
    """The nodes of a batch of trees."""
    nodes, left, parent, depths = [*trees], [], [-1] * len(trees), [0]
    while depths[-1] < len(nodes):
        begin, end = depths[-1], len(nodes)
        for place in range(begin, end):
            node = nodes[place]
            left.append(-1 if isinstance(node, Leaf) else len(nodes))
            if not isinstance(node, Leaf):
                nodes += node.left, node.right
                parent += place, place
        depths.append(end)
    word = [node.word if isinstance(node, Leaf) else 0 for node in nodes]
    label = [int(node.loop) for node in nodes]
    return Flat(*(np.array(column, np.int32) for column in (word, label, left, parent, depths)))


def steps(flat: Flat, width: int) -> list[list[int]]:
    """The nodes that are joined in each step: of those whose parts are there, the deepest, at most `width`."""
    inner = flat.left >= 0
    waiting = np.bincount(flat.parent[inner & (flat.parent >= 0)], minlength=len(inner)).tolist()
    parent = flat.parent.tolist()
    ready = [-place for place in np.flatnonzero(inner).tolist() if not waiting[place]]
    heapq.heapify(ready)
    taken: list[list[int]] = []
    while ready:
        taken.append([-heapq.heappop(ready) for _ in range(min(width, len(ready)))])
        for above in (parent[place] for place in taken[-1]):
            if above >= 0:
                waiting[above] -= 1
                if not waiting[above]:
                    heapq.heappush(ready, -above)
    return taken
