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

from benchmarks.problem import Draw, Params, zeros
from examples.syntax_trees import WORDS, Tree

EMBEDDING, HIDDEN, CLASSES = 300, 150, 2
RATE = 0.05  # of gradient descent

type State = tuple[jax.Array, jax.Array]  # h and c
type Gradient = Callable[[Params, Sequence[Tree]], tuple[Any, Params]]  # the loss of a batch, and its derivatives
type Prepare = Callable[[Sequence[Sequence[Tree]]], Sequence[Any]]  # batches to the arguments of a program
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
        "words": draw.normal(len(WORDS), embedding),
        "read": draw.weights(embedding, 2 * hidden),
        "read_bias": zeros(2 * hidden),
        "join": draw.weights(2 * hidden, 5 * hidden),
        "join_bias": zeros(5 * hidden),
        "head": draw.weights(hidden, CLASSES),
        "head_bias": zeros(CLASSES),
    }


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


def compiled(prepare: Prepare, gradient: Callable[[Params, Any], tuple[Any, Params]]) -> Method:
    """A way to train by JAX, with a program for all that `prepare` makes of batches, or as many as JAX needs."""

    def of_batch(params: Params, trees: Sequence[Tree]) -> tuple[Any, Params]:
        return jax.jit(gradient)(params, *prepare([trees]))

    def epoch(params: Params, batches: Sequence[Sequence[Tree]]) -> Epoch:
        prepared, state = jax.device_put(prepare(batches)), [jax.device_put(params)]
        update = jax.jit(lambda params, batch: descend(params, gradient(params, batch)[1]), donate_argnums=0)

        def run() -> None:
            for batch in prepared:
                state[0] = update(state[0], batch)
            jax.block_until_ready(state[0])

        return run

    return Method(of_batch, epoch)
