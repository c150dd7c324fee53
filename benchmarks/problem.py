"""What a benchmark differentiates: a loss, written as any user of jnp would, with parameters and data to run it on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

type Params = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """`loss(params, *data)` is a scalar, and its gradient by `params`, a pytree, is what the benchmark computes.

    If it is `nested`, that is the result of `loss(derivatives, params, *data)`, which takes derivatives itself: those
    of a peer, which are `jvp`, `grad` and `value_and_grad`.
    """

    loss: Callable[..., jax.Array]
    params: Any
    data: tuple[Any, ...] = ()
    nested: bool = False

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self.params, *self.data)

    def cast(self, dtype: DTypeLike) -> Problem:
        """The same problem with its floating-point arrays in another dtype."""
        floating = lambda x: np.issubdtype(x.dtype, np.floating)
        params, data = jax.tree.map(lambda x: x.astype(dtype) if floating(x) else x, (self.params, self.data))
        return replace(self, params=params, data=data)


class Draw:
    """Random arrays in float32 and int32, the same in each process."""

    def __init__(self, seed: int = 0):
        self._random = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        """Independent normal numbers of mean 0 and standard deviation `scale`."""
        return (scale * self._random.standard_normal(shape)).astype(np.float32)

    def weights(self, *shape: int) -> np.ndarray:
        """Normal numbers whose variance is 1 / fan-in: the product of all sizes but the last."""
        return self.normal(*shape, scale=float(np.prod(shape[:-1])) ** -0.5)

    def integers(self, below: int, *shape: int) -> np.ndarray:
        """Independent integers from 0 to below - 1."""
        return self._random.integers(below, size=shape).astype(np.int32)


def zeros(*shape: int) -> np.ndarray:
    """Zeros in float32."""
    return np.zeros(shape, np.float32)


def ones(*shape: int) -> np.ndarray:
    """Ones in float32."""
    return np.ones(shape, np.float32)
