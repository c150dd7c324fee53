"""Gradients against differences of numbers, as Myia's tests hold them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

type Function = Callable[..., Any]

STEP = 1e-6


@dataclasses.dataclass
class GradTester:
    """A gradient that a test gives, against differences of the function."""

    fn: Function
    gfn: Function
    args: tuple[Any, ...]
    argnames: list[str]
    outnames: list[str] | None
    rel_error: float = 1e-3

    def assert_match(self) -> None:
        """Each component of the gradient is the quotient."""
        ones = jax.tree.map(jnp.ones_like, self.fn(*self.args))
        found = self.gfn(*self.args, ones)
        hold_against_differences(self.fn, [*self.args], dict(enumerate(found)))


def total(f: Function) -> Function:
    """The sum of all numbers that a function gives."""
    return lambda *xs: sum(jnp.sum(y) for y in jax.tree.leaves(f(*xs)))


def hold_against_differences(f: Function, values: list[Any], found: dict[int, Any]) -> None:
    """The gradient by some of the arguments, by their places, is the quotient of central differences."""
    for i, cotangent in found.items():
        leaves, tree = jax.tree.flatten(values[i])
        for j, (leaf, slope) in enumerate(zip(leaves, tree.flatten_up_to(cotangent), strict=True)):
            for place in np.ndindex(np.shape(leaf)):

                def at(step: float, i: int = i, j: int = j, place: Any = place, leaves: Any = leaves) -> Any:
                    moved = np.array(leaves[j], float)
                    moved[place] += step
                    new = leaves[j].__class__(moved) if np.ndim(moved) == 0 else moved
                    whole = jax.tree.unflatten(jax.tree.structure(values[i]), [*leaves[:j], new, *leaves[j + 1 :]])
                    return total(f)(*values[:i], whole, *values[i + 1 :])

                expected = (at(STEP) - at(-STEP)) / (2 * STEP)
                np.testing.assert_allclose(np.asarray(slope)[place], expected, rtol=1e-4, atol=1e-6)
