"""Rows of indexing: reading and writing are each other's transpose, and what is kept are the indices.

Reading twice is writing a sum; reading out of bounds is writing nothing, as far as the mode says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from compile_ccc.reading.reducers import only_operation
from tangents.cotangents.sparse import ZERO
from tangents.rows.kinds import NONE, Rule, dense, each, general, knows, linear, run

_IN_BOUNDS = lax.GatherScatterMode.PROMISE_IN_BOUNDS

type Numbers = lax.GatherDimensionNumbers | lax.ScatterDimensionNumbers


def _writing(read: lax.GatherDimensionNumbers) -> lax.ScatterDimensionNumbers:
    return lax.ScatterDimensionNumbers(*_axes(read))


def _reading(write: lax.ScatterDimensionNumbers) -> lax.GatherDimensionNumbers:
    return lax.GatherDimensionNumbers(*_axes(write))


def _axes(numbers: Any) -> tuple[Any, ...]:
    """The axes that both say, in the order in which both say them."""
    read = isinstance(numbers, lax.GatherDimensionNumbers)
    names = (
        ("offset_dims", "collapsed_slice_dims", "start_index_map")
        if read
        else ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
    )
    batching = ("operand_batching_dims", "start_indices_batching_dims" if read else "scatter_indices_batching_dims")
    return tuple(getattr(numbers, name) for name in (*names, *batching))


def _gather(g: Any, y: Any, x: Any, indices: Any, *, dimension_numbers: Any, mode: Any, **p: Any) -> Any:
    written = {key: p[key] for key in ("indices_are_sorted", "unique_indices")}
    return lax.scatter_add(lax.full_like(x, 0), indices, g, _writing(dimension_numbers), mode=mode, **written)


def _updates(g: Any, y: Any, x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, mode: Any, **p: Any) -> Any:
    numbers, windows = dimension_numbers, iter(dimension_numbers.update_window_dims)
    single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = tuple(1 if axis in single else updates.shape[next(windows)] for axis in range(x.ndim))
    read = {key: p[key] for key in ("indices_are_sorted", "unique_indices")}
    return lax.gather(g, indices, _reading(numbers), sizes, mode=mode, fill_value=0, **read)


def _overwritten(g: Any, y: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    return run("scatter", g, indices, lax.full_like(updates, 0), **params)


def _written_once(x: Any, indices: Any, updates: Any, *, unique_indices: bool, **_: Any) -> bool:
    """Which of several writes to one place stays is for the backend to say."""
    return unique_indices or np.prod(indices.shape[:-1]) == 1


def _by_index(*_: Any, mode: Any, **__: Any) -> bool:
    """Whether reading is told as reading at an index, for which there is writing, rather than by a product."""
    return mode in (lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP, _IN_BOUNDS)


def _dynamic_slice(g: Any, y: Any, x: Any, *starts: Any, **_: Any) -> Any:
    return run("dynamic_update_slice", lax.full_like(x, 0), g, *starts)


def _erased(g: Any, y: Any, x: Any, update: Any, *starts: Any) -> Any:
    return run("dynamic_update_slice", g, lax.full_like(update, 0), *starts)


def _window(g: Any, y: Any, x: Any, update: Any, *starts: Any) -> Any:
    return run("dynamic_slice", g, *starts, slice_sizes=update.shape)


def _entries(x: Any, axis: int) -> dict[str, Any]:
    """How to read, for every line of x along an axis, entries of that line at indices of their own."""
    others = tuple(i for i in range(x.ndim) if i != axis)
    numbers = lax.GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return {"dimension_numbers": numbers, "indices_are_sorted": False, "unique_indices": True}


def _top_k(g: Any, y: Any, x: Any, *, axis: int, **_: Any) -> Any:
    places, mode = lax.expand_dims(y[1], (x.ndim,)), _IN_BOUNDS
    return _gather(dense(g.part(0), y[0]), y, x, places, mode=mode, **_entries(x, axis))


def _top_k_push(tangents: Any, y: Any, x: Any, *, axis: int, **_: Any) -> Any:
    places, mode = lax.expand_dims(y[1], (x.ndim,)), _IN_BOUNDS
    return lax.gather(tangents[0], places, slice_sizes=(1,) * x.ndim, mode=mode, **_entries(x, axis)), ZERO


_PLACES = knows("dimension_numbers indices_are_sorted unique_indices mode")

INDEXING: dict[str, Rule] = {
    "dynamic_slice": linear("dynamic_slice", each(_dynamic_slice), knows("slice_sizes"), "the starts"),
    "dynamic_update_slice": linear("dynamic_update_slice", each(_erased, _window), NONE, "the starts"),
    "gather": linear(
        "gather", each(_gather), _PLACES | knows("slice_sizes fill_value"), "the indices", where=_by_index, fill_value=0
    ),
    "scatter-add": linear(
        "scatter-add",
        each(lambda g, *_, **__: g, None, _updates),
        _PLACES | knows("update_jaxpr", update_consts=()),
        "the indices",
        where=lambda *_, update_jaxpr, **__: only_operation(update_jaxpr) == "add",
    ),
    "scatter": linear(
        "scatter",
        each(_overwritten, None, _updates),
        _PLACES | knows(update_jaxpr=None, update_consts=()),
        "the indices",
        where=_written_once,
    ),
    "top_k": general(each(_top_k), _top_k_push, "the result", knows("k axis is_stable")),
}
