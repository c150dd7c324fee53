"""Tracers of a trace with known inputs: what Python may ask of them, and look at, is answered by `asking`.

What is not differentiated stays what it is: of an input, `isinstance`, its attributes and its text are those of the
value, for all code but JAX's and ours.
"""

from __future__ import annotations

import functools
import operator
import os
import sys
import sysconfig
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from combinators.errors import is_users
from combinators.memo import remembered
from compile_ccc.asking import jax_traces
from compile_ccc.asking.working_out import Unknown


class Way(Protocol):
    """One way through a program, of which a trace under `jax.disable_jit` writes down what is on it.

    `asked` answers for this trace; those of programs within it have all branches.
    """

    asked: Any

    def begin(self, trace: Any, asked: Any) -> None:
        """A trace begins, for which this answers: that of the way, which may begin once more, or one within it."""

    def branch(self, call: Any, count: int) -> int:
        """Which branch runs of so many: `call` is JAX's call that chooses, by its frame."""
        ...

    def operation(self) -> None:
        """Counts an operation on the way."""


ways: ContextVar[Way | None] = ContextVar("the way that is traced", default=None)
running: dict[int, Any] = {}  # what answers, an `Asked`, by the trace of JAX's, which it holds


_order: ContextVar[int] = ContextVar("how many derivatives are taken of what is traced", default=1)


times_derived = _order.get


class derived:
    """Inside of the `with`, one operation takes so many derivatives of what is traced."""

    def __init__(self, times: int):
        self._times = times

    def __enter__(self) -> None:
        self._token = _order.set(self._times)

    def __exit__(self, *error: Any) -> None:
        _order.reset(self._token)


class Asking(jax_traces.Tracer):
    """A tracer of a trace with known inputs: Python may ask it for its value."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self._told(bool, super().__bool__)

    def __int__(self) -> int:
        return self._told(int, super().__int__)

    def __index__(self) -> int:
        return self._told(operator.index, super().__index__)

    def __float__(self) -> float:
        return self._told(float, super().__float__)

    def __complex__(self) -> complex:
        return self._told(complex, super().__complex__)

    def __array__(self, *arguments: Any, **keywords: Any) -> Any:
        whole = self._told(np.asarray, lambda: super(Asking, self).__array__(*arguments, **keywords))
        return np.array(whole, *arguments, **keywords)

    def __format__(self, spec: str) -> str:
        return self._told(lambda value: format(value, spec), lambda: super(Asking, self).__format__(spec))

    def __str__(self) -> str:
        return self._text(str, super().__repr__)

    def __repr__(self) -> str:
        return self._text(repr, super().__repr__)

    def tolist(self) -> Any:
        return self._told(lambda value: np.asarray(value).tolist(), super().tolist)

    def argsort(self, *arguments: Any, stable: bool | None = None, **keywords: Any) -> Any:
        """NumPy says None where any order of equal entries will do, which XLA does not take."""
        return jnp.argsort(self, *arguments, stable=stable is not False, **keywords)

    def __hash__(self) -> int:
        """Wants the inputs behind it as code: what is kept by its hash must not be a part of a trace."""
        if (asked := asked_of(self)) is not None:
            asked.want(self)
        raise TypeError(f"unhashable type: {type(self).__name__!r}")

    def to_concrete_value(self) -> Any:
        way = ways.get()
        asks = way is not None and way.asked is asked_of(self) and jax_traces.choice() is not None
        return self._told(np.asarray, lambda: None) if asks or jax_traces.needs_value(self) else None

    def _text(self, how: Callable[[Any], str], otherwise: Callable[[], str]) -> str:
        """The text of what is not differentiated."""
        asked = asked_of(self)
        if asked is None or not by_users() or asked.is_varied(self):
            return otherwise()
        return self._told(functools.partial(_text_of, how, self.weak_type), otherwise)

    def _told(self, how: Callable[[Any], Any], otherwise: Callable[[], Any]) -> Any:
        asked, way = asked_of(self), ways.get()
        if way is not None and way.asked is asked and (choice := jax_traces.choice()) is not None:
            return how(way.branch(*choice)) if choice[1] else otherwise()
        if asked is None:
            return otherwise()
        try:
            value = asked.value(self)
        except Unknown:
            return otherwise()
        answer = how(value)
        asked.tell([self], how, answer)
        return answer


class Known(Asking):
    """A tracer of an input that is known: it says that it is what that is."""

    __slots__ = ()

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        whose = _whose(sys._getframe(1).f_code.co_filename)  # pyright: ignore[reportPrivateUsage]
        asked = asked_of(self) if whose or (whose is None and by_users()) else None
        return type(self) if asked is None else asked.class_of(self)

    def __getattr__(self, name: str) -> Any:
        """Wants the input as code if that has an attribute which an array has not."""
        asked = None if name.startswith("_") or not by_users() else asked_of(self)
        if asked is not None and is_plain(self) and not asked.has_attribute(self, name):
            raise AttributeError(f"a number has no attribute {name!r}")
        try:
            return super().__getattr__(name)
        except AttributeError:
            if asked is not None and asked.has_attribute(self, name):
                asked.want(self)
            raise


_NUMBERS = (int, float, complex)


def is_plain(tracer: Any) -> bool:
    """Whether an input is to be a number of Python's in all: not where all is traced, as in a call of `ccc(f)`."""
    asked = asked_of(tracer)
    return asked is not None and asked.differentiates and asked.class_of(tracer) in _NUMBERS


