"""How large integers may be that Python and NumPy compute in a trace, where they have more room than a trace has.

An argument that is an int, or an array of NumPy's of such, and not differentiated, is traced as an array of JAX's.
What operators and methods make of it must fit there, too, for every argument that the trace is used for: else it is
part of the code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.extend.core as jex
import numpy as np

type Size = tuple[float, ...]  # the largest absolute value of a number, for inputs below each of the powers of 2

_POWERS = (24, 20, 16, 12, 8, 4, 0)
_WIDE = frozenset({int, np.int64, np.uint64})  # which have more room in Python and NumPy than they may have in a trace


def largest(value: Any) -> int:
    """The largest absolute value in an integer of Python's, or integers of NumPy's; 0 of anything else."""
    if type(value) in _WIDE:
        return abs(int(value))
    if type(value) is not np.ndarray or value.dtype.kind not in "iu" or not value.size:
        return 0
    return max(abs(int(value.min())), abs(int(value.max())))


def _has_more_room(value: Any, name: str) -> bool:
    """Whether what an operator or a method makes of this value has more room outside of a trace than in it."""
    array = type(value) is np.ndarray and value.dtype.kind in "iu"
    return type(value) in _WIDE or (array and (value.dtype.type in _WIDE or name in _WIDENING))


class Sizes:
    """The sizes of the integers in a trace with these inputs, which may be those of programs around.

    They `stand` for ints of Python in a derivative, not in a call of `ccc(f)`, where all is traced.
    """

    def __init__(self, values: Sequence[Any], of_outer: Callable[[Any], tuple[Sizes, Size] | None], stand: bool):
        self._values, self._of_outer = values, of_outer
        self._stand = stand
        self._own: dict[int, int] = {}  # how large those inputs are that took part, by their places
        self._places: dict[Any, int] = {}
        self._computed: dict[Any, Size] = {}  # by variables
        self._fits: list[bool] | None = None  # whether all that was computed does, for each of the powers
        self._outer: set[Sizes] = set()
        self._given: dict[int, Size] = {}  # of the inputs that are values of programs around, by their places

    def begin(self, places: Mapping[Any, int]) -> None:
        """Takes the variables of the inputs with their places."""
        self._places = dict(places)

    def of(self, value: Any, name: str = "") -> Size | None:
        """The size of an integer; None of what is no number of Python's, or of JAX's operations."""
        if isinstance(value, bool | np.bool_ | int | np.integer):
            return (abs(int(value)),) * len(_POWERS)
        variable = getattr(value, "val", None)
        if isinstance(variable, jex.Literal):
            return self.of(variable.val)
        if variable in self._computed:
            return self._computed[variable]
        place = self._places.get(variable)
        if place is None:
            return None
        if self._stand and place not in self._own and _has_more_room(self._values[place], name):
            self._own[place] = largest(self._values[place])
        if place in self._own:
            return tuple(_bound(self._own[place], power) for power in _POWERS)
        if (found := self._of_outer(self._values[place])) is None:
            return None
        self._outer.add(found[0])
        self._given[place] = found[1]
        return found[1]

    def compute(self, name: str, result: Any, operands: Sequence[Any]) -> None:
        """Notes the size of the result of an operator or a method; of what is no integer, that the operands fit."""
        numbers = operands[:1] if name in _OF_FIRST else operands
        sizes = [size for size in (self.of(number, name) for number in numbers) if size is not None]
        if len(sizes) < len(numbers):
            return
        whole, terms = result.dtype.kind in "iu", _terms(name, operands[0], result)
        grow = _GROWTH.get(name, lambda *sizes: max(sizes))
        size = tuple(_times(name, grow(*each), terms) if whole else max(each) for each in zip(*sizes, strict=True))
        if whole:
            self._computed[result.val] = size
        unsigned = result.dtype.kind == "u" and name in _BELOW_ZERO
        room = 2 ** (8 * (result if whole else operands[0]).dtype.itemsize - 1)
        self._note([number < room and not unsigned for number in size])

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
        own = {place: _bound(size, _POWERS[fitting]) for place, size in self._own.items()}
        return {**own, **{place: size[fitting] for place, size in self._given.items()}}

    def places(self) -> set[int]:
        """The places of the inputs that have bounds."""
        return set(self._own)


def _bound(size: int, power: int) -> int:
    return max(1 << power, 1 << size.bit_length())


_SHAPING = {"T", "mT", "reshape", "transpose", "swapaxes", "flatten", "ravel", "squeeze", "diagonal", "repeat", "copy"}
_REDUCING = {"sum", "prod", "cumsum", "cumprod", "trace", "max", "min", "mean", "std", "var"}
_OF_FIRST = frozenset({"getitem", "take", "astype"} | _SHAPING | _REDUCING)  # the others are no numbers, or places
METHODS = _OF_FIRST - {"getitem"} | {"dot", "clip"}  # of arrays, what is computed by them
_WIDENING = frozenset({"sum", "prod", "cumsum", "cumprod", "trace"})  # by which NumPy makes 64 bits of fewer
_PRODUCTS = frozenset({"prod", "cumprod"})
_BELOW_ZERO = frozenset({"sub", "rsub", "neg", "invert"})


def _terms(name: str, x: Any, result: Any) -> int:
    """How many numbers each number of the result is the sum or the product of."""
    match name:
        case "sum" | "prod":
            return max(1, x.size // max(1, result.size))
        case "cumsum" | "cumprod" | "trace":
            return max(1, x.size)
        case "matmul" | "rmatmul" | "dot":
            return x.shape[max(0, x.ndim - 2) if name == "rmatmul" else -1]
        case _:
            return 1


def _times(name: str, size: float, terms: int) -> float:
    return _power(size, terms) if name in _PRODUCTS else size * terms


def _power(x: float, n: float) -> float:
    return x**n if n < 64 and x < 2**64 else 1 if x <= 1 else math.inf


def _shifted(x: float, n: float) -> float:
    return x * 2**n if n < 64 else 0 if x == 0 else math.inf


_GROWTH: dict[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "matmul": lambda x, y: x * y,
    "dot": lambda x, y: x * y,
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
    "rmatmul": lambda x, y: x * y,
    "rpow": lambda n, x: _power(x, n),
    "rlshift": lambda n, x: _shifted(x, n),
}
