"""Log-likelihoods: a mixture of Gaussians, and a linear state-space model by Kalman's filter."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import logsumexp

from benchmarks.problem import Draw, Params, Problem


def gaussian_mixture(points: int = 1000, parts: int = 25, size: int = 16) -> Problem:
    """Negative log-likelihood of points [n, d]; the precision of each part by its lower triangular factor."""

    def loss(params: Params, xs: jax.Array) -> jax.Array:
        diagonal = jnp.exp(params["log_diagonal"])
        factors = jnp.tril(params["below"], -1) + jax.vmap(jnp.diag)(diagonal)
        centred = xs[:, None, :] - params["means"]
        squares = jnp.sum(jnp.einsum("kij,nkj->nki", factors, centred) ** 2, axis=-1)
        log_weights = jax.nn.log_softmax(params["weights"]) + jnp.sum(params["log_diagonal"], axis=-1)
        likelihood = jnp.sum(logsumexp(log_weights - 0.5 * squares, axis=-1))
        prior = 0.5 * jnp.sum(diagonal**2) + 0.5 * jnp.sum(jnp.tril(params["below"], -1) ** 2)
        return (prior - likelihood) / len(xs)

    draw = Draw()
    params = {
        "weights": draw.normal(parts),
        "means": draw.normal(parts, size),
        "log_diagonal": draw.normal(parts, size, scale=0.1),
        "below": draw.normal(parts, size, size, scale=0.1),
    }
    return Problem(loss, params, (draw.normal(points, size),))


def kalman(steps: int = 50, size: int = 8, seen: int = 4) -> Problem:
    """Negative log-likelihood of observations [steps, seen] of a hidden state, with Cholesky factors of innovations."""

    def covariance(root: jax.Array) -> jax.Array:
        return root @ root.T + 0.1 * jnp.eye(len(root), dtype=root.dtype)

    def loss(params: Params, observations: jax.Array) -> jax.Array:
        move, look = params["move"], params["look"]
        noise, blur = covariance(params["noise"]), covariance(params["blur"])

        def step(belief: tuple[jax.Array, jax.Array], seen: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            mean, spread = belief
            mean, spread = move @ mean, move @ spread @ move.T + noise
            surprise = seen - look @ mean
            factor = jnp.linalg.cholesky(look @ spread @ look.T + blur)
            gain = cho_solve((factor, True), look @ spread).T
            white = solve_triangular(factor, surprise, lower=True)
            cost = 0.5 * jnp.sum(white**2) + jnp.sum(jnp.log(jnp.diag(factor)))
            return (mean + gain @ surprise, spread - gain @ look @ spread), cost

        start = jnp.zeros(len(move), move.dtype), jnp.eye(len(move), dtype=move.dtype)
        _, costs = lax.scan(step, start, observations)
        return jnp.mean(costs)

    draw = Draw()
    params = {
        "move": (0.9 * np.eye(size) + 0.05 * draw.normal(size, size)).astype(np.float32),
        "look": draw.weights(seen, size),
        "noise": 0.3 * draw.normal(size, size),
        "blur": 0.3 * draw.normal(seen, seen),
    }
    return Problem(loss, params, (draw.normal(steps, seen),))
