"""Derivatives of programs that take derivatives: GradBench's `saddle` and `particle`, after Pearlmutter and Siskind.

Both minimise by gradient descent a function that takes derivatives itself.  Either derivative is taken in forward or in
reverse mode, which makes four nestings of each.  The loops end when they have found something; with numbers of steps,
which JAX needs for the reverse mode of the particle, they are as long as these say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.problem import Problem, ones, zeros

type Function = Callable[[jax.Array], jax.Array]
type State = tuple[jax.Array, jax.Array]  # place and speed
type Gradient = Callable[[Function], Function]

NESTINGS = ("ff", "fr", "rf", "rr")  # the mode of the outer derivative, then that of the inner one
TOLERANCE = 1e-5  # of a gradient, and of a step; also the first length of a step


def saddle(nesting: str, steps: int | None = None) -> Problem:
    """The point (x, y) where x minimises, and y maximises, |x|² - |y|²: y is sought anew for each x that is tried."""

    def solve(derivatives: Any, start: jax.Array) -> jax.Array:
        outer, inner = (_gradient(derivatives, mode) for mode in nesting)
        height = lambda x, y: jnp.sum(x**2) - jnp.sum(y**2)
        highest = lambda x: height(x, argmin(inner, lambda y: -height(x, y), start, steps))
        x = argmin(outer, highest, start, steps)
        return jnp.concatenate([x, argmin(outer, lambda y: -height(x, y), start, steps)])

    return Problem(solve, ones(2), nested=True)


def particle(nesting: str, steps: int | None = None, time_steps: int | None = None) -> Problem:
    """The place of a charge for which a particle that flies past crosses the axis at its origin.

    The particle moves by Euler's method, with the gradient of a potential as its force, until it has crossed.
    """

    def solve(derivatives: Any, start: jax.Array) -> jax.Array:
        outer, inner = (_gradient(derivatives, mode) for mode in nesting)
        h = 0.1

        def miss(w: jax.Array) -> jax.Array:
            charges = jnp.array([[10, 10 - w], [10, 0]])
            potential = lambda x: jnp.sum(1 / jnp.sqrt(jnp.sum((charges - x) ** 2, axis=1)))
            slope = inner(potential)

            def flies(state: State) -> jax.Array:
                x, v = state
                return x[1] + h * v[1] > 0

            def step(state: State) -> State:
                x, v = state
                return x + h * v, v - h * slope(x)

            bounded = lambda _, state: lax.cond(flies(state), step, lambda state: state, state)
            before = jnp.array([0.0, 8.0], w.dtype), jnp.array([0.75, 0.0], w.dtype)
            if time_steps is None:
                x, v = lax.while_loop(flies, step, before)
            else:
                x, v = lax.fori_loop(0, time_steps, bounded, before)
            return (x[0] - x[1] / v[1] * v[0]) ** 2

        return argmin(outer, lambda w: miss(w[0]), start, steps)

    return Problem(solve, zeros(1), nested=True)


def argmin(gradient: Gradient, f: Function, start: jax.Array, steps: int | None) -> jax.Array:
    """Where f is least, by descent: ten good steps double the length, a bad one halves it."""
    slope = gradient(f)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        count, _, x, y, g, length, good = state
        tried = x - length * g
        arrived, near = (_norm(v) <= TOLERANCE for v in (g, tried - x))

        def descend() -> tuple[Any, ...]:
            lower = f(tried)
            return lax.cond(
                lower < y,
                lambda: (True, tried, lower, slope(tried), length, good + 1),
                lambda: (True, x, y, g, length / 2, jnp.zeros_like(good)),
            )

        stop = lambda: (False, x, y, g, length, good)
        double = lambda: (True, x, y, g, length * 2, jnp.zeros_like(good))
        case = jnp.where(arrived, 0, jnp.where(good == 10, 1, jnp.where(near, 0, 2)))
        return count + 1, *lax.switch(case, [stop, double, descend])

    first = True, start, f(start), slope(start), jnp.asarray(TOLERANCE, start.dtype), jnp.int32(0)
    goes_on = lambda s: s[1] if steps is None else s[1] & (s[0] < steps)
    return lax.while_loop(goes_on, step, (jnp.int32(0), *first))[2]


def _norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(x**2))


def _gradient(derivatives: Any, mode: str) -> Gradient:
    """The gradient in reverse mode ("r"), or in forward mode ("f") along all unit vectors."""

    def forward(f: Function) -> Function:
        along = lambda x: lambda t: derivatives.jvp(f, (x,), (t,))[1]
        return lambda x: jax.vmap(along(x))(jnp.eye(x.size, dtype=x.dtype))

    return derivatives.grad if mode == "r" else forward
