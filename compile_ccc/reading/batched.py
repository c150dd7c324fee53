"""Arrays of functions, and applications under `jax.vmap`.

An application with a batch level is a map: its operands with a leading axis are mapped over, the others are captured by
the function that is mapped.  An array of functions has no value of its own: each of its functions is made again inside
the map or the loop that applies it, so what all of them share stays one array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from combinators.terms import Map
from combinators.types import Function, Tensor
from compile_ccc.lambda_terms import Arrow, Var, atom_type, lam
from compile_ccc.reading.builder import Builder, Levels, Made


def mapped(block: Builder, eqn: Any, operands: list[Any], batch: Levels) -> list[Any]:
    """map (λ rows. f x) over the operands that have the axis of the outermost level; gives the leaves of the result.

    Functions among these are an array of functions, which is made of the operands: f x is applied again for each use.
    """
    (size, mask), *deeper = batch
    xs = [a for operand, m in zip(operands, mask, strict=True) for a in (over(operand) if m else ())]
    rows = tuple(map(row, xs))
    x = Var(next(block.names), rows)
    inner = block.inner()
    leaves = iter(inner.leaves(x, rows))
    inside = [one(inner, operand, leaves) if m else operand for operand, m in zip(operands, mask, strict=True)]
    results = inner.application(eqn, inside, tuple(deeper))
    functions = {i: r.type for i, r in enumerate(results) if isinstance(r.type, Function)}
    if functions and len(functions) == len(results):
        arrays = iter(())
    else:
        arrays = [r for i, r in enumerate(results) if i not in functions]
        cod = tuple(a.type for a in arrays)
        g = block.let(lam(x, inner.close(inner.build(arrays, cod))), Function(rows, cod))
        stacked = tuple(Tensor((size, *t.shape), t.dtype, t.weak) for t in cod)
        xs = block.build(xs, tuple(map(atom_type, xs)))
        arrays = iter(block.leaves(block.let(Arrow(Map(), (g, xs)), stacked), stacked))
    made = lambda i: Made(eqn, functions[i], lambda at, xs: at.application(eqn, xs, ())[i], operands, batch)
    return [made(i) if i in functions else next(arrays) for i in range(len(results))]


def over(operand: Any) -> Iterator[Any]:
    """The arrays with a leading axis that an array, or an array of functions, is made of."""
    if isinstance(operand, Made):
        for part, m in zip(operand.operands, operand.batch[0][1], strict=True):
            yield from over(part) if m else ()
    else:
        yield operand


def one(block: Builder, operand: Any, rows: Iterator[Any]) -> Any:
    """One row of an operand, from a row of each of its arrays: a function is made again."""
    if not isinstance(operand, Made):
        return next(rows)
    (_, mask), *levels = operand.batch
    parts = [one(block, part, rows) if m else part for part, m in zip(operand.operands, mask, strict=True)]
    return Made(operand.eqn, operand.type, operand.make, parts, tuple(levels)) if levels else operand.make(block, parts)


def row(a: Any) -> Tensor:
    """The type of a row of an array."""
    type = atom_type(a)
    return Tensor(type.shape[1:], type.dtype, type.weak)
