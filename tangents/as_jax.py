"""JAX's names over our derivatives: with `from tangents import as_jax as jax`, a program is tried by one import.

The functions below are ours, which take what JAX's take.  Every other name is that of `jax`, its modules too:
`jax.numpy`, `jax.lax`, `jax.random`, `jax.vmap`, `jax.checkpoint`, `jax.custom_vjp`, ....
"""

from __future__ import annotations

from typing import Any

import jax

from tangents.api.derivatives import grad, value_and_grad, vjp
from tangents.api.directional import jvp
from tangents.api.jacobians import hessian, jacfwd, jacrev
from tangents.api.jitted import jit
from tangents.api.linear_maps import linear_transpose, linearize

jacobian = jacrev  # as in JAX

__all__ = [
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "value_and_grad",
    "vjp",
]


def __getattr__(name: str) -> Any:
    return getattr(jax, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(jax)})
