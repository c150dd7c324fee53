"""`jacobian` and `hessian`: all derivatives at once, a row or a column for each entry, in one batched pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from combinators.context import extend
from combinators.depth import check_values
from combinators.edges import one_of
from combinators.errors import NotDifferentiableError
from combinators.infer import infer
from combinators.terms import Eval
from combinators.types import Tensor, is_discrete, pack, shape_struct, type_of
from combinators.values import Closure
from compile_ccc.operators import on_leaves
from compile_ccc.recording import record
from tangents.asked import Located, asked_arguments, closed_over_static, dispatched, is_one, named
from tangents.duals import dual, widened
from tangents.environment import ENVIRONMENT
from tangents.forward import forward
from tangents.functions import check_environments
from tangents.leaves import filled, placed
from tangents.operators import differential
from tangents.represent import rep
from tangents.sparse import hold, marks, remark, split

type Types = dict[int, Tensor]  # of the real leaves, by their numbers
type Blocks = dict[tuple[int, int], Any]  # ∂y/∂x by the numbers of the leaves of y and x

MODES = ("forward", "reverse")


def jacobian(f: Any, argnums: int | Sequence[int] = 0, mode: str | None = None) -> Callable[..., Any]:
    """A function like f that gives its Jacobian, like `jax.jacfwd` and `jax.jacrev`.

    For a result y and an argument x, arrays, it is an array of the shape (*y.shape, *x.shape).  In general it has the
    structure of the result, with that of the argument at each leaf; with a tuple `argnums`, a tuple of arguments'.  Of
    a function argument it is a `Closure` over the Jacobians by what it captured.  At discrete leaves there are zeros.

    `mode` is "forward", a column for each entry of the arguments, "reverse", a row for each entry of the result, or
    None: whichever has fewer.  Raises `NotDifferentiableError` for complex numbers and discrete arguments, and what
    `jvp` and `vjp` raise.
    """
    one_of("mode", mode, (*MODES, None), "None is the one that takes fewer passes")

    return _derivative(f, _jacobian, argnums, mode)


def hessian(f: Any, argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function like f that gives its Hessian, like `jax.hessian`: the Jacobian, in forward mode, of that in reverse.

    Of a scalar f by an array x it is an array of the shape (*x.shape, *x.shape).  For one product with a vector, `hvp`
    does not build it.  Raises what `jacobian` raises.
    """

    return _derivative(f, _hessian, argnums)


def _derivative(f: Any, operation: Any, argnums: Any, mode: str | None = None) -> Callable[..., Any]:
    def on(g: Any, arguments: tuple[Any, ...]) -> Located:
        asked = asked_arguments(argnums, arguments)
        closure, arguments, asked, found = closed_over_static(g, arguments, asked)
        check_environments([arguments[i] for i in asked], ENVIRONMENT)
        spec = _Spec(len(arguments), asked, not is_one(argnums), mode)
        return spec, closure, pack(arguments), found

    return named(dispatched(f, operation, on), f)


@dataclass(frozen=True)
class _Spec:
    arity: int
    asked: tuple[int, ...]
    is_tuple: bool
    mode: str | None = None

    def leaves(self, x: Any) -> Any:
        """The arguments that are asked for, with the numbers of their leaves among those of x in their places."""
        leaves, form = jax.tree.flatten(x)
        numbers = form.unflatten(range(len(leaves)))
        arguments = [numbers] if self.arity == 1 else list(numbers)
        return tuple(arguments[i] for i in self.asked) if self.is_tuple else arguments[self.asked[0]]


@differential
def _jacobian(spec: _Spec, f: Closure, x: Any) -> Any:
    types, form = jax.tree.flatten(infer(Eval(), (f, x)))
    return _whole(form, _derivatives(f, x, types, spec.leaves(x), spec.mode))


@differential
def _hessian(spec: _Spec, f: Closure, x: Any) -> Any:
    rows = replace(spec, mode="reverse")
    derivative, leaves, form = on_leaves(lambda x: _jacobian(rows, f, x), x)
    types = list(derivative.type.cod)
    return _whole(form, _derivatives(derivative, leaves, types, spec.leaves(x), "forward"))


def _whole(form: Any, derivatives: list[Any]) -> Any:
    """The derivatives in the structure of the result, which must not nest too deeply with that of the arguments."""
    found = form.unflatten(derivatives)
    check_values(found)
    return found


