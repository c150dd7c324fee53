"""A game between two players, solved by gradients inside of gradients.

One player picks x, the other y; the first pays `payoff(x, y)` to the second. *Reverse-Mode AD in a Functional
Framework* (paper 004, section 5) finds min over x of max over y by gradient descent, each of whose steps is as long as
a search along the line says, until the gradient is short. The gradient of the outer descent is that of a program which
runs the inner ascent, loops without a bound, on a function that captured x. All gradients come from one operator: J
takes a function to one that also gives a backpropagator.

    python examples/05_minimax.py [--tolerance LENGTH] [--sensitivity]
"""

import argparse
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tangents import J, grad

type Real = Callable[[jax.Array], jax.Array]  # a function from vectors to real numbers

GOLDEN = (1 + 5**0.5) / 2
START = jnp.array([1.0, -2.0])


def gradient(f: Real) -> Callable[[jax.Array], jax.Array]:
    """∇ f x = cdr ((cdr ((J f) (J x))) 1) in the paper; a vector is its own image under J."""

    def at(x: jax.Array) -> jax.Array:
        _, backpropagator = J(f)(x)
        _, sensitivity = backpropagator(jnp.float32(1))  # the first component is that of what f captured
        return sensitivity

    return at


def lowest(f: Real, tolerance: float) -> jax.Array:
    """A number below 0 where f, which falls there at first, has a minimum: by golden sections.

    Until f rises, steps become longer. Then there are three places, with the lowest one inside, and a fourth one is
    tried in each step.
    """

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        left, at, right, height, inside = state
        to_right = right - at > at - left
        section = at + jnp.where(to_right, right - at, left - at) / GOLDEN**2
        tried = jnp.where(inside, section, at * (1 + GOLDEN))
        tried_height = f(tried)
        lower = tried_height < height
        left = jnp.where(inside, jnp.where(to_right, jnp.where(lower, at, left), jnp.where(lower, left, tried)), tried)
        right = jnp.where(inside & to_right, jnp.where(lower, right, tried), jnp.where(lower, at, right))
        return left, jnp.where(lower, tried, at), right, jnp.minimum(tried_height, height), inside | ~lower

    at = jnp.float32(-0.1)
    goes_on = lambda state: ~state[-1] | (state[2] - state[0] > tolerance)
    return lax.while_loop(goes_on, step, (at, at, jnp.float32(0), f(at), False))[1]


def argmin(f: Real, start: jax.Array, tolerance: float) -> jax.Array:
    """Where f is least, by gradient descent: a program like any other, so it has a derivative too."""

    def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, _ = state
        g = gradient(f)(x)
        far = jnp.linalg.norm(g) > tolerance
        return lax.cond(far, lambda: x + lowest(lambda k: f(x + k * g), tolerance) * g, lambda: x), far

    return lax.while_loop(lambda state: state[1], step, (start, True))[0]


def argmax(f: Real, start: jax.Array, tolerance: float) -> jax.Array:
    """Where f is greatest."""
    return argmin(lambda y: -f(y), start, tolerance)


def maximum(f: Real, start: jax.Array, tolerance: float) -> jax.Array:
    """What f is there."""
    return f(argmax(f, start, tolerance))


def minimax(payoff: Callable[[jax.Array, jax.Array], jax.Array], tolerance: float) -> tuple[jax.Array, jax.Array]:
    """The strategies of both players: min over x of max over y of payoff(x, y)."""
    x = argmin(lambda x: maximum(lambda y: payoff(x, y), START, tolerance), START, tolerance)
    return x, argmax(lambda y: payoff(x, y), START, tolerance)


def separate(x: jax.Array, y: jax.Array) -> jax.Array:
    """The paper's payoff, s² + t² - u² - v²: neither player minds what the other does."""
    return jnp.sum(x**2) - jnp.sum(y**2)


A, B, C = jnp.array([[0.5, -1.0], [1.0, 0.25]]), jnp.array([1.0, 0.0]), jnp.array([0.0, -2.0])


def coupled(x: jax.Array, y: jax.Array, b: jax.Array = B) -> jax.Array:
    """|x|² - |y|² + x · A y + x · b + y · C: the best answer to x depends on x."""
    return separate(x, y) + x @ A @ y + x @ b + y @ C


def value(b: jax.Array, tolerance: float) -> jax.Array:
    """What the first player pays in the coupled game. Its derivative by b is the first player's strategy."""
    payoff = lambda x, y: coupled(x, y, b)
    return payoff(*minimax(payoff, tolerance))


def saddle() -> np.ndarray:
    """(x, y) where both gradients of the coupled payoff are zero: 2 x + A y + B = 0 and Aᵀ x - 2 y + C = 0."""
    identity, a = np.eye(2), np.asarray(A)
    equations = np.block([[2 * identity, a], [a.T, -2 * identity]])
    return np.linalg.solve(equations, -np.concatenate([B, C]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="length of a gradient (default: %(default)s)")
    parser.add_argument("--sensitivity", action="store_true", help="differentiate the game, too; compiles for a minute")
    options = parser.parse_args(argv)

    for payoff, expected in ((separate, np.zeros(4)), (coupled, saddle())):
        x, y = jax.jit(lambda payoff=payoff: minimax(payoff, options.tolerance))()
        print(f"{payoff.__name__:>9}: x = {np.round(x, 4)}, y = {np.round(y, 4)}, payoff {payoff(x, y):.4f}")
        np.testing.assert_allclose(np.concatenate([x, y]), expected, atol=1e-3)
    print("Both are the saddle points that algebra gives.")
    if options.sensitivity:
        by_b = jax.jit(grad(lambda b: value(b, options.tolerance)))(B)
        print(f"The derivative of the payoff by b is {np.round(by_b, 4)}, which is x.")
        np.testing.assert_allclose(by_b, saddle()[:2], atol=1e-3)


if __name__ == "__main__":
    main()
