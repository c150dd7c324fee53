"""Asking JAX for the program of a function, and for the types of an operation's results; for each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

import jax
import jax.extend.core as jex
import jax.extend.linear_util as linear_util
from jax.core import ShapedArray
from jax.interpreters import partial_eval

from combinators.memo import Table, remembered

_PLAIN = frozenset({type(None), bool, int, float, str})  # of parameters that hold no program

type Known = tuple[list[Any], Any]  # the types of an operation's results, and its effects


def program(f: Callable[..., Sequence[Any]], types: Iterable[Any]) -> Any:
    """The jaxpr of a function of arrays to arrays on types as JAX has them, as `jax.make_jaxpr` gives it.

    That keeps its results by function and works on signatures, which takes ten times as long as to trace a short f.
    """
    inputs = [shaped(t.shape, t.dtype, t.weak_type) if isinstance(t, jax.ShapeDtypeStruct) else t for t in types]
    wrapped = linear_util.wrap_init(f, debug_info=names("program", len(inputs), 0))
    jaxpr, _, constants = partial_eval.trace_to_jaxpr_dynamic(wrapped, inputs)
    if jaxpr.eqns:
        _unread.put(jaxpr, settings())
    return jaxpr.with_consts(constants)


@remembered(entries=4096)
def shaped(shape: tuple[int, ...], dtype: Any, weak: bool = False) -> ShapedArray:
    """JAX's type of arrays of this shape and dtype."""
    return ShapedArray(shape, dtype, weak_type=weak)


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
    try:
        found = _known.get(key := (operation, frozenset(params.items()), types, setting))
    except TypeError:  # a parameter has no hash
        return _worked_out(operation, params, types)
    if found is None:
        if unread := _unread.take():
            for program in unread:
                _read(*program)
            return results(operation, params, types, setting)
        found = _worked_out(operation, params, types)
        if not holds_programs(params):
            _known.put(key, found)
    return found


def variable_of(tracer: Any) -> Any:
    """What a tracer of `jax.jit` is in the program that it belongs to; None for tracers of other kinds."""
    value = getattr(tracer, "val", None)
    return value if isinstance(value, jex.Var) else None


def holds_programs(params: dict[str, Any]) -> bool:
    """Whether an operation with these parameters has programs in them."""
    return (
        not _PLAIN.issuperset(map(type, params.values())) and next(iter(jex.jaxprs_in_params(params)), None) is not None
    )


_known: Table[Any, Known] = Table("results of operations", entries=8192)
_unread: Table[Any, Any] = Table("programs of JAX that say more of them", entries=16)  # each with its settings


def _worked_out(operation: Any, params: dict[str, Any], types: tuple[Any, ...]) -> Known:
    found, effects = operation.abstract_eval(*types, **params)
    return list(found) if operation.multiple_results else [found], effects


def _read(jaxpr: Any, setting: Any) -> None:
    """Keeps what a program, and those inside it, say of their operations."""
    programs, seen = [jaxpr], {jaxpr}
    while programs:
        for equation in programs.pop().eqns:
            inner = list(jex.jaxprs_in_params(equation.params))
            programs += [p for p in inner if p not in seen]
            seen.update(inner)
            if not (equation.effects or inner):
                types = tuple([v.aval for v in equation.invars])
                with suppress(TypeError):  # a parameter has no hash
                    key = (equation.primitive, frozenset(equation.params.items()), types, setting)
                    _known.put(key, ([v.aval for v in equation.outvars], equation.effects))