def _derivatives(f: Closure, x: Any, types: list[Tensor], asked: Any, mode: str | None) -> list[Any]:
    """The derivatives of each leaf of f x, of these types, by the leaves of x with the numbers in `asked`."""
    leaves = jax.tree.leaves(x)
    of_x, of_y = _real({i: type_of(leaves[i]) for i in jax.tree.leaves(asked)}), _real(dict(enumerate(types)))
    mode = mode or ("forward" if _size(of_x) <= _size(of_y) else "reverse")
    blocks = (_columns if mode == "forward" else _rows)(f, x, of_x, of_y) if of_x and of_y else {}

    def block(j: int, i: int) -> Any:
        return blocks[j, i] if (j, i) in blocks else jnp.zeros((*types[j].shape, *jnp.shape(leaves[i])), types[j].dtype)

    return [jax.tree.map(lambda i, j=j: block(j, i), asked) for j in range(len(types))]


def _columns(f: Closure, x: Any, of_x: Types, of_y: Types) -> Blocks:
    """∂y/∂xi for every entry xi: forward mode along the unit vectors."""

    def push(*t: Any) -> list[Any]:
        y = forward(f.code.body, extend(f.environment, dual(x, dict(zip(of_x, t, strict=True)))))
        return list(widened(y, of_y)[1].values())

    found = zip(of_y.items(), _along_units(push, of_x, -1), strict=True)
    return {(j, i): block for (j, y), column in found for i, block in _cut(column, -1, of_x, lambda x, y=y: (y, x))}


def _rows(f: Closure, x: Any, of_x: Types, of_y: Types) -> Blocks:
    """∂yj/∂x for every entry yj: reverse mode from the unit covectors."""
    leaf = ENVIRONMENT.is_leaf
    environment, count = hold(f.environment, leaf), len(jax.tree.leaves(x))
    marked = remark(x, tuple(i not in of_x for i in range(count)), leaf)
    y, pullback = rep(ENVIRONMENT, f.code.body, extend(environment, marked))
    held = marks(y, leaf)

    def pull(*g: Any) -> list[Any]:
        active = {j: c for j, c in zip(of_y, g, strict=True) if not held[j]}
        _, g_x = split(pullback(placed(active, y, leaf)), environment)
        return list(filled(g_x, marked, leaf).values())

    found = zip(of_x.items(), _along_units(pull, of_y, 0), strict=True)
    return {(j, i): block for (i, x), row in found for j, block in _cut(row, 0, of_y, lambda y, x=x: (y, x))}


def _along_units(linear: Callable[..., list[Any]], types: Types, axis: int) -> list[Any]:
    """A linear map of arrays of these types on all unit vectors, whose number is an axis of its results."""
    size = _size(types)
    program = record(linear, *map(shape_struct, types.values()))
    if size == 1:
        return [jnp.expand_dims(y, axis) for y in program(*(jnp.ones(t.shape, t.dtype) for t in types.values()))]
    starts = accumulate((prod(t.shape) for t in types.values()), initial=0)
    units = [
        jnp.reshape(jnp.eye(size, prod(t.shape), -start, t.dtype), (size, *t.shape))
        for start, t in zip(starts, types.values(), strict=False)
    ]
    return jax.vmap(program, out_axes=axis)(*units)


def _cut(
    entries: Any, axis: int, types: Types, of: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> Iterator[tuple[int, Any]]:
    """The blocks that lie one after the other along an axis; `of(t)` says of what by what a block is the derivative."""
    start = 0
    for i, t in types.items():
        y, x = of(t)
        block = lax.slice_in_dim(entries, start, start := start + prod(t.shape), axis=axis % entries.ndim)
        yield i, jnp.reshape(block, (*y.shape, *x.shape))


def _real(types: Types) -> Types:
    """The types that are not discrete."""
    for t in types.values():
        if jnp.issubdtype(t.dtype, np.complexfloating):
            raise NotDifferentiableError(
                "the Jacobian of complex numbers is asked for",
                expected="real arguments and results",
                got=t,
                hint="differentiate by the real and the imaginary part; jvp and vjp take complex numbers",
            )
    return {i: t for i, t in types.items() if not is_discrete(t)}


def _size(types: Types) -> int:
    return sum(prod(t.shape) for t in types.values())
