"""What Python computes of inputs that are not differentiated, beside the trace and with their values.

Python and NumPy have more room for numbers than a trace has, and more digits.  So what operators and methods make of
such inputs is computed by them, too: these are the numbers that Python is told where it asks.  Where the trace would
have others, the inputs are code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import numpy as np

from combinators.identity.identity import key_of
from compile_ccc.asking.numbers import (
    ADDING,
    KEEPING,
    OF_FIRST,
    OF_PYTHON,
    WIDENING,
    Pair,
    as_input,
    computed,
    computing,
    dtype_kind,
    fits,
    has_more_room,
    is_plain,
    narrow,
)
from compile_ccc.asking.tracers import Asking, asked_of


class Number:
    """A number, or an array of numbers, that Python has where the trace has a tracer: an input, or computed of some."""

    __slots__ = ("_pair", "cancels", "checked", "how", "inputs", "operands", "place", "wide")

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
        self.checked = self.cancels = False  # whether it is compared, and as a sum of computed numbers

    @property
    def pair(self) -> Pair:
        """Computed when it is asked for; raises what Python raises."""
        if self._pair is None:
            self._pair = computed(self.how, [number.pair for number in self.operands])
        return self._pair


class Beside:
    """The numbers of a trace with these inputs, some of which `stand` for what Python has.

    Inputs may be tracers of programs around, which have their own.
    """

    def __init__(self, values: Sequence[Any], stand: Callable[[int], bool]):
        self._values, self._stand = values, stand
        self._places: dict[Any, int] = {}
        self._numbers: dict[Any, Number] = {}  # by variables
        self._constants: dict[Any, np.ndarray] = {}  # by where they stand in memory
        self._computed: list[Number] = []  # in order, by whichever trace
        self._told: list[tuple[Number, Callable[[Any], Any], Hashable]] = []
        self.misfits: set[int] = set()  # places of inputs whose numbers the trace cannot have

    def begin(self, places: dict[Any, int]) -> None:
        """Takes the variables of the inputs with their places."""
        self._places = places

    def number(self, value: Any) -> Number | None:
        """The number that Python has in the place of an operand."""
        if not isinstance(value, jax.core.Tracer):
            return Number((value, narrow(value))) if is_plain(value) else None
        variable = getattr(value, "val", None)
        if isinstance(variable, jex.Literal):
            return Number((variable.val, narrow(variable.val)))
        place = self._places.get(variable)
        if variable in self._numbers or place is None:
            return self._numbers.get(variable)
        known = self._values[place]
        own, made = frozenset({(self, place)}), None
        if not isinstance(known, Asking):
            if self._stand(place) and isinstance(known, OF_PYTHON) and type(known) is not bool:
                made = self._numbers[variable] = Number(as_input(known), own, place, wide=has_more_room(known))
        elif (asked := asked_of(known)) is not None and (outer := asked.beside.number(known)) is not None:
            made = self._numbers[variable] = Number(outer.pair, own | outer.inputs, place, _same, (outer,), outer.wide)
            for owner in {owner for owner, _ in outer.inputs}:
                owner._computed.append(made)
        return made

    def constant(self, array: np.ndarray) -> np.ndarray:
        """An array of NumPy as it is now: the program holds a copy of it, as it may be changed before that runs."""
        place = array.__array_interface__["data"], array.shape, array.strides, array.dtype
        held = self._constants.get(place)
        if held is None or not np.array_equal(_bytes(held), _bytes(array)):
            held = self._constants[place] = array.copy()
        return held

    def compute(self, name: str, result: Any, operands: Sequence[Any], keys: Sequence[str] = ()) -> None:
        """Computes the result of an operator or a method, whose last operands have these keywords."""
        numbers = [number for operand in operands if (number := self.number(operand)) is not None]
        inputs = frozenset[tuple[Beside, int]]().union(*(number.inputs for number in numbers))
        if len(numbers) < len(operands) or not inputs:
            return
        made = _made(computing(name, len(operands) - len(keys), tuple(keys)), name, numbers, inputs)
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


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class Evidence:
    """Which numbers Python computed of its inputs, and was told; `possible` if a trace can have them."""

    def __init__(self, leaves: dict[int, Number], steps: list[Number], told: list[Any], possible: bool):
        numbers = {number: i for i, number in enumerate((*leaves.values(), *steps))}
        known = lambda number: (numbers.get(number), None if number in numbers else number.pair)
        self._places, self._possible = list(leaves), possible
        self._steps = [(step.how, list(map(known, step.operands)), step.checked, step.cancels) for step in steps]
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
            same = self._are_same(list(map(as_input, values)))
        except Exception:  # of a path that Python would not have taken
            return False
        self._before = now if same else None
        return same

    def _are_same(self, pairs: list[Pair]) -> bool:
        of = lambda known: known[1] if known[0] is None else pairs[known[0]]
        for how, operands, checked, cancels in self._steps:
            given = list(map(of, operands))
            pairs.append(computed(how, given))
            if checked and not fits(pairs[-1], given, cancels):
                return False
        return all(key_of(how(of(number)[0])) == answer for number, how, answer in self._told)


def _made(how: Any, name: str, numbers: Sequence[Number], inputs: frozenset[Any]) -> Number | None:
    """What is computed of numbers; None if the trace has another number there, or if Python has to raise an error."""
    made = Number(None, inputs, None, how, numbers, any(number.wide for number in numbers))
    try:
        made.wide = made.wide or (name in WIDENING and dtype_kind(numbers[0].pair[0]) in ("i", "u"))
        made.checked = made.wide and not _keeps(name, made)
        made.cancels = name in ADDING and any(number.operands for number in numbers)
        is_right = not made.checked or fits(made.pair, [number.pair for number in numbers], made.cancels)
        return made if is_right else None
    except Exception:
        return None


def _keeps(name: str, made: Number) -> bool:
    """Whether an operator or a method keeps the digits of real numbers in arrays."""
    operands = made.operands[:1] if name in OF_FIRST else made.operands
    whole = any(dtype_kind(number.pair[0]) in ("i", "u") for number in operands)
    return name in KEEPING and not whole and isinstance(made.pair[0], np.ndarray) and dtype_kind(made.pair[0]) in "fc"


def _same(x: Any) -> Any:
    return x
