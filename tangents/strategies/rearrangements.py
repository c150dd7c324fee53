"""Primitives that move, repeat, leave out or join the elements of arrays."""

from __future__ import annotations

from collections.abc import Iterator

from combinators.memo import remembered
from combinators.primitives import primitive
from combinators.terms import Term
from combinators.types import Tensor

type Shape = tuple[int, ...]


@remembered(entries=1024)
def rearrangements(result: Tensor) -> list[tuple[Term, tuple[Tensor, ...]]]:
    """The ways to a result of rank 0 to 2, each with the types of its operands."""
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
