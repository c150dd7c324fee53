"""What all solvers ask of their arguments, and what they report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.errors import ArgumentError
from combinators.meaning.infer import infer
from combinators.terms import Eval
from combinators.types import Tensor, is_discrete, no_types, pack, same_type, type_of
from compile_ccc.tracing.function import function


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Report:
    """How a solver fared: whether it `converged`, the number of its `steps`, and the `residual` that it left.

    Scalars: a bool, an int32, and a float of the precision of the unknowns; what the residual is, each solver says.
    No derivative goes through them.
    """

    converged: Any
    steps: Any
    residual: Any


def no_report(x: Any) -> Report:
    """Of the type of the reports on unknowns like x."""
    return Report(jnp.zeros((), bool), jnp.zeros((), np.int32), jnp.zeros((), precision(x)))


def precision(x: Any) -> Any:
    """The dtype of the real numbers that are as precise as the unknowns x."""
    return jnp.finfo(jax.tree.leaves(x)[0].dtype).dtype


def unknowns(x: Any, name: str) -> Any:
    """The arrays of a pytree, none of them weakly typed.

    Raises `ArgumentError` if there are none, or discrete ones, or such of several dtypes.
    """
    no_types(x)
    types = type_of(x)
    leaves = jax.tree.leaves(types)
    if not all(isinstance(t, Tensor) for t in leaves) or any(map(is_discrete, leaves)):
        raise ArgumentError(
            f"a solver's {name} is of whole numbers, or no array",
            expected="floating-point numbers",
            got=types,
            hint="write 1.0 for 1",
        )
    dtypes = {t.dtype for t in leaves if not t.weak} or {t.dtype for t in leaves}
    if len(dtypes) != 1 or not sum(np.prod(t.shape) for t in leaves):
        raise ArgumentError(
            f"a solver's {name} has not one dtype" if dtypes else f"a solver's {name} holds no number",
            expected="one number or more, all of one dtype",
            got=types,
            hint="convert the arrays with .astype",
        )
    (dtype,) = dtypes
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), x)


def applicable(f: Any, arguments: tuple[Any, ...], like: Any, what: str) -> Any:
    """The function value f of these arguments, whose result has the type of `like`.

    Raises `ArgumentError` for a result of another type.
    """
    f = function(f, *arguments)
    expected, got = type_of(like), infer(Eval(), (type_of(f), type_of(pack(arguments))))
    if not same_type(expected, got):
        raise ArgumentError(
            f"{what} has another type than the unknowns",
            expected=expected,
            got=got,
            hint="a solver's function gives a pytree of the structure, shapes and dtypes of the start",
        )
    return f
