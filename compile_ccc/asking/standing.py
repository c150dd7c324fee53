"""Tracers that stand for what Python has without a trace: numbers, arrays, and what its operators make of these.

Of the results, their class and what only numbers have is not written in a program.  Where Python asks for that, the
inputs behind them become code, unless all are arrays of JAX's.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import numpy as np

from compile_ccc.asking import jax_traces
from compile_ccc.asking.numbers import METHODS, OPERATORS, SIGNED
from compile_ccc.asking.tracers import Asking, Known, asked_of, by_users, is_plain


class KnownArray(Known):
    """A tracer of an input that is an array."""

    __slots__ = ()
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __getattribute__(self, name: str) -> Any:
        if name in _SIZED and not self.aval.shape and by_users():
            _is_told(self)
        if name in _ANSWERED and by_users() and (own := _answer(self, name)) is not None:
            return own
        read = super().__getattribute__
        return _computing(self, name, read) if name in METHODS and by_users() else read(name)

    def __iter__(self) -> Any:
        return _rows(self, super().__iter__)


class KnownScalar(Known):
    """A tracer of an input that is a scalar of NumPy's: it has no length."""

    __slots__ = ()
    __iter__ = __len__ = __contains__ = __reversed__ = None

    def __getattribute__(self, name: str) -> Any:
        if name in _SIZED and by_users() and _is_told(self):
            raise AttributeError(f"a number has no attribute {name!r}")
        if name in _ANSWERED and by_users() and (own := _answer(self, name)) is not None:
            return own
        return super().__getattribute__(name)


class KnownNumber(KnownScalar):
    """A tracer of an input that is a number of Python's: it has no attributes of arrays either."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_ARRAYS and by_users() and is_plain(self):
            raise AttributeError(f"a number has no attribute {name!r}")
        return super().__getattribute__(name)


class Computed(Asking):
    """A tracer of what Python's operators make of such inputs."""

    __slots__ = ()

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        _look(self)
        return type(self)

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_ARRAYS and self.aval.weak_type and not self.aval.shape:
            _look(self)
        if name in _ANSWERED and by_users() and (own := _answer(self, name)) is not None:
            return own
        read = super().__getattribute__
        return _computing(self, name, read) if name in METHODS and by_users() else read(name)

    def __iter__(self) -> Any:
        return _rows(self, super().__iter__)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if not name.startswith("_"):
                _look(self)
            raise


NUMBERS = frozenset({int, float, complex})
_SIZED = frozenset({"__len__", "__iter__", "__contains__", "__reversed__"})
_OF_ARRAYS = _SIZED | {"shape", "dtype", "ndim", "size", "T", "mT", "nbytes", "itemsize", "weak_type"}
_CHANGING = frozenset({"sort", "view"})  # of an array of NumPy's they change or share the memory, of JAX's they do not
_ANSWERED = _CHANGING | {"dtype", "itemsize", "nbytes"}  # and what an array says of its numbers
_PLAIN = (bool, int, float, complex, np.ndarray, np.generic, np.dtype, type, str, slice, tuple, type(None), type(...))


def kind(value: Any) -> type:
    """Which tracer stands for a known input, or for one that is None: not known."""
    own = type(value)
    if own in NUMBERS:
        return KnownNumber
    if issubclass(own, Known):  # of a program around
        return own
    if isinstance(value, np.ndarray | jax.Array):
        return KnownArray if not isinstance(value, jax.core.Tracer) else Known
    return KnownScalar if isinstance(value, np.generic) else Known


def _is_told(tracer: Any) -> bool:
    """Notes that Python is told of an input's class; whether there is one that tells."""
    asked = asked_of(tracer)
    return asked is not None and asked.class_of(tracer) is not None


def _answer(tracer: Any, name: str) -> Any:
    """What NumPy says of the numbers that it has, which may be of 64 bits where the program's are of 32; else None."""
    if name in _CHANGING:
        return _change(tracer)
    asked = asked_of(tracer)
    if asked is None or not asked.differentiates or jax.config.read("jax_enable_x64"):
        return None
    number = asked.beside.number(tracer)
    if number is None or not isinstance(number.pair[0], np.ndarray | np.generic):
        asked.look_at_all()
        return None
    read = operator.attrgetter(name)
    asked.beside.tell(tracer, read, own := read(number.pair[0]))
    return own


