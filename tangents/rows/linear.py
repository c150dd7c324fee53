"""Rows of linear primitives that move, copy, choose and sum entries: each pullback is the transpose of the operation.

They keep no values, only shapes; `select_n` keeps what it chose by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tangents.rows.kinds import Rule, dense, each, is_complex, knows, linear, number, run


def _reduce_sum(g: Any, y: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    return lax.broadcast_in_dim(g, x.shape, tuple([i for i in range(x.ndim) if i not in axes]))


def _broadcast_in_dim(g: Any, y: Any, x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    size = jnp.shape(x)
    widened = {d for d, n in zip(broadcast_dimensions, size, strict=True) if n != shape[d]}
    added = set(range(len(shape))) - set(broadcast_dimensions)
    summed = tuple(sorted(d for d in widened | added if shape[d] != 1))
    return lax.reshape(lax.reduce_sum(g, summed) if summed else g, size)


def _cumsum(g: Any, y: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    return lax.cumsum(g, axis, not reverse)


def _concatenate(asked: Sequence[int], g: Any, y: Any, *operands: Any, dimension: int) -> list[Any]:
    parts = lax.split(g, [x.shape[dimension] for x in operands], dimension)
    return [parts[i] for i in asked]


def _split(g: Any, y: Any, x: Any, *, sizes: Any, axis: int) -> Any:
    return lax.concatenate([dense(g.part(i), part) for i, part in enumerate(y)], axis)


def _split_push(tangents: Any, y: Any, x: Any, *, sizes: Any, axis: int) -> Any:
    return tuple(lax.split(tangents[0], sizes, axis))


def _slice(g: Any, y: Any, x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    strides = strides or (1,) * x.ndim
    padding = []
    for start, stride, size, n in zip(start_indices, strides, x.shape, g.shape, strict=True):
        covered = start + (n - 1) * stride + 1 if n else start
        padding.append((start, size - covered, stride - 1))
    return lax.pad(g, number(0, g), padding)


def _pad(asked: Sequence[int], g: Any, y: Any, x: Any, value: Any, *, padding_config: Any) -> list[Any]:
    cropped = lax.pad(g, number(0, g), [(-low, -high, 0) for low, high, _ in padding_config])
    strides = [interior + 1 for *_, interior in padding_config]
    inside = cropped if set(strides) <= {1} else lax.slice(cropped, (0,) * g.ndim, cropped.shape, strides)
    sums = lambda v: lax.reduce_sum(v, tuple(range(g.ndim)))
    return [inside if i == 0 else lax.sub(sums(g), sums(inside)) for i in asked]


def _select(asked: Sequence[int], g: Any, y: Any, which: Any, *cases: Any) -> list[Any]:
    zeros = lax.full_like(g, 0)
    return [lax.select_n(which, *(g if k == i - 1 else zeros for k in range(len(cases)))) for i in asked]


def _convert(g: Any, y: Any, x: Any, **_: Any) -> Any:
    return lax.convert_element_type(g if is_complex(x) else _real(g), jnp.result_type(x))


def _real(g: Any) -> Any:
    return lax.real(g) if is_complex(g) else g


def _transpose(g: Any, y: Any, x: Any, *, permutation: Any) -> Any:
    return lax.transpose(g, tuple(int(i) for i in np.argsort(permutation)))


def _like(g: Any, y: Any, x: Any, **_: Any) -> Any:
    return lax.reshape(g, jnp.shape(x))


# Of z = a + ib in the pairing ⟨g, z⟩ = Re(g·z), which is JAX's.
_PARTS = {
    "complex": each(lambda g, y, a, b: lax.real(g), lambda g, y, a, b: lax.neg(lax.imag(g))),
    "real": each(lambda g, y, x: run("complex", g, number(0, g))),
    "imag": each(lambda g, y, x: run("complex", number(0, g), lax.neg(g))),
    "conj": each(lambda g, y, x, **_: lax.conj(g) if is_complex(x) else lax.real(g)),
}

LINEAR: dict[str, Rule] = {
    **{name: linear(name, pull, knows("input_dtype")) for name, pull in _PARTS.items()},
    "broadcast_in_dim": linear(
        "broadcast_in_dim", each(_broadcast_in_dim), knows("shape broadcast_dimensions", sharding=None)
    ),
    "concatenate": linear("concatenate", _concatenate, knows("dimension")),
    "cumsum": linear("cumsum", each(_cumsum), knows("axis reverse")),
    "convert_element_type": linear("convert_element_type", each(_convert), knows("new_dtype weak_type", sharding=None)),
    "pad": linear("pad", _pad, knows("padding_config")),
    "reduce_sum": linear("reduce_sum", each(_reduce_sum), knows("axes", out_sharding=None)),
    "reshape": linear("reshape", each(_like), knows("new_sizes", dimensions=None, sharding=None)),
    "rev": linear("rev", each(lambda g, y, x, *, dimensions: lax.rev(g, dimensions)), knows("dimensions")),
    "slice": linear("slice", each(_slice), knows("start_indices limit_indices strides")),
    "split": Rule("linear", each(_split), _split_push, "nothing", knows("sizes axis"), complex=True),
    "squeeze": linear("squeeze", each(_like), knows("dimensions")),
    "select_n": linear("select_n", _select, keeps="which"),
    "transpose": linear("transpose", each(_transpose), knows("permutation")),
}
