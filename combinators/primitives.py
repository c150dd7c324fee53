"""First-order primitives by name: JAX's own, and those that a traced program brings along.

`primitive("sin")` is an arrow; `bind` runs one on arrays, `shape` on types.  What a primitive's parameters mean is
JAX's definition; parameters that JAX's own functions would fill in are filled in here.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
from jax import lax

from combinators import staging
from combinators.errors import (
    ArgumentError,
    CompositionError,
    DiffcurryError,
    FunctionArithmeticError,
    UnknownPrimitiveError,
)
from combinators.terms import Primitive
from combinators.types import Tensor, Type, type_of

_TABLE: dict[str, jex.Primitive] = {
    operation.name: operation for operation in vars(jex.primitives).values() if isinstance(operation, jex.Primitive)
}

_JAXS_OWN = dict(_TABLE)
_ACCURACY = ["cbrt", "cos", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sqrt", "tan", "tanh"]
_DEFAULTS: dict[str, dict[str, Any]] = {
    **{name: {"accuracy": None} for name in _ACCURACY},
    **{f"reduce_{name}": {"out_sharding": None} for name in ("sum", "max", "min", "prod", "and", "or")},
    "broadcast_in_dim": {"sharding": None},
    "convert_element_type": {"weak_type": False, "sharding": None},
    "dot_general": {"precision": None, "preferred_element_type": None, "out_sharding": None},
    "iota": {"sharding": None},
    "mul": {"out_dtype": None},
    "reshape": {"dimensions": None, "sharding": None},
    "slice": {"strides": None},
}


def primitive(name: str, **params: Any) -> Primitive:
    """The arrow of a primitive, (σ1, ..., σn) ⇝ τ, of one argument σ ⇝ τ: `primitive("reduce_sum", axes=(0,))`.

    Names and parameters are those of `jax.lax`'s primitives.  Raises `UnknownPrimitiveError` for a name without one.
    """
    if name not in _TABLE:
        near = difflib.get_close_matches(name, _TABLE, n=3)
        raise UnknownPrimitiveError(
            f"there is no primitive named {name!r}",
            expected=f"one of JAX's {len(_TABLE)} primitives" + (f", such as {', '.join(near)}" if near else ""),
            got=name,
            hint="names are those of jax.extend.core.primitives, as jax.make_jaxpr prints them",
        )
    return Primitive(name, tuple(sorted({**_DEFAULTS.get(name, {}), **params}.items())))


_replaced: list[str] = []  # names that were defined again


def register(operation: jex.Primitive) -> None:
    """Makes an operation known by its name; what was compiled with another operation of this name is forgotten.

    Raises `ArgumentError` for the name of one of JAX's own.
    """
    if operation.name in _JAXS_OWN:
        raise ArgumentError("this name is taken by a primitive of JAX", expected="a new name", got=operation.name)
    if operation.name in _TABLE:
        _replaced.append(operation.name)
        jax.clear_caches()
    _TABLE[operation.name] = operation
    _shape.cache_clear()


def generation() -> int:
    """How often a name was given another meaning: what is kept by terms holds within one generation."""
    return len(_replaced)


def traced(operation: jex.Primitive, params: dict[str, Any]) -> Primitive:
    """The arrow of an equation of a traced program, whose primitive may be a third party's own."""
    if _JAXS_OWN.get(operation.name) is operation and not staging.holds_programs(params):
        try:
            return _of_jax(operation.name, *params, *params.values())
        except TypeError:  # a parameter has no hash
            pass
    name, version = operation.name, 2
    while _TABLE.setdefault(name, operation) is not operation:
        name, version = f"{operation.name}.{version}", version + 1
    return Primitive(name, tuple(sorted(params.items())))


@lru_cache(maxsize=8192, typed=True)
def _of_jax(name: str, *params: Any) -> Primitive:
    """A primitive of JAX's own, to which equal parameters are the same.  All names come first, then all values."""
    half = len(params) // 2
    return Primitive(name, tuple(sorted(zip(params[:half], params[half:], strict=True))))


