"""Types of ours as Hypothesis strategies: small enough that every example is cheap."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from combinators.context import Context
from combinators.sums import Sum
from combinators.types import Function, Tensor, Type
from tangents.strategies.choices import choose, some

SIZES = (3, 2, 1)
SHAPES = ((), (), (), (3,), (3,), (2,), (1,), (2, 3), (3, 2), (2, 2), (1, 3), (3, 1), (0,), (0, 2))
_DTYPES = (*[float] * 8, int, bool)


class Pair(NamedTuple):
    """A product that is neither a plain tuple nor a dict."""

    left: Any
    right: Any


@st.composite
def tensors(draw: st.DrawFn, discrete: bool = True) -> Tensor:
    """Tensor types of rank 0 to 2, with sizes from 1 to 3 and now and then 0.

    Dtypes are JAX's default float (float64 when x64 is on) and, if `discrete`, the default integer and bool.
    """
    return _tensor(draw, discrete)


@st.composite
def types(draw: st.DrawFn, functions: bool = True, discrete: bool = True, sums: bool = True, depth: int = 2) -> Type:
    """Types of at most `depth` constructors in a row: tensors, tuples, dicts, a NamedTuple, the unit, sums, functions.

    Without `functions` they are first-order, and what sums are of always is.  A function of several arguments has a
    tuple as its domain.
    """
    return some_type(draw, functions, discrete, sums, depth)


@st.composite
def contexts(
    draw: st.DrawFn,
    functions: bool = True,
    discrete: bool = True,
    sums: bool = True,
    depth: int = 1,
    max_size: int = 4,
) -> Context:
    """Contexts of such types, the empty one included."""
    return Context(*some(draw, lambda: some_type(draw, functions, discrete, sums, depth), 0, max_size))


def some_type(
    draw: st.DrawFn, functions: bool = True, discrete: bool = True, sums: bool = True, depth: int = 1
) -> Type:
    """One of `types(functions, discrete, sums, depth)`."""
    inner = lambda: some_type(draw, functions, discrete, sums, depth - 1)
    kinds = ["tensor"]
    if depth > 0:
        kinds = ["tensor", "tensor", "tuple", "dict", "pair", "unit", *["sum"] * sums, *["function"] * 2 * functions]
    match choose(draw, kinds):
        case "tuple":
            return tuple(some(draw, inner, 1, 3))
        case "dict":
            return {key: inner() for key in choose(draw, (("b", "w"), ("w",)))}
        case "pair":
            return Pair(inner(), inner())
        case "unit":
            return ()
        case "sum":
            return Sum(*some(draw, lambda: some_type(draw, False, discrete, sums, depth - 1), 2, 3))
        case "function":
            return Function(inner(), inner())
        case _:
            return _tensor(draw, discrete)


def _tensor(draw: st.DrawFn, discrete: bool) -> Tensor:
    return Tensor(choose(draw, SHAPES), choose(draw, _DTYPES) if discrete else float)
