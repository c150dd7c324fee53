"""What Python computes of inputs that are not differentiated, beside the trace and with their values.

Python and NumPy have more room for numbers than a trace has, and more digits.  So what operators and methods make of
such inputs is computed by them, too: these are the numbers that Python is told where it asks.  Where the trace would
have others, the inputs are code.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import numpy as np

from combinators.identity.identity import key_of
from combinators.memo import remembered
from compile_ccc.asking.tracers import Asking

type Pair = tuple[Any, Any]  # a number as Python has it, and as the trace has it

_DIGITS = 2.0**-13  # the relative difference of two numbers that counts as none
_SMALLEST = float(np.finfo(np.float32).tiny)
_WIDE = frozenset({int, float, complex, np.int64, np.uint64, np.float64, np.complex128, np.longdouble})
_SIGNED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
_OTHER = ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert", "getitem", "round")
OPERATORS = (*_SIGNED, *("r" + name for name in _SIGNED), *_OTHER)
_WIDENING = frozenset({"sum", "prod", "cumsum", "cumprod", "trace"})  # by which NumPy makes 64 bits of fewer
_SHAPING = {"T", "mT", "reshape", "transpose", "swapaxes", "flatten", "ravel", "squeeze", "diagonal", "repeat", "copy"}
_PARTS = {"T", "mT", "real", "imag"}  # of arrays, which are no methods
METHODS = (
    _WIDENING
    | _SHAPING
    | _PARTS
    | {"take", "astype", "dot", "clip", "max", "min", "mean", "std", "var"}
    | {
        *("argsort", "argmax", "argmin", "searchsorted", "any", "all", "round", "conj", "conjugate"),
    }
)
_KEEPING = (
    _WIDENING
    | _SHAPING
    | {"getitem", "take", "real", "imag", "dot", "matmul", "rmatmul", "mul", "rmul", "truediv"}
    | {
        *("rtruediv", "neg", "pos", "abs", "max", "min", "mean"),
    }
)  # what keeps the digits of real arrays, of which these are not compared


_OF_FIRST = _SHAPING | _PARTS | {"getitem", "take"}  # whose other operands are places
_NUMBERS = (int, float, complex, np.ndarray, np.number)


class Number:
    """A number, or an array of numbers, that Python has where the trace has a tracer: an input, or computed of some."""

    __slots__ = ("_pair", "checked", "how", "inputs", "operands", "place", "wide")

    def __init__(
        self,
        pair: Pair | None,
        inputs: frozenset[tuple[Beside, int]] = frozenset(),
        place: int | None = None,
        how: Any = None,
        operands: Sequence[Number] = (),
        wide: bool = False,
    ):
        self._pair, self.inputs, self.place, self.how, self.operands = pair, inputs, place, how, operands
        self.wide = wide  # whether it has more room than in the trace
        self.checked = False

    @property
    def pair(self) -> Pair:
        """Computed when it is asked for; raises what Python raises."""
        if self._pair is None:
            self._pair = _computed(self.how, [number.pair for number in self.operands])
        return self._pair


class Beside:
    """The numbers of a trace with these inputs, some of which `stand` for what Python has.

    Inputs may be tracers of programs around, which have their own: `of_outer` gives the number of one.
    """

    def __init__(self, values: Sequence[Any], of_outer: Callable[[Any], Number | None], stand: Callable[[int], bool]):
        self._values, self._of_outer, self._stand = values, of_outer, stand
        self._places: dict[Any, int] = {}
        self._numbers: dict[Any, Number] = {}  # by variables
        self._computed: list[Number] = []  # in order, by whichever trace
        self._told: list[tuple[Number, Callable[[Any], Any], Hashable]] = []
        self.misfits: set[int] = set()  # places of inputs whose numbers the trace cannot have

    def begin(self, places: dict[Any, int]) -> None:
        """Takes the variables of the inputs with their places."""
        self._places = places

    def number(self, value: Any) -> Number | None:
        """The number that Python has in the place of an operand."""
        if not isinstance(value, jax.core.Tracer):
            return Number((value, _narrow(value))) if _is_plain(value) else None
        variable = getattr(value, "val", None)
        if isinstance(variable, jex.Literal):
            return Number((variable.val, _narrow(variable.val)))
        place = self._places.get(variable)
        if variable in self._numbers or place is None:
            return self._numbers.get(variable)
        known = self._values[place]
        own, made = frozenset({(self, place)}), None
        if not isinstance(known, Asking):
            if self._stand(place) and isinstance(known, _NUMBERS) and type(known) is not bool:
                made = self._numbers[variable] = Number(_input(known), own, place, wide=_has_more_room(known))
        elif (outer := self._of_outer(known)) is not None:
            made = self._numbers[variable] = Number(outer.pair, own | outer.inputs, place, _same, (outer,), outer.wide)
            for owner in {owner for owner, _ in outer.inputs}:
                owner._computed.append(made)
        return made

    def compute(self, name: str, result: Any, operands: Sequence[Any], keys: Sequence[str] = ()) -> None:
        """Computes the result of an operator or a method, whose last operands have these keywords."""
        numbers = [number for operand in operands if (number := self.number(operand)) is not None]
        inputs = frozenset[tuple[Beside, int]]().union(*(number.inputs for number in numbers))
        if len(numbers) < len(operands) or not inputs:
            return
        made = _made(_computing(name, len(operands) - len(keys), tuple(keys)), name, numbers, inputs)
        for owner, place in inputs if made is None else ():
            owner.misfits.add(place)
        if made is not None:
            self._numbers[result.val] = made
            for owner in {owner for owner, _ in inputs}:
                owner._computed.append(made)

    def tell(self, tracer: Any, how: Callable[[Any], Any], answer: Any) -> bool:
        """Notes what Python was told of a number that it has; whether it is one."""
        number = self.number(tracer)
        if number is None:
            return False
        for owner in {owner for owner, _ in number.inputs}:
            owner._told.append((number, how, key_of(answer)))
        return True

    def evidence(self) -> Evidence | None:
        """What has to be the same, or near, for other inputs; None if nothing has."""
        if not (self._computed or self._told or self.misfits):
            return None
        needed: set[Number] = {number for number, _, _ in self._told}
        steps: list[Number] = []
        for number in reversed(self._computed):
            if number.checked or number in needed:
                needed.update(number.operands)
                steps.append(number)
        if not (needed or self.misfits):
            return None
        leaves = {n.place: n for n in self._numbers.values() if n.place is not None and n in needed}
        return Evidence(leaves, steps[::-1], self._told, not self.misfits)


class Evidence:
    """Which numbers Python computed of its inputs, and was told; `possible` if a trace can have them."""

    def __init__(self, leaves: dict[int, Number], steps: list[Number], told: list[Any], possible: bool):
        numbers = {number: i for i, number in enumerate((*leaves.values(), *steps))}
        known = lambda number: (numbers.get(number), None if number in numbers else number.pair)
        self._places, self._possible = list(leaves), possible
        self._steps = [(step.how, list(map(known, step.operands)), step.checked) for step in steps]
        self._told = [(known(number), how, answer) for number, how, answer in told]
        self._before: Any = None  # the inputs of the last call, if they are no arrays

    def is_about(self, count: int) -> bool:
        """Whether these are computed of the first so many inputs alone."""
        return all(place < count for place in self._places)

    def holds(self, inputs: Sequence[Any]) -> bool:
        """Whether, for these inputs, the trace has nearly the numbers that Python has, which is told the same."""
        values = [inputs[place] for place in self._places]
        if not self._possible or any(isinstance(value, jax.core.Tracer) for value in values):
            return False
        plain = not any(isinstance(value, np.ndarray | jax.Array) or value == 0 for value in values)
        now = [(type(value), value) for value in values] if plain else None
        if plain and now == self._before:
            return True
        try:
            same = self._are_same(list(map(_input, values)))
        except Exception:  # of a path that Python would not have taken
            return False
        self._before = now if same else None
        return same

    def _are_same(self, pairs: list[Pair]) -> bool:
        of = lambda known: known[1] if known[0] is None else pairs[known[0]]
        for how, operands, checked in self._steps:
            pair = _computed(how, list(map(of, operands)))
            pairs.append(pair)
            if checked and not _is_near(*pair):
                return False
        return all(key_of(how(of(number)[0])) == answer for number, how, answer in self._told)


def _made(how: Any, name: str, numbers: Sequence[Number], inputs: frozenset[Any]) -> Number | None:
    """What is computed of numbers; None if the trace has another number there, or if Python has to raise an error."""
    made = Number(None, inputs, None, how, numbers, any(number.wide for number in numbers))
    try:
        made.wide = made.wide or (name in _WIDENING and _kind(numbers[0].pair[0]) in ("i", "u"))
        made.checked = made.wide and not _keeps(name, made)
        return made if not made.checked or _is_near(*made.pair) else None
    except Exception:
        return None


def _same(x: Any) -> Any:
    return x


def _is_plain(value: Any) -> bool:
    """Whether a constant is no tracer, and holds none."""
    if isinstance(value, tuple | slice):
        return all(map(_is_plain, value if isinstance(value, tuple) else (value.start, value.stop, value.step)))
    return not isinstance(value, jax.core.Tracer | jax.Array | list | dict)


def _has_more_room(value: Any) -> bool:
    return (value.dtype.type if isinstance(value, np.ndarray) else type(value)) in _WIDE


def _kind(value: Any) -> str:
    """The kind of numbers in an array, or a number, of NumPy's; empty for anything else."""
    return value.dtype.kind if isinstance(value, np.ndarray | np.generic) else ""


