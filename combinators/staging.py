"""Asking JAX for the program of a function, and for the types of an operation's results; for each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import jax
import jax.extend.core as jex
import jax.extend.linear_util as linear_util
from jax.core import ShapedArray
from jax.interpreters import partial_eval

from combinators.memo import Table, remembered

type Known = tuple[list[Any], Any]  # the types of an operation's results, and its effects


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
    _unread.put(jaxpr, settings())
    return jaxpr.with_consts(constants)


@remembered(entries=1024)
def names(name: str, inputs: int, outputs: int) -> Any:
    """What messages of JAX say of a program, its inputs and its outputs."""
    places = [f"x{i}" for i in range(inputs)], [f"result[{i}]" for i in range(outputs)]
    return jex.DebugInfo("jit", name, *map(tuple, places))


_flags = attrgetter(
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_disable_jit",
)


def settings() -> tuple[Any, ...]:
    """What JAX's programs depend on besides the function and its arguments: its settings, and its mesh."""
    return (jax.sharding.get_abstract_mesh(), *_flags(jax.config))


def results(operation: Any, params: dict[str, Any], types: tuple[Any, ...], setting: Any) -> Known:
    """The types of an operation's results, and its effects, as JAX works them out; once, if it holds no programs.

    What JAX worked out as it traced a program is read off that program.
    """
    key = _key(operation, params, types, setting)
    found = _found(key)
    if found is None:
        found = _worked_out(operation, params, types)
        if key is not None:
            _known.put(key, found)
    return found


def known(operation: Any, params: dict[str, Any], types: tuple[Any, ...], setting: Any) -> Known | None:
    """The results and effects of an operation without programs, if it was met before."""
    return _found(_key(operation, params, types, setting))


def variable_of(tracer: Any) -> Any:
    """What a tracer of `jax.jit` is in the program that it belongs to; None for tracers of other kinds."""
    value = getattr(tracer, "val", None)
    return value if isinstance(value, jex.Var) else None


def holds_programs(params: dict[str, Any]) -> bool:
    """Whether an operation with these parameters has programs in them."""
    return next(iter(jex.jaxprs_in_params(params)), None) is not None


_known: Table[Any, Known] = Table("results of operations", entries=8192)
_unread: Table[Any, Any] = Table("programs of JAX that say more of them", entries=16)  # each with its settings


def _key(operation: Any, params: dict[str, Any], types: tuple[Any, ...], setting: Any) -> Any:
    """What the results of an operation depend on; None if a parameter has no hash, or holds programs."""
    if next(iter(jex.jaxprs_in_params(params)), None) is not None:
        return None
    try:
        return operation, frozenset(params.items()), types, setting
    except TypeError:
        return None


def _worked_out(operation: Any, params: dict[str, Any], types: tuple[Any, ...]) -> Known:
    found, effects = operation.abstract_eval(*types, **params)
    return list(found) if operation.multiple_results else [found], effects


def _found(key: Any) -> Known | None:
    if key is None:
        return None
    found = _known.get(key)
    if found is None and len(_unread):
        for unread in _unread.take():
            _read(*unread)
        found = _known.get(key)
    return found


def _read(jaxpr: Any, setting: Any) -> None:
    """Keeps what a program, and those inside it, say of their operations."""
    programs, seen = [jaxpr], {jaxpr}
    while programs:
        for equation in programs.pop().eqns:
            inner = [p for p in jex.jaxprs_in_params(equation.params) if p not in seen]
            programs += inner
            seen.update(inner)
            types = tuple([v.aval for v in equation.invars])
            key = None if equation.effects else _key(equation.primitive, equation.params, types, setting)
            if key is not None:
                _known.put(key, ([v.aval for v in equation.outvars], equation.effects))
