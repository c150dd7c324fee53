"""JAX's names over our derivatives: with `from tangents import as_jax as jax`, a program is tried by one import.

The functions below are ours, which take what JAX's take.  Every other name is that of `jax`, its modules too:
`jax.numpy`, `jax.lax`, `jax.random`, `jax.vmap`, `jax.checkpoint`, `jax.custom_vjp`, ....
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax

from combinators.errors import UnsupportedError, user_line
from tangents.api import derivatives, linear_maps
from tangents.api.directional import jvp
from tangents.api.jacobians import hessian, jacfwd, jacrev
from tangents.api.jitted import jit


def _named(f: Callable[..., Any]) -> Any:
    """f, which refuses by their names the settings that JAX's function has and f has not, but for their defaults."""
    theirs = inspect.signature(getattr(jax, f.__name__)).parameters
    left_out = {name: theirs[name].default for name in theirs.keys() - inspect.signature(f).parameters.keys()}

    @functools.wraps(f)
    def named(*arguments: Any, **keywords: Any) -> Any:
        for name in left_out.keys() & keywords.keys():
            if (value := keywords.pop(name)) is not left_out[name]:
                raise UnsupportedError(
                    f"{f.__name__} of JAX has the setting {name}, and ours has not",
                    expected=f"{name}={left_out[name]!r}",
                    got=f"{name}={value!r}",
                    line=user_line(),
                    hint="leave it out; jax.checkpoint and stop_gradient say what a pullback keeps, and what varies",
                )
        return f(*arguments, **keywords)

    return named


grad, value_and_grad, vjp = _named(derivatives.grad), _named(derivatives.value_and_grad), _named(derivatives.vjp)
linearize, linear_transpose = _named(linear_maps.linearize), _named(linear_maps.linear_transpose)
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
