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
from tangents.cotangents.sparse import ZERO, Cotangent, Sparse, nothing, release
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
    ctx = Context(tuple(jax.tree.leaves(wide)))
    leaves, pb = rep(f, ctx)
    y = form.unflatten(leaves)

    def pullback(g: Cotangent) -> Cotangent:
        found = space.gather(g, y)
        g_leaves = pb(Sparse((i, c) for i, c in enumerate(found) if c is not ZERO)).part(0)
        return narrowed(space.scatter((g_leaves.part(i) for i in range(len(ctx[0]))), wide))

    return y, pullback if space.is_active(y) else nothing
