"""Rows of products, linear in each factor: what is kept is the other factor.

A convolution sums lhs·rhs over pairs of places: with stride s, padding (low, high), dilations l of lhs and r of rhs,

    out[p] = Σ lhs[i]·rhs[k]    over    l·i = s·p + r·k − low

Solved for i, and for k, this is a convolution again, with the strides and dilations in other roles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from tangents.rows.kinds import Rule, each, is_complex, knows, linear


def _dot_general(i: int, g: Any, a: Any, b: Any, dimension_numbers: Any, precision: Any, preferred: Any) -> Any:
    """Contracts g with the other argument over that one's kept axes, and puts the axes back in order.

    Sums are taken in the preferred type, as those of the product itself, and rounded to the argument's after that.
    """
    contract, batch = dimension_numbers
    x, other, other_i = (a, b, 1) if i == 0 else (b, a, 0)
    kept = [[axis for axis in range(v.ndim) if axis not in (*contract[k], *batch[k])] for k, v in ((0, a), (1, b))]
    n_batch = len(batch[0])
    starts = (n_batch, n_batch + len(kept[0]))
    g_other = tuple(range(starts[other_i], starts[other_i] + len(kept[other_i])))
    dimensions = ((g_other, tuple(kept[other_i])), (tuple(range(n_batch)), tuple(batch[other_i])))
    out = lax.dot_general(g, other, dimensions, precision=precision, preferred_element_type=preferred or g.dtype)
    out = lax.convert_element_type(out, x.dtype)
    by_other = sorted(range(len(contract[i])), key=lambda k: contract[other_i][k])
    axes = [*batch[i], *kept[i], *(contract[i][k] for k in by_other)]
    return out if axes == sorted(axes) else lax.transpose(out, tuple(int(k) for k in np.argsort(axes)))


def _dot(i: int) -> Any:
    return lambda g, y, a, b, *, dimension_numbers, precision, preferred_element_type, **_: _dot_general(
        i, g, a, b, dimension_numbers, precision, preferred_element_type
    )


def _spread(n: int, dilation: int) -> int:
    """The length of n entries with dilation − 1 holes between neighbours."""
    return (n - 1) * dilation + 1 if n else 0


def _lhs(g: Any, y: Any, lhs: Any, rhs: Any, **p: Any) -> Any:
    """g·rhs over s·p = l·i + r·(n − 1 − k) − ((n − 1)·r − low): rhs reversed, its features exchanged."""
    spec, groups, batches = p["dimension_numbers"], p["feature_group_count"], p["batch_group_count"]
    (out_axis, in_axis, *places), (batch_axis, feature_axis, *spaces) = spec.rhs_spec, spec.lhs_spec
    if 0 in (*g.shape, *lhs.shape, *rhs.shape):
        return lax.full_like(lhs, 0)
    padding = []
    sizes = zip(spaces, places, spec.out_spec[2:], *_strides(p), p["padding"], strict=True)
    for space, place, out, s, l, r, (low, _) in sizes:
        start = (rhs.shape[place] - 1) * r - low
        wide = (lhs.shape[space] - 1) * l + _spread(rhs.shape[place], r)
        padding.append((start, wide - _spread(g.shape[out], s) - start))
    kernel = _regrouped(lax.rev(rhs, places), out_axis, in_axis, max(groups, batches))
    numbers = lax.ConvDimensionNumbers(spec.out_spec, (in_axis, out_axis, *places), spec.lhs_spec)
    window = (p["lhs_dilation"], padding, p["window_strides"], p["rhs_dilation"])
    x = _convolved(g, kernel, lhs.dtype, window, numbers, (max(groups, batches), 1), p["precision"])
    return x if batches == 1 else _regrouped(x, feature_axis, batch_axis, batches)


def _rhs(g: Any, y: Any, lhs: Any, rhs: Any, **p: Any) -> Any:
    """lhs·g over l·i = s·p + r·k − low: the batch is what is contracted; groups of one kind become the other's."""
    spec, groups, batches = p["dimension_numbers"], p["feature_group_count"], p["batch_group_count"]
    if 0 in (*g.shape, *lhs.shape, *rhs.shape):
        return lax.full_like(rhs, 0)
    padding = []
    sizes = zip(spec.lhs_spec[2:], spec.rhs_spec[2:], spec.out_spec[2:], *_strides(p), p["padding"], strict=True)
    for space, place, out, s, l, r, (low, _) in sizes:
        wide = (rhs.shape[place] - 1) * r + _spread(g.shape[out], s)
        padding.append((low, wide - _spread(lhs.shape[space], l) - low))
    exchanged = [(second, first, *rest) for first, second, *rest in spec]
    numbers = lax.ConvDimensionNumbers(exchanged[0], exchanged[2], exchanged[1])
    window = (p["rhs_dilation"], padding, p["lhs_dilation"], p["window_strides"])
    return _convolved(lhs, g, rhs.dtype, window, numbers, (batches, groups), p["precision"])


def _strides(p: Any) -> tuple[Any, ...]:
    return p["window_strides"], p["lhs_dilation"], p["rhs_dilation"]


def _regrouped(x: Any, source: int, target: int, groups: int) -> Any:
    """Moves the groups, which come first along one axis, to the front of another."""
    if groups == 1:
        return x
    shape, order = list(x.shape), list(range(x.ndim))
    shape[source : source + 1] = [groups, x.shape[source] // groups]
    moved = [axis + (axis > source) for axis in order]
    moved[source] = source + 1
    moved.insert(target, source)
    shape_out = [n // groups if a == source else n * groups if a == target else n for a, n in enumerate(x.shape)]
    return lax.reshape(lax.transpose(lax.reshape(x, shape), moved), shape_out)


def _convolved(lhs: Any, rhs: Any, dtype: Any, window: Any, numbers: Any, groups: Any, precision: Any) -> Any:
    """A convolution, in the wider dtype if they differ, of the dtype of the factor that is asked for."""
    wide = np.promote_types(lhs.dtype, rhs.dtype)
    lhs, rhs = (lax.convert_element_type(x, wide) for x in (lhs, rhs))
    strides, padding, of_lhs, of_rhs = window
    y = lax.conv_general_dilated(
        lhs, rhs, strides, padding, of_lhs, of_rhs, numbers, groups[0], groups[1], precision=precision
    )
    return lax.convert_element_type(y, dtype)


def _same_kind(x: Any, wider: Any) -> bool:
    """Whether sums in another type stay real, or complex."""
    return wider is None or np.issubdtype(wider, np.complexfloating) == is_complex(x)


PRODUCTS: dict[str, Rule] = {
    "dot_general": linear(
        "dot_general",
        each(_dot(0), _dot(1)),
        knows("dimension_numbers precision preferred_element_type", out_sharding=None),
        "the other factor",
        jointly=False,
        where=lambda a, b, *, preferred_element_type, **_: _same_kind(a, preferred_element_type),
    ),
    "conv_general_dilated": linear(
        "conv_general_dilated",
        each(_lhs, _rhs),
        knows(
            "window_strides padding lhs_dilation rhs_dilation dimension_numbers feature_group_count batch_group_count"
            " precision preferred_element_type",
            out_sharding=None,
        ),
        "the other factor",
        jointly=False,
        where=lambda a, b, *, preferred_element_type, **_: _same_kind(a, preferred_element_type),
    ),
}