def _keeps(name: str, made: Number) -> bool:
    """Whether an operator or a method keeps the digits of real numbers in arrays."""
    operands = made.operands[:1] if name in _OF_FIRST else made.operands
    whole = any(_kind(number.pair[0]) in ("i", "u") for number in operands)
    return name in _KEEPING and not whole and isinstance(made.pair[0], np.ndarray) and _kind(made.pair[0]) in "fc"


def _input(value: Any) -> Pair:
    """An input of a trace, which has no literals."""
    if isinstance(value, jax.Array):
        value = np.asarray(value)
    return value, _narrow(np.asarray(value)[()] if isinstance(value, int | float | complex) else value)


def _narrow(value: Any) -> Any:
    """A number or an array with the dtype that JAX gives it; numbers of Python adapt to those of the others."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    dtype = jax.dtypes.canonicalize_dtype(value.dtype)
    return value if dtype == value.dtype else value.astype(dtype)


@remembered(entries=1024)
def _computing(name: str, count: int, keys: tuple[str, ...]) -> Callable[..., Any]:
    """How Python computes the result of an operator, or of a method with so many operands and these keywords."""
    if name not in OPERATORS:
        return operator.attrgetter(name) if name in _PARTS else partial(_method, name, count, keys)
    if name == "round":
        return round
    plain = name if name in _OTHER or name in _SIGNED else name[1:]
    of_two = getattr(operator, plain + "_" if plain in ("and", "or") else plain)
    return of_two if plain == name else lambda x, y: of_two(y, x)


def _method(name: str, count: int, keys: Sequence[str], *operands: Any) -> Any:
    x, *rest = operands[:count]
    return getattr(x, name)(*rest, **dict(zip(keys, operands[count:], strict=True)))


def _computed(how: Callable[..., Any], pairs: Sequence[Pair]) -> Pair:
    with np.errstate(all="ignore"):
        return how(*[exact for exact, _ in pairs]), _narrow(how(*[traced for _, traced in pairs]))


def _is_near(exact: Any, traced: Any) -> bool:
    """Whether the number that the trace has is the one that Python has, up to the digits of the trace."""
    if not isinstance(exact, np.ndarray):
        exact, traced = (v.item() if isinstance(v, np.generic) else v for v in (exact, traced))
        if exact == traced or not isinstance(exact, float | complex):
            return bool(exact == traced)
        lost = 0 < abs(exact) < _SMALLEST or abs(exact - traced) > _DIGITS * abs(exact)
        return not lost and math.isfinite(abs(exact)) == math.isfinite(abs(traced))
    if exact.dtype.kind not in "fc":
        return np.array_equal(exact, traced)
    finite = np.isfinite(exact)
    if not np.array_equal(finite, np.isfinite(traced)):
        return False
    largest = np.abs(exact).max(initial=0.0, where=finite)
    return bool(np.abs(exact - traced).max(initial=0.0, where=finite) <= _DIGITS * largest)