def class_of(value: Any) -> type:
    """What Python is told that a value is, which may be an input of a trace."""
    asked = asked_of(value) if issubclass(type(value), Known) else None
    return type(value) if asked is None else asked.class_of(value)


def _text_of(how: Callable[[Any], str], weak: bool, value: Any) -> str:
    return how(value.item() if weak and isinstance(value, jax.Array) and not value.shape else value)


_STANDARD, _NUMPY = sysconfig.get_path("stdlib"), os.path.dirname(np.__file__)
_TRACERS = tuple(os.path.join(os.path.dirname(__file__), name) for name in ("tracers.py", "standing.py"))
_PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


def by_users() -> bool:
    """Whether a tracer is looked at by a user's code or a package's, by way of Python's and NumPy's or not."""
    frame: Any = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        whose = _whose(frame.f_code.co_filename)
        if whose is not None:
            return whose
        frame = frame.f_back
    return False


@remembered(entries=4096)
def _whose(file_name: str) -> bool | None:
    """Whether a file is a user's or a package's, rather than JAX's or ours; None if it is Python's or NumPy's."""
    of_python = file_name.startswith(("<frozen", _STANDARD)) and not file_name.startswith(_PACKAGES)
    return None if of_python or file_name in _TRACERS or file_name.startswith(_NUMPY) else is_users(file_name)


class Traced(jax_traces.Tracing):
    """A trace whose values can be asked for."""

    __slots__ = ()

    def var_to_tracer(self, *arguments: Any, **keywords: Any) -> Any:
        return asking(super().var_to_tracer(*arguments, **keywords))

    def new_const(self, c: Any, *arguments: Any, **keywords: Any) -> Any:
        asked = running.get(id(self))
        if asked is not None and asked.numbers and not keywords and _is_number(c):
            with jax_traces.evaluating():
                c = jnp.array(c)  # no literal: the next number is in the same program
        elif asked is not None and isinstance(c, np.ndarray):
            c = asked.beside.constant(c)
        return asking(super().new_const(c, *arguments, **keywords))


def asked_of(tracer: Any) -> Any:
    """What answers for the trace of a tracer; None if that has ended, or is JAX's alone."""
    return running.get(id(jax_traces.trace_of(tracer)))


def asking(tracer: Any) -> Any:
    """The tracer, which may be asked from now on; a ref is none that has a value."""
    if type(tracer) is jax_traces.Tracer and type(tracer.aval) is jax.core.ShapedArray:
        tracer.__class__ = Asking
        if (way := ways.get()) is not None:
            way.operation()
    return tracer


def _is_number(c: Any) -> bool:
    return isinstance(c, float | complex) or (not isinstance(c, jax.Array) and is_inexact(c) and np.ndim(c) == 0)


def is_inexact(value: Any) -> bool:
    """Whether a value is of real or complex numbers."""
    return jnp.issubdtype(getattr(value, "dtype", bool), np.inexact)  # truth values and integers of Python have none
