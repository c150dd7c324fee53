"""Jacobians and Hessians: all derivatives at once, a row or a column for each entry, in one batched pass."""

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
from combinators.edges import flags, one_of
from combinators.errors import NotDifferentiableError
from combinators.meaning.evaluate import evaluate
from combinators.meaning.infer import infer
from combinators.terms import Eval
from combinators.types import Tensor, is_discrete, shape_struct, type_of
from combinators.values import Closure
from compile_ccc.jaxprs.recording import record
from compile_ccc.operators import on_leaves
from tangents.api.auxiliary import check_pair
from tangents.api.calling import Asked, of_arguments
from tangents.cotangents.leaves import real, weakly
from tangents.cotangents.sparse import release, split
from tangents.duals import dual, widened
from tangents.forward.forward import forward
from tangents.operators import differential
from tangents.represent import rep
from tangents.spaces.environment import ENVIRONMENT
from tangents.spaces.functions import check_environments

type Types = dict[int, Tensor]  # of the real leaves, by their numbers
type Blocks = dict[tuple[int, int], Any]  # ∂y/∂x by the numbers of the leaves of y and x

MODES = ("forward", "reverse")


def jacobian(
    fun: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    mode: str | None = None,
) -> Callable[..., Any]:
    """A function like f that gives its Jacobian, like `jax.jacfwd` and `jax.jacrev`; with `has_aux`, (Jacobian, aux).

    For a result y and an argument x, arrays, it is an array of the shape (*y.shape, *x.shape).  In general it has the
    structure of the result, with that of the argument at each leaf; with a tuple `argnums`, a tuple of arguments'.  Of
    a function argument it is a `Closure` over the Jacobians by what it captured.  At discrete leaves there are zeros.

    `mode` is "forward", a column for each entry of the arguments, "reverse", a row for each entry of the result, or
    None: whichever has fewer.  Forward mode gives complex results by real arguments, ∂y/∂x; reverse mode real results
    by complex arguments, ∂y/∂Re x - i ∂y/∂Im x; with `holomorphic` both are complex, and entries complex derivatives.

    Raises `NotDifferentiableError` for other complex numbers, for discrete arguments unless `allow_int` is set, and
    what `jvp` and `vjp` raise.
    """
    return _of_arguments(fun, _jacobian, argnums, mode, has_aux, holomorphic, allow_int)


def value_and_jacobian(
    fun: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    mode: str | None = None,
) -> Callable[..., tuple[Any, Any]]:
    """A function like f that gives (f's value, its Jacobian), in one pass; with `has_aux`, the value is (value, aux).

    See `jacobian`.
    """
    return _of_arguments(fun, _jacobian, argnums, mode, has_aux, holomorphic, allow_int, with_value=True)


