"""Functions of the list tangent inside of a loop of which nobody knows the number of steps, or which has them as state.

There is no room for the list of their calls.  Inside, a function is what it captured, as in figure 5, and outside
`Captured` stands for the list: `curry`, which would have used up the calls, finds what they would have given.
"""

from __future__ import annotations

from typing import Any

import jax

from combinators.values import Closure
from tangents.cotangents.calls import Calls, Captured
from tangents.cotangents.leaves import gather, present, scatter
from tangents.cotangents.sparse import ZERO, Cotangent, Held, IsLeaf, hold, hold_discrete, release
from tangents.spaces.space import Space


def no_leaf(_: Any) -> bool:
    """No function is a leaf."""
    return False


def opened(x: Any) -> Any:
    """A primal, in which a function may be marked as a whole, with the marks at its arrays."""
    return hold_discrete(jax.tree.map(_opened, x, is_leaf=lambda leaf: isinstance(leaf, Held)), no_leaf)


def _opened(leaf: Any) -> Any:
    return hold(release(leaf.value), no_leaf) if isinstance(leaf, Held) else leaf


def called(y: Any, listed: Any, space: Space) -> Any:
    """The result of a loop, active where one of these functions, of the list tangent, may have had a part in it."""
    functions = [f for f in jax.tree.leaves(listed, is_leaf=space.is_leaf) if space.is_leaf(f)]
    return hold_discrete(release(y), space.is_leaf) if functions else y


def of_captured(g: Cotangent, t: Any, is_leaf: IsLeaf, hint: str) -> Cotangent:
    """The cotangent of t, with functions among its leaves, from one in which functions are what they captured.

    A function that captured nothing has been called all the same, and its list is not empty.  `hint` says what to write
    for calls that are a list.
    """
    found = zip(gather(g, t, is_leaf), jax.tree.leaves(t, is_leaf=is_leaf), strict=True)
    return scatter((_listed(c, leaf, hint) for c, leaf in found), t, is_leaf)


def _listed(c: Cotangent, leaf: Any, hint: str) -> Cotangent:
    if isinstance(leaf, Held):
        return ZERO
    return Calls(Captured(present(c, opened(leaf), no_leaf), hint)) if isinstance(leaf, Closure) else c
