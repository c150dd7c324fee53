"""How large integers may be that Python computes in a trace: they stand for numbers of Python, which have no last one.

An argument that is an int, and not differentiated, is traced as an integer of an array.  What Python's operators make
of it must fit there, too, for every argument that the trace is used for: else the int is part of the code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.extend.core as jex
import numpy as np

type Size = tuple[float, ...]  # the largest absolute value of a number, for inputs below each of the powers of 2

_POWERS = (24, 20, 16, 12, 8, 4, 0)
WIDE = frozenset({int, np.int64, np.uint64})  # which have more room in Python and NumPy than they may have in a trace


class Sizes:
    """The sizes of the integers in a trace with these inputs, which may be those of programs around.

    They `stand` for ints of Python in a derivative, not in a call of `ccc(f)`, where all is traced.
    """

    def __init__(self, values: Sequence[Any], of_outer: Callable[[Any], tuple[Sizes, Size] | None], stand: bool):
        self._values, self._of_outer = values, of_outer
        self._wide = {i: v for i, v in enumerate(values) if type(v) in WIDE} if stand else {}  # by their places
        self._places: dict[Any, int] = {}
        self._computed: dict[Any, Size] = {}  # by variables
        self._fits: list[bool] | None = None  # whether all that was computed does, for each of the powers
        self._outer: set[Sizes] = set()
        self._given: dict[int, Size] = {}  # of the inputs that are values of programs around, by their places

    def begin(self, places: Mapping[Any, int]) -> None:
        """Takes the variables of the inputs with their places."""
        self._places = dict(places)

    def of(self, value: Any) -> Size | None:
        """The size of an integer; None of what is no number of Python's, or of JAX's operations."""
        if isinstance(value, bool | np.bool_ | int | np.integer):
            return (abs(int(value)),) * len(_POWERS)
        variable = getattr(value, "val", None)
        if isinstance(variable, jex.Literal):
            return self.of(variable.val)
        if variable in self._computed:
            return self._computed[variable]
        place = self._places.get(variable)
        if place is not None and place in self._wide:
            return tuple(_bound(self._wide[place], power) for power in _POWERS)
        if place is None or (found := self._of_outer(self._values[place])) is None:
            return None
        self._outer.add(found[0])
        self._given[place] = found[1]
        return found[1]

    def compute(self, name: str, result: Any, operands: list[Any]) -> None:
        """Notes the size of the result of one of Python's operators."""
        sizes = list(map(self.of, operands))
        if result.dtype.kind not in "iu" or result.shape or None in sizes:
            return
        size = tuple(_GROWTH.get(name, max)(*numbers) for numbers in zip(*sizes, strict=True))  # type: ignore[arg-type]
        self._computed[result.val] = size
        self._note([number < 2 ** (8 * result.dtype.itemsize - 1) for number in size])

    def _note(self, fits: list[bool]) -> None:
        self._fits = [a and b for a, b in zip(fits, self._fits or fits, strict=True)]
        for outer in self._outer:
            outer._note(fits)

    def bounds(self) -> dict[int, float] | None:
        """How large the inputs may be, by their places; None if already these are too large."""
        if self._fits is None:
            return {}
        if True not in self._fits:
            return None
        fitting = self._fits.index(True)
        own = {place: _bound(v, _POWERS[fitting]) for place, v in self._wide.items()}
        return {**own, **{place: size[fitting] for place, size in self._given.items()}}

    def places(self) -> set[int]:
        """The places of the inputs that have bounds."""
        return set(self._wide)


def _bound(value: Any, power: int) -> int:
    return max(1 << power, 1 << int(value).bit_length())


def _power(x: float, n: float) -> float:
    return x**n if n < 64 and x < 2**64 else 1 if x <= 1 else math.inf


def _shifted(x: float, n: float) -> float:
    return x * 2**n if n < 64 else 0 if x == 0 else math.inf


_GROWTH: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "pow": _power,
    "lshift": _shifted,
    "invert": lambda x: x + 1,
    "and": lambda x, y: 2 * max(x, y),
    "or": lambda x, y: 2 * max(x, y),
    "xor": lambda x, y: 2 * max(x, y),
    "neg": lambda x: x,
    "pos": lambda x: x,
    "abs": lambda x: x,
    **{"r" + name: (lambda x, y: x + y) for name in ("add", "sub")},
    "rmul": lambda x, y: x * y,
    "rpow": lambda n, x: _power(x, n),
    "rlshift": lambda n, x: _shifted(x, n),
}
