"""Families of functions: closures that `jax.vmap` made, which are many functions in one and can only be mapped over."""

from __future__ import annotations

from combinators.errors import ArgumentError
from combinators.values import Closure, shapes


def require_one(f: Closure) -> None:
    """Refuses a family where one function is meant: each leaf has an axis more than when the closure was made.

    Raises `ArgumentError`.
    """
    found = shapes(f.environment)
    if found == f.made or not found:
        return
    sizes = {shape[0] if shape else None for shape in found}
    if len(sizes) == 1 and None not in sizes and tuple(shape[1:] for shape in found) == f.made:
        raise ArgumentError(
            f"a family of {sizes.pop()} functions is applied as if it were one",
            expected="one function",
            got=f.environment,
            hint="map over it, jax.vmap(lambda f: f(x))(family), where no lambda of ours is traced; or make it inside",
        )
