"""Which of the unknowns of a solver a cotangent concerns: those that arrive, and those that influence them.

The cotangents of the others are zeros, which nothing is multiplied by: a component that is neither used nor bound up
with one that is may have an infinite slope.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.flatten_util import ravel_pytree

from compile_ccc.jaxprs.flow import reached
from compile_ccc.jaxprs.recording import record


class Coupled:
    """The leaves of unknowns x that a function f to the type of x binds up with those whose cotangents arrived.

    With J the derivative of f, that is where (Jᵀ)ⁿ g may be no zero, whatever n, for a cotangent g of that pattern; so
    it is for the solution v of a Jᵀ v + b v = g.
    """

    def __init__(self, f: Callable[[Any], Any], x: Any, arrived: Sequence[bool]):
        leaves, self._form = jax.tree.flatten(x)
        found = {i for i in range(len(leaves)) if arrived[i]}
        reach = _influences(f, x) if found and len(found) < len(leaves) else []
        self.numbers = sorted(_closed(found, reach))
        self._zeros = self._parts(x)

    def flat(self, x: Any) -> Any:
        """These leaves of unknowns, or of a cotangent of them, as one vector."""
        return ravel_pytree(self._parts(x))[0]

    def within(self, v: Any, x: Any) -> Any:
        """The unknowns x with these leaves in the place of theirs."""
        return self._form.unflatten(self._placed(v, jax.tree.leaves(x)))

    def alone(self, v: Any) -> Any:
        """A cotangent with these leaves, None for the others."""
        return self._form.unflatten(self._placed(v, [None] * self._form.num_leaves))

    def _parts(self, x: Any) -> list[Any]:
        leaves = self._form.flatten_up_to(x)
        return [leaves[i] for i in self.numbers]

    def _placed(self, v: Any, leaves: list[Any]) -> list[Any]:
        parts = dict(zip(self.numbers, ravel_pytree(self._zeros)[1](v), strict=True))
        return [parts.get(i, leaf) for i, leaf in enumerate(leaves)]


def groups(f: Callable[[Any], Any], x: Any) -> list[list[int]]:
    """The leaves of unknowns x by their numbers, those in one group that f binds up with the same ones."""
    count = len(jax.tree.leaves(x))
    reach = _influences(f, x) if count > 1 else []
    found: dict[frozenset[int], list[int]] = {}
    for i in range(count):
        found.setdefault(frozenset(_closed({i}, reach)), []).append(i)
    return list(found.values())


def _closed(found: set[int], reach: list[set[int]]) -> set[int]:
    """The leaves with these numbers, and all that influence them, by whatever way."""
    while more := {i for i, to in enumerate(reach) if not to.isdisjoint(found)} - found:
        found = found | more
    return found


def _influences(f: Callable[[Any], Any], x: Any) -> list[set[int]]:
    """For each leaf of x the numbers of the leaves of f x that depend on it."""
    program = record(f, x)
    count, constants = len(jax.tree.leaves(x)), [False] * len(program.constants)
    given = ([i == j for j in range(count)] for i in range(count))
    return [{k for k, r in enumerate(reached(program.jaxpr, [*constants, *g])) if r} for g in given]
