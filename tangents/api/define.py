"""Primitives of one's own: a meaning and a pullback for each argument, under a name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
from jax.interpreters import ad, batching, mlir

from combinators.errors import ArgumentError, ArityError
from combinators.primitives import register
from combinators.terms import Primitive
from combinators.types import Tensor, require_values, type_of
from tangents.rows.table import define_row


def define(name: str, meaning: Callable[..., Any], *pullbacks: Callable[..., Any], **params: Any) -> Primitive:
    """The arrow of a new primitive (σ1, ..., σn) ⇝ τ, of one argument σ ⇝ τ.

    A name may be defined again: that makes another primitive, and what was made of the first keeps its meaning.

    `meaning(*arguments, **params)` is a JAX function of arrays that gives one array.  There is one pullback for each
    argument, `pullback(g, y, *arguments, **params)`: the argument's cotangent, of its shape and dtype, from the
    cotangent g of the result y.  The result is a term, and in lambdas one operation, which `jax.jit`, `jax.vmap` and
    reverse-mode `jax.grad` know too, with these pullbacks.  Hold it against the laws of primitives by `check`.

    Raises `ArgumentError` for the name of one of JAX's primitives, or when a pullback gives something else than a
    cotangent of its argument, and `ArityError` if there are more or fewer pullbacks than arguments.
    (Paper 003, figure 2: mult.)
    """
    if not (isinstance(name, str) and callable(meaning) and all(map(callable, pullbacks))):
        raise ArgumentError(
            "a primitive needs a name, a meaning and pullbacks",
            expected="define(name, meaning, *pullbacks)",
            got=(name, meaning, *pullbacks),
            hint='define("double", lambda x: 2 * x, lambda g, y, x: 2 * g)',
        )
    _check_arity(name, meaning, pullbacks)
    _check_params(name, params)
    row = tuple(_checked(name, i, pullback) for i, pullback in enumerate(pullbacks))
    operation = jex.Primitive(name)

    def result_type(*avals: Any, **params: Any) -> Any:
        structs = (jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals)
        result = type_of(jax.eval_shape(partial(meaning, **params), *structs))
        if not isinstance(result, Tensor):
            raise ArgumentError(f"{name} gives no single array", expected="one array", got=result)
        return jax.core.ShapedArray(result.shape, result.dtype, weak_type=result.weak)

    def batched(arguments: Any, axes: Any, **params: Any) -> Any:
        return jax.vmap(_with_rule(meaning, row, params), in_axes=axes)(*arguments), 0

    def forward(primals: Any, tangents: Any, **params: Any) -> Any:
        return jax.jvp(_with_rule(meaning, row, params), primals, tuple(map(ad.instantiate_zeros, tangents)))

    operation.def_impl(meaning)
    operation.def_abstract_eval(result_type)
    mlir.register_lowering(operation, mlir.lower_fun(meaning, multiple_results=False))
    batching.primitive_batchers[operation] = batched
    ad.primitive_jvps[operation] = forward
    register(operation)
    define_row(operation, row)
    return Primitive(name, tuple(sorted(params.items())), operation)


def _with_rule(meaning: Callable[..., Any], row: tuple[Callable[..., Any], ...], params: dict[str, Any]) -> Any:
    """The meaning as a function of JAX whose rule are the pullbacks."""

    def forward(*arguments: Any) -> Any:
        y = meaning(*arguments, **params)
        return y, (y, arguments)

    def backward(residuals: Any, g: Any) -> tuple[Any, ...]:
        y, arguments = residuals
        return tuple(pullback(g, y, *arguments, **params) for pullback in row)

    rule = jax.custom_vjp(partial(meaning, **params))
    rule.defvjp(forward, backward)
    return rule


def _checked(name: str, i: int, pullback: Callable[..., Any]) -> Callable[..., Any]:
    def checked(g: Any, y: Any, *arguments: Any, **params: Any) -> Any:
        cotangent = pullback(g, y, *arguments, **params)
        expected = type_of(arguments[i])
        require_values(cotangent)
        if type_of(cotangent) != expected:
            raise ArgumentError(
                f"pullback {i} of {name} gives no cotangent of its argument",
                expected=expected,
                got=type_of(cotangent),
                hint="a cotangent has the shape and dtype of its argument: sum over what was broadcast",
            )
        return cotangent

    return checked


def _check_params(name: str, params: dict[str, Any]) -> None:
    for parameter, value in params.items():
        try:
            hash(value)
        except TypeError:
            raise ArgumentError(
                f"the parameter {parameter} of {name} is part of the code, and has no hash",
                expected="numbers, text, tuples of them, or functions",
                got=f"{value!r} of type {type(value).__name__}",
                hint="what varies is an argument of a primitive; a list that does not is a tuple",
            ) from None


def _check_arity(name: str, meaning: Callable[..., Any], pullbacks: tuple[Any, ...]) -> None:
    try:
        parameters = inspect.signature(meaning).parameters.values()
    except ValueError as error:  # functions in C
        raise ArgumentError(
            f"how many arguments {name} has is not known",
            expected="a meaning with a signature",
            got=str(error),
            hint=f'define("{name}", lambda x, y: ..., one pullback for x, one for y)',
        ) from None
    kinds = [p.kind for p in parameters if p.default is p.empty]
    fixed = inspect.Parameter.VAR_POSITIONAL not in [p.kind for p in parameters]
    arguments = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) + kinds.count(inspect.Parameter.POSITIONAL_ONLY)
    if not pullbacks or (fixed and arguments != len(pullbacks)):
        raise ArityError(
            f"{name} needs a pullback for each of its arguments",
            expected=f"{arguments if fixed else 'one for each'}",
            got=str(len(pullbacks)),
            hint="a parameter that is no array has a default value, or stands behind a *",
        )
