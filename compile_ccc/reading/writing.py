"""Writing into an array by a program on numbers, as `x.at[i].apply(f)` does, as a program over arrays.

scatter f x at i             x at i := f (x at i), where no place is written twice; else for one i after another
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from combinators.errors import ArgumentError, user_line
from combinators.staging import program
from combinators.types import type_of
from compile_ccc.jaxprs import compat

type OnArrays = Callable[..., Sequence[Any]]


def written(eqn: Any) -> Any:
    """The program of a `scatter` equation that holds a program.

    Raises `ArgumentError` if that gives another type than that of the entries that it is applied to.
    """
    (entry, _), (result,) = eqn.params["update_jaxpr"].in_avals, eqn.params["update_jaxpr"].out_avals
    if type_of(result) != type_of(entry):
        raise ArgumentError(
            "a function that is applied to entries of an array gives something else",
            expected=type_of(entry),
            got=type_of(result),
            line=user_line(compat.frames(eqn.source_info)),
            hint="an array has entries of one type: convert the result, or the array before",
        )
    return program(_scattered(**eqn.params), [v.aval for v in eqn.invars])


def is_known(value: Any) -> bool:
    """Whether a captured value is one that functions of numbers may hold."""
    numbers = isinstance(value, float | complex | np.generic | np.ndarray | jax.Array)
    return numbers and not isinstance(value, jax.core.Tracer) and not _is_key(value)


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.extended)


def as_number(value: Any) -> Any:
    """A value as code; an array of rank 0 as the number that it is, which functions of numbers may hold."""
    return np.asarray(value)[()] if is_known(value) and isinstance(value, jax.Array) and value.ndim == 0 else value


def by_entries(f: OnArrays, rank: int) -> OnArrays:
    """A function of numbers, of arrays of this rank entry by entry."""
    for _ in range(rank):
        f = jax.vmap(f)
    return f


def _scattered(
    *, update_jaxpr: Any, update_consts: Any, dimension_numbers: Any, indices_are_sorted: bool, unique_indices: bool,
    mode: Any,
) -> OnArrays:  # fmt: skip
    """Writing f(x at i, update), f applied again for each time that a place is pointed to."""
    f, how = jex.jaxpr_as_fun(update_jaxpr), dict[str, Any](indices_are_sorted=indices_are_sorted, mode=mode)

    def once(x: Any, indices: Any, updates: Any, numbers: Any) -> Any:
        """Where no place is pointed to twice.  What is read out of bounds, as 1, is not written."""
        read, sizes = _reading(numbers, x.ndim, updates.shape)
        there = lax.gather(x, indices, read, sizes, unique_indices=True, fill_value=1, **how)
        (written,) = by_entries(f, updates.ndim)(there, updates)
        return lax.scatter(x, indices, written, numbers, unique_indices=True, **how)

    def in_turn(x: Any, indices: Any, updates: Any) -> Any:
        numbers, indices, updates = _by_turns(dimension_numbers, indices, updates)
        step = lambda x, turn: (once(x, turn[0], turn[1], numbers), None)
        return lax.scan(step, x, (indices, updates))[0]

    def scattered(x: Any, indices: Any, updates: Any) -> Sequence[Any]:
        apart = lambda x: once(x, indices, updates, dimension_numbers)
        if unique_indices or np.prod(indices.shape[:-1]) <= 1 or updates.size == 0:
            return [apart(x)]
        ones = lax.full(updates.shape, 1, np.int32)
        times = lax.scatter_add(lax.full(x.shape, 0, np.int32), indices, ones, dimension_numbers, **how)
        repeated = lax.reduce_max(times, tuple(range(x.ndim))) > 1
        return [lax.cond(repeated, lambda x: in_turn(x, indices, updates), apart, x)]

    return scattered


def _reading(numbers: Any, rank: int, updates: Sequence[int]) -> tuple[lax.GatherDimensionNumbers, tuple[int, ...]]:
    """How to read what is written like that, and the sizes of the windows."""
    single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    windows = iter(numbers.update_window_dims)
    sizes = tuple(1 if axis in single else updates[next(windows)] for axis in range(rank))
    read = lax.GatherDimensionNumbers(
        offset_dims=numbers.update_window_dims,
        collapsed_slice_dims=numbers.inserted_window_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims,
        operand_batching_dims=numbers.operand_batching_dims,
        start_indices_batching_dims=numbers.scatter_indices_batching_dims,
    )
    return read, sizes


def _by_turns(numbers: Any, indices: Any, updates: Any) -> tuple[Any, Any, Any]:
    """How to write at one index, and the indices and updates one after another; batch axes stay within each turn."""
    lead = [axis for axis in range(updates.ndim) if axis not in numbers.update_window_dims]
    batch = sorted(numbers.scatter_indices_batching_dims)
    own = [i for i in range(indices.ndim - 1) if i not in batch]
    turns = int(np.prod([indices.shape[i] for i in own]))
    indices = lax.transpose(indices, (*own, *batch, indices.ndim - 1))
    rest = [axis for axis in range(updates.ndim) if axis not in [lead[i] for i in own]]
    updates = lax.transpose(updates, (*(lead[i] for i in own), *rest))
    single = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(rest.index(axis) for axis in numbers.update_window_dims),
        inserted_window_dims=numbers.inserted_window_dims,
        scatter_dims_to_operand_dims=numbers.scatter_dims_to_operand_dims,
        operand_batching_dims=numbers.operand_batching_dims,
        scatter_indices_batching_dims=tuple(batch.index(i) for i in numbers.scatter_indices_batching_dims),
    )
    flat = lambda v: lax.reshape(v, (turns, *v.shape[len(own) :]))
    return single, flat(indices), flat(updates)
