"""Coproducts: one class for sum types and sum values, and what it takes to choose between them.

A value of τ0 + ... + τn-1 is a tag and a place for each alternative.  Where the tag is known while tracing it is a
Python int, as `inject` makes it, and the other places are None: nothing needs to know their types.  Where the tag is an
array, every place is filled, the absent ones by zeros.  A `case` on a known tag runs one branch; on an array it is a
`lax.switch`, whose results are widened to one type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from combinators.base import mixed
from combinators.context import divided, extend
from combinators.edges import whole
from combinators.errors import ArgumentError, CompositionError
from combinators.terms import Case, Inject, Tag, Term
from combinators.text.outline import outline
from combinators.types import Tensor, type_of

TAG = jax.tree_util.GetAttrKey("tag")  # where the tag of a sum stands in a path


@jax.tree_util.register_pytree_with_keys_class
class Sum:
    """`Sum(τ0, τ1, ...)`: the coproduct of types.  `Sum(a, b, tag=t)`: a value, of alternative number t.

    `tag` is an int, or an int32 scalar array that may be traced; alternatives that cannot be there are None.  A pytree.
    """

    __slots__ = ("_is_known", "alternatives", "tag")
    tag: Any

    def __init__(self, *alternatives: Any, tag: Any = None):
        self.alternatives = alternatives
        self._is_known = isinstance(tag, int)
        if self._is_known:
            tag = whole("the tag of a sum", tag, 0, len(alternatives) - 1)
        self.tag = Tensor((), jnp.int32) if tag is None else tag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and jax.tree.flatten(self) == jax.tree.flatten(other)

    __hash__ = None  # type: ignore[assignment]  # alternatives may be arrays

    def __repr__(self) -> str:
        alternatives = ["?" if a is None else outline(a, repr) for a in self.alternatives]
        if isinstance(self.tag, Tensor):
            return f"({' + '.join(alternatives)})"
        return f"Sum({', '.join(alternatives)}, tag={self.tag})"

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], ...], Any]:
        keyed = tuple((jax.tree_util.SequenceKey(i), a) for i, a in enumerate(self.alternatives))
        return (keyed, self.tag) if self._is_known else ((*keyed, (TAG, self.tag)), None)

    @classmethod
    def tree_unflatten(cls, tag: int | None, parts: Any) -> Sum:
        """The sum of whatever JAX puts in the places of arrays, which may be ints."""
        s = object.__new__(cls)
        s._is_known = tag is not None
        s.alternatives, s.tag = (tuple(parts), tag) if tag is not None else (tuple(parts[:-1]), parts[-1])
        return s


def inject(i: int, n: int) -> Term:
    """inject(i, n) : τ ⇝ σ0 + ... + σn-1, alternative i, from 0, of n.  Law: inject(i, n) >> case(f0, ...) = fi."""
    n = whole("the number of alternatives of inject", n, 1)
    return Inject(whole("the alternative of inject", i, 0, n - 1), n)


def tag(n: int) -> Term:
    """tag(n) : int ⇝ 1 + ... + 1, the alternative of this number, or the nearest; booleans are 0 and 1.

    So arrays choose between arrows: `prod(f, which) >> prod(proj(0), proj(1) >> tag(2)) >> case(...)`.
    Law: const(i) >> tag(n) = const(()) >> inject(i, n).
    """
    return Tag(whole("the number of alternatives of tag", n, 1))


def case(*branches: Any) -> Any:
    """case(f, g, ...) : Δ·(τ0 + τ1 + ...) ⇝ σ for f : Δ·τ0 ⇝ σ, ...; it distributes over what stands before the sum.

    On a pair (a, τ0 + τ1) the branches get (a, τi), on a sum alone just τi.
    """
    if not branches:
        raise ArgumentError("a case has no branches", expected="a branch for each alternative", got="none")
    return mixed("case", lambda *terms: Case(terms), *branches)


def injected(index: int, count: int, x: Any) -> Sum:
    """The value, or the type, x as alternative number `index` of `count`."""
    return Sum(*(x if i == index else None for i in range(count)), tag=index)


def tagged(count: int, number: Any, part: Any = None) -> Sum:
    """The number of an alternative, or its type, as a sum of units; a number out of range counts as the nearest one.

    Raises `CompositionError` if it is no integer or boolean scalar.
    """
    type = type_of(number)
    if not isinstance(type, Tensor) or type.shape or not (jnp.issubdtype(type.dtype, np.integer) or type.dtype == bool):
        raise CompositionError(
            "tag takes the number of an alternative",
            part=part,
            expected="an integer or boolean scalar",
            got=type,
            hint="compare, or convert by convert_element_type, first",
        )
    if isinstance(number, Tensor):
        return Sum(*[()] * count)
    return Sum(*[()] * count, tag=_within(count, jnp.asarray(number)))


def _within(count: int, number: Any) -> Any:
    """The number of the nearest of so many alternatives, as the dtype of tags."""
    if number.dtype != bool:
        number = lax.clamp(np.asarray(0, number.dtype), number, np.asarray(_last(count, number.dtype), number.dtype))
    index = lax.convert_element_type(number, jnp.int32)
    return index if count > 1 else jnp.zeros_like(index)


def _last(count: int, dtype: Any) -> int:
    return min(count - 1, jnp.iinfo(dtype).max)


def among(s: Sum, possible: Sequence[int], tag: Any) -> Any:
    """The place of the alternative with this tag among those that can be there."""
    return tag if len(possible) == len(s.alternatives) else jnp.searchsorted(jnp.asarray(possible, jnp.int32), tag)


def chosen(x: Any, count: int, part: Any) -> tuple[Any, Sum]:
    """Δ and the sum of a domain of `case`: Δ·(a + b), a pair (Δ, a + b), or a sum alone, whose Δ is None.

    Raises `CompositionError` if there is no sum of `count` alternatives.
    """
    rest, s = (None, x) if isinstance(x, Sum) else divided(x) or (None, None)
    if isinstance(s, Sum) and len(s.alternatives) == count:
        return rest, s
    raise CompositionError(
        "case finds no sum to look into",
        part=part,
        expected=f"a sum of {count} alternatives, alone, last in a context, or second in a pair",
        got=type_of(x),
        hint="inject(i, n) makes a sum; a branch gets what stands before the sum, extended by its alternative",
    )


def branch_domain(rest: Any, part: Any) -> Any:
    """What a branch gets: Δ·τi, the pair (a, τi), or τi alone."""
    return part if rest is None else extend(rest, part)
