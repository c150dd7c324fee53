"""Constructors of inductive types: a name, and parts, which are payloads or values of the type itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.errors import ArgumentError
from combinators.types import Tensor, Type


class _Rec:
    """The place of a value of the type itself among the parts of a constructor."""

    def __repr__(self) -> str:
        return "Rec"

    def __reduce__(self) -> str:
        return "Rec"  # there is one


Rec: Any = _Rec()


@dataclass(frozen=True)
class Constructor:
    """`name` of parts whose pytree is `form`; its `leaves` are tensor types, those of a payload, and `Rec`."""

    name: str
    form: Any
    leaves: tuple[Any, ...]

    @cached_property
    def arity(self) -> int:
        """How many parts are values of the type."""
        return sum(leaf is Rec for leaf in self.leaves)

    @cached_property
    def own(self) -> list[int]:
        """Which of its leaves are those of the payload."""
        return [i for i, leaf in enumerate(self.leaves) if leaf is not Rec]

    @property
    def whole(self) -> Any:
        """Its parts, as they are declared."""
        return self.form.unflatten(self.leaves)

    @cached_property
    def is_tuple(self) -> bool:
        """Whether its parts are declared as a tuple."""
        return type(self.whole) is tuple

    @cached_property
    def keys(self) -> list[str]:
        """How the parts that are values of the type are called in a path."""
        found, _ = jax.tree_util.tree_flatten_with_path(self.whole)
        return [jax.tree_util.keystr(path) for path, leaf in found if leaf is Rec]

    def parts(self, inner: Sequence[Any], payload: Any) -> Any:
        """The parts, from those that are values of the type, and a payload."""
        left, own = iter(inner), iter(jax.tree.leaves(payload))
        return self.form.unflatten([next(left) if leaf is Rec else next(own) for leaf in self.leaves])

    def payload(self, leaves: Sequence[Any]) -> Any:
        """The parts with these leaves of the payload, and None in the place of values of the type."""
        own = iter(leaves)
        return self.form.unflatten([None if leaf is Rec else next(own) for leaf in self.leaves])

    @cached_property
    def places(self) -> Any:
        """The form of the parts that are values of the type, with None in the place of the payload."""
        is_payload = lambda part: not any(leaf is Rec for leaf in jax.tree.leaves(part))
        rec = jax.tree.map(lambda x: x if x is Rec else None, self.whole, is_leaf=is_payload)
        return jax.tree.structure(rec)

    def __repr__(self) -> str:
        return f"{self.name}={self.whole!r}"


def declared(name: str, parts: Type) -> Constructor:
    """A constructor, checked.  Raises `ArgumentError` for parts that are neither tensor types nor `Rec`."""
    leaves, form = jax.tree.flatten(parts)
    for leaf in leaves:
        if leaf is not Rec and not (isinstance(leaf, Tensor) and _is_number(leaf.dtype)):
            raise ArgumentError(
                f"a part of the constructor {name!r} is nothing that an array can hold",
                expected="C.Rec, a C.Tensor of numbers or truth values, or tuples, dicts and other pytrees of these",
                got=f"{leaf!r} of type {type(leaf).__name__}",
                hint="C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Rec)); functions, and other types, are no payload",
            )
    return Constructor(name, form, tuple(leaves))


def _is_number(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, np.number) or dtype == np.bool_
