"""The real numbers of examples: distinct magnitudes in [0.3, 2.5], off the quarters, where programs have their steps.

So max, abs, relu, floor and sort meet no ties and no kinks, but by chance.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from combinators.types import Tensor
from tangents.strategies.choices import flip, number

_STEP = 0.6180339887498949  # multiples of the golden ratio, modulo 1, are spread as evenly as can be


def _magnitude(k: float) -> float:
    """The k-th magnitude; where that lies at a quarter, another one."""
    found = 0.3 + 2.2 * (_STEP * k % 1)
    return found if abs(4 * found - round(4 * found)) > 0.02 else _magnitude(k + 0.5)


SHORT = tuple(dict.fromkeys(round(_magnitude(k), 3) for k in range(1, 90)))  # these are good to read


class Numbers:
    """The numbers of one example, made for one `draw`: no two of its reals have the same magnitude."""

    def __init__(self, draw: st.DrawFn):
        self._draw = draw
        self._first = number(draw, len(SHORT) - 1)
        self._given = 0

    def real(self) -> float:
        place, self._given = self._first + self._given, self._given + 1
        magnitude = SHORT[place % len(SHORT)] if self._given <= len(SHORT) else _magnitude(self._given)
        return -magnitude if flip(self._draw) else magnitude

    def array(self, type: Tensor) -> Any:
        """An array of this type: reals as above, complex numbers of two, integers from 0 to 3, booleans, keys."""
        size = int(np.prod(type.shape))
        if jnp.issubdtype(type.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(number(self._draw, 3)), type.shape)
        if jnp.issubdtype(type.dtype, np.complexfloating):
            values: list[Any] = [complex(self.real(), self.real()) for _ in range(size)]
        elif jnp.issubdtype(type.dtype, np.inexact):
            values = [self.real() for _ in range(size)]
        elif type.dtype == np.bool_:
            values = [flip(self._draw) for _ in range(size)]
        else:
            values = [number(self._draw, 3) for _ in range(size)]
        return np.asarray(values, type.dtype).reshape(type.shape)
