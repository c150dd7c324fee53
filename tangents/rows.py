"""The pullback table: for each primitive, one function for each argument.

    (g, y, *arguments, **params) ↦ the cotangent of that argument

g is the result's cotangent and y the result.  What a function mentions is what is kept for the backward pass: rows use
the result where it is enough (exp, tanh), else the arguments, which the program keeps anyway.  `()` marks a primitive
whose derivative is zero everywhere.  Kinks and ties follow JAX.  Binary operations broadcast axes of size 1 and rank 0,
so their pullbacks sum back (`fit`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tangents.rows_linear import LINEAR

type PullbackOfArgument = Callable[..., Any]
type Row = tuple[PullbackOfArgument, ...] | Mapping[int, PullbackOfArgument]


def fit(g: Any, x: Any) -> Any:
    """Sums a cotangent over the axes along which the argument x was broadcast."""
    shape = jnp.shape(x)
    if g.shape == shape:
        return g
    if not shape:
        return lax.reduce_sum(g, tuple(range(g.ndim)))
    axes = tuple(i for i, (n, m) in enumerate(zip(g.shape, shape, strict=True)) if n != m)
    return lax.reshape(lax.reduce_sum(g, axes), shape)


def _number(value: Any, like: Any) -> Any:
    """A number of the dtype of an array: `lax` promotes nothing."""
    return np.asarray(value, jnp.result_type(like))


def _balanced(y: Any, x: Any, other: Any) -> Any:
    """1 where x alone attains the extremum y, 1/2 at ties, 0 elsewhere."""
    zeros, ones, twos = (lax.full_like(y, value) for value in (0, 1, 2))
    x, other = (jnp.broadcast_to(v, y.shape) for v in (x, other))
    return lax.div(lax.select(lax.eq(x, y), ones, zeros), lax.select(lax.eq(other, y), twos, ones))


def _nonzero(x: Any) -> Any:
    return lax.select(lax.eq(x, lax.full_like(x, 0)), lax.full_like(x, 1), x)


def _power_base(g: Any, y: Any, a: Any, b: Any, **_: Any) -> Any:
    if jnp.issubdtype(jnp.result_type(b), np.inexact):
        return fit(lax.mul(g, lax.mul(b, lax.pow(a, lax.sub(b, _number(1, b))))), a)
    b = jnp.broadcast_to(b, jnp.shape(y))
    zero = lax.eq(b, lax.full_like(b, 0))
    factor = lax.mul(lax.convert_element_type(b, y.dtype), lax.pow(a, lax.select(zero, lax.full_like(b, 1), b - 1)))
    return fit(lax.mul(g, lax.select(zero, lax.full_like(factor, 0), factor)), a)


def _integer_power(g: Any, _: Any, x: Any, *, y: int) -> Any:
    return lax.full_like(g, 0) if y == 0 else lax.mul(g, lax.mul(lax.integer_pow(x, y - 1), _number(y, x)))


def _extremum(g: Any, y: Any, x: Any, *, axes: Any, **_: Any) -> Any:
    """Spreads g evenly over the places that attain the extremum."""
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    back = lambda v: lax.broadcast_in_dim(v, x.shape, kept)
    here = lax.convert_element_type(lax.eq(x, back(y)), g.dtype)
    return lax.mul(back(lax.div(g, lax.reduce_sum(here, axes))), here)


_UNARY: dict[str, PullbackOfArgument] = {
    "neg": lambda g, y, x, **_: lax.neg(g),
    "abs": lambda g, y, x, **_: lax.select(lax.ge(x, lax.full_like(x, 0)), g, lax.neg(g)),
    "exp": lambda g, y, x, **_: lax.mul(g, y),
    "exp2": lambda g, y, x, **_: lax.mul(g, lax.mul(y, _number(np.log(2), y))),
    "expm1": lambda g, y, x, **_: lax.mul(g, lax.add(y, _number(1, y))),
    "log": lambda g, y, x, **_: lax.div(g, x),
    "log1p": lambda g, y, x, **_: lax.div(g, lax.add(x, _number(1, x))),
    "sin": lambda g, y, x, **_: lax.mul(g, lax.cos(x)),
    "cos": lambda g, y, x, **_: lax.neg(lax.mul(g, lax.sin(x))),
    "tan": lambda g, y, x, **_: lax.mul(g, lax.add(lax.square(y), _number(1, y))),
    "tanh": lambda g, y, x, **_: lax.mul(g, lax.sub(_number(1, y), lax.square(y))),
    "logistic": lambda g, y, x, **_: lax.mul(g, lax.mul(y, lax.sub(_number(1, y), y))),
    "sqrt": lambda g, y, x, **_: lax.div(g, lax.mul(y, _number(2, y))),
    "rsqrt": lambda g, y, x, **_: lax.mul(g, lax.mul(lax.div(y, x), _number(-0.5, y))),
    "square": lambda g, y, x, **_: lax.mul(g, lax.mul(x, _number(2, x))),
    "integer_pow": _integer_power,
    "reduce_max": _extremum,
    "reduce_min": _extremum,
}

_BINARY: dict[str, Row] = {
    "add": (lambda g, y, a, b, **_: fit(g, a), lambda g, y, a, b, **_: fit(g, b)),
    "sub": (lambda g, y, a, b, **_: fit(g, a), lambda g, y, a, b, **_: fit(lax.neg(g), b)),
    "mul": (lambda g, y, a, b, **_: fit(lax.mul(g, b), a), lambda g, y, a, b, **_: fit(lax.mul(g, a), b)),
    "div": (
        lambda g, y, a, b, **_: fit(lax.div(g, b), a),
        lambda g, y, a, b, **_: fit(lax.neg(lax.mul(g, lax.div(y, b))), b),
    ),
    "max": (
        lambda g, y, a, b, **_: fit(lax.mul(g, _balanced(y, a, b)), a),
        lambda g, y, a, b, **_: fit(lax.mul(g, _balanced(y, b, a)), b),
    ),
    "pow": (_power_base, lambda g, y, a, b, **_: fit(lax.mul(g, lax.mul(lax.log(_nonzero(a)), y)), b)),
}
_BINARY["min"] = _BINARY["max"]

_CONSTANT = ("sign", "floor", "ceil", "round", "stop_gradient")

ROWS: dict[str, Row] = {
    **{name: (pullback,) for name, pullback in _UNARY.items()},
    **_BINARY,
    **LINEAR,
    **dict.fromkeys(_CONSTANT, ()),
}
