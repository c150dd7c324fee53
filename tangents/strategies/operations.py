"""Primitives by the type of their result: what a random term can compute an array with.

All are smooth where their operands are values of ours, and none grows faster than its operands: one factor of a product
is squashed.  With `kinks` there are max, min, abs and the like, and comparisons, at which a value jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from combinators.building import compose, prod
from combinators.memo import remembered
from combinators.primitives import primitive
from combinators.terms import Proj, Term
from combinators.types import Tensor
from tangents.strategies.choices import choose, flip, number
from tangents.strategies.types import SIZES

type Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """A term on a tuple of operands (on the operand itself if there is one), and the operands' types.

    Those in `squashed` must not be large: what is put there goes through `SQUASH` unless it is a variable.
    """

    term: Term
    operands: tuple[Tensor, ...]
    squashed: tuple[int, ...] = ()


SQUASH = primitive("sin")
_POSITIVE = compose(primitive("tanh"), primitive("exp"))  # between 1/e and e
_QUOTIENT = compose(prod(Proj(0), compose(Proj(1), _POSITIVE)), primitive("div"))

_SMOOTH: tuple[Term, ...] = (
    *map(primitive, ("sin", "tanh", "neg", "cos", "logistic")),
    _POSITIVE,
    *(compose(_POSITIVE, primitive(name)) for name in ("log", "sqrt", "rsqrt", "log1p")),
    compose(SQUASH, primitive("square")),
    *(compose(SQUASH, primitive("integer_pow", y=y)) for y in (2, 3)),
)


def operation(draw: st.DrawFn, result: Tensor, kinks: bool = False) -> Operation:
    """One that gives a result of this type: a primitive, or a short chain that keeps to where it is smooth."""
    if jnp.issubdtype(result.dtype, np.inexact):
        makers = [_unary, _binary, _structure, _product, _reduction, _choice, *([_kinked] if kinks else [])]
    elif result.dtype == np.bool_:
        makers = [_logic, _structure, *([_comparison] if kinks else [])]
    else:
        makers = [_arithmetic, _structure]
    return choose(draw, makers)(draw, result)


type Maker = Callable[[st.DrawFn, Tensor], Operation]


def _unary(draw: st.DrawFn, result: Tensor) -> Operation:
    if number(draw, 9) == 9:
        return Operation(_conversion(result), (Tensor(result.shape, choose(draw, (int, bool))),))
    return Operation(choose(draw, _SMOOTH), (result,))


def _binary(draw: st.DrawFn, result: Tensor) -> Operation:
    match choose(draw, ("add", "mul", "sub", "div")):
        case "mul":
            return Operation(primitive("mul"), _broadcast(draw, result), (0,))
        case "div":
            return Operation(_QUOTIENT, _broadcast(draw, result))
        case name:
            return Operation(primitive(name), _broadcast(draw, result))


def _kinked(draw: st.DrawFn, result: Tensor) -> Operation:
    match choose(draw, ("abs", "sign", "max", "min", "reduce_max", "reduce_min")):
        case "reduce_max" | "reduce_min" as name if len(result.shape) < 2:
            axis, shape = _with_axis(draw, result.shape)
            return Operation(primitive(name, axes=(axis,)), (Tensor(shape, result.dtype),))
        case "max" | "min" as name:
            return Operation(primitive(name), _broadcast(draw, result))
        case name:
            return Operation(primitive(name if name == "sign" else "abs"), (result,))


def _reduction(draw: st.DrawFn, result: Tensor) -> Operation:
    if len(result.shape) == 2:
        return Operation(primitive("cumsum", axis=number(draw, 1), reverse=flip(draw)), (result,))
    axis, shape = _with_axis(draw, result.shape)
    return Operation(primitive("reduce_sum", axes=(axis,)), (Tensor(shape, result.dtype),))


def _product(draw: st.DrawFn, result: Tensor) -> Operation:
    """A dot_general that contracts one axis of size 1 to 3, at any place of its operands; with a batch axis or none."""
    size, batched = choose(draw, SIZES), bool(result.shape) and flip(draw)
    batch, kept = (result.shape[:1], result.shape[1:]) if batched else ((), result.shape)
    split = number(draw, len(kept))
    sides = [(side, number(draw, len(side))) for side in (kept[:split], kept[split:])]
    left, right = (Tensor((*batch, *axes[:at], size, *axes[at:]), result.dtype) for axes, at in sides)
    contract = tuple((at + batched,) for _, at in sides)
    dimensions = (contract, (tuple(range(batched)),) * 2)
    return Operation(primitive("dot_general", dimension_numbers=dimensions), (left, right), (0,))


def _choice(draw: st.DrawFn, result: Tensor) -> Operation:
    which = Tensor(choose(draw, ((), result.shape)), bool)
    return Operation(primitive("select_n"), (which, result, result))


def _logic(draw: st.DrawFn, result: Tensor) -> Operation:
    match choose(draw, ("not", "and", "or", "xor", "lt", "eq")):
        case "not":
            return Operation(primitive("not"), (result,))
        case "lt" | "eq" as name:
            return Operation(primitive(name), (Tensor(result.shape, int),) * 2)
        case name:
            return Operation(primitive(name), (result, result))


def _comparison(draw: st.DrawFn, result: Tensor) -> Operation:
    return Operation(primitive(choose(draw, ("lt", "ge"))), (Tensor(result.shape, float),) * 2)


def _arithmetic(draw: st.DrawFn, result: Tensor) -> Operation:
    match choose(draw, ("add", "sub", "mul", "max", "neg", "convert")):
        case "neg":
            return Operation(primitive("neg"), (result,))
        case "convert":
            return Operation(_conversion(result), (Tensor(result.shape, bool),))
        case name:
            return Operation(primitive(name), _broadcast(draw, result))


def _structure(draw: st.DrawFn, result: Tensor) -> Operation:
    return Operation(*choose(draw, _rearrangements(result)))


def _broadcast(draw: st.DrawFn, result: Tensor) -> tuple[Tensor, Tensor]:
    """Two operands that broadcast: one may have rank 0, or size 1 where the result has more."""
    other = choose(draw, _broadcasting(result))
    return (other, result) if flip(draw) else (result, other)


@remembered(entries=1024)
def _broadcasting(result: Tensor) -> tuple[Tensor, ...]:
    shape = result.shape
    shapes = [shape, shape, (), *((*shape[:i], 1, *shape[i + 1 :]) for i in range(len(shape)))]
    return tuple(Tensor(s, result.dtype) for s in shapes)


def _with_axis(draw: st.DrawFn, shape: Shape) -> tuple[int, Shape]:
    """A shape with one more axis, and where it is."""
    axis = number(draw, len(shape))
    return axis, (*shape[:axis], choose(draw, SIZES), *shape[axis:])


def _conversion(result: Tensor) -> Term:
    return primitive("convert_element_type", new_dtype=result.dtype)


@remembered(entries=1024)
def _rearrangements(result: Tensor) -> list[tuple[Term, tuple[Tensor, ...]]]:
    """The ways to a result of rank 0 to 2 that move, repeat, leave out or join entries, each with types of operands."""
    ways = _of_array(result.shape) if result.shape else _of_scalar()
    return [(term, tuple(Tensor(shape, result.dtype) for shape in shapes)) for term, *shapes in ways]


def _of_scalar() -> Iterator[tuple[Term, Shape]]:
    for rank in (1, 2):
        yield primitive("squeeze", dimensions=tuple(range(rank))), (1,) * rank
        yield primitive("reshape", new_sizes=()), (1,) * rank


def _of_array(shape: Shape) -> Iterator[tuple[Term, *tuple[Shape, ...]]]:
    axes = tuple(range(len(shape)))
    yield primitive("rev", dimensions=axes[-1:]), shape
    yield _repeated(shape, ()), ()
    if len(shape) == 2:
        yield primitive("transpose", permutation=(1, 0)), shape[::-1]
        yield primitive("reshape", new_sizes=shape), shape[::-1]
    for axis, size in enumerate(shape):
        with_size = lambda n, axis=axis: (*shape[:axis], n, *shape[axis + 1 :])
        kept = tuple(i for i in axes if i != axis)
        yield _repeated(shape, kept), tuple(shape[i] for i in kept)
        yield _repeated(shape, axes), with_size(1)
        start = tuple(int(i == axis) for i in axes)
        yield primitive("slice", start_indices=start, limit_indices=with_size(size + 1)), with_size(size + 1)
        if size > 1:
            yield primitive("concatenate", dimension=axis), with_size(1), with_size(size - 1)
            padding = tuple((0, int(i == axis), 0) for i in axes)
            yield primitive("pad", padding_config=padding), with_size(size - 1), ()


def _repeated(shape: Shape, axes: Shape) -> Term:
    return primitive("broadcast_in_dim", shape=shape, broadcast_dimensions=axes)
