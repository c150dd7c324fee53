"""Models of sequences: a recurrent network, a transformer, and the loss of connectionist temporal classification."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.models.images import cross_entropy
from benchmarks.problem import Draw, Params, Problem, ones, zeros


def lstm(steps: int = 100, batch: int = 20, inputs: int = 28, hidden: int = 150) -> Problem:
    """Long short-term memory, scanned over the steps, with a linear regression of its last state."""

    def loss(params: Params, xs: jax.Array, targets: jax.Array) -> jax.Array:
        def cell(state: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            h, c = state
            gates = x @ params["read"] + h @ params["keep"] + params["bias"]
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        start = jnp.zeros((xs.shape[1], params["keep"].shape[0]), xs.dtype)
        (h, _), _ = lax.scan(cell, (start, start), xs)
        return jnp.mean((h @ params["head"] - targets) ** 2)

    draw = Draw()
    params = {
        "read": draw.weights(inputs, 4 * hidden),
        "keep": draw.weights(hidden, 4 * hidden),
        "bias": zeros(4 * hidden),
        "head": draw.weights(hidden, 1),
    }
    return Problem(loss, params, (draw.normal(steps, batch, inputs), draw.normal(batch, 1)))


def transformer(
    layers: int = 4, width: int = 128, heads: int = 4, length: int = 64, batch: int = 8, words: int = 256
) -> Problem:
    """A causal language model: pre-normalised attention and dense layers, predicting each next token."""

    def normalise(params: Params, x: jax.Array) -> jax.Array:
        mean, variance = jnp.mean(x, axis=-1, keepdims=True), jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * params["scale"] + params["shift"]

    def attention(params: Params, x: jax.Array) -> jax.Array:
        q, k, v = (jnp.einsum("btd,dhk->bthk", x, params[name]) for name in ("query", "key", "value"))
        scores = jnp.einsum("bthk,bshk->bhts", q, k) / q.shape[-1] ** 0.5
        causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
        return jnp.einsum("bhts,bshk,hkd->btd", weights, v, params["out"])

    def dense(params: Params, x: jax.Array) -> jax.Array:
        return jax.nn.gelu(x @ params["up"] + params["up_bias"]) @ params["down"] + params["down_bias"]

    def loss(params: Params, tokens: jax.Array) -> jax.Array:
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        x = params["words"][inputs] + params["places"]
        for layer in params["layers"]:
            x = x + attention(layer, normalise(layer["before_attention"], x))
            x = x + dense(layer, normalise(layer["before_dense"], x))
        return cross_entropy(normalise(params["last"], x) @ params["words"].T, targets)

    draw, part = Draw(), width // heads
    norm = lambda: {"scale": ones(width), "shift": zeros(width)}

    def layer() -> Params:
        return {
            **{name: draw.normal(width, heads, part, scale=width**-0.5) for name in ("query", "key", "value")},
            "out": draw.weights(heads, part, width),
            "up": draw.weights(width, 4 * width),
            "up_bias": zeros(4 * width),
            "down": draw.weights(4 * width, width),
            "down_bias": zeros(width),
            "before_attention": norm(),
            "before_dense": norm(),
        }

    params = {
        "words": draw.normal(words, width, scale=0.1),
        "places": draw.normal(length, width, scale=0.1),
        "layers": [layer() for _ in range(layers)],
        "last": norm(),
    }
    return Problem(loss, params, (draw.integers(words, batch, length + 1),))


def ctc(steps: int = 60, batch: int = 16, length: int = 10, words: int = 32) -> Problem:
    """The log-likelihood of label sequences over all their alignments with the steps, by the forward recursion."""

    def loss(logits: jax.Array, labels: jax.Array) -> jax.Array:
        blanks = jnp.zeros_like(labels)
        states = jnp.concatenate([jnp.stack([blanks, labels], -1).reshape(len(labels), -1), blanks[:, :1]], axis=1)
        skips = (states != 0) & (states != jnp.roll(states, 2, axis=1))
        emissions = jnp.take_along_axis(jax.nn.log_softmax(logits), states[None], axis=-1)
        never = -1e30
        shifted = lambda alpha, n: jnp.pad(alpha, ((0, 0), (n, 0)), constant_values=never)[:, : alpha.shape[1]]

        def step(alpha: jax.Array, emission: jax.Array) -> tuple[jax.Array, None]:
            skipped = jnp.where(skips, shifted(alpha, 2), never)
            return jnp.logaddexp(jnp.logaddexp(alpha, shifted(alpha, 1)), skipped) + emission, None

        start = jnp.where(jnp.arange(states.shape[1]) < 2, emissions[0], never)
        alpha, _ = lax.scan(step, start, emissions[1:])
        return -jnp.mean(jnp.logaddexp(alpha[:, -1], alpha[:, -2]))

    draw = Draw()
    return Problem(loss, draw.normal(steps, batch, words), (1 + draw.integers(words - 1, batch, length),))
