"""The TreeLSTM by recursion in JAX, which unrolls it: a program for each shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.problem import Params
from benchmarks.trees.model import State, compiled, entropy, join, read
from examples.syntax_trees import Leaf, Tree

type Shape = tuple[()] | tuple[Shape, Shape]


@partial(jax.tree_util.register_dataclass, data_fields=("words", "labels"), meta_fields=("shapes",))
@dataclass(frozen=True)
class Shaped:
    """A batch of trees: the shapes are static; words from left to right, and labels of parts before the whole."""

    words: Any  # [leaves]
    labels: Any  # [nodes]
    shapes: tuple[Shape, ...]


def shaped(trees: Sequence[Tree]) -> Shaped:
    """The batch of these trees."""
    words: list[int] = []
    labels: list[bool] = []

    def shape(tree: Tree) -> Shape:
        if isinstance(tree, Leaf):
            words.append(tree.word)
            below: Shape = ()
        else:
            below = shape(tree.left), shape(tree.right)
        labels.append(tree.loop)
        return below

    shapes = tuple(map(shape, trees))
    return Shaped(np.array(words, np.int32), np.array(labels, np.int32), shapes)


def loss(params: Params, batch: Shaped) -> jax.Array:
    """The loss of a batch of trees."""
    embedded = iter(params["words"][batch.words])
    outputs: list[jax.Array] = []

    def state(shape: Shape) -> State:
        here = join(params, *map(state, shape)) if shape else read(params, next(embedded))
        outputs.append(here[0])
        return here

    for shape in batch.shapes:
        state(shape)
    return jnp.sum(entropy(params, jnp.stack(outputs), batch.labels)) / len(batch.shapes)


BY_SHAPE = compiled(lambda batches: [*map(shaped, batches)], jax.value_and_grad(loss))
