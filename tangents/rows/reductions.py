"""Rows of reductions of one array: over axes, and over windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax
from jax.extend.core import primitives

from tangents.rows.kinds import Rule, each, general, knows, linear, number, run


def _back(v: Any, x: Any, axes: Any) -> Any:
    """Broadcasts along the reduced axes of x."""
    return lax.broadcast_in_dim(v, x.shape, tuple(i for i in range(x.ndim) if i not in axes))


def _attained(y: Any, x: Any, axes: Any) -> tuple[Any, Any]:
    """1 at the places of x that attain the extremum y, else 0; and the number of these places."""
    here = lax.convert_element_type(lax.eq(x, _back(y, x, axes)), x.dtype)
    return here, lax.reduce_sum(here, axes)


def _extremum(g: Any, y: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    """Spreads g evenly over the places that attain the extremum."""
    here, count = _attained(y, x, axes)
    return lax.mul(_back(lax.div(g, count), x, axes), here)


def _extremum_push(tangents: Any, y: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    here, count = _attained(y, x, axes)
    return lax.div(lax.reduce_sum(lax.mul(tangents[0], here), axes), count)


def _others(x: Any, axes: Any) -> Any:
    """At each place of x, the product of the other entries reduced with it: those before, times those after."""
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    order = (*kept, *axes)
    size = int(np.prod([x.shape[i] for i in axes]))
    lines = lax.reshape(lax.transpose(x, order), (*(x.shape[i] for i in kept), size))
    config = [(0, 0, 0)] * len(kept)
    before = lax.cumprod(lax.pad(lines, number(1, x), [*config, (1, -1, 0)]), len(kept))
    after = lax.cumprod(lax.pad(lines, number(1, x), [*config, (-1, 1, 0)]), len(kept), reverse=True)
    product = lax.reshape(lax.mul(before, after), tuple(x.shape[i] for i in order))
    return lax.transpose(product, tuple(int(i) for i in np.argsort(order)))


def _product(g: Any, y: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    return lax.mul(_back(g, x, axes), _others(x, axes))


def _product_push(tangents: Any, y: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    return lax.reduce_sum(lax.mul(tangents[0], _others(x, axes)), axes)


_WINDOWS = knows("window_dimensions window_strides padding base_dilation window_dilation")


def _window_sum(g: Any, y: Any, x: Any, **p: Any) -> Any:
    """The sum over the windows that hold a place: g, with holes for the strides, summed over windows again."""
    if 0 in x.shape:
        return lax.full_like(x, 0)
    shape = (p["window_dimensions"], p["window_strides"], p["padding"], p["base_dilation"], p["window_dilation"])
    config = []
    for n, m, k, s, (low, _), b, w in zip(x.shape, g.shape, *shape, strict=True):
        start = (k - 1) * w - low
        spread = (m - 1) * s + 1 if m else 0
        config.append((start, (n - 1) * b + 1 + (k - 1) * w - spread - start, s - 1))
    ones = (1,) * x.ndim
    again = {"window_strides": p["base_dilation"], "base_dilation": ones, "padding": ((0, 0),) * x.ndim}
    return run("reduce_window_sum", lax.pad(g, np.zeros((), g.dtype), config), **{**p, **again})


def _undilated(x: Any, *, base_dilation: Any, window_dilation: Any, **_: Any) -> bool:
    return {*base_dilation, *window_dilation} <= {1}


def _window_extremum(name: str, select: Any) -> Rule:
    """Each window's cotangent goes to the first place that attains its extremum."""

    def pullback(g: Any, y: Any, x: Any, **p: Any) -> Any:
        windows = {key: p[key] for key in ("window_dimensions", "window_strides", "padding")}
        return run("select_and_scatter_add", g, x, select_prim=select, **windows)

    def push(tangents: Any, y: Any, x: Any, **p: Any) -> Any:
        return run("select_and_gather_add", tangents[0], x, select_prim=select, **p)

    return general(each(pullback), push, "the argument", _WINDOWS, where=_undilated)


_AXES = knows("axes", out_sharding=None)

REDUCTIONS: dict[str, Rule] = {
    "reduce_max": general(each(_extremum), _extremum_push, "the argument, the result", _AXES),
    "reduce_min": general(each(_extremum), _extremum_push, "the argument, the result", _AXES),
    "reduce_prod": general(each(_product), _product_push, "the argument", _AXES, complex=True),
    "reduce_window_sum": linear("reduce_window_sum", each(_window_sum), _WINDOWS),
    "reduce_window_max": _window_extremum("reduce_window_max", primitives.ge_p),
    "reduce_window_min": _window_extremum("reduce_window_min", primitives.le_p),
}
