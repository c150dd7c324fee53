"""The transpose of a linear map, by the pullback that it has: of a linear map it is the same at every point.

So what states its pullback alone has forward mode too: the pushforward is the transpose of the pullback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from combinators.context import extend
from combinators.types import type_of
from compile_ccc.tracing.function import seal
from tangents.cotangents.sparse import split
from tangents.spaces.environment import ENVIRONMENT
from tangents.spaces.space import Representation


def transposed(
    rep: Representation, linear: Callable[..., Sequence[Any]], like: Sequence[Any]
) -> Callable[..., tuple[Any, ...]]:
    """linearᵀ, for a linear map from arrays like these to arrays: ⟨linear g, t⟩ = ⟨g, linearᵀ t⟩.

    What is not linear in its arguments but does not depend on them, such as a loop that is run again, may be in it.
    """
    map_of_one = seal(lambda g: tuple(linear(*g)), tuple(map(type_of, like)))
    environment, zeros = ENVIRONMENT.hold(map_of_one.environment), tuple(jnp.zeros(t.shape, t.dtype) for t in like)
    y, pullback = rep(map_of_one.code.body, extend(environment, ENVIRONMENT.activate(zeros)))

    def of(*t: Any) -> tuple[Any, ...]:
        return ENVIRONMENT.dense(split(pullback(ENVIRONMENT.symbolic(t, y)), environment)[1], zeros)

    return of
