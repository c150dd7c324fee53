"""Models whose programs branch, or run layers again on the way back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.models.images import cross_entropy
from benchmarks.problem import Draw, Params, Problem, ones, zeros


def bouncing_ball(steps: int = 5000, hidden: int = 32) -> Problem:
    """How far a ball is from a height on its way: it flies with a thrust that a network chooses, or it bounces."""

    def loss(params: Params, start: jax.Array) -> jax.Array:
        h, gravity, wanted = 0.01, 9.81, 1.0
        thrust = lambda ball: jnp.tanh(ball @ params["in"] + params["bias"]) @ params["out"]

        def fly(ball: jax.Array) -> jax.Array:
            return ball + h * jnp.stack([ball[1], thrust(ball) - gravity])

        def bounce(ball: jax.Array) -> jax.Array:
            return jnp.stack([-ball[0], -params["bounce"] * ball[1]])

        def step(ball: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            ball = lax.cond((ball[0] < 0) & (ball[1] < 0), bounce, fly, ball)
            return ball, (ball[0] - wanted) ** 2

        return jnp.mean(lax.scan(step, start, None, length=steps)[1])

    draw = Draw()
    params = {"in": draw.weights(2, hidden), "bias": zeros(hidden), "out": draw.weights(hidden), "bounce": 0.8 * ones()}
    return Problem(loss, params, (ones(2),))


def residual_layers(layers: int = 16, width: int = 256, batch: int = 64, classes: int = 10) -> Problem:
    """A classifier of layers in a scan, each under `jax.checkpoint`: of a layer, the way back has the argument only."""

    def loss(params: Params, xs: jax.Array, labels: jax.Array) -> jax.Array:
        @jax.checkpoint
        def layer(x: jax.Array, weights: Params) -> jax.Array:
            scaled = x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-5) * weights["scale"]
            return x + jax.nn.gelu(scaled @ weights["up"]) @ weights["down"]

        x, _ = lax.scan(lambda x, weights: (layer(x, weights), None), xs @ params["in"], params["layers"])
        return cross_entropy(x @ params["out"], labels)

    draw = Draw()
    stack = {
        "scale": ones(layers, width),
        "up": draw.normal(layers, width, 2 * width, scale=width**-0.5),
        "down": draw.normal(layers, 2 * width, width, scale=(2 * width * layers) ** -0.5),
    }
    params = {"in": draw.weights(width, width), "layers": stack, "out": draw.weights(width, classes)}
    return Problem(loss, params, (draw.normal(batch, width), draw.integers(classes, batch)))
