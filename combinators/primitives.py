"""First-order primitives: JAX's own by name, those that users define, and those that a traced program brings along.

`primitive("sin")` is an arrow; `bind` runs one on arrays, `shape` on types.  What a primitive's parameters mean is
JAX's definition; parameters that JAX's own functions would fill in are filled in here.
"""

from __future__ import annotations

import copyreg
import difflib
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax

from combinators import staging
from combinators.errors import (
    ArgumentError,
    CompositionError,
    DiffcurryError,
    FunctionArithmeticError,
    UnknownPrimitiveError,
    UnsupportedError,
)
from combinators.memo import remembered
from combinators.parameters import DEFAULTS, check_parameters
from combinators.terms import Primitive
from combinators.text.outline import outline
from combinators.types import Tensor, Type, type_of
from combinators.values import is_function

_LISTED = {p.name: p for p in vars(jex.primitives).values() if isinstance(p, jex.Primitive)}


@remembered(entries=1)
def _jaxs_own() -> dict[str, jex.Primitive]:
    """JAX's primitives by name: those that it lists, and those of our table that it does not."""
    unlisted = jax.make_jaxpr(lambda x: (*lax.split(x, (1, 1)), jax.random.key_data(jax.random.wrap_key_data(x))))
    equations = unlisted(jax.ShapeDtypeStruct((2,), "uint32")).eqns
    return {**{eqn.primitive.name: eqn.primitive for eqn in equations}, **_LISTED}


_defined: dict[str, jex.Primitive | None] = {}  # users' primitives by name; None where there are several
_by_jax: WeakSet[Primitive] = WeakSet()  # primitives whose parameters are those of a program of JAX


def primitive(name: str, **params: Any) -> Primitive:
    """The arrow of a primitive, (σ1, ..., σn) ⇝ τ, of one argument σ ⇝ τ: `primitive("reduce_sum", axes=(0,))`.

    Names and parameters are those of `jax.lax`'s primitives, or the name is one that `define` was given.  Raises
    `UnknownPrimitiveError` for a name without a primitive, or with several of them.  Parameters are looked at when the
    types of the arguments are known.
    """
    if isinstance(name, str) and name in _defined:
        return defined(name, tuple(sorted(params.items())))
    known = _jaxs_own()
    if not isinstance(name, str) or name not in known:
        raise _unknown(name, known)
    return Primitive(name, tuple(sorted({**DEFAULTS.get(name, {}), **params}.items())))


_BY_NAME_IN_JNP = {
    "absolute": "abs", "all": "reduce_and", "amax": "reduce_max", "amin": "reduce_min", "any": "reduce_or",
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
    "arctanh": "atanh", "astype": "convert_element_type", "bitwise_and": "and", "bitwise_or": "or",
    "broadcast_to": "broadcast_in_dim", "conjugate": "conj", "divide": "div", "dot": "dot_general", "equal": "eq",
    "flip": "rev", "greater": "gt", "greater_equal": "ge", "inner": "dot_general", "invert": "not", "less": "lt",
    "less_equal": "le", "matmul": "dot_general", "maximum": "max", "minimum": "min", "multiply": "mul",
    "negative": "neg", "not_equal": "ne", "power": "pow", "ravel": "reshape", "sigmoid": "logistic",
    "subtract": "sub", "sum": "reduce_sum", "swapaxes": "transpose", "take": "gather", "tensordot": "dot_general",
    "true_divide": "div", "vdot": "dot_general", "where": "select_n",
}  # fmt: skip


def _unknown(name: Any, known: Mapping[str, Any]) -> UnknownPrimitiveError:
    """What is said of a name without a primitive: of one of jnp's, which primitive that is, and how to take jnp's."""
    near = difflib.get_close_matches(str(name), known, n=3)
    places = {"jnp": jnp, "jax.nn": jax.nn, "jax.lax": lax} if isinstance(name, str) else {}
    own = next((f"{place}.{name}" for place, module in places.items() if callable(getattr(module, name, None))), None)
    like = f"one of JAX's {len(known)} primitives" + (f", such as {', '.join(near)}" if near else "")
    return UnknownPrimitiveError(
        f"there is no primitive named {name!r}",
        expected=_BY_NAME_IN_JNP.get(name, like) if isinstance(name, str) else like,
        got=name,
        hint=f"a Python function stands wherever a term may: f >> {own}, or f >> (lambda x: {own}(..., x, ...))"
        if own
        else "names are those of jax.extend.core.primitives, as jax.make_jaxpr prints them",
    )


