"""Reductions by a program on numbers, as programs over arrays.

    reduce f (x1 ... xn)         f x1 x2, f x3 x4, ... and again: a tree, since f is associative by JAX's definition
    reduce_window f x            the windows along one axis after another, each reduced like that

Where JAX has an operation for f, such as a sum, the reduction is that.  On whole numbers all stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from combinators.staging import program
from combinators.types import is_discrete, type_of
from compile_ccc.jaxprs import compat
from compile_ccc.reading.writing import OnArrays, by_entries, written

_REDUCE = {
    "max": (lax.reduce_max, lax.max),
    "min": (lax.reduce_min, lax.min),
    "add": (lax.reduce_sum, lax.add),
    "mul": (lax.reduce_prod, lax.mul),
}
_WINDOWS = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
_REDUCE_WINDOW = {
    "max": (jex.primitives.reduce_window_max_p.bind, lax.max),
    "min": (jex.primitives.reduce_window_min_p.bind, lax.min),
    "add": (jex.primitives.reduce_window_sum_p.bind, lax.add),
}


def inlined(eqn: Any) -> Any:
    """The program that an equation stands for, if it means no more than running that; else None."""
    name = eqn.primitive.name
    if name in compat.CALLS:
        return eqn.params[compat.CALLS[name]]
    match name:
        case "reduce" if not _is_discrete(eqn):
            axes = eqn.params["dimensions"]
            return _written(eqn, _REDUCE, partial(_reduced, axes=axes), axes=axes)
        case "reduce_window" if not _is_discrete(eqn):
            windows = {name: eqn.params[name] for name in _WINDOWS}
            by_windows = partial(_reduced_windows, shape=eqn.outvars[0].aval.shape, **windows)
            return _written(eqn, _REDUCE_WINDOW, by_windows, **windows)
        case "scatter" if eqn.params["update_jaxpr"] is not None and not _is_discrete(eqn):
            return written(eqn)
        case _:
            return None


def _is_discrete(eqn: Any) -> bool:
    return all(is_discrete(type_of(v.aval)) for v in eqn.outvars)


def _written(eqn: Any, known: dict[str, Any], reduced: OnArrays, **params: Any) -> Any:
    """The program of a reduction, f(start, reduce_f(x)) where there is a reduce_f.

    JAX knows f by its name only if it knows the start.
    """
    reducer, types = eqn.params["jaxpr"], [v.aval for v in eqn.invars]
    whole = partial(reduced, jex.jaxpr_as_fun(reducer))
    if len(types) == 2 and (name := only_operation(reducer)) in known:
        operation, combine = known[name]
        whole = lambda x, start: [combine(y := operation(x, **params), lax.broadcast(start, y.shape))]
    return program(whole, types)


def _tree(f: OnArrays, xs: Sequence[Any], there: np.ndarray | None = None) -> list[Any]:
    """Arrays reduced over their first axis, which is not empty: neighbours are joined until one is left.

    Where `there`, of the first axes, is false, nothing is, which is joined with nothing.
    """
    joined = by_entries(f, xs[0].ndim)
    while (n := xs[0].shape[0]) > 1:
        part = lambda start, x, end=n - n % 2: lax.slice_in_dim(x, start, end, 2)
        left, right = [part(0, x) for x in xs], [part(1, x) for x in xs]
        pairs = list(joined(*left, *right))
        if there is not None:
            one, other = there[0 : n - n % 2 : 2], there[1 : n - n % 2 : 2]
            chosen = np.where(one & other, 0, np.where(one, 1, 2)).astype(np.int32)
            shape = pairs[0].shape
            which = lax.broadcast_in_dim(chosen, shape, tuple(range(chosen.ndim)))
            pairs = [lax.select_n(which, *each) for each in zip(pairs, left, right, strict=True)]
            there = np.concatenate([one | other, there[n - n % 2 :]])
        xs = [lax.concatenate([p, x[n - 1 :]], 0) for p, x in zip(pairs, xs, strict=True)] if n % 2 else pairs
    return [lax.squeeze(x, (0,)) for x in xs]


def _from(f: OnArrays, starts: Sequence[Any], ys: Sequence[Any]) -> Sequence[Any]:
    """f(start, y), entry by entry."""
    return by_entries(f, ys[0].ndim)(*(lax.broadcast(s, ys[0].shape) for s in starts), *ys)


def _reduced(f: OnArrays, *operands: Any, axes: Sequence[int]) -> Sequence[Any]:
    xs, starts = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    kept = [i for i in range(xs[0].ndim) if i not in axes]
    size, shape = int(np.prod([xs[0].shape[i] for i in axes])), tuple(xs[0].shape[i] for i in kept)
    if size == 0:
        return [lax.broadcast(s, shape) for s in starts]
    lines = [lax.reshape(lax.transpose(x, (*axes, *kept)), (size, *shape)) for x in xs]
    return _from(f, starts, _tree(f, lines))


def _reduced_windows(f: OnArrays, *operands: Any, shape: tuple[int, ...], **windows: Any) -> Sequence[Any]:
    """Reduction of windows, axis by axis; padding and holes are not there, and where nothing is, the start is."""
    xs, starts = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    if 0 in (*shape, *xs[0].shape):
        return [lax.broadcast(s, shape) for s in starts]
    some = np.ones(shape, bool)
    for axis, n in enumerate(shape):
        places, there = _places(xs[0].shape[axis], n, *(values[axis] for values in windows.values()))
        xs = [jnp.moveaxis(jnp.take(x, places, axis, mode="clip"), (axis, axis + 1), (0, 1)) for x in xs]
        whole = bool(there.all())
        if not whole:
            here = lax.broadcast_in_dim(there, xs[0].shape, (0, 1))
            xs = [lax.select(here, x, lax.broadcast(s, x.shape)) for x, s in zip(xs, starts, strict=True)]
        xs = [jnp.moveaxis(x, 0, axis) for x in _tree(f, xs, None if whole else there)]
        some &= there.any(0).reshape([n if i == axis else 1 for i in range(len(shape))])
    ys = _from(f, starts, xs)
    return ys if some.all() else [lax.select(some, y, lax.broadcast(s, shape)) for y, s in zip(ys, starts, strict=True)]


def _places(size: int, n: int, window: int, stride: int, padding: tuple[int, int], holes: int, dilation: int) -> Any:
    """Along an axis of this size, where the k-th entry of each of n windows is, and whether it is there: k by n."""
    spread = np.arange(window)[:, None] * dilation + np.arange(n) * stride - padding[0]
    places = spread // holes
    return places, (spread % holes == 0) & (places >= 0) & (places < size)


def only_operation(program: Any) -> str:
    """The name of the operation that a program of two numbers is, in whatever order it takes them; else empty."""
    if len(program.eqns) != 1:
        return ""
    (eqn,) = program.eqns
    inputs = [v for v in eqn.invars if not isinstance(v, jex.Literal)]
    whole = len(inputs) == 2 and set(inputs) == set(program.invars) and list(eqn.outvars) == list(program.outvars)
    return eqn.primitive.name if whole else ""
