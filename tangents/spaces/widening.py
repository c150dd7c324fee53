"""Representation of what joins results: a value as one of the joined type, and its cotangent back again.

A function that became one of several gets the cotangent of its alternative (`combinators.meaning.joining`).
"""

from __future__ import annotations

from typing import Any

import jax

from combinators.meaning.joining import Leaves, alternatives, places, widen
from combinators.sums import Sum
from combinators.types import LEAF, Type, children
from combinators.values import Closure
from tangents.cotangents.leaves import Primals
from tangents.cotangents.sparse import ZERO, Cotangent, Held, Sparse, release
from tangents.spaces.space import Represented

MARKED = Leaves(new=Held, plain=release)  # of primals
MARKS = Leaves(new=Held, plain=release, renumbered=lambda _, tag: tag)  # of which the marks alone are asked for


def widening(y: Any, type: Type, space: Primals) -> Represented:
    """widen y, and λ g. the cotangent of y in that of the widened value"""
    return widen(y, type, MARKED), lambda g: narrow(g, y, type, space)


def narrow(g: Cotangent, y: Any, type: Type, space: Primals) -> Cotangent:
    """The cotangent of y from that of y as a value of the joined type."""
    if g is ZERO or space.is_leaf(y) or jax.tree.structure(release(y)) == jax.tree.structure(type):
        return g
    if isinstance(y, Closure) and (y.code is not type.code or len(alternatives(y)) > 1):
        functions, where = alternatives(y), places(y, type, release)
        parts = zip(functions, where, strict=True)
        of_sum, wanted = g.part(0), alternatives(type)
        found = [ZERO if of_sum is ZERO else narrow(of_sum.part(i), f, wanted[i], space) for f, i in parts]
        return found[0] if functions[0] is y else Sparse({0: Sparse(enumerate(found))})
    pairs, form = children(y)
    if form == LEAF:
        return g
    if isinstance(y, Closure):
        return narrow(g, y.environment, type.environment, space)
    types = type.alternatives if isinstance(y, Sum) else [t for _, t in children(type)[0]]
    return Sparse((key, narrow(g.part(key), part, t, space)) for (key, part), t in zip(pairs, types, strict=False))
