"""Functions of the list tangent inside of a loop of which nobody knows the number of steps, or which has them as state.

There is no room for the list of their calls.  Inside, a function is what it captured, as in figure 5, and outside
`Captured` stands for the list: `curry`, which would have used up the calls, finds what they would have given.
"""

from __future__ import annotations

from typing import Any

import jax

from combinators.values import Closure
from tangents.cotangents.calls import Calls, Captured
from tangents.cotangents.leaves import ARRAYS, Primals
from tangents.cotangents.sparse import ZERO, Cotangent, Held, release


def opened(x: Any) -> Any:
    """A primal, in which a function may be marked as a whole, with the marks at its arrays."""
    return ARRAYS.hold_discrete(jax.tree.map(_opened, x, is_leaf=lambda leaf: isinstance(leaf, Held)))


def _opened(leaf: Any) -> Any:
    return ARRAYS.hold(release(leaf.value)) if isinstance(leaf, Held) else leaf


def called(y: Any, listed: Any, space: Primals) -> Any:
    """The result of a loop, active where one of these functions, of the list tangent, may have had a part in it."""
    return space.activate(y) if space.has_functions(listed) else y


def of_captured(g: Cotangent, t: Any, space: Primals, hint: str) -> Cotangent:
    """The cotangent of t, with functions among its leaves, from one in which functions are what they captured.

    A function that captured nothing has been called all the same, and its list is not empty.  `hint` says what to write
    for calls that are a list.
    """
    found = zip(space.gather(g, t), space.leaves(t), strict=True)
    return space.scatter((_listed(c, leaf, hint) for c, leaf in found), t)


def _listed(c: Cotangent, leaf: Any, hint: str) -> Cotangent:
    if isinstance(leaf, Held):
        return ZERO
    return Calls(Captured(ARRAYS.present(c, opened(leaf)), hint)) if isinstance(leaf, Closure) else c
