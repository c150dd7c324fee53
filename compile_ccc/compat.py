"""Where JAX's versions differ, and what we read of a jaxpr that has no public name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.extend.core as jex
from jax import lax

from combinators.staging import program, settings


def scan_arity(params: dict[str, Any]) -> tuple[int, int]:
    """How many operands of a `scan` equation are constants, and how many its carry."""
    constants, carry, _ = params["ft_in"].unpack()
    return len(list(constants)), len(list(carry))


def frames(source_info: Any) -> Iterator[tuple[str, int]]:
    """The (file, line) frames at which an equation was traced, innermost first."""
    traceback = source_info.traceback
    return ((f.file_name, f.line_num) for f in (traceback.frames if traceback else ()))


def inlined(eqn: Any) -> Any:
    """The program that a call equation stands for, if calling it means no more than running it; else None."""
    match eqn.primitive.name:
        case "jit":
            return eqn.params["jaxpr"]
        case "closed_call":
            return eqn.params["call_jaxpr"]
        case "reduce_window":
            return _by_name(eqn)
        case _:
            return None


_MONOIDS = {
    "max": (jex.primitives.reduce_window_max_p, lax.max),
    "min": (jex.primitives.reduce_window_min_p, lax.min),
    "add": (jex.primitives.reduce_window_sum_p, lax.add),
}


def _by_name(eqn: Any) -> Any:
    """reduce_window(x, start, f) as f(start, reduce_window_f(x)): JAX knows f by its name if it knows the start."""
    params = dict(eqn.params)
    reducer, _ = params.pop("jaxpr"), params.pop("consts")
    name = reducer.eqns[0].primitive.name if len(reducer.eqns) == 1 else ""
    types = [v.aval for v in eqn.invars]
    alone = len(types) == 2 and set(reducer.eqns[0].invars if name else ()) == set(reducer.invars)
    if name not in _MONOIDS or not alone:
        return None
    operation, combine = _MONOIDS[name]
    of_windows = lambda x: operation.bind(x, **params)
    return program(lambda x, start: [combine((y := of_windows(x)), lax.broadcast(start, y.shape))], types)


def says_no_rule(error: Exception) -> bool:
    """Whether JAX says by this error that it has no derivative of an operation."""
    return (
        isinstance(error, ValueError | TypeError | NotImplementedError) or type(error).__name__ == "CustomVJPException"
    )


def has_named_axes() -> bool:
    """Whether operations may refer to axes by name, as under `jax.vmap(f, axis_name="i")`."""
    return jex.nonempty_axis_env_DO_NOT_USE()  # pyright: ignore[reportPrivateImportUsage]


def is_staged_otherwise(primitive: jex.Primitive) -> bool:
    """Whether JAX writes an operation down in a way of its own."""
    return primitive.name.startswith("call_hi_primitive")


def flags() -> tuple[Any, ...]:
    """What the program of a term depends on besides the term and its types."""
    return settings()
