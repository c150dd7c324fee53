"""A residual network of bottleneck blocks with batch normalisation; by default of 50 layers."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.models.images import cross_entropy
from benchmarks.problem import Draw, Params, Problem, ones, zeros


def convolve(w: jax.Array, x: jax.Array, stride: int = 1) -> jax.Array:
    """A convolution [batch, height, width, in] -> [batch, height / stride, width / stride, out]."""
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def normalise(params: Params, x: jax.Array) -> jax.Array:
    """Batch normalisation by the statistics of the batch."""
    mean, variance = jnp.mean(x, axis=(0, 1, 2)), jnp.var(x, axis=(0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * params["scale"] + params["shift"]


def unit(params: Params, x: jax.Array, stride: int = 1) -> jax.Array:
    """A convolution and its normalisation."""
    return normalise(params["norm"], convolve(params["w"], x, stride))


def bottleneck(params: Params, x: jax.Array, stride: int) -> jax.Array:
    """x + 1×1(3×3(1×1(x))), with x brought to the shape of the sum by a convolution where it has another."""
    y = jax.nn.relu(unit(params["reduce"], x))
    y = jax.nn.relu(unit(params["middle"], y, stride))
    y = unit(params["expand"], y)
    shortcut = unit(params["project"], x, stride) if "project" in params else x
    return jax.nn.relu(y + shortcut)


def resnet(
    stages: Sequence[int] = (3, 4, 6, 3), width: int = 64, size: int = 64, batch: int = 8, classes: int = 1000
) -> Problem:
    """Stages of blocks, each with half the resolution and twice the width of the one before."""

    def loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
        x = jax.nn.relu(unit(params["stem"], images, 2))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for i, stage in enumerate(params["stages"]):
            for j, block in enumerate(stage):
                x = bottleneck(block, x, 2 if i > 0 and j == 0 else 1)
        x = jnp.mean(x, axis=(1, 2))
        return cross_entropy(x @ params["head"]["w"] + params["head"]["b"], labels)

    draw = Draw()

    def weights(window: int, m: int, n: int) -> Params:
        return {"w": draw.weights(window, window, m, n), "norm": {"scale": ones(n), "shift": zeros(n)}}

    def block(m: int, n: int) -> Params:
        params = {"reduce": weights(1, m, n), "middle": weights(3, n, n), "expand": weights(1, n, 4 * n)}
        return params if m == 4 * n else params | {"project": weights(1, m, 4 * n)}

    params: Params = {"stem": weights(7, 3, width), "stages": []}
    channels = width
    for i, blocks in enumerate(stages):
        n = width * 2**i
        params["stages"].append([block(channels if j == 0 else 4 * n, n) for j in range(blocks)])
        channels = 4 * n
    params["head"] = {"w": draw.weights(channels, classes), "b": zeros(classes)}
    return Problem(loss, params, (draw.normal(batch, size, size, 3), draw.integers(classes, batch)))
