"""Arguments that are not differentiated: the function has them in their own order, and what it changes is changed.

A trace gives a function copies of the containers in its arguments, made of tracers.  JAX's derivatives hand on the
caller's own objects where they do not differentiate by them; so what is written in a copy is written in the original.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from combinators.depth import one_level
from combinators.errors import UnsupportedError, definition_line
from combinators.types import Opaque
from combinators.values import Closure
from compile_ccc.watching.before import is_shared
from compile_ccc.watching.rebuilt import Copied, changed, held, holding, may_change, put, same, settling

type Order = tuple[tuple[int, tuple[Any, ...]], ...]
type Written = tuple[Any, Any]  # a container, or an array of NumPy, and what it holds from now on


def keys_of(argument: Any) -> tuple[Any, ...]:
    """The keys of the dictionaries in an argument, in their order, which is not in the form of a pytree."""
    return tuple([tuple(node) for node, _ in _pairs((argument,), (argument,)) if _is_sorted(node)])


def order_of(arguments: Sequence[Any]) -> Order:
    """The places of the arguments with dictionaries in them, and the keys of these."""
    found = ((i, keys_of(argument)) for i, argument in enumerate(arguments))
    return tuple([(i, keys) for i, keys in found if keys])


class Handed:
    """The caller's own arguments, and their copies in a trace, which get the order of the originals.

    `reaches` says of an object, or of the memory of an array, whether the function has it without its arguments.
    """

    def __init__(self, own: Sequence[Any], copies: Sequence[Any], reaches: Callable[[Any], bool] = lambda _: False):
        self._copied: list[Copied] = []
        self._arrays: list[tuple[np.ndarray, np.ndarray]] = []
        self._places: list[Any] = []  # what may change, once for each place
        self._captured: list[tuple[Any, Any]] = []  # what of it is captured as well, with what it held
        for original, copy in _pairs(own, copies):
            is_array = isinstance(original, np.ndarray)
            if not is_array and not may_change(original):
                continue
            self._places.append(original)
            if reaches(original):
                self._captured.append((original, original.tobytes() if is_array else held(original)))
            if is_array:
                if type(copy) is type(original) and copy is not original:
                    self._arrays.append((original, copy))
            else:
                if _is_sorted(original):
                    entries = [(key, copy[key]) for key in original]
                    copy.clear()
                    copy.update(entries)
                self._copied.append((original, copy, held(copy)))

    def written(self, settled: Callable[[Any], Any], f: Any) -> list[Written]:
        """What f, which has run, changed in the copies, as `settled` gives it: that is said of a tracer.

        Raises `UnsupportedError` for what has two places, and so had two copies: in the arguments, or captured.
        """
        for original, before in self._captured:
            if not (original.tobytes() == before if isinstance(original, np.ndarray) else same(held(original), before)):
                raise _twice(f, original)
        settle = settling({id(copy): original for original, copy, _ in self._copied}, settled)
        arrays = [(own, copy) for own, copy in self._arrays if own.tobytes() != copy.tobytes()]
        found = changed(self._copied, settle) + arrays
        for original, _ in found:
            places = [other for other in self._places if is_shared(original, other)]
            if len(places) > 1 or any(original is captured for captured, _ in self._captured):
                raise _twice(f, original)
        return found


def _twice(f: Any, value: Any) -> UnsupportedError:
    return UnsupportedError(
        "what a function changes is at two places of its arguments, or both there and captured",
        expected="one place for each object, or for the memory of an array, that is changed",
        got=f"one {type(value).__name__} at several places",
        line=definition_line(f),
        hint="let the function capture it, or give it once",
    )


def write(written: Sequence[Written]) -> Callable[[], object]:
    """Changes what the caller has; gives what takes that back."""
    before = [(original, holding(original)) for original, _ in written]
    for original, new in written:
        put(original, new)
    return partial(write, before)


def _pairs(own: Any, copies: Any) -> Iterator[tuple[Any, Any]]:
    """The nodes of pytrees of one form, and the arrays of NumPy in them, that are objects apart."""
    waiting = list(zip(own, copies, strict=True))
    while waiting:
        original, copy = waiting.pop()
        if original is None or isinstance(original, Opaque | Closure):
            continue
        if isinstance(original, np.ndarray):
            yield original, copy
            continue
        if (inside := one_level(original)) or isinstance(original, list | dict):
            yield original, copy
            if isinstance(original, dict):
                waiting += [(original[key], copy[key]) for key in original]
            else:
                waiting += zip(inside, one_level(copy), strict=True)


def _is_sorted(node: Any) -> bool:
    """Whether JAX sorts the keys of a node."""
    return isinstance(node, dict) and not isinstance(node, OrderedDict)
