"""Pullbacks of linear primitives: each is the transpose of the operation, and keeps no values, only shapes.

`dot_general` and `select_n` are linear in some arguments for fixed others, which are what they keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax


class Variadic(Mapping[int, Callable[..., Any]]):
    """The row of a primitive of any number of arguments: `pullback(i, g, y, *arguments, **params)`."""

    def __init__(self, pullback: Callable[..., Any]):
        self.pullback = pullback

    def __getitem__(self, i: int) -> Callable[..., Any]:
        return lambda g, y, *arguments, **params: self.pullback(i, g, y, *arguments, **params)

    def __iter__(self) -> Iterator[int]:
        raise TypeError("a variadic row has no end")

    def __len__(self) -> int:
        raise TypeError("a variadic row has no length")


def _dot_general(i: int, g: Any, y: Any, a: Any, b: Any, *, dimension_numbers: Any, precision: Any, **_: Any) -> Any:
    """Contracts g with the other argument over that one's kept axes, and puts the axes back in order."""
    contract, batch = dimension_numbers
    x, other, other_i = (a, b, 1) if i == 0 else (b, a, 0)
    kept = [[axis for axis in range(v.ndim) if axis not in (*contract[k], *batch[k])] for k, v in ((0, a), (1, b))]
    n_batch = len(batch[0])
    starts = (n_batch, n_batch + len(kept[0]))
    g_other = tuple(range(starts[other_i], starts[other_i] + len(kept[other_i])))
    dimensions = ((g_other, tuple(kept[other_i])), (tuple(range(n_batch)), tuple(batch[other_i])))
    out = lax.dot_general(g, other, dimensions, precision=precision, preferred_element_type=x.dtype)
    by_other = sorted(range(len(contract[i])), key=lambda k: contract[other_i][k])
    axes = [*batch[i], *kept[i], *(contract[i][k] for k in by_other)]
    return lax.transpose(out, tuple(int(k) for k in np.argsort(axes)))


def _reduce_sum(g: Any, y: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    return lax.broadcast_in_dim(g, x.shape, tuple(i for i in range(x.ndim) if i not in axes))


def _broadcast_in_dim(g: Any, y: Any, x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    size = jnp.shape(x)
    widened = {d for d, n in zip(broadcast_dimensions, size, strict=True) if n != shape[d]}
    added = set(range(len(shape))) - set(broadcast_dimensions)
    return lax.reshape(lax.reduce_sum(g, tuple(sorted(widened | added))), size)


def _concatenate(i: int, g: Any, y: Any, *operands: Any, dimension: int) -> Any:
    start = sum(x.shape[dimension] for x in operands[:i])
    return lax.slice_in_dim(g, start, start + operands[i].shape[dimension], axis=dimension)


def _slice(g: Any, y: Any, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    strides = strides or (1,) * x.ndim
    padding = []
    for start, stride, size, n in zip(start_indices, strides, x.shape, g.shape, strict=True):
        covered = start + (n - 1) * stride + 1 if n else start
        padding.append((start, size - covered, stride - 1))
    return lax.pad(g, np.zeros((), g.dtype), padding)


def _pad_operand(g: Any, y: Any, x: Any, value: Any, *, padding_config: Any) -> Any:
    cropped = lax.pad(g, np.zeros((), g.dtype), [(-low, -high, 0) for low, high, _ in padding_config])
    strides = [interior + 1 for *_, interior in padding_config]
    return lax.slice(cropped, (0,) * g.ndim, cropped.shape, strides)


def _pad_value(g: Any, y: Any, x: Any, value: Any, *, padding_config: Any) -> Any:
    every = tuple(range(g.ndim))
    inside = _pad_operand(g, y, x, value, padding_config=padding_config)
    return lax.sub(lax.reduce_sum(g, every), lax.reduce_sum(inside, every))


def _select(i: int, g: Any, y: Any, which: Any, *cases: Any) -> Any:
    zeros = lax.full_like(g, 0)
    return lax.select_n(which, *(g if k == i - 1 else zeros for k in range(len(cases))))


def _convert(g: Any, y: Any, x: Any, **_: Any) -> Any:
    g = lax.real(g) if jnp.issubdtype(g.dtype, np.complexfloating) else g
    return lax.convert_element_type(g, jnp.result_type(x))


def _transpose(g: Any, y: Any, x: Any, *, permutation: Any) -> Any:
    return lax.transpose(g, tuple(int(i) for i in np.argsort(permutation)))


def _like(g: Any, y: Any, x: Any, **_: Any) -> Any:
    return lax.reshape(g, jnp.shape(x))


LINEAR: dict[str, Any] = {
    "dot_general": Variadic(_dot_general),
    "reduce_sum": (_reduce_sum,),
    "broadcast_in_dim": (_broadcast_in_dim,),
    "concatenate": Variadic(_concatenate),
    "slice": (_slice,),
    "pad": (_pad_operand, _pad_value),
    "select_n": Variadic(_select),
    "convert_element_type": (_convert,),
    "transpose": (_transpose,),
    "reshape": (_like,),
    "squeeze": (_like,),
    "copy": (lambda g, y, x, **_: g,),
}
