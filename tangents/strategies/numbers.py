"""The real numbers of examples: distinct magnitudes in [0.3, 2.5], so that max, abs and relu meet no ties or kinks."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from combinators.types import Tensor
from tangents.strategies.choices import flip, number

_STEP = 0.6180339887  # multiples of the golden ratio, modulo 1, are spread as evenly as can be
MAGNITUDES = tuple(round(0.3 + 2.2 * (_STEP * k % 1), 3) for k in range(1, 90))


class Numbers:
    """The numbers of one example, made for one `draw`: no two of its reals have the same magnitude (up to 89)."""

    def __init__(self, draw: st.DrawFn):
        self._draw = draw
        self._place = number(draw, len(MAGNITUDES) - 1)

    def real(self) -> float:
        magnitude = MAGNITUDES[self._place]
        self._place = (self._place + 1) % len(MAGNITUDES)
        return -magnitude if flip(self._draw) else magnitude

    def array(self, type: Tensor) -> Any:
        """A NumPy array of this type: reals as above, integers from 0 to 3, booleans."""
        size = int(np.prod(type.shape))
        if jnp.issubdtype(type.dtype, np.inexact):
            values: list[Any] = [self.real() for _ in range(size)]
        elif type.dtype == np.bool_:
            values = [flip(self._draw) for _ in range(size)]
        else:
            values = [number(self._draw, 3) for _ in range(size)]
        return np.asarray(values, type.dtype).reshape(type.shape)
