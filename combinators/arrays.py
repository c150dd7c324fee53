"""Arrays of values of any type: what a loop goes through, and what it puts out."""

from __future__ import annotations

import jax

from combinators.edges import whole
from combinators.errors import UnsupportedError
from combinators.types import Function, Tensor, Type, require_types


def Array(n: int, type: Type) -> Type:
    """The type of n values of one type: `Array(n, Tensor(s))` is `Tensor((n, *s))`; of a product, by component.

    Raises `ArgumentError` for what is no size or no type.
    """
    n = whole("the size of an array", n, 0)
    return jax.tree.map(lambda t: Tensor((n, *_tensor(t).shape), t.dtype, t.weak), type)


def _tensor(type: Tensor | Function) -> Tensor:
    if isinstance(type, Tensor):
        return type
    require_types("the element of an array", type)
    raise UnsupportedError(
        "an array of functions of which only the type is known",
        expected="elements without functions",
        got=type,
        hint="apply the functions inside the loop, and collect the results",
    )
