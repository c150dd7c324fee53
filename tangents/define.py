"""Primitives of one's own: a meaning and a pullback for each argument, under a name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
from jax.interpreters import ad, batching, mlir

from combinators.primitives import register
from combinators.terms import Primitive
from combinators.types import type_of
from tangents.rows import ROWS


def define(name: str, meaning: Callable[..., Any], *pullbacks: Callable[..., Any], **params: Any) -> Primitive:
    """The arrow of a new primitive (σ1, ..., σn) ⇝ τ, of one argument σ ⇝ τ; defining a name again replaces it.

    `meaning(*arguments, **params)` is a JAX function of arrays that gives one array.  There is one pullback for each
    argument, `pullback(g, y, *arguments, **params)`: the argument's cotangent, of its shape and dtype, from the
    cotangent g of the result y.  The result is a term; called in a lambda it is one operation, which `jax.jit`,
    `jax.vmap` and `jax.grad` know too.  Hold it against the laws of primitives by `check`.

    Raises `ArgumentError` for the name of one of JAX's primitives.  (Paper 003, figure 2: mult.)
    """
    operation = jex.Primitive(name)

    def result_type(*avals: Any, **params: Any) -> Any:
        structs = (jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals)
        type = type_of(jax.eval_shape(partial(meaning, **params), *structs))
        return jax.core.ShapedArray(type.shape, type.dtype, weak_type=type.weak)

    def batched(arguments: Any, axes: Any, **params: Any) -> Any:
        return jax.vmap(partial(meaning, **params), in_axes=axes)(*arguments), 0

    def forward(primals: Any, tangents: Any, **params: Any) -> Any:
        return jax.jvp(partial(meaning, **params), primals, tuple(map(ad.instantiate_zeros, tangents)))

    operation.def_impl(meaning)
    operation.def_abstract_eval(result_type)
    mlir.register_lowering(operation, mlir.lower_fun(meaning, multiple_results=False))
    batching.primitive_batchers[operation] = batched
    ad.primitive_jvps[operation] = forward
    register(operation)
    ROWS[name] = pullbacks
    return Primitive(name, tuple(sorted(params.items())))
