"""Numbers as Python and NumPy have them, and as a trace has them: how both are computed, and whether they are near."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.core
import numpy as np

from combinators.memo import remembered

type Pair = tuple[Any, Any]  # a number as Python has it, and as the trace has it

_DIGITS = 2.0**-13  # the relative difference of two numbers that counts as none
_CANCELLED = 2.0**-10  # how small a sum of computed numbers may be beside them, whose last digits may be others in XLA
_SMALLEST = float(np.finfo(np.float32).tiny)
_WIDE = frozenset({int, float, complex, np.int64, np.uint64, np.float64, np.complex128, np.longdouble})
SIGNED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
_OTHER = ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert", "getitem", "round")
OPERATORS = (*SIGNED, *("r" + name for name in SIGNED), *_OTHER)
WIDENING = frozenset({"sum", "prod", "cumsum", "cumprod", "trace"})  # by which NumPy makes 64 bits of fewer
_SHAPING = {"T", "mT", "reshape", "transpose", "swapaxes", "flatten", "ravel", "squeeze", "diagonal", "repeat", "copy"}
_PARTS = {"T", "mT", "real", "imag"}  # of arrays, which are no methods
_OTHERS = {"take", "astype", "dot", "clip", "max", "min", "mean", "std", "var", "argsort", "argmax", "argmin"}
METHODS = WIDENING | _SHAPING | _PARTS | _OTHERS | {"searchsorted", "any", "all", "round", "conj", "conjugate"}
_LINEAR = {"mul", "rmul", "truediv", "rtruediv", "matmul", "rmatmul", "dot", "neg", "pos", "abs", "max", "min", "mean"}
OF_FIRST = _SHAPING | _PARTS | {"getitem", "take"}  # whose other operands are places
KEEPING = WIDENING | OF_FIRST | _LINEAR  # what keeps the digits of real arrays, of which these are not compared
ADDING = frozenset({"add", "radd", "sub", "rsub"})
OF_PYTHON = (int, float, complex, np.ndarray, np.number)


def is_plain(value: Any) -> bool:
    """Whether a constant is no tracer, and holds none."""
    if isinstance(value, tuple | slice):
        return all(map(is_plain, value if isinstance(value, tuple) else (value.start, value.stop, value.step)))
    return not isinstance(value, jax.core.Tracer | jax.Array | list | dict)


def has_more_room(value: Any) -> bool:
    """Whether a number, or those of an array, may be larger, or have more digits, than those of a trace."""
    return (value.dtype.type if isinstance(value, np.ndarray) else type(value)) in _WIDE


def dtype_kind(value: Any) -> str:
    """The kind of numbers in an array, or a number, of NumPy's; empty for anything else."""
    return value.dtype.kind if isinstance(value, np.ndarray | np.generic) else ""


def as_input(value: Any) -> Pair:
    """An input of a trace, which has no literals."""
    if isinstance(value, jax.Array):
        value = np.asarray(value)
    return value, narrow(np.asarray(value)[()] if isinstance(value, int | float | complex) else value)


def narrow(value: Any) -> Any:
    """A number or an array with the dtype that JAX gives it; numbers of Python adapt to those of the others."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    dtype = jax.dtypes.canonicalize_dtype(value.dtype)
    return value if dtype == value.dtype else value.astype(dtype)


@remembered(entries=1024)
def computing(name: str, count: int, keys: tuple[str, ...]) -> Callable[..., Any]:
    """How Python computes the result of an operator, or of a method with so many operands and these keywords."""
    if name not in OPERATORS:
        return operator.attrgetter(name) if name in _PARTS else partial(_method, name, count, keys)
    if name == "round":
        return round
    plain = name if name in _OTHER or name in SIGNED else name[1:]
    of_two = getattr(operator, plain + "_" if plain in ("and", "or") else plain)
    return of_two if plain == name else lambda x, y: of_two(y, x)


def _method(name: str, count: int, keys: Sequence[str], *operands: Any) -> Any:
    x, *rest = operands[:count]
    return getattr(x, name)(*rest, **dict(zip(keys, operands[count:], strict=True)))


def computed(how: Callable[..., Any], pairs: Sequence[Pair]) -> Pair:
    """What is computed of numbers, both ways.  Raises what Python raises."""
    with np.errstate(all="ignore"):
        return how(*[exact for exact, _ in pairs]), narrow(how(*[traced for _, traced in pairs]))


def fits(pair: Pair, operands: Sequence[Pair], cancels: bool) -> bool:
    """Whether the trace has nearly the number that Python has, whatever the last digits of the operands are there."""
    if cancels and np.asarray(pair[0]).dtype.kind in "fc":
        largest = max(float(np.max(np.abs(exact), initial=0.0)) for exact, _ in operands)
        if not float(np.max(np.abs(pair[0]), initial=0.0)) >= _CANCELLED * largest:
            return False
    return _is_near(*pair)


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
