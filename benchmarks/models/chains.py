"""Programs of a given number of operations: chains, in which each takes the last result, and random graphs."""

from __future__ import annotations

import random
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.problem import Problem

POINT = np.float32(0.5)


def jnp_chain(length: int = 1000) -> Problem:
    """x -> sin(x) * x, again and again, by functions of jnp."""

    def loss(x: jax.Array) -> jax.Array:
        y = x
        for _ in range(length // 2):
            y = jnp.sin(y) * x
        return y

    return Problem(loss, POINT)


def lax_chain(length: int = 1000) -> Problem:
    """The same chain by primitives, which JAX traces fastest."""

    def loss(x: jax.Array) -> jax.Array:
        y = x
        for _ in range(length // 2):
            y = lax.mul(lax.sin(y), x)
        return y

    return Problem(loss, POINT)


UNARY: list[Callable[..., jax.Array]] = [lax.sin, lax.tanh, jnp.cos, jnp.arctan, lax.neg]
BINARY: list[Callable[..., jax.Array]] = [lax.add, lax.mul, lax.sub, jnp.maximum]


def random_graph(length: int = 1000, seed: int = 0) -> Problem:
    """Operations on values drawn among all earlier ones, half of the time among the last ten; all are reached."""
    choose = random.Random(seed)
    operations: list[tuple[Callable[..., jax.Array], list[int]]] = []
    for n in range(1, length + 1):
        f = choose.choice(UNARY if choose.random() < 0.4 else BINARY)
        recent = max(0, n - 10)
        others = [choose.randrange(choose.choice((0, recent)), n) for _ in range(f in BINARY)]
        operations.append((f, [n - 1, *others]))

    def loss(x: jax.Array) -> jax.Array:
        values = [x]
        for f, places in operations:
            values.append(f(*(values[i] for i in places)))
        return lax.tanh(values[-1])

    return Problem(loss, POINT)
