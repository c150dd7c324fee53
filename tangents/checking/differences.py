"""When two values, or two cotangents, are equal: decided per type.

Floats are compared by a tolerance that fits their dtype, integers exactly, and list tangents by the equivalence of
paper 003, section 4.1: two lists of calls are equal if for each argument their cotangents sum to the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from combinators.depth import check_values
from combinators.edges import real
from combinators.sums import Sum
from combinators.types import children
from tangents.cotangents.calls import Calls


def difference(left: Any, right: Any, tolerance: float | None = None) -> str | None:
    """Where two values, or two cotangents, of one type differ, in words, or None."""
    if tolerance is not None:
        real("the tolerance", tolerance, zero=True)
    check_values((left, right))
    a, form = jax.tree.flatten(left, is_leaf=_is_calls)
    b, other = jax.tree.flatten(right, is_leaf=_is_calls)
    if form != other:
        return f"structures {form} and {other}"
    for x, y in zip(a, b, strict=True):
        found = _calls(x, y, tolerance) if isinstance(x, Calls) and isinstance(y, Calls) else _arrays(x, y, tolerance)
        if found:
            return found
    return None


def _is_calls(value: Any) -> bool:
    return isinstance(value, Calls)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Present:
    """A sum by the one alternative that is there."""

    part: Any
    index: int = field(metadata={"static": True})


def settled(value: Any, at: Any) -> Any:
    """A value, or a cotangent of the value `at`, with its sums reduced to the alternative that `at` has.

    The tangent space of a sum value is that of the alternative that is there.  In a program that is being compiled that
    is not known yet: there a sum stays as it is, and what the program gives is settled once more.
    """
    match at:
        case Sum() if isinstance(value, Present):
            return Present(settled(value.part, at.alternatives[value.index]), value.index)
        case Sum() if isinstance(at.tag, jax.core.Tracer):
            return value
        case Sum():
            index = int(at.tag)
            return Present(settled(value.alternatives[index], at.alternatives[index]), index)
        case _ if isinstance(value, Calls) or not any(isinstance(n, Sum) for n in jax.tree.leaves(at, is_leaf=_is_sum)):
            return value
        case _:
            parts, form = children(at)
            pairs = zip(children(value)[0], parts, strict=True)
            return form.unflatten([settled(v, part) for (_, v), (_, part) in pairs])


def unsettled(cotangent: Any, at: Any) -> Any:
    """The cotangent of the value `at` from its settled form: absent alternatives get zeros."""
    match at:
        case Sum():
            parts = [_zeros(a) for a in at.alternatives]
            parts[cotangent.index] = unsettled(cotangent.part, at.alternatives[cotangent.index])
            return Sum(*parts, tag=at.tag)
        case _ if not any(isinstance(n, Sum) for n in jax.tree.leaves(at, is_leaf=_is_sum)):
            return cotangent
        case _:
            parts, form = children(at)
            given = zip(children(cotangent)[0], parts, strict=True)
            return form.unflatten([unsettled(g, part) for (_, g), (_, part) in given])


def _is_sum(value: Any) -> bool:
    return isinstance(value, Sum)


def _zeros(value: Any) -> Any:
    return jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), jnp.result_type(leaf)), value)


def _plain(x: Any) -> np.ndarray:
    """The array, of a random key that of its words."""
    is_key = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.extended)
    return np.asarray(jax.random.key_data(x) if is_key else x)


def _arrays(x: Any, y: Any, tolerance: float | None) -> str | None:
    a, b = map(_plain, (x, y))
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    if not jnp.issubdtype(a.dtype, np.inexact):
        return None if np.array_equal(a, b) else f"{x} and {y}"
    bound = float(jnp.finfo(a.dtype).eps) ** 0.6 if tolerance is None else tolerance
    a, b = (v.astype(np.complex128 if jnp.issubdtype(v.dtype, np.complexfloating) else np.float64) for v in (a, b))
    scale = 1.0 + max(np.max(np.abs(v), initial=0.0, where=np.isfinite(v)) for v in (a, b))
    equal = np.allclose(a, b, rtol=0.0, atol=bound * scale, equal_nan=True)
    return None if equal else f"{x} and {y}"


def _calls(left: Calls, right: Calls, tolerance: float | None) -> str | None:
    """None if, argument by argument, the sums of the cotangents agree."""
    groups: list[tuple[Any, Any, Any]] = []  # argument, sum of the left cotangents, sum of the right
    for side, calls in enumerate((left, right)):
        for x, g in calls:
            place = next((i for i, (y, *_) in enumerate(groups) if difference(x, y, tolerance) is None), len(groups))
            if place == len(groups):
                groups.append((x, None, None))
            old = groups[place]
            summed = g if old[side + 1] is None else _plus(old[side + 1], g)
            groups[place] = (x, summed, old[2]) if side == 0 else (x, old[1], summed)
    for x, g, h in groups:
        found = difference(_zero_of(h) if g is None else g, _zero_of(g) if h is None else h, tolerance)
        if found:
            return f"the calls at {x}: {found}"
    return None


def _plus(g: Any, h: Any) -> Any:
    return jax.tree.map(lambda a, b: a + b, g, h, is_leaf=_is_calls)


def _zero_of(g: Any) -> Any:
    return jax.tree.map(lambda a: Calls() if isinstance(a, Calls) else np.zeros_like(a), g, is_leaf=_is_calls)
