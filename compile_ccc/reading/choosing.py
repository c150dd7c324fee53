"""Functions that are chosen at run time: the equations on carriers that choose, repeat, stack and index functions.

Where nothing is batched a choice is a case distinction.  What gives an array of functions says how one of them is made
(`batched.Made`): a batched choice by a choice in each row, a stack by the choice that the number of the row makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import jax
import numpy as np

from combinators.building import compose, prod
from combinators.primitives import primitive
from combinators.sums import Sum
from combinators.terms import Curry, Operator, Primitive, Proj, Tag
from combinators.types import Tensor, is_discrete, shape_struct
from compile_ccc.carriers import is_carrier
from compile_ccc.jaxprs import compat
from compile_ccc.lambda_terms import Arrow, Atom, Constant, Match, Var, atom_type, lam, single
from compile_ccc.reading.batched import one, over
from compile_ccc.reading.builder import Builder, Made
from compile_ccc.reading.refs import changed, contents, put, within

_STOP = primitive("stop_gradient")

type Branch = Callable[[Builder], list[Any]]  # appends the equations of a branch, and gives its results


@dataclass(frozen=True)
class Stopped:
    """The operator `stop_gradient` on functions: what they captured is constant for derivatives."""

    constant = True

    def at(self, leaves: tuple[Tensor, ...], form: Any) -> tuple[Curry, Any]:
        """See `Operator`."""
        places = [Proj(i) if is_discrete(t) else compose(Proj(i), _STOP) for i, t in enumerate(leaves)]
        return Curry(compose(Proj(0), prod(tuple(places))), leaves), form

    def __str__(self) -> str:
        return "stop_gradient"


def choice(block: Builder, which: Atom, branches: list[Branch]) -> list[Any]:
    """case tag(n) which of λ(). b0 | ... | λ(). bn: the leaves of its result."""
    s = block.let(Arrow(Tag(len(branches)), (which,)), Sum(*[()] * len(branches)))
    lams, types = [], []
    for branch in branches:
        inner = block.inner()
        results = branch(inner)
        types.append(single([atom_type(a) for a in results]))
        lams.append(lam(Var(next(block.names), ()), inner.close(inner.build(list(results), types[-1]))))
    return block.leaves(block.let(Match(s, tuple(lams)), types[0]), types[0])


def branched(block: Builder, eqn: Any, operands: list[Any]) -> list[Any]:
    """The result of a `cond` or `switch` equation: a case distinction, made again for each of an array of functions."""
    which, *captured = operands
    programs, cells = compat.branches(eqn), changed(eqn, operands)
    now = contents(cells)
    rows = {i: v.aval.shape for i, v in enumerate(eqn.outvars) if is_carrier(v.aval) and v.aval.shape}

    def run(program: Any, inner: Builder) -> list[Any]:
        inside, values = within(inner, captured, cells, now)
        return [*inner.run(program.jaxpr, [*map(Constant, program.consts), *values]), *contents(inside)]

    which = _number(block, which, len(programs))
    branches = [partial(run, program) for program in programs]
    others = lambda branch: lambda inner: [r for i, r in enumerate(branch(inner)) if i not in rows]
    results = put(cells, choice(block, which, list(map(others, branches))))
    types = [a.type for a in branches[0](block.inner())] if rows else []
    for i, shape in rows.items():
        results.insert(i, _in_branches(eqn, types[i], which, [lambda b, f=f, i=i: f(b)[i] for f in branches], shape))
    return results


def _in_branches(
    eqn: Any, type: Any, which: Atom, branches: list[Callable[[Builder], Made]], shape: tuple[int, ...]
) -> Made:
    """An array of functions of this shape, which each branch gives: the choice of a branch and, in that, of a place."""

    def make(inner: Builder, places: list[Any]) -> Any:
        return choice(inner, which, [lambda b, f=f: [reduce(partial(_row, b), places, f(b))] for f in branches])[0]

    places = [Constant(np.arange(size, dtype=np.int32)) for size in shape]
    levels = tuple((size, tuple(k == axis for k in range(len(shape)))) for axis, size in enumerate(shape))
    return Made(eqn, type, make, places, levels)


def _number(block: Builder, which: Atom, count: int) -> Atom:
    """The number of one of so many branches before JAX brought it into their range, which tags do themselves."""
    x, e = block.bindings[-1] if block.bindings else (None, None)
    match e:
        case Arrow(Primitive("convert_element_type"), (n,)) if x is which and atom_type(n).dtype == bool:
            return n
        case Arrow(Primitive("clamp"), (Constant(0), n, Constant(last))) if x is which and last == count - 1:
            return n
        case _:
            return which


def structural(block: Builder, eqn: Any, operands: list[Any]) -> list[Any] | None:
    """The result of an equation that chooses, repeats, stacks or indexes functions; None for any other equation."""
    match eqn.primitive.name:
        case "select_n":
            return [_select(block, eqn, operands)]
        case "broadcast_in_dim":
            return [_repeated(eqn, operands[0])]
        case "concatenate" if all(v.aval.shape == (1,) for v in eqn.invars):
            return [_stacked(eqn, [_first(block, f) for f in operands])]
        case "concatenate" if all(v.aval.ndim == 1 for v in eqn.invars):
            return [_joined(eqn, operands)]
        case "rev" if eqn.invars[0].aval.ndim == 1:
            count = eqn.invars[0].aval.shape[0]
            return [_picked(eqn, operands[0], range(count)[::-1] if eqn.params["dimensions"] else range(count))]
        case "stack" if all(v.aval.shape == () for v in eqn.invars):
            return [_stacked(eqn, operands)]
        case "squeeze":
            return [_squeezed(block, operands[0], eqn.params["dimensions"])]
        case "slice" if eqn.outvars[0].aval.shape == (1,):
            return [_indexed(block, operands[0], Constant(np.int32(eqn.params["start_indices"][0])))]
        case "slice" if eqn.invars[0].aval.ndim == 1:
            (start,), (limit,) = eqn.params["start_indices"], eqn.params["limit_indices"]
            return [_picked(eqn, operands[0], range(start, limit, *(eqn.params["strides"] or ())))]
        case "gather" if eqn.invars[0].aval.ndim == 1 and eqn.invars[1].aval.ndim == 2:
            return [_gathered(block, eqn, *operands)]
        case "stop_gradient":
            return [_stopped(block, operands[0])]
        case "dynamic_slice" if eqn.outvars[0].aval.shape == (1,):
            return [_indexed(block, operands[0], operands[1])]
        case _:
            return None


def _select(block: Builder, eqn: Any, operands: list[Any]) -> Any:
    shape = eqn.outvars[0].aval.shape
    if not shape:
        return _chosen(block, operands)
    mask = tuple(bool(v.aval.shape) for v in eqn.invars)
    return Made(eqn, atom_type(operands[1]), _chosen, operands, tuple((size, mask) for size in shape))


def _repeated(eqn: Any, f: Any) -> Made:
    has_axis = [i in eqn.params["broadcast_dimensions"] for i in range(len(eqn.outvars[0].aval.shape))]
    sizes = eqn.outvars[0].aval.shape
    return Made(eqn, atom_type(f), _same, [f], tuple((size, (m,)) for size, m in zip(sizes, has_axis, strict=True)))


def _stacked(eqn: Any, functions: list[Any]) -> Made:
    number = Constant(np.arange(len(functions), dtype=np.int32))
    mask = (True, *[False] * len(functions))
    return Made(eqn, atom_type(functions[0]), _chosen, [number, *functions], ((len(functions), mask),))


def _first(block: Builder, functions: Made) -> Any:
    """The only one of an array of one function."""
    return _row(block, functions, Constant(np.int32(0)))


def _squeezed(block: Builder, functions: Any, axes: Any) -> Any:
    """The array of functions without these axes, each of size 1."""
    if not axes:
        return functions
    deeper = [axis - 1 for axis in axes if axis]
    if 0 in axes:
        return _squeezed(block, _first(block, functions), deeper)
    make = lambda inner, parts: _squeezed(inner, replace(functions, operands=parts, batch=functions.batch[1:]), deeper)
    return replace(functions, make=make, batch=functions.batch[:1])


def _indexed(block: Builder, functions: Made, index: Atom) -> Made:
    return Made(functions.eqn, functions.type, _same, [_row(block, functions, index)], ((1, (False,)),))


def _gathered(block: Builder, eqn: Any, functions: Made, indices: Atom) -> Made:
    """One of an array of functions for each index."""
    (numbers,) = _run(block, lambda i: i[:, 0], indices)
    count, *ones = eqn.outvars[0].aval.shape
    make = lambda inner, parts: _row(inner, functions, parts[0])
    return Made(eqn, functions.type, make, [numbers], ((count, (True,)), *((1, (False,)) for _ in ones)))


def _picked(eqn: Any, functions: Made, places: range) -> Made:
    """Those of an array of functions at these places."""
    make = lambda inner, parts: _row(inner, functions, parts[0])
    return Made(eqn, functions.type, make, [Constant(np.array(places, np.int32))], ((len(places), (True,)),))


def _joined(eqn: Any, arrays: list[Made]) -> Made:
    """Arrays of functions, one after the other: of each row, a choice of the array, and the place in that."""
    sizes = [v.aval.shape[0] for v in eqn.invars]
    which = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    places = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])

    def make(inner: Builder, parts: list[Any]) -> Any:
        branches = [lambda b, f=functions: [_row(b, f, parts[1])] for functions in arrays]
        return choice(inner, parts[0], branches)[0]

    return Made(eqn, arrays[0].type, make, [Constant(which), Constant(places)], ((len(which), (True, True)),))


def _stopped(block: Builder, f: Any) -> Any:
    if isinstance(f, Made):
        return replace(f, make=lambda inner, parts: _stopped(inner, f.make(inner, parts)))
    return block.let(Arrow(Operator(Stopped()), (f,)), f.type)


def _row(block: Builder, functions: Made, index: Atom) -> Any:
    row = lambda array: _run(block, lambda a, i: jax.lax.dynamic_index_in_dim(a, i, keepdims=False), array, index)
    return one(block, functions, (r for array in over(functions) for r in row(array)))


def _run(block: Builder, f: Callable[..., Any], *operands: Atom) -> list[Any]:
    """Appends the program of f on arrays."""
    program = jax.make_jaxpr(f)(*(shape_struct(atom_type(a)) for a in operands))
    return block.run(program.jaxpr, [*map(Constant, program.consts), *operands])


def _chosen(block: Builder, parts: list[Any]) -> Any:
    """The function whose number comes first."""
    which, *functions = parts
    return choice(block, which, [lambda _, f=f: [f] for f in functions])[0]


def _same(_: Builder, parts: list[Any]) -> Any:
    return parts[0]
