"""Where JAX's versions differ, and what we read of a jaxpr that has no public name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.extend.core as jex

from combinators.primitives import generation
from combinators.staging import settings


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
    name = eqn.primitive.name
    return eqn.params["jaxpr"] if name == "jit" else eqn.params["call_jaxpr"] if name == "closed_call" else None


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
    """What changes the program of a term: what JAX's programs depend on, and names that have another meaning by now."""
    return (generation(), *settings())