def jacfwd(
    fun: Any, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """`jacobian` in forward mode, with the signature of `jax.jacfwd`."""
    return jacobian(fun, argnums, has_aux, holomorphic, mode="forward")


def jacrev(
    fun: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """`jacobian` in reverse mode, with the signature of `jax.jacrev`."""
    return jacobian(fun, argnums, has_aux, holomorphic, allow_int, mode="reverse")


def hessian(
    fun: Any, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """A function like f that gives its Hessian, like `jax.hessian`: the Jacobian, in forward mode, of that in reverse.

    Of a scalar f by an array x it is an array of the shape (*x.shape, *x.shape).  For one product with a vector, `hvp`
    does not build it.  With `has_aux`, it gives (Hessian, aux).  Raises what `jacobian` raises.
    """
    return _of_arguments(fun, _hessian, argnums, "forward", has_aux, holomorphic)


def _of_arguments(
    f: Any,
    operation: Any,
    argnums: Any,
    mode: str | None,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool = False,
    with_value: bool = False,
) -> Any:
    one_of("mode", mode, (*MODES, None), "None is the one that takes fewer passes")
    flags(has_aux=has_aux, holomorphic=holomorphic, allow_int=allow_int)
    options = _Options(mode, has_aux, holomorphic, with_value)
    check = lambda arguments: check_environments(arguments, ENVIRONMENT)
    times = 2 if operation is _hessian else 1
    return of_arguments(f, operation, options, argnums, has_aux, allow_int, holomorphic, check, times)


@dataclass(frozen=True)
class _Options:
    mode: str | None
    has_aux: bool
    holomorphic: bool
    with_value: bool = False

    def result(self, y: Any, derivatives: list[Any]) -> Any:
        """What f's users get, of its result and the derivatives of the leaves of that, or of its value."""
        value, aux = y if self.has_aux else (y, None)
        found = jax.tree.structure(value).unflatten(derivatives)
        check_values(found)  # the structure of the value must not nest too deeply with that of the arguments
        return (y, found) if self.with_value else (found, aux) if self.has_aux else found


@differential
def _jacobian(static: tuple[_Options, Asked], f: Closure, x: Any) -> Any:
    types, form = jax.tree.flatten(infer(Eval(), (f, x)))
    if static[0].has_aux:
        check_pair(form.unflatten(types))
    return _derivatives(static, f, x, x, types, form)


@differential
def _hessian(static: tuple[_Options, Asked], f: Closure, x: Any) -> Any:
    options, asked = static
    rows = replace(options, mode="reverse")
    derivative, leaves, form = on_leaves(lambda x: _jacobian((rows, asked), f, x), x)
    return _derivatives(static, derivative, leaves, x, list(derivative.type.cod), form)


def _derivatives(
    static: tuple[_Options, Asked], f: Closure, x: Any, primal: Any, types: list[Tensor], form: Any
) -> Any:
    """What users get of f at x, which has the leaves of `primal`; f x has leaves of these types, and this form."""
    options, asked = static
    count = len(jax.tree.leaves(form.unflatten(types)[0])) if options.has_aux else len(types)
    leaves, of_primal = jax.tree.flatten(primal)
    numbers = asked.of(asked.arguments(of_primal.unflatten(range(len(leaves)))))
    of_x = real({i: type_of(leaves[i]) for i in sorted(jax.tree.leaves(numbers))})
    of_y = real(dict(enumerate(types[:count])))
    mode = _mode(options, of_x, of_y)
    wanted = options.has_aux or options.with_value
    if of_x and of_y:
        y, blocks = (_columns if mode == "forward" else _rows)(f, x, of_x, of_y, wanted)
    else:
        y, blocks = jax.tree.leaves(evaluate(Eval(), (f, x))) if wanted else [], {}

    def block(j: int, i: int) -> Any:
        if (j, i) in blocks:
            return weakly(blocks[j, i], of_y[j].weak if mode == "forward" else of_x[i].weak)
        by = leaves[i] if is_discrete(leaves[i]) else types[j]
        return jnp.zeros((*types[j].shape, *jnp.shape(leaves[i])), type_of(by).dtype)

    derivatives = [jax.tree.map(lambda i, j=j: block(j, i), numbers) for j in range(count)]
    return options.result(form.unflatten(y or types), derivatives)


def _columns(f: Closure, x: Any, of_x: Types, of_y: Types, wanted: bool) -> tuple[list[Any], Blocks]:
    """The leaves of y, and ∂y/∂xi for every entry xi: forward mode along the unit vectors."""

    def push(*t: Any) -> tuple[list[Any], list[Any]]:
        y = forward(f.code.body, extend(f.environment, dual(x, dict(zip(of_x, t, strict=True)))))
        value, tangents = widened(y, of_y)
        return list(tangents.values()), jax.tree.leaves(value) if wanted else []

    columns, y = _along_units(push, of_x, -1)
    found = zip(of_y.items(), columns, strict=True)
    return y, {(j, i): block for (j, y), column in found for i, block in _cut(column, -1, of_x, lambda x, y=y: (y, x))}


def _rows(f: Closure, x: Any, of_x: Types, of_y: Types, wanted: bool) -> tuple[list[Any], Blocks]:
    """The leaves of y, and ∂yj/∂x for every entry yj: reverse mode from the unit covectors."""
    environment, count = ENVIRONMENT.hold(f.environment), len(jax.tree.leaves(x))
    marked = ENVIRONMENT.remark(x, tuple(i not in of_x for i in range(count)))
    y, pullback = rep(ENVIRONMENT, f.code.body, extend(environment, marked))
    held = ENVIRONMENT.marks(y)

    def pull(*g: Any) -> tuple[list[Any], list[Any]]:
        active = {j: c for j, c in zip(of_y, g, strict=True) if not held[j]}
        _, g_x = split(pullback(ENVIRONMENT.placed(active, y)), environment)
        return list(ENVIRONMENT.filled(g_x, marked).values()), []

    rows, _ = _along_units(pull, of_y, 0)
    found = zip(of_x.items(), rows, strict=True)
    blocks = {(j, i): block for (i, x), row in found for j, block in _cut(row, 0, of_y, lambda y, x=x: (y, x))}
    return jax.tree.leaves(release(y)) if wanted else [], blocks


def _along_units(linear: Callable[..., Any], types: Types, axis: int) -> tuple[list[Any], list[Any]]:
    """A linear map of arrays of these types on all unit vectors, whose number is an axis of its results.

    Its second results do not depend on its arguments: they are given as they are.
    """
    size = _size(types)
    program = record(linear, *map(shape_struct, types.values()))
    if size == 1:
        results, others = program(*(jnp.ones(t.shape, t.dtype) for t in types.values()))
        return [jnp.expand_dims(y, axis) for y in results], others
    starts = accumulate((prod(t.shape) for t in types.values()), initial=0)
    units = [
        jnp.reshape(jnp.eye(size, prod(t.shape), -start, t.dtype), (size, *t.shape))
        for start, t in zip(starts, types.values(), strict=False)
    ]
    results, others = jax.vmap(program, out_axes=(axis, 0))(*units)
    return results, [lax.index_in_dim(y, 0, keepdims=False) for y in others]


def _cut(
    entries: Any, axis: int, types: Types, of: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> Iterator[tuple[int, Any]]:
    """The blocks that lie one after the other along an axis; `of(t)` says of what by what a block is the derivative."""
    start = 0
    for i, t in types.items():
        y, x = of(t)
        block = lax.slice_in_dim(entries, start, start := start + prod(t.shape), axis=axis % entries.ndim)
        yield i, jnp.reshape(block, (*y.shape, *x.shape))


def _mode(options: _Options, of_x: Types, of_y: Types) -> str:
    """In which direction to go.  Raises `NotDifferentiableError` for complex numbers that it cannot be."""
    complex_x, complex_y = (any(map(_is_complex, of.values())) for of in (of_x, of_y))
    fewer = "forward" if _size(of_x) <= _size(of_y) else "reverse"
    if options.holomorphic and all(map(_is_complex, of_y.values())):
        return options.mode or fewer
    if options.holomorphic:
        raise _no_jacobian("real results of a holomorphic function", "complex results", of_y)
    mode = options.mode or ("forward" if complex_y else "reverse" if complex_x else fewer)
    if mode == "forward" and complex_x:
        raise _no_jacobian("complex arguments in forward mode", 'real arguments, or mode="reverse"', of_x)
    if mode == "reverse" and complex_y:
        raise _no_jacobian("complex results in reverse mode", 'real results, or mode="forward"', of_y)
    return mode


def _no_jacobian(what: str, expected: str, got: Types) -> NotDifferentiableError:
    return NotDifferentiableError(
        f"the Jacobian is asked for with {what}",
        expected=expected,
        got=", ".join(map(str, got.values())),
        hint="set holomorphic for a function from complex to complex numbers that has a complex derivative; "
        "else differentiate real and imaginary parts",
    )


def _is_complex(type: Tensor) -> bool:
    return bool(jnp.issubdtype(type.dtype, np.complexfloating))


def _size(types: Types) -> int:
    return sum(prod(t.shape) for t in types.values())