def _look(tracer: Any) -> None:
    asked = asked_of(tracer)
    if asked is not None and by_users():
        asked.look(tracer)


def _stands(value: Any) -> bool:
    """Whether a value is one that Python has without a trace, or stands for one."""
    return issubclass(type(value), (*_PLAIN, KnownArray, KnownScalar, Computed))


def _rows(x: Any, otherwise: Callable[[], Any]) -> Any:
    """The rows of an array one by one, as what NumPy computes if it has the array."""
    asked = asked_of(x)
    number = None if asked is None or not x.aval.shape else asked.beside.number(x)
    return otherwise() if number is None or not number.wide else (x[i] for i in range(x.aval.shape[0]))


def _computed(asked: Any, name: str, result: Any, operands: Sequence[Any], keys: Sequence[str] = ()) -> Any:
    """The result of an operator or a method of what stands for inputs."""
    if type(result) is Asking:
        result.__class__ = Computed
        asked.beside.compute(name, result, operands, keys)
    return result


def _computing(x: Any, name: str, read: Callable[[str], Any]) -> Any:
    """An attribute of an array, or a method, whose results stand for what NumPy computes."""
    asked = asked_of(x)
    if asked is None:
        return read(name)
    with asked.tracing(()):
        found = read(name)
    if not callable(found) or isinstance(found, Asking):
        return _computed(asked, name, found, [x])

    @functools.wraps(found)
    def method(*operands: Any, **keywords: Any) -> Any:
        others = [*operands, *keywords.values()]
        with asked.tracing(others):
            result = found(*operands, **keywords)
        return _computed(asked, name, result, (x, *others), tuple(keywords)) if all(map(_stands, others)) else result

    return method


def _operator(name: str) -> Callable[..., Any]:
    of_jax = getattr(jax_traces.Tracer, f"__{name}__")

    def operate(self: Any, *operands: Any) -> Any:
        asked = asked_of(self) if all(map(_stands, operands)) else None
        if asked is None:
            return of_jax(self, *operands)
        with asked.tracing(operands):
            return _computed(asked, name, of_jax(self, *operands), (self, *operands))

    operate.__name__ = f"__{name}__"
    return operate


def _change(x: Any, references: int = 0) -> None:
    """Wants the inputs behind an array of NumPy's, which is to change, as code.

    One that was computed may be another one instead, if nobody has it but who changes it: by so many `references`.
    """
    asked = asked_of(x)
    if asked is None or (number := asked.beside.number(x)) is None:
        return
    if not isinstance(array := number.pair[0], np.ndarray if references else np.ndarray | np.generic):
        return  # another number takes the place of one
    if number.place is not None or array.base is not None or not 0 < references <= _ALONE:
        asked.want(x)
        raise TypeError("a tracer does not change")


def _in_place(name: str) -> Callable[..., Any]:
    """An operator that changes an array of NumPy's, or makes another one where nobody sees the difference."""

    def operate(self: Any, other: Any) -> Any:
        references = sys.getrefcount(self)
        if _stands(other):
            _change(self, references)
        return NotImplemented

    operate.__name__ = f"__i{name}__"
    return operate


class _Counted:
    """What becomes, when it is changed in place, the number of references to it."""

    def __iadd__(self, other: Any) -> Any:
        return sys.getrefcount(self)


def _alone() -> int:
    variable: Any = _Counted()
    variable += 1
    return variable


_ALONE = _alone()  # the references to what one variable has


for _kind in (KnownArray, KnownScalar, Computed):
    for _name in OPERATORS:
        setattr(_kind, f"__{_name}__", _operator(_name))
    _kind.__divmod__ = lambda x, y: (x // y, x % y)
    _kind.__rdivmod__ = lambda x, y: (y // x, y % x)
for _name in SIGNED:
    for _kind in (KnownArray, Computed):
        setattr(_kind, f"__i{_name}__", _in_place(_name))
