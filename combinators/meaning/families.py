"""Families of functions: closures that `jax.vmap` made, which are many functions in one and can only be mapped over."""

from __future__ import annotations

from typing import Any

import jax

from combinators.context import Context
from combinators.errors import ArgumentError
from combinators.terms import Curry
from combinators.types import Function, Opaque
from combinators.values import Closure


def stated(code: Curry, environment: Context | list[Any]) -> Curry:
    """The code, which was traced for such an environment, of values or types, with its shapes."""
    shapes = _shapes(environment) if len(environment) else ()
    return Curry(code.body, code.argument, shapes) if shapes else code


def require_one(f: Closure) -> None:
    """Refuses a family where one function is meant: each leaf has an axis more than the code was traced for.

    Raises `ArgumentError`.  Of code that is no function value of a traced program, nothing is known.
    """
    known = f.code.captured
    if not known or (found := _shapes(f.environment)) == known:
        return
    sizes = {shape[0] if shape else None for shape in found}
    if len(sizes) == 1 and None not in sizes and tuple(shape[1:] for shape in found) == known:
        raise ArgumentError(
            f"a family of {sizes.pop()} functions is applied as if it were one",
            expected="one function",
            got=f.environment,
            hint="map over it, jax.vmap(lambda f: f(x))(family), where no lambda of ours is traced; or make it inside",
        )


def _shapes(environment: Any) -> tuple[tuple[int, ...], ...]:
    """The shapes of the arrays, but for what the functions in the environment captured."""
    is_function = lambda v: isinstance(v, Closure | Function | Opaque)
    leaves = jax.tree.leaves(environment, is_leaf=is_function)
    return tuple([getattr(leaf, "shape", ()) for leaf in leaves if not is_function(leaf)])
