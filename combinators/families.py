"""Families of functions: closures that `jax.vmap` made, which are many functions in one and can only be mapped over."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import jax

from combinators.errors import ArgumentError
from combinators.terms import Curry
from combinators.types import Tensor, Type
from combinators.values import Closure

_made: WeakKeyDictionary[Curry, set[Any]] = WeakKeyDictionary()


def made(code: Curry, environment: Type) -> None:
    """Remembers the environment that a traced program gives its code, by which one function is told from many."""
    _made.setdefault(code, set()).add(_shapes(environment))


def require_one(f: Closure) -> None:
    """Refuses a family where one function is meant: each leaf has an axis more than the code was made for.

    Raises `ArgumentError`.  Of code that no traced program made, nothing is known.
    """
    known, shapes = _made.get(f.code, set()), _shapes(f.environment)
    if shapes in known or not shapes:
        return
    sizes = {shape[0] if shape else None for shape in shapes}
    if len(sizes) == 1 and None not in sizes and tuple(shape[1:] for shape in shapes) in known:
        raise ArgumentError(
            f"a family of {sizes.pop()} functions is applied as if it were one",
            expected="one function",
            got=f.environment,
            hint="map over it, jax.vmap(lambda f: f(x))(family), where no lambda of ours is traced; or make it inside",
        )


def _shapes(environment: Type) -> tuple[tuple[int, ...], ...]:
    """The shapes of what a function captured itself; a function among that is looked at when it is applied."""
    own = jax.tree.leaves(environment, is_leaf=lambda node: isinstance(node, Closure))
    return tuple(leaf.shape for leaf in own if isinstance(leaf, Tensor))
