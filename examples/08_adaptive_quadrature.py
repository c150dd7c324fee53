"""Adaptive quadrature, a recursion that values decide, with the derivative of the integral by a parameter.

An interval is divided in two as long as Simpson's rule on the halves differs from that on the whole. JAX by itself can
neither trace such a function, which calls itself without end, nor differentiate it. Here it is compiled once, and its
gradient is that of the program: of the rule on the intervals that were found.

    python examples/08_adaptive_quadrature.py
"""

import argparse
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import combinators as C
from compile_ccc import fix
from tangents import value_and_grad

NUMBER = C.Tensor()


def integral(f, low, high, tolerance, max_depth=64):
    """The integral of f from `low` to `high`; f may capture what a derivative is asked for."""

    def simpson(low, high):
        return (high - low) / 6 * (f(low) + 4 * f((low + high) / 2) + f(high))

    def area(self, low, high, tolerance):
        middle = (low + high) / 2
        halves = simpson(low, middle) + simpson(middle, high)
        is_fine = jnp.abs(halves - simpson(low, high)) < 15 * tolerance
        finer = lambda: self(low, middle, tolerance / 2) + self(middle, high, tolerance / 2)
        return lax.cond(is_fine, lambda: halves, finer)

    return fix(area, NUMBER, NUMBER, NUMBER, codomain=NUMBER, max_depth=max_depth)(low, high, tolerance)


def peak(a: jax.Array) -> jax.Array:
    """The integral of 1 / (1 + (a x)²) from -1 to 2, whose graph has a peak where the intervals have to be small."""
    return integral(lambda x: 1 / (1 + (a * x) ** 2), -1.0, 2.0, 1e-5)


def main(argv: list[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    both = jax.jit(value_and_grad(peak))
    for a in (1.0, 5.0, 25.0):
        value, slope = both(a)
        exact = (math.atan(2 * a) + math.atan(a)) / a
        exact_slope = (2 / (1 + 4 * a**2) + 1 / (1 + a**2) - exact) / a
        print(f"a = {a:>4}: {value:.5f}, by a {slope:.6f}; by the closed form {exact:.5f}, {exact_slope:.6f}")
        np.testing.assert_allclose((value, slope), (exact, exact_slope), atol=2e-4)


if __name__ == "__main__":
    main()
