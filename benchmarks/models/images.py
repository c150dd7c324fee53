"""Classifiers of small images: a multilayer perceptron and a convolutional network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.problem import Draw, Params, Problem, zeros


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean of -log softmax(logits)[label]; logits [batch, classes], labels [batch]."""
    return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, logits.shape[-1]) * jax.nn.log_softmax(logits), axis=-1))


def mlp(sizes: Sequence[int] = (784, 512, 512, 10), batch: int = 128) -> Problem:
    """Dense layers with relu between them."""

    def loss(params: list[Params], images: jax.Array, labels: jax.Array) -> jax.Array:
        *hidden, last = params
        x = images
        for layer in hidden:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return cross_entropy(x @ last["w"] + last["b"], labels)

    draw = Draw()
    params = [{"w": draw.weights(m, n), "b": zeros(n)} for m, n in pairwise(sizes)]
    return Problem(loss, params, (draw.normal(batch, sizes[0]), draw.integers(sizes[-1], batch)))


def cnn(size: int = 28, channels: Sequence[int] = (1, 32, 64), batch: int = 32, classes: int = 10) -> Problem:
    """Convolutions of 3 × 3 with relu and max-pooling, a dense layer at the end."""

    def pool(x: jax.Array) -> jax.Array:
        window = (1, 2, 2, 1)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")

    def loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
        x = images
        for layer in params["convolutions"]:
            x = lax.conv_general_dilated(x, layer["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = pool(jax.nn.relu(x + layer["b"]))
        x = x.reshape(x.shape[0], -1)
        return cross_entropy(x @ params["dense"]["w"] + params["dense"]["b"], labels)

    draw = Draw()
    flat = (size // 2 ** (len(channels) - 1)) ** 2 * channels[-1]
    params = {
        "convolutions": [{"w": draw.weights(3, 3, m, n), "b": zeros(n)} for m, n in pairwise(channels)],
        "dense": {"w": draw.weights(flat, classes), "b": zeros(classes)},
    }
    return Problem(loss, params, (draw.normal(batch, size, size, channels[0]), draw.integers(classes, batch)))
