"""A game between two players, solved by gradients inside of gradients.

One player picks x, the other y; the first pays `payoff(x, y)` to the second. *Reverse-Mode AD in a Functional
Framework* (paper 004, section 5) finds min over x of max over y by gradient descent. Each step of the outer descent
needs the derivative of a program that runs the inner ascent, whose steps are gradients of a function that captured x.
Both gradients come from one operator: J takes a function to one that also gives a backpropagator.

    python examples/05_minimax.py [--steps N]
"""

import argparse
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tangents import J

type Real = Callable[[jax.Array], jax.Array]  # a function from vectors to real numbers

RATE = 0.2  # of the descents
START = jnp.array([1.0, -2.0])


def gradient(f: Real) -> Callable[[jax.Array], jax.Array]:
    """∇ f x = cdr ((cdr ((J f) (J x))) 1) in the paper; a vector is its own image under J."""

    def at(x: jax.Array) -> jax.Array:
        _, backpropagator = J(f)(x)
        _, sensitivity = backpropagator(jnp.float32(1))  # the first component is that of what f captured
        return sensitivity

    return at


def argmin(f: Real, start: jax.Array, steps: int) -> jax.Array:
    """Where f is least, by gradient descent: a program like any other, so it has a derivative too."""
    return lax.scan(lambda x, _: (x - RATE * gradient(f)(x), None), start, length=steps)[0]


def argmax(f: Real, start: jax.Array, steps: int) -> jax.Array:
    """Where f is greatest."""
    return argmin(lambda y: -f(y), start, steps)


def maximum(f: Real, start: jax.Array, steps: int) -> jax.Array:
    """What f is there."""
    return f(argmax(f, start, steps))


def minimax(payoff: Callable[[jax.Array, jax.Array], jax.Array], steps: int) -> tuple[jax.Array, jax.Array]:
    """The strategies of both players: min over x of max over y of payoff(x, y)."""
    x = argmin(lambda x: maximum(lambda y: payoff(x, y), START, steps), START, steps)
    return x, argmax(lambda y: payoff(x, y), START, steps)


def separate(x: jax.Array, y: jax.Array) -> jax.Array:
    """The paper's payoff, s² + t² - u² - v²: neither player minds what the other does."""
    return jnp.sum(x**2) - jnp.sum(y**2)


A, B, C = jnp.array([[0.5, -1.0], [1.0, 0.25]]), jnp.array([1.0, 0.0]), jnp.array([0.0, -2.0])


def coupled(x: jax.Array, y: jax.Array) -> jax.Array:
    """|x|² - |y|² + x · A y + x · B + y · C: the best answer to x depends on x."""
    return separate(x, y) + x @ A @ y + x @ B + y @ C


def saddle() -> np.ndarray:
    """(x, y) where both gradients of the coupled payoff are zero: 2 x + A y + B = 0 and Aᵀ x - 2 y + C = 0."""
    identity, a = np.eye(2), np.asarray(A)
    equations = np.block([[2 * identity, a], [a.T, -2 * identity]])
    return np.linalg.solve(equations, -np.concatenate([B, C]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="of each descent (default: %(default)s)")
    steps = parser.parse_args(argv).steps

    for payoff, expected in ((separate, np.zeros(4)), (coupled, saddle())):
        x, y = jax.jit(lambda payoff=payoff: minimax(payoff, steps))()
        print(f"{payoff.__name__:>9}: x = {np.round(x, 4)}, y = {np.round(y, 4)}, payoff {payoff(x, y):.4f}")
        np.testing.assert_allclose(np.concatenate([x, y]), expected, atol=1e-4)
    print("Both are the saddle points that algebra gives.")


if __name__ == "__main__":
    main()
