"""Refs that a program makes, by `jax.new_ref`: what they hold is a value that is handed on.

    ref[i]           the entries of what it holds now
    ref[i] = v       from now on it holds that with v there

What a loop, a choice or a checkpoint writes is one more part of its state or of its result.  So no derivative has a
rule for refs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jax import lax

from combinators import staging
from combinators.errors import UnsupportedError
from combinators.types import shape_struct
from compile_ccc.jaxprs import compat
from compile_ccc.lambda_terms import Atom, Constant, atom_type
from compile_ccc.reading.builder import Builder
from compile_ccc.reading.entries import added, read, steps, written
from compile_ccc.refusing.refusals import line_at


@dataclass(eq=False)
class Cell:
    """A ref in a program that is being read: what it holds now, in the block that may write it."""

    value: Atom | None  # None when it has been frozen
    block: Builder


BLOCKS = ("scan", "while", "cond", "remat2")  # programs in these may have refs of the program around them


def changed(eqn: Any, operands: Sequence[Any]) -> list[Cell]:
    """The refs among the operands of an equation that the programs in it write."""
    pairs = zip(operands, compat.writes(eqn), strict=True)
    return list(dict.fromkeys(a for a, writes in pairs if writes and isinstance(a, Cell)))


def within(block: Builder, operands: Sequence[Any], cells: Sequence[Cell], values: Iterable[Any]) -> Any:
    """These refs in a block inside, where they hold these values at first; and the operands, with them."""
    inner = {cell: Cell(value, block) for cell, value in zip(cells, values, strict=True)}
    return list(inner.values()), [inner.get(a, a) if isinstance(a, Cell) else a for a in operands]


def likewise(block: Builder, operands: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """The values, in refs of this block where the operands are refs."""
    return [Cell(v, block) if isinstance(a, Cell) else v for a, v in zip(operands, values, strict=True)]


def contents(operands: Iterable[Any]) -> list[Any]:
    """Operands as values: what refs hold now, and the others."""
    return [a.value if isinstance(a, Cell) else a for a in operands]


def put(cells: Sequence[Cell], results: Sequence[Any]) -> list[Any]:
    """The results of an equation, without the last ones, which are what these refs hold from now on."""
    count = len(results) - len(cells)
    for cell, value in zip(cells, results[count:], strict=True):
        cell.value = value
    return list(results[:count])


def operated(block: Builder, eqn: Any, operands: list[Any]) -> list[Any]:
    """The results of an equation that makes, reads or writes a ref itself; no other one takes refs."""
    match eqn.primitive.name, operands:
        case "new_ref", [value]:
            return [_made(block, eqn, value)]
        case "empty_ref", []:
            type = eqn.params["ty"]
            return [_made(block, eqn, _run(block, eqn, lambda: lax.full(type.shape, 0, type.dtype)))]
        case "freeze", [cell]:
            value = _value(block, eqn, cell)
            _write(block, eqn, cell, None)
            return [value]
        case "free_ref", [cell]:
            _write(block, eqn, cell, None)
            return []
        case "get", [cell, *index]:
            return [_at(block, eqn, index, read, _value(block, eqn, cell))]
        case "swap", [cell, new, *index]:
            value = _value(block, eqn, cell)
            before = _at(block, eqn, index, read, value)
            _write(block, eqn, cell, _at(block, eqn, index, written, value, new))
            return [before]
        case "addupdate", [cell, more, *index]:
            _write(block, eqn, cell, _at(block, eqn, index, added, _value(block, eqn, cell), more))
            return []
        case _:
            raise refused(block, eqn, f"a ref is taken into {eqn.primitive.name}", eqn.primitive.name)


def refused(block: Builder, eqn: Any, reason: str, got: Any, hint: str = "") -> UnsupportedError:
    """The error of what is done with a ref, and cannot be done with a value in its place."""
    return UnsupportedError(
        reason,
        expected="refs that are made, read and written in one function, also in its loops, choices and checkpoints",
        got=got,
        line=line_at(eqn, block.calls),
        hint=hint or "read the ref before, hand in the value, and write the result into the ref",
    )


def _made(block: Builder, eqn: Any, value: Any) -> Cell:
    for name in ("kind", "memory_space", "pin"):
        if eqn.params.get(name):
            raise refused(block, eqn, f"a ref has a {name}", eqn.params[name], "leave it away")
    return Cell(value, block)


def _value(block: Builder, eqn: Any, cell: Cell) -> Atom:
    if cell.value is None:
        raise refused(block, eqn, "a ref is used when it has been frozen", eqn.primitive.name, "freeze it at the end")
    return cell.value


def _write(block: Builder, eqn: Any, cell: Cell, value: Any) -> None:
    if cell.block is not block:
        raise refused(block, eqn, "a ref of a program around it is changed", eqn.primitive.name)
    cell.value = value


def _at(block: Builder, eqn: Any, index: list[Any], f: Callable[..., Any], *values: Any) -> Any:
    """f on values, and on the steps of an index, of which what is known stays known."""
    if masks := [t for t in map(atom_type, index) if t.dtype == bool]:
        raise refused(block, eqn, "a ref is indexed by truth values", masks[0], "read the ref first: ref[...][mask]")
    unknown = [a for a in index if not isinstance(a, Constant)]

    def on_arrays(*arrays: Any) -> Any:
        rest = iter(arrays[len(values) :])
        views = compat.views(eqn, [a.value if isinstance(a, Constant) else next(rest) for a in index])
        return f(steps(views), *arrays[: len(values)])

    return _run(block, eqn, on_arrays, *values, *unknown)


def _run(block: Builder, eqn: Any, f: Callable[..., Any], *operands: Any) -> Any:
    """Appends the program of f, which stands for an equation."""
    program = staging.program(lambda *xs: [f(*xs)], [shape_struct(atom_type(a)) for a in operands])
    block.calls.append(eqn)
    (result,) = block.run(program, [*map(Constant, program.consts), *operands])
    block.calls.pop()
    return result
