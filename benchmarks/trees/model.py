"""The binary TreeLSTM of Tai and others, with a loss at every node, on one tree: what all programs compute.

A word gives the state (h, c) of its leaf, and the states of two parts give that of the whole. From each h, a linear
layer reads whether there is a loop in that part. The loss is the sum of the cross-entropies over all nodes, divided by
the number of trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.problem import Draw, Params, zeros
from examples.syntax_trees import WORDS, Leaf, Node, Tree

EMBEDDING, HIDDEN, CLASSES = 300, 150, 2
RATE = 0.05  # of gradient descent

type State = tuple[jax.Array, jax.Array]  # h and c
type Gradient = Callable[[Params, Sequence[Tree]], tuple[Any, Params]]  # the loss of a batch, and its derivatives
type Epoch = Callable[[], None]  # forward, backward and update for all batches


@dataclass(frozen=True)
class Method:
    """A way to train.  What `epoch` does for the data, such as schedules, it does before there is an epoch to time."""

    gradient: Gradient
    epoch: Callable[[Params, Sequence[Sequence[Tree]]], Epoch]


def initial(embedding: int = EMBEDDING, hidden: int = HIDDEN, seed: int = 0) -> Params:
    """Random weights.  Those that join two parts make the gates i, of the left c, of the right c, o, and the news u."""
    draw = Draw(seed)
    return {
        "words": draw.weights(1, len(WORDS), embedding),
        "read": draw.weights(embedding, 2 * hidden),
        "read_bias": zeros(2 * hidden),
        "join": draw.weights(2 * hidden, 5 * hidden),
        "join_bias": zeros(5 * hidden),
        "head": draw.weights(hidden, CLASSES),
        "head_bias": zeros(CLASSES),
    } | {"words": draw.normal(len(WORDS), embedding)}


def read(params: Params, x: jax.Array) -> State:
    """The states of leaves, of whose words this is the embedding [..., embedding]."""
    o, c = jnp.split(x @ params["read"] + params["read_bias"], 2, axis=-1)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def join(params: Params, left: State, right: State) -> State:
    """The states of nodes, from those of their parts, [..., hidden] each."""
    gates = jnp.concatenate([left[0], right[0]], axis=-1) @ params["join"] + params["join_bias"]
    i, of_left, of_right, o, u = jnp.split(gates, 5, axis=-1)
    c = jax.nn.sigmoid(i) * jnp.tanh(u) + jax.nn.sigmoid(of_left) * left[1] + jax.nn.sigmoid(of_right) * right[1]
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def entropy(params: Params, h: jax.Array, label: jax.Array) -> jax.Array:
    """The cross-entropies [...] of what is read from h with the labels [...]."""
    scores = jax.nn.log_softmax(h @ params["head"] + params["head_bias"])
    return -jnp.take_along_axis(scores, label[..., None], axis=-1)[..., 0]


def descend(params: Params, gradient: Params) -> Params:
    """A step of gradient descent."""
    return jax.tree.map(lambda p, g: p - RATE * g, params, gradient)


def nodes(tree: Tree) -> list[Tree]:
    """The nodes of a tree, parts before the whole."""
    return [*nodes(tree.left), *nodes(tree.right), tree] if isinstance(tree, Node) else [tree]


def by_shape(tree: Tree) -> tuple[Callable[..., tuple[jax.Array, Params]], tuple[np.ndarray, np.ndarray]]:
    """Loss and gradient for all trees of this shape, by JAX, and this one's words and labels."""

    def loss(params: Params, words: jax.Array, labels: jax.Array) -> jax.Array:
        embedded = iter(params["words"][words])
        states: list[jax.Array] = []

        def state(part: Tree) -> State:
            here = join(params, state(part.left), state(part.right)) if isinstance(part, Node) else read(params, next(embedded))
            states.append(here[0])
            return here

        state(tree)
        return jnp.sum(entropy(params, jnp.stack(states), labels))

    words = np.array([part.word for part in nodes(tree) if isinstance(part, Leaf)], np.int32)
    return jax.value_and_grad(loss), (words, np.array([part.loop for part in nodes(tree)], np.int32))
