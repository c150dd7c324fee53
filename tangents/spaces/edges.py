"""The edge of pullbacks and pushforwards: tangents and cotangents that users hand in, held against their primals."""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import dtypes

from combinators.errors import ArgumentError
from combinators.meaning.conform import described, stands_for
from combinators.records import as_records
from combinators.sums import TAG
from combinators.types import Tensor, is_discrete, require_values, type_of
from combinators.values import Closure
from tangents.cotangents.calls import Calls
from tangents.cotangents.leaves import Primals
from tangents.cotangents.sparse import Cotangent, Held, release


def from_public(g: Any, y: Any, space: Primals, name: str = "a cotangent") -> Cotangent:
    """The symbolic form of a cotangent that a user gives for the primal y; errors call it by the name.

    Raises `ArgumentError` if it has not the structure of y, or a leaf of another shape or dtype.
    """
    hint = "a cotangent has the structure, shapes and dtypes of its primal: no part of it stands for several"
    checked = [_leaf(c, x, path, name) for path, x, c in by_leaves(as_records(g), y, space, name, hint)]
    return space.symbolic(jax.tree.structure(y, is_leaf=space.is_leaf).unflatten(checked), y)


def by_leaves(t: Any, x: Any, space: Primals, name: str, hint: str) -> list[tuple[Any, Any, Any]]:
    """(path, leaf, part) of each leaf of the primal x, with the part of a tangent, or cotangent, that is given for it.

    Raises `ArgumentError`, which calls that by the name, if it has not the structure of x.
    """
    primals, form = jax.tree_util.tree_flatten_with_path(x, is_leaf=space.is_leaf)
    try:
        parts = form.flatten_up_to(t)
    except (ValueError, TypeError):
        path, primal, part = _misfit(x, t, space)
        raise ArgumentError(
            f"{component(path)}{name} has not the structure of its primal",
            expected=type_of(release(primal)),
            got=described(part),
            hint=hint,
        ) from None
    return [(path, leaf, part) for (path, leaf), part in zip(primals, parts, strict=True)]


def _misfit(x: Any, given: Any, space: Primals, path: tuple[Any, ...] = ()) -> tuple[Any, Any, Any]:
    """The first component of x for which a part of another structure is given: its path, itself, and that part."""
    pairs, form = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda node: node is not x)
    try:
        parts = form.flatten_up_to(given)
    except (ValueError, TypeError):
        return path, x, given
    for (key, component), part in zip(pairs, parts, strict=True):
        try:
            jax.tree.structure(component, is_leaf=space.is_leaf).flatten_up_to(part)
        except (ValueError, TypeError):
            return _misfit(component, part, space, (*path, *key))
    return path, x, given


def _leaf(cotangent: Any, primal: Any, path: tuple[Any, ...], name: str) -> Any:
    name = component(path) + name
    match primal:
        case Held(value):
            if isinstance(type := type_of(release(value)), Tensor) and is_discrete(type) and not is_tag(path):
                require_zero(cotangent, type, name)
            return cotangent
        case Closure():
            if isinstance(cotangent, Calls):
                return cotangent
            raise ArgumentError(
                f"{name} is no Calls, the list cotangent of a function",
                expected="Calls(...)",
                got=repr(cotangent),
                hint="Calls(Block(x, g)) is one call at x with the cotangent g, Calls() is zero",
            )
        case _:
            return converted(cotangent, type_of(primal), name)


def converted(t: Any, expected: Tensor, name: str) -> Any:
    """A tangent or cotangent, that errors call by the name, as an array of this type, which numbers become."""
    require_values(t)
    got = type_of(t)
    if stands_for(got, expected):
        return jnp.asarray(t, expected.dtype)
    raise ArgumentError(
        f"{name} has not the type of its primal",
        expected=expected,
        got=str(got),
        hint="it has the shape and dtype of its primal, in which complex numbers are no real ones",
    )


def require_zero(t: Any, type: Tensor, name: str) -> None:
    """Raises `ArgumentError` for what is no zero tangent, or cotangent, of a discrete leaf of this type.

    Zeros are None, `float0`, and zeros of any dtype.  Of traced values only the dtype is known: a discrete one.
    """
    if t is None or (isinstance(t, tuple) and not t):
        return
    require_values(t)
    got = type_of(t)
    if not (isinstance(got, Tensor) and got.shape in ((), type.shape) and _is_zero(t, got.dtype)):
        raise ArgumentError(
            f"{name} of what is discrete is not zero",
            expected=f"None, float0, or zeros: {type} has no other tangents",
            got=f"{t!r}",
            hint="integers, truth values and keys do not vary: pass a float, such as 2.0 for 2, to move along it",
        )


def _is_zero(t: Any, dtype: Any) -> bool:
    if dtype == dtypes.float0:
        return True
    if isinstance(t, jax.core.Tracer):
        return not jnp.issubdtype(dtype, np.inexact)
    return not jnp.issubdtype(dtype, dtypes.extended) and not np.any(np.asarray(t))


def is_tag(path: tuple[Any, ...]) -> bool:
    """Whether the tag of a sum stands here, which of a tangent of a sum says that of which alternative it is."""
    return bool(path) and path[-1] is TAG


def component(path: tuple[Any, ...]) -> str:
    """The words in front of the name of a value which say that a component of it is meant; none for all of it."""
    return f"the component {jax.tree_util.keystr(path, simple=True, separator='.')} of " if path else ""