def operation_of(term: Primitive) -> jex.Primitive:
    """What JAX binds for a primitive."""
    return _TABLE[term.name]


def operands(x: Any) -> tuple[Any, ...]:
    """The arguments of an n-ary arrow from its one domain: a tuple's components, or the one argument."""
    return x if isinstance(x, tuple) else (x,)


def bind(term: Primitive, x: Any) -> Any:
    """The meaning of a primitive: arrays to an array, or to a tuple where JAX's primitive has many results."""
    operation = operation_of(term)
    result = operation.bind(*operands(x), **operation.get_bind_params(dict(term.params)))
    return tuple(result) if operation.multiple_results else result


def bind_varying(term: Primitive, x: Any) -> Any:
    """`bind`, also inside `jax.shard_map`: where devices hold different values of one operand, they do of all.

    A traced program does not say which of its values vary from device to device, and may be used where others do.
    """
    try:
        return bind(term, x)
    except ValueError:
        xs = operands(x)
        axes = [jax.typeof(x).manual_axis_type.varying for x in xs]
        if term.name == "pvary":  # the values vary already
            stated = frozenset(dict(term.params)["axes"])
            result = _vary(xs, [stated - own for own in axes])
            return result if operation_of(term).multiple_results else result[0]
        if len(set(axes)) <= 1:
            raise
        return bind(term, _vary(xs, [frozenset().union(*axes) - own for own in axes]))


def _vary(xs: tuple[Any, ...], axes: list[frozenset[Any]]) -> tuple[Any, ...]:
    return tuple(lax.pcast(x, tuple(more), to="varying") if more else x for x, more in zip(xs, axes, strict=True))


def shape(term: Primitive, x: Type) -> Type:
    """The codomain of a primitive on a domain.  Raises `CompositionError` if JAX refuses it."""
    types = operands(x)
    for index, operand in enumerate(types):
        if not isinstance(operand, Tensor):
            raise _refusal(term, operand, index)
    try:
        return _shape(term, tuple((t, t.weak) for t in types), bool(jax.config.jax_enable_x64))
    except DiffcurryError:
        raise
    except (TypeError, ValueError, AssertionError, IndexError, KeyError, NotImplementedError) as error:
        reason = str(error).strip().splitlines() or [error.__class__.__name__]
        raise CompositionError(
            f"the primitive {term.name} does not accept its domain",
            part=term,
            expected=f"operands that jax.lax accepts for {term.name}",
            got=f"{len(types)}: {x}" if len(types) != 1 else x,
            hint=f"JAX says: {reason[0][:200]}",
        ) from None


@lru_cache(maxsize=65536)
def _shape(term: Primitive, types: tuple[tuple[Tensor, bool], ...], x64: bool) -> Type:
    avals = tuple(jax.core.ShapedArray(t.shape, t.dtype, weak_type=weak) for t, weak in types)
    operation, params = operation_of(term), dict(term.params)
    if staging.holds_programs(params):
        results = staging.program(lambda *arrays: jax.tree.leaves(bind(term, arrays)), avals).out_avals
    else:
        results, _ = staging.results(operation, params, avals, staging.settings())
    found = type_of(tuple(results))
    return found if operation.multiple_results else found[0]


def _refusal(term: Primitive, operand: Type, index: int) -> DiffcurryError:
    from combinators.infer import is_function

    if is_function(operand):
        return FunctionArithmeticError(
            f"{term.name} is applied to a function",
            part=term,
            expected="an array",
            got=f"argument {index}: {operand}",
            hint="apply the function first: prod(f, x) >> eval",
        )
    return CompositionError(
        f"{term.name} is applied to a product within its arguments",
        part=term,
        expected="an array, or one flat tuple of arrays",
        got=f"argument {index}: {operand}",
        hint="project the components out first",
    )
