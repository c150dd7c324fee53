"""The TreeLSTM as a fold over an inductive type, of which a step joins one node, or as many as leave few places empty."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Any

import jax
import jax.numpy as jnp

import combinators as C
from benchmarks.problem import Params
from benchmarks.trees.model import State, compiled, entropy, join, read
from examples.syntax_trees import Leaf, Tree
from tangents import value_and_grad

INTEGER = C.Tensor((), jnp.int32)
TREE = C.Inductive(leaf=(INTEGER, INTEGER), node=(C.Rec, C.Rec, INTEGER))  # words, labels

type Summed = tuple[State, jax.Array]  # the state, and the sum of the losses in this part


def loss(params: Params, forest: Any) -> jax.Array:
    """The loss of a batch of trees."""

    def leaf(word: jax.Array, label: jax.Array) -> Summed:
        state = read(params, params["words"][word])
        return state, entropy(params, state[0], label)

    def node(left: Summed, right: Summed, label: jax.Array) -> Summed:
        state = join(params, left[0], right[0])
        return state, left[1] + right[1] + entropy(params, state[0], label)

    _, losses = C.cata(TREE)({"leaf": leaf, "node": node}, forest)
    return jnp.mean(losses)


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
