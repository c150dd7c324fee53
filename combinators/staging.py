"""Asking JAX for the program of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.extend.core as jex
import jax.extend.linear_util as linear_util
from jax.core import ShapedArray
from jax.interpreters import partial_eval


def program(f: Callable[..., Sequence[Any]], types: Iterable[Any]) -> Any:
    """The jaxpr of a function of arrays to arrays on types as JAX has them, as `jax.make_jaxpr` gives it.

    That keeps its results by function and works on signatures, which takes ten times as long as to trace a short f.
    """
    inputs = [
        ShapedArray(t.shape, t.dtype, weak_type=t.weak_type) if isinstance(t, jax.ShapeDtypeStruct) else t
        for t in types
    ]
    wrapped = linear_util.wrap_init(f, debug_info=names("program", len(inputs), 0))
    jaxpr, _, constants = partial_eval.trace_to_jaxpr_dynamic(wrapped, inputs)
    return jaxpr.with_consts(constants)


@lru_cache(maxsize=1024)
def names(name: str, inputs: int, outputs: int) -> Any:
    """What messages of JAX say of a program, its inputs and its outputs."""
    places = tuple(f"x{i}" for i in range(inputs)), tuple(f"result[{i}]" for i in range(outputs))
    return jex.DebugInfo("jit", name, *places)
