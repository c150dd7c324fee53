"""The entries of an array that the index of a ref points to: reading them, writing them, and adding to them.

An index may be an index into what another one gives, so it is a list of steps.  Where an index is out of bounds, what
happens is what JAX does with a ref.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from compile_ccc.jaxprs.compat import Span


class Step(NamedTuple):
    """Where to look in an array: `get(x)`; `set(x, new)` and `add(x, more)` give the array with other entries there."""

    get: Callable[[Any], Any]
    set: Callable[[Any, Any], Any]
    add: Callable[[Any, Any], Any]


def steps(views: Sequence[Sequence[Any]]) -> list[Step]:
    """The steps of an index: each view has a `Span` or an array of integers for each axis of what it looks at."""
    return [step for view in views for step in _steps(view)]


def read(steps: Sequence[Step], x: Any) -> Any:
    """The entries of x."""
    for step in steps:
        x = step.get(x)
    return x


def written(steps: Sequence[Step], x: Any, new: Any) -> Any:
    """x with these new entries."""
    return _changed(steps, x, lambda step, part: step.set(part, new), lambda _: new)


def added(steps: Sequence[Step], x: Any, more: Any) -> Any:
    """x with this added to its entries, to one as often as it is pointed to."""
    return _changed(steps, x, lambda step, part: step.add(part, more), lambda part: part + more)


def _changed(steps: Sequence[Step], x: Any, last: Callable[[Step, Any], Any], whole: Callable[[Any], Any]) -> Any:
    if not steps:
        return whole(x)
    first, *rest = steps
    return first.set(x, _changed(rest, first.get(x), last, whole)) if rest else last(first, x)


def _steps(view: Sequence[Any]) -> list[Step]:
    spans = [i for i in view if isinstance(i, Span)]
    if all(span.stride == 1 for span in spans) and all(isinstance(i, Span) or jnp.ndim(i) == 0 for i in view):
        return [_block(view)]
    found: list[Step] = []
    index: list[Any] = []
    for axis, i in enumerate(view):
        if not isinstance(i, Span):
            index.append(i)
        elif isinstance(i.start, int):
            index.append(slice(i.start, i.start + (i.size - 1) * i.stride + 1, i.stride))
        else:
            found.append(_picked((*[slice(None)] * axis, i.start + jnp.arange(i.size, dtype="int32") * i.stride)))
            index.append(slice(None))
    return [*found, _picked(tuple(index))]


def _block(view: Sequence[Any]) -> Step:
    """A block of entries one beside the other, without the axes of those that are numbers."""
    places = [i.start if isinstance(i, Span) else i for i in view]
    starts = [np.int32(i) if isinstance(i, int | np.integer) else jnp.int32(i) for i in places]
    sizes = [i.size if isinstance(i, Span) else 1 for i in view]
    numbers = [axis for axis, i in enumerate(view) if not isinstance(i, Span)]
    get = lambda x: lax.squeeze(lax.dynamic_slice(x, starts, sizes), numbers)
    put = lambda x, new: lax.dynamic_update_slice(x, lax.expand_dims(new, numbers), starts)
    if not numbers and all(isinstance(i.start, int) and i.start == 0 for i in view):
        whole = lambda f, other: lambda x, *new: other(x, *new) if list(x.shape) == sizes else f(x, *new)
        get, put = whole(get, lambda x: x), whole(put, lambda _, new: new)
    return Step(get, put, lambda x, more: put(x, get(x) + more))


def _picked(index: tuple[Any, ...]) -> Step:
    """Entries as NumPy's index means them."""
    at = lambda x: x.at[index]
    return Step(lambda x: x[index], lambda x, new: at(x).set(new), lambda x, more: at(x).add(more))
