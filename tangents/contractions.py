"""Operations on rows that sum over the rows, too: Σ aᵢ · bᵢ as one product, Σ of what is written in one writing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from compile_ccc.compat import only_operation

type Operand = tuple[Any, bool]  # a value, and whether it is rows of such values


@dataclass(frozen=True)
class Contraction:
    """`fits(equation, varying)`: for which operands that vary; `run(equation, *operands)`: the sum over the rows."""

    fits: Callable[[Any, list[bool]], bool]
    run: Callable[..., Any]


def bound(e: Any, operands: Iterable[Any]) -> list[Any]:
    """The results of an equation on other operands."""
    results = e.primitive.bind(*operands, **e.primitive.get_bind_params(e.params))
    return list(results) if e.primitive.multiple_results else [results]


def _dot(e: Any, a: Operand, b: Operand) -> Any:
    (ca, cb), (ba, bb) = e.params["dimension_numbers"]
    next_to = lambda axes: tuple(axis + 1 for axis in axes)
    numbers = (((0, *next_to(ca)), (0, *next_to(cb))), (next_to(ba), next_to(bb)))
    return e.primitive.bind(a[0], b[0], **{**e.params, "dimension_numbers": numbers})


def _is_plain_sum(e: Any, varying: list[bool]) -> bool:
    numbers, combine = e.params["dimension_numbers"], e.params["update_jaxpr"]
    plain = not numbers.operand_batching_dims and only_operation(combine) == "add"
    return varying == [False, True, True] and plain


def _scatter_add(e: Any, x: Operand, indices: Operand, updates: Operand) -> Any:
    numbers = e.params["dimension_numbers"]
    numbers = lax.ScatterDimensionNumbers(
        tuple(axis + 1 for axis in numbers.update_window_dims),
        numbers.inserted_window_dims,
        numbers.scatter_dims_to_operand_dims,
    )
    return lax.scatter_add(x[0], indices[0], updates[0], numbers, mode=e.params["mode"])


def _write(e: Any, x: Operand, update: Operand, *starts: Operand) -> Any:
    """Windows that move into the array as a whole, as those of slices do, are added to what is there."""
    count, axes = update[0].shape[0], tuple(range(x[0].ndim))
    indices = jnp.stack([jnp.broadcast_to(jnp.asarray(start), count) for start, _ in starts], -1)
    numbers = lax.ScatterDimensionNumbers(tuple(axis + 1 for axis in axes), (), axes)
    return lax.scatter_add(x[0], indices, update[0], numbers, mode=lax.GatherScatterMode.CLIP)


CONTRACTIONS = {
    "dot_general": Contraction(lambda e, varying: all(varying), _dot),
    "scatter-add": Contraction(_is_plain_sum, _scatter_add),
    "dynamic_update_slice": Contraction(lambda e, varying: not varying[0] and varying[1] and any(varying[2:]), _write),
}