def register(operation: jex.Primitive) -> None:
    """Makes an operation known by its name.  Raises `ArgumentError` for the name of one of JAX's own."""
    if operation.name in _jaxs_own():
        raise ArgumentError(
            "this name is taken by a primitive of JAX",
            expected="a new name",
            got=operation.name,
            hint=f"for example my_{operation.name}",
        )
    _defined[operation.name] = None if operation.name in _defined else operation


def defined(name: str, params: tuple[tuple[str, Any], ...]) -> Primitive:
    """The primitive that was defined by this name."""
    operation = _defined.get(name)
    if operation is None:
        raise UnknownPrimitiveError(
            f"{'several primitives are' if name in _defined else 'no primitive is'} defined by the name {name!r}",
            expected="a name with one definition",
            got=name,
            hint="define(...) gives the primitive itself: use that in place of the name",
        )
    return Primitive(name, params, operation)


def _reduced(term: Primitive) -> Any:
    """What pickles a primitive.  Raises `UnsupportedError` for a user's own if its name is not its own."""
    if term.definition is None:
        return term.__reduce__()
    if _defined.get(term.name) is not term.definition:
        raise UnsupportedError(
            "a primitive is pickled, and its name does not tell it from others",
            part=term,
            expected="a primitive of JAX, or the only one that was defined by its name",
            got=term.name,
            hint="as functions of Python, primitives are pickled by their names: define it by a name of its own",
        )
    return defined, (term.name, term.params)


copyreg.pickle(Primitive, _reduced)


def traced(operation: jex.Primitive, params: dict[str, Any]) -> Primitive:
    """The arrow of an equation of a traced program, whose primitive may be a third party's own."""
    if _jaxs_own().get(operation.name) is not operation:
        return Primitive(operation.name, tuple(sorted(params.items())), operation)
    if not staging.holds_programs(params):
        try:
            return _of_jax(operation.name, *params, *params.values())
        except TypeError:  # a parameter has no hash
            pass
    _by_jax.add(term := Primitive(operation.name, tuple(sorted(params.items()))))
    return term


@remembered(entries=2048, typed=True)
def _of_jax(name: str, *params: Any) -> Primitive:
    """A primitive of JAX's own, to which equal parameters are the same.  All names come first, then all values."""
    half = len(params) // 2
    _by_jax.add(term := Primitive(name, tuple(sorted(zip(params[:half], params[half:], strict=True)))))
    return term


def operation_of(term: Primitive) -> jex.Primitive:
    """What JAX binds for a primitive."""
    return _jaxs_own()[term.name] if term.definition is None else term.definition


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
    except Exception as error:  # each of JAX's rules refuses in its own way
        reason = str(error).strip().splitlines() or [error.__class__.__name__]
        raise CompositionError(
            f"the primitive {term.name} does not accept its domain",
            part=term,
            expected=f"operands that jax.lax accepts for {term.name}",
            got=f"{len(types)}: {outline(x)}" if len(types) != 1 else x,
            hint=f"JAX says: {reason[0][:200]}",
        ) from error


@remembered(entries=4096)
def _shape(term: Primitive, types: tuple[tuple[Tensor, bool], ...], x64: bool) -> Type:
    avals = tuple(jax.core.ShapedArray(t.shape, t.dtype, weak_type=weak) for t, weak in types)
    operation, params = operation_of(term), dict(term.params)
    if staging.holds_programs(params):
        results = staging.program(lambda *arrays: jax.tree.leaves(bind(term, arrays)), avals).out_avals
    else:
        results, _ = staging.results(operation, params, avals, staging.settings())
    if term.definition is None and term not in _by_jax:
        check_parameters(term.name, operation, params, avals)
    found = type_of(tuple(results))
    return found if operation.multiple_results else found[0]


def _refusal(term: Primitive, operand: Type, index: int) -> DiffcurryError:
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
