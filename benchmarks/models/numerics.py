"""Numerical methods: a differential equation by Runge-Kutta, and optimal transport along lines by sorting."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.problem import Draw, Params, Problem, zeros


def rk4(steps: int = 100, batch: int = 32, size: int = 8, hidden: int = 32) -> Problem:
    """The squared distance to a target after a flow x' = network(x), integrated by the classical method."""

    def loss(params: Params, start: jax.Array, target: jax.Array) -> jax.Array:
        h = 1.0 / steps
        slope = lambda x: jnp.tanh(x @ params["in"] + params["bias"]) @ params["out"]

        def step(x: jax.Array, _: None) -> tuple[jax.Array, None]:
            k1 = slope(x)
            k2 = slope(x + 0.5 * h * k1)
            k3 = slope(x + 0.5 * h * k2)
            k4 = slope(x + h * k3)
            return x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None

        x, _ = lax.scan(step, start, None, length=steps)
        return jnp.mean((x - target) ** 2)

    draw = Draw()
    params = {"in": draw.weights(size, hidden), "bias": zeros(hidden), "out": draw.weights(hidden, size)}
    return Problem(loss, params, (draw.normal(batch, size), draw.normal(batch, size)))


def sliced_transport(points: int = 2000, size: int = 16, lines: int = 32) -> Problem:
    """The mean squared distance of two clouds of points that are sorted along random lines."""

    def loss(params: Params, source: jax.Array, target: jax.Array, directions: jax.Array) -> jax.Array:
        moved = jnp.tanh(source @ params["w"]) + params["b"]
        along = lambda cloud: jnp.sort(cloud @ (directions / jnp.linalg.norm(directions, axis=0)), axis=0)
        return jnp.mean((along(moved) - along(target)) ** 2)

    draw = Draw()
    params = {"w": draw.weights(size, size), "b": zeros(size)}
    return Problem(loss, params, (draw.normal(points, size), draw.normal(points, size), draw.normal(size, lines)))
