"""The TreeLSTM as a fold over an inductive type, of which a step joins one node, or as many as leave few places empty.

The loss at every node is read from what the fold gives there, for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Any

import jax
import jax.numpy as jnp

import combinators as C
from benchmarks.problem import Params
from benchmarks.trees.model import compiled, entropy, join, read
from examples.syntax_trees import Leaf, Tree
from tangents import value_and_grad

INTEGER = C.Tensor((), jnp.int32)
TREE = C.Inductive(leaf=(INTEGER, INTEGER), node=(C.Rec, C.Rec, INTEGER))  # words, labels


def loss(params: Params, forest: Any) -> jax.Array:
    """The loss of a batch of trees: what is read from the state at every node, all at once."""
    algebra = {
        "leaf": lambda word, label: read(params, params["words"][word]),
        "node": lambda left, right, label: join(params, left, right),
    }
    annotated = C.annotate(TREE)(algebra, forest)
    is_node = annotated.valid
    losses = [
        jnp.sum(jnp.where(is_node[name], entropy(params, h, parts[-1]), 0))
        for name, (parts, (h, _)) in annotated.payloads.items()
    ]
    return sum(losses[1:], losses[0]) / annotated.count


def view(tree: Tree) -> tuple[str, tuple[Any, ...]]:
    """The constructor of a tree, and its parts."""
    if isinstance(tree, Leaf):
        return "leaf", (tree.word, int(tree.loop))
    return "node", (tree.left, tree.right, int(tree.loop))


def sequential(batches: Sequence[Sequence[Tree]]) -> list[Any]:
    """Forests of which a step is one node."""
    return [TREE.encode(trees, view=view, width=1) for trees in batches]


def levels(batches: Sequence[Sequence[Tree]]) -> list[Any]:
    """Forests of one width: the median of those that `encode` chooses for each."""
    width = median_low(TREE.encode(trees, view=view).width for trees in batches)
    return [TREE.encode(trees, view=view, width=width) for trees in batches]


OURS = {prepare.__name__: compiled(prepare, value_and_grad(loss)) for prepare in (sequential, levels)}
