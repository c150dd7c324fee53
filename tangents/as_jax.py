"""JAX's names over our derivatives: with `from tangents import as_jax as jax`, a program is tried by one import.

The functions below are ours, with the signatures of JAX's.  Every other name is that of `jax`, its modules too:
`jax.numpy`, `jax.lax`, `jax.random`, `jax.jit`, `jax.vmap`, `jax.checkpoint`, `jax.custom_vjp`, ....
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from tangents import derivatives, directional, jacobians, jitted, linear_maps


def grad(
    fun: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """`tangents.grad`."""
    return derivatives.grad(fun, argnums, has_aux, holomorphic=holomorphic, allow_int=allow_int)


def value_and_grad(
    fun: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """`tangents.value_and_grad`."""
    return derivatives.value_and_grad(fun, argnums, has_aux, holomorphic=holomorphic, allow_int=allow_int)


def vjp(fun: Any, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """`tangents.vjp`."""
    return derivatives.vjp(fun, *primals, has_aux=has_aux)


def jvp(fun: Any, primals: Any, tangents: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """`tangents.jvp`."""
    return directional.jvp(fun, primals, tangents, has_aux)


def linearize(fun: Any, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """`tangents.linearize`."""
    return linear_maps.linearize(fun, *primals, has_aux=has_aux)


def linear_transpose(fun: Any, *primals: Any) -> Any:
    """`tangents.linear_transpose`."""
    return linear_maps.linear_transpose(fun, *primals)


def jacfwd(
    fun: Any, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """`tangents.jacfwd`."""
    return jacobians.jacfwd(fun, argnums, has_aux, holomorphic)


def jacrev(
    fun: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """`tangents.jacrev`."""
    return jacobians.jacrev(fun, argnums, has_aux, holomorphic, allow_int)


jacobian = jacrev
jit = jitted.jit


def hessian(
    fun: Any, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """`tangents.hessian`."""
    return jacobians.hessian(fun, argnums, has_aux, holomorphic)


def __getattr__(name: str) -> Any:
    return getattr(jax, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(jax)})
