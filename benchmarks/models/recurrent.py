"""Recurrent networks, scanned over the steps, with a linear regression of the last state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.problem import Draw, Params, Problem, zeros

type Cell = Callable[[Params, Any, jax.Array], Any]


def recurrent(name: str, steps: int, batch: int, hidden: int) -> Problem:
    """A network of cells of this name; an input has as many numbers as the state."""
    gates, cell = CELLS[name]

    def loss(params: Params, xs: jax.Array, targets: jax.Array) -> jax.Array:
        start = jnp.zeros(xs.shape[1:], xs.dtype)
        step = lambda state, x: (cell(params, state, x), None)
        state, _ = lax.scan(step, (start, start) if name == "lstm" else start, xs)
        return jnp.mean((jax.tree.leaves(state)[0] @ params["head"] - targets) ** 2)

    draw = Draw()
    params = {
        "read": draw.weights(hidden, gates * hidden),
        "keep": draw.weights(hidden, gates * hidden),
        "bias": zeros(gates * hidden),
        "head": draw.weights(hidden, 1),
    }
    return Problem(loss, params, (draw.normal(steps, batch, hidden), draw.normal(batch, 1)))


def _rnn(params: Params, h: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ params["read"] + h @ params["keep"] + params["bias"])


def _gru(params: Params, h: jax.Array, x: jax.Array) -> jax.Array:
    read = x @ params["read"] + params["bias"]
    r, z, n = jnp.split(read, 3, axis=-1)
    of_r, of_z, of_n = jnp.split(h @ params["keep"], 3, axis=-1)
    z = jax.nn.sigmoid(z + of_z)
    n = jnp.tanh(n + jax.nn.sigmoid(r + of_r) * of_n)
    return (1 - z) * n + z * h


def _lstm(params: Params, state: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[jax.Array, jax.Array]:
    h, c = state
    gates = x @ params["read"] + h @ params["keep"] + params["bias"]
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


CELLS: dict[str, tuple[int, Cell]] = {"rnn": (1, _rnn), "gru": (3, _gru), "lstm": (4, _lstm)}
