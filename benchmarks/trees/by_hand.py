"""The TreeLSTM written by hand for XLA: one compiled loop for all shapes, several nodes a step, and its own reverse.

A step joins `width` nodes whose parts are there. States are rows of one buffer, leaves first and then nodes in the
order of the steps, so that a step reads rows from anywhere and writes rows side by side. Backwards, a step writes the
cotangents of its nodes' parts side by side too, and finds those of its own nodes where the step of their parents wrote
them: each node has one parent, so nothing is summed. What needs no order is worked out outside of the loops: leaves,
losses, and the gradients of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.problem import Params
from benchmarks.trees.flat import Flat, flatten, steps
from benchmarks.trees.model import CLASSES, compiled, read
from examples.syntax_trees import Tree

WIDTHS, WASTE = (32, 16, 8, 4, 1), 1.15  # nodes in a step: the first of these with few enough places per node

type Array = Any


class Schedule(NamedTuple):
    """A batch of trees.  A step has `width` of the places; rows are those of leaves and then of places."""

    steps: Array  # how many of them are needed
    words: Array  # [leaves]
    parts: Array  # [places / width, 2 * width]: the rows of the left part and the right one, for each node
    leaves_above: Array  # [leaves]: 2 * place of the parent, + 1 if it is its right part; 2 * places: there is none
    places_above: Array  # [places / width, width]: the same
    labels: Array  # [rows]
    weights: Array  # [rows]: of the losses; 0 where there is no node


def schedules(batches: Sequence[Sequence[Tree]]) -> list[Schedule]:
    """Schedules of one size, so that one program serves all batches."""
    flats = [flatten(trees) for trees in batches]
    nodes = sum(int(np.sum(flat.left >= 0)) for flat in flats)
    places = lambda width: sum(width * len(steps(flat, width)) for flat in flats)
    width = next(width for width in WIDTHS if width == 1 or places(width) <= WASTE * nodes)
    orders = [steps(flat, width) for flat in flats]
    leaves, longest = max(int(np.sum(flat.left < 0)) for flat in flats), max(map(len, orders))
    return [_schedule(*pair, width, leaves, longest) for pair in zip(flats, orders, strict=True)]


def _schedule(flat: Flat, order: list[list[int]], width: int, leaves: int, longest: int) -> Schedule:
    places = longest * width
    joints = np.concatenate([np.array(taken) for taken in order])
    of_joints = np.concatenate([np.arange(len(taken)) + width * step for step, taken in enumerate(order)])
    ends = np.flatnonzero(flat.left < 0)
    row = np.zeros(len(flat.left), np.int32)
    row[ends], row[joints] = np.arange(len(ends)), leaves + of_joints
    above = np.full(leaves + places, 2 * places, np.int32)
    below = np.flatnonzero(flat.parent >= 0)
    parent = flat.parent[below]
    above[row[below]] = 2 * (row[parent] - leaves) + (below != flat.left[parent])
    words, labels = np.zeros(leaves, np.int32), np.zeros(leaves + places, np.int32)
    words[: len(ends)], labels[row] = flat.word[ends], flat.label
    weights = np.zeros(leaves + places)
    weights[row] = 1 / np.sum(flat.parent < 0)
    parts = np.zeros((places, 2), np.int32)
    parts[of_joints] = row[flat.left[joints][:, None] + np.arange(2)]
    rows = above[leaves:].reshape(longest, width)
    return Schedule(len(order), words, parts.reshape(longest, 2 * width), above[:leaves], rows, labels, weights)


def loss_and_gradient(params: Params, batch: Schedule) -> tuple[Array, Params]:
    """The loss of a batch of trees, and its derivatives."""
    x = params["words"][batch.words]
    leaves, back_leaves = jax.vjp(lambda params, x: jnp.concatenate(read(params, x), axis=1), params, x)
    rows, gates = _forward(params, leaves, batch)
    size = leaves.shape[1] // 2
    weights = batch.weights[:, None].astype(rows.dtype)
    log = jax.nn.log_softmax(rows[:, :size] @ params["head"] + params["head_bias"])
    truth = jax.nn.one_hot(batch.labels, CLASSES, dtype=rows.dtype)
    of_scores = (jnp.exp(log) - truth) * weights
    of_h = of_scores @ params["head"].T
    of_gates, of_parts = _reverse(params, rows, gates, of_h, batch)
    of_leaves = of_parts[batch.leaves_above] + jnp.pad(of_h[: len(leaves)], ((0, 0), (0, size)))
    gradient, of_x = back_leaves(of_leaves)
    parts = rows[batch.parts.reshape(-1), :size].reshape(-1, 2 * size)
    return -jnp.sum(log * truth * weights), gradient | {
        "words": jnp.zeros_like(params["words"]).at[batch.words].add(of_x),
        "join": parts.T @ of_gates,
        "join_bias": jnp.sum(of_gates, axis=0),
        "head": rows[:, :size].T @ of_scores,
        "head_bias": jnp.sum(of_scores, axis=0),
    }


def _forward(params: Params, leaves: Array, batch: Schedule) -> tuple[Array, Array]:
    """The states [rows, 2 * hidden] of all nodes, h and c side by side, and the gates [places, 5 * hidden]."""
    size, (length, width) = leaves.shape[1] // 2, batch.places_above.shape

    def step(t: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rows, gates = state
        parts = rows.at[batch.parts[t]].get(mode="promise_in_bounds").reshape(width, 2, 2 * size)
        h, c = parts[:, :, :size].reshape(width, 2 * size), parts[:, :, size:]
        of_sigmoid, of_tanh = jnp.split(h @ params["join"] + params["join_bias"], [4 * size], axis=1)
        sigmoids, u = jax.nn.sigmoid(of_sigmoid), jnp.tanh(of_tanh)
        i, of_left, of_right, o = jnp.split(sigmoids, 4, axis=1)
        c = i * u + of_left * c[:, 0] + of_right * c[:, 1]
        row = jnp.concatenate([o * jnp.tanh(c), c], axis=1)
        gates = lax.dynamic_update_slice(gates, jnp.concatenate([sigmoids, u], axis=1), (t * width, 0))
        return lax.dynamic_update_slice(rows, row, (len(leaves) + t * width, 0)), gates

    rows = jnp.pad(leaves, ((0, length * width), (0, 0)))
    return lax.fori_loop(0, batch.steps, step, (rows, jnp.zeros((length * width, 5 * size), leaves.dtype)))


def _reverse(params: Params, rows: Array, gates: Array, of_h: Array, batch: Schedule) -> tuple[Array, Array]:
    """The cotangents [places, 5 * hidden] of what the gates are made of, and of the parts, [2 * places + 1, ...]."""
    (length, width), size = batch.places_above.shape, rows.shape[1] // 2
    first = len(rows) - length * width

    def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        of_gates, of_parts = state
        t = batch.steps - 1 - i
        above = batch.places_above[t]  # of a single row, XLA would make a slice, for which it copies the whole buffer
        above = jnp.concatenate([above, above]) if width == 1 else above
        of_row = of_parts.at[above].get(mode="promise_in_bounds")[:width]
        here = lambda array, begin=0: lax.dynamic_slice_in_dim(array, begin + t * width, width)
        i, of_left, of_right, o, u = jnp.split(here(gates), 5, axis=1)
        c = rows.at[batch.parts[t]].get(mode="promise_in_bounds").reshape(width, 2, 2 * size)[:, :, size:]
        outer = jnp.tanh(here(rows, first)[:, size:])
        g = of_row[:, :size] + here(of_h, first)
        of_c = of_row[:, size:] + g * o * (1 - outer**2)
        sigmoid = lambda g, y: g * y * (1 - y)
        change = jnp.concatenate(
            [
                sigmoid(of_c * u, i),
                sigmoid(of_c * c[:, 0], of_left),
                sigmoid(of_c * c[:, 1], of_right),
                sigmoid(g * outer, o),
                of_c * i * (1 - u**2),
            ],
            axis=1,
        )
        h = lax.dot_general(change, params["join"], (((1,), (1,)), ((), ()))).reshape(width, 2, size)
        parts = jnp.concatenate([h, jnp.stack([of_c * of_left, of_c * of_right], axis=1)], axis=2)
        of_parts = lax.dynamic_update_slice(of_parts, parts.reshape(2 * width, 2 * size), (2 * t * width, 0))
        return lax.dynamic_update_slice(of_gates, change, (t * width, 0)), of_parts

    start = jnp.zeros_like(gates), jnp.zeros((2 * length * width + 1, 2 * size), rows.dtype)
    return lax.fori_loop(0, batch.steps, step, start)


BY_HAND = compiled(schedules, loss_and_gradient)
