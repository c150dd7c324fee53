"""Where values stand that move on when something is taken from them: iterators, random numbers, files."""

from __future__ import annotations

import array
import functools
import gc
import io
import itertools
import operator
import random
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from compile_ccc.watching.foreign import is_of_python, slots_of

type Return = Callable[[], bool]  # brings a value back to where it stood, and says whether it stands there

_OF_OTHERS = (zip, map, filter, itertools.chain, itertools.starmap, itertools.compress, itertools.accumulate)
_RANGES = (type(iter(range(1))), type(iter(range(1 << 64))))  # which only go forward
_COUNTED = (itertools.count, itertools.repeat)  # whose text says where they stand


def is_iterator(value: Any) -> bool:
    """Whether a value is an iterator that is not written in Python as a class: its state is no attribute."""
    kind = type(value)
    return isinstance(value, Iterator) and not is_of_python(kind, len(slots_of(kind)))


def standing(value: Any) -> Return | None:
    """How a value is brought back to where it stands now; None of what does not move."""
    match value:
        case np.random.Generator():
            return standing(value.bit_generator)
        case np.random.BitGenerator():
            return _back(functools.partial(setattr, value, "state"), value.state)
        case np.random.RandomState():
            return _back(value.set_state, value.get_state())
        case random.Random() if not isinstance(value, random.SystemRandom):
            return _back(value.setstate, value.getstate())
        case bytearray() | array.array():
            return _back(functools.partial(operator.setitem, value, slice(None)), value[:])
        case io.IOBase():
            with suppress(OSError, ValueError):  # of what has no places, and of what is closed
                return _back(value.seek, value.tell())
            return lambda: False
        case types.GeneratorType():
            return _is_still(functools.partial(_of_generator, value))
        case np.flatiter() | np.broadcast():
            return _is_still(lambda: [str(value.index)])
        case enumerate():
            return _is_still(lambda: [str(value.__reduce__()[1][1])])
        case _ if isinstance(value, _RANGES):
            return _is_still(lambda: [str(value.__reduce__()[1])])
        case _ if isinstance(value, _COUNTED):
            return _is_still(lambda: [repr(value)])
        case _ if isinstance(value, _OF_OTHERS):
            return _is_still(lambda: gc.get_referents(value))
        case _ if not is_iterator(value):
            return None
        case _ if hasattr(value, "__length_hint__"):
            return _by_length(value)
        case _:
            return lambda: False  # it does not tell


def _back(put: Callable[[Any], Any], state: Any) -> Return:
    def back() -> bool:
        put(state)
        return True

    return back


def _is_still(parts: Callable[[], list[Any]]) -> Return:
    """Of what cannot be brought back: whether it stands where it stood."""
    before = parts()
    same = lambda a, b: a is b or (type(a) is str and a == b)
    return lambda: len(now := parts()) == len(before) and all(map(same, now, before))


def _of_generator(generator: types.GeneratorType[Any, Any, Any]) -> list[Any]:
    """The place of a generator in its code, and what it holds, but for what is being handled where it was resumed."""
    frame = generator.gi_frame
    held = [part for part in gc.get_referents(generator) if not isinstance(part, BaseException)]
    return [str(frame and frame.f_lasti), *held]


def _by_length(iterator: Any) -> Return:
    """An iterator over something that is at hand: how much is left says where it stands."""
    left = operator.length_hint(iterator)
    state = iterator.__reduce__()[2:] if hasattr(iterator, "__setstate__") else ()

    def back() -> bool:
        if state and operator.length_hint(iterator) != left:
            iterator.__setstate__(*state)
        return operator.length_hint(iterator) == left

    return back
