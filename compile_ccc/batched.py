"""Applications under `jax.vmap`.

An application with a batch level is a map: its operands with a leading axis are mapped over, the others are captured by
the function that is mapped.  A batched abstraction has no value of its own: it is made again inside each map that
applies it, so what it captured without an axis stays one array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from combinators.terms import Map
from combinators.types import Function, Tensor, type_of
from compile_ccc.lambda_terms import Arrow, Constant, Var, lam

if TYPE_CHECKING:
    from compile_ccc.read import Builder

type Levels = tuple[tuple[int, tuple[bool, ...]], ...]  # outermost first: the size, and which operands have the axis


@dataclass(eq=False, frozen=True)
class Made:
    """An array of functions: the `lam` equation that makes them, its operands, and their batch levels."""

    eqn: Any
    operands: list[Any]
    batch: Levels


def mapped(block: Builder, type: Function, operands: list[Any], batch: Levels) -> list[Any]:
    """map (λ rows. f x) over the operands that have the axis of the outermost level; gives the leaves of the result."""
    (size, mask), *deeper = batch
    over = [a for operand, m in zip(operands, mask, strict=True) for a in _over(operand, m)]
    rows = tuple(_row(a) for a in over)
    x = Var(next(block.names), rows)
    inner = block.inner()
    leaves = iter(inner.leaves(x, rows))
    inside = [_inside(inner, operand, m, leaves) for operand, m in zip(operands, mask, strict=True)]
    results = inner.application(type, inside, tuple(deeper))
    cod = tuple(a.type for a in results)
    g = block.let(lam(x, inner.close(inner.build(list(results), cod))), Function(rows, cod))
    stacked = tuple(Tensor((size, *t.shape), t.dtype, t.weak) for t in cod)
    xs = block.build(list(over), tuple(_type(a) for a in over))
    return block.leaves(block.let(Arrow(Map(), (g, xs)), stacked), stacked)


def _over(operand: Any, has_axis: bool) -> Iterator[Any]:
    """The arrays with the axis in an operand."""
    if has_axis and isinstance(operand, Made):
        for captured, m in zip(operand.operands, operand.batch[0][1], strict=True):
            yield from _over(captured, m)
    elif has_axis:
        yield operand


def _inside(inner: Builder, operand: Any, has_axis: bool, leaves: Iterator[Any]) -> Any:
    """What an operand is inside the map: a row of it, itself, or the function made again from rows."""
    if not has_axis:
        return operand
    if not isinstance(operand, Made):
        return next(leaves)
    (_, mask), *levels = operand.batch
    captured = [_inside(inner, c, m, leaves) for c, m in zip(operand.operands, mask, strict=True)]
    return Made(operand.eqn, captured, tuple(levels)) if levels else inner.abstraction(operand.eqn, captured)


def _type(a: Any) -> Any:
    return type_of(a.value) if isinstance(a, Constant) else a.type


def _row(a: Any) -> Tensor:
    type = _type(a)
    return Tensor(type.shape[1:], type.dtype, type.weak)
