"""Representation of `fix`: that of the machine over arrays which the recursion is.

In the list tangent, functions inside of the recursion are what they captured, as in a loop whose number of steps
nobody knows: the list of a recursive function holds its outer calls.
"""

from __future__ import annotations

from typing import Any

import jax

from combinators.context import Context
from combinators.meaning.evaluate import evaluate
from combinators.meaning.recursion import machine
from combinators.terms import Fix
from combinators.types import type_of
from tangents.cotangents.sparse import nothing, release
from tangents.operators import between_leaves
from tangents.spaces.functions import require_known
from tangents.spaces.space import Representation, Represented, Space
from tangents.spaces.widening import widening


def recursion(rep: Representation, space: Space, term: Fix, x: Any) -> Represented:
    """fix(f) x = machine x, and so its pullback, in the tangent space of environments."""
    require_known(jax.tree.leaves(release(x)))
    if not space.is_active(x):
        return space.hold(evaluate(term, release(x))), nothing
    f, domain, form = machine(term, type_of(release(x)))
    wide, narrowed = widening(x, domain, space)
    y, pb = between_leaves(rep, space, f, Context(tuple(jax.tree.leaves(wide))), form, wide)
    return y, lambda g: narrowed(pb(g))
