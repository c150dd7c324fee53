"""Operations on rows that sum over the rows, too: Σ aᵢ · bᵢ as one product, Σ of what is written in one writing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend.core.primitives import reshape_p

from combinators.memo import remembered
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import applied, aval_of
from compile_ccc.jaxprs.recording import record, run, setting
from compile_ccc.reading.reducers import only_operation


@dataclass(frozen=True)
class Joined:
    """Rows that are those of their parts, concatenated along an axis."""

    parts: list[Any]
    axis: int

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(part.size for part in self.parts)

    def whole(self) -> Any:
        """The rows as one array."""
        return jnp.concatenate([whole(part) for part in self.parts], self.axis)


def whole(rows: Any) -> Any:
    """Rows as one array."""
    return rows.whole() if isinstance(rows, Joined) else rows


def summed(rows: Any, dtype: Any) -> Any:
    """The sum of rows."""
    rows = whole(rows)
    return run(_sum(aval_of(rows), dtype, setting()), [rows])[0]


@remembered(entries=1024)
def _sum(type: Any, dtype: Any, _: Any) -> Program:
    return record(lambda rows: jnp.sum(rows, 0, dtype=dtype), type, opened=True)


def masked(rows: Any, valid: Any) -> Any:
    """Rows of which those that are not valid are zero."""
    if isinstance(rows, Joined):
        return Joined([masked(part, valid) for part in rows.parts], rows.axis)
    return jnp.where(jnp.reshape(valid, (-1, *(1,) * (rows.ndim - 1))), rows, jnp.zeros_like(rows))


@dataclass(frozen=True)
class Contraction:
    """`fits(equation, varying)`: for which operands that vary; `run(equation, *operands)`: the sum over the rows.

    Operands that vary are rows of values, and may be `Joined`.
    """

    fits: Callable[[Any, list[bool]], bool]
    run: Callable[..., Any]


def bound(e: Any, operands: Iterable[Any]) -> list[Any]:
    """The results of an equation on other operands."""
    return applied(e.primitive, list(operands), e.params)


def _dot(e: Any, a: Any, b: Any) -> Any:
    """Σ aᵢ · bᵢ; with parts, [a, a'] · b = [a · b, a' · b]: rows that are larger than the product are not copied."""
    (ca, cb), (ba, bb) = e.params["dimension_numbers"]
    free = lambda v, *used: [i for i in range(v.aval.ndim) if not any(i in axes for axes in used)]
    free_a, free_b = free(e.invars[0], ca, ba), free(e.invars[1], cb, bb)
    size = e.outvars[0].aval.size
    if isinstance(a, Joined) and a.axis - 1 in free_a and a.size > size:
        place = len(ba) + free_a.index(a.axis - 1)
        return jnp.concatenate([_dot(e, part, b) for part in a.parts], place)
    if isinstance(b, Joined) and b.axis - 1 in free_b and b.size > size:
        place = len(ba) + len(free_a) + free_b.index(b.axis - 1)
        return jnp.concatenate([_dot(e, a, part) for part in b.parts], place)
    a, b, leading = whole(a), whole(b), tuple(range(len(ca)))
    if tuple(ca) == tuple(cb) == leading and not ba:  # one axis to contract: XLA would transpose for several
        a, b = [_reshaped(x, (math.prod(x.shape[: 1 + len(ca)]), *x.shape[1 + len(ca) :])) for x in (a, b)]
        numbers = (((0,), (0,)), ((), ()))
    else:
        next_to = lambda axes: tuple(axis + 1 for axis in axes)
        numbers = (((0, *next_to(ca)), (0, *next_to(cb))), (next_to(ba), next_to(bb)))
    return applied(e.primitive, (a, b), {**e.params, "dimension_numbers": numbers})[0]


def _reshaped(x: Any, sizes: tuple[int, ...]) -> Any:
    return applied(reshape_p, [x], {"new_sizes": sizes, "dimensions": None, "sharding": None})[0]


def _is_plain_sum(e: Any, varying: list[bool]) -> bool:
    numbers, combine = e.params["dimension_numbers"], e.params["update_jaxpr"]
    plain = not numbers.operand_batching_dims and only_operation(combine) == "add"
    return varying == [False, True, True] and plain


def _scatter_add(e: Any, x: Any, indices: Any, updates: Any) -> Any:
    numbers = e.params["dimension_numbers"]
    numbers = lax.ScatterDimensionNumbers(
        tuple(axis + 1 for axis in numbers.update_window_dims),
        numbers.inserted_window_dims,
        numbers.scatter_dims_to_operand_dims,
    )
    return lax.scatter_add(x, whole(indices), whole(updates), numbers, mode=e.params["mode"])


def _write(e: Any, x: Any, update: Any, *starts: Any) -> Any:
    """Windows that move into the array as a whole, as those of slices do, are added to what is there."""
    update, axes = whole(update), tuple(range(x.ndim))
    indices = jnp.stack([jnp.broadcast_to(jnp.asarray(start), len(update)) for start in starts], -1)
    numbers = lax.ScatterDimensionNumbers(tuple(axis + 1 for axis in axes), (), axes)
    return lax.scatter_add(x, indices, update, numbers, mode=lax.GatherScatterMode.CLIP)


CONTRACTIONS = {
    "dot_general": Contraction(lambda e, varying: all(varying), _dot),
    "scatter-add": Contraction(_is_plain_sum, _scatter_add),
    "dynamic_update_slice": Contraction(lambda e, varying: not varying[0] and varying[1] and any(varying[2:]), _write),
}
