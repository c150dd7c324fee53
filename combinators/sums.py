"""Coproducts: one class for sum types and sum values, and what it takes to choose between them.

A value of τ0 + ... + τn-1 is a tag and a place for each alternative.  Where the tag is known while tracing it is a
Python int, as `inject` makes it, and the other places are None: nothing needs to know their types.  Where the tag is an
array, every place is filled, the absent ones by zeros.  A `case` on a known tag runs one branch; on an array it is a
`lax.switch`, whose results are widened to one type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from combinators.context import Context, extend
from combinators.errors import CompositionError, UnsupportedError
from combinators.types import LEAF, Tensor, Type, children, same_type, type_of
from combinators.values import Closure


class Sum:
    """`Sum(τ0, τ1, ...)`: the coproduct of types.  `Sum(a, b, tag=t)`: a value, of alternative number t.

    `tag` is an int, or an int32 scalar array that may be traced; alternatives that cannot be there are None.  A pytree.
    """

    __slots__ = ("alternatives", "tag")
    tag: Any

    def __init__(self, *alternatives: Any, tag: Any = None):
        self.alternatives = alternatives
        self.tag = Tensor((), jnp.int32) if tag is None else tag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and self.tag == other.tag and self.alternatives == other.alternatives

    __hash__ = None  # type: ignore[assignment]  # alternatives may be arrays

    def __repr__(self) -> str:
        alternatives = ["?" if a is None else repr(a) for a in self.alternatives]
        if isinstance(self.tag, Tensor):
            return f"({' + '.join(alternatives)})"
        return f"Sum({', '.join(alternatives)}, tag={self.tag})"


def _flatten(s: Sum) -> tuple[tuple[tuple[Any, Any], ...], Any]:
    keyed = tuple((jax.tree_util.SequenceKey(i), a) for i, a in enumerate(s.alternatives))
    return (keyed, s.tag) if isinstance(s.tag, int) else ((*keyed, (jax.tree_util.GetAttrKey("tag"), s.tag)), None)


def _unflatten(tag: int | None, parts: Any) -> Sum:
    return Sum(*parts, tag=tag) if tag is not None else Sum(*parts[:-1], tag=parts[-1])


jax.tree_util.register_pytree_with_keys(Sum, _flatten, _unflatten)


def injected(index: int, count: int, x: Any) -> Sum:
    """The value, or the type, x as alternative number `index` of `count`."""
    return Sum(*(x if i == index else None for i in range(count)), tag=index)


def chosen(x: Any, count: int, part: Any) -> tuple[Any, Sum]:
    """Δ and the sum of a domain of `case`: Δ·(a + b), a pair (Δ, a + b), or a sum alone, whose Δ is None.

    Raises `CompositionError` if there is no sum of `count` alternatives.
    """
    match x:
        case Sum():
            rest, s = None, x
        case Context() if len(x):
            rest, s = Context(*list(x)[:-1]), x[-1]
        case (rest, s):
            pass
        case _:
            rest, s = None, None
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


def join(types: list[Type], part: Any) -> Type:
    """The one type of the results of several branches: sums with known tags become sums of all that may be there.

    Raises `CompositionError` if the branches differ otherwise, `UnsupportedError` for functions of different code.
    """
    known = [t for t in types if t is not None]
    if all(same_type(known[0], t) for t in known[1:]):
        return known[0] if known else None
    if all(isinstance(t, Sum) for t in known) and len({len(t.alternatives) for t in known}) == 1:
        places = zip(*(t.alternatives for t in known), strict=True)
        return Sum(*(join(list(place), part) for place in places))
    if any(isinstance(t, Closure) for t in known):
        raise UnsupportedError(
            "the branches of a case give functions of different code", part=part, expected="equal code", got=types,
            hint="apply the function inside the branches",
        )  # fmt: skip
    levels = [children(t) for t in known]
    if all(form == levels[0][1] for _, form in levels) and levels[0][1] != LEAF:
        columns = zip(*([t for _, t in pairs] for pairs, _ in levels), strict=True)
        return levels[0][1].unflatten([join(list(column), part) for column in columns])
    raise CompositionError(
        "the branches of a case give different types", part=part, expected=types[0], got=types[1:],
        hint="every branch needs the same result type; inject results that differ into a sum",
    )  # fmt: skip


def widen(value: Any, type: Type, new: Callable[[Any], Any] = lambda leaf: leaf) -> Any:
    """A branch's result as a value of the joined type: its structure is the type's; `new` marks what is filled in."""
    if isinstance(value, Sum) and not (isinstance(type, Sum) and isinstance(type.tag, int)):
        parts = [_filled(a, t, new) for a, t in zip(value.alternatives, type.alternatives, strict=True)]
        return Sum(*parts, tag=new(jnp.int32(value.tag)) if isinstance(value.tag, int) else value.tag)
    pairs, form = children(value)
    if form == LEAF or not pairs or isinstance(value, Closure):
        return value
    types = [t for _, t in children(type)[0]]
    return form.unflatten([widen(v, t, new) for (_, v), t in zip(pairs, types, strict=True)])


def _filled(value: Any, type: Type, new: Callable[[Any], Any]) -> Any:
    if value is None and type is not None:
        return jax.tree.map(lambda t: new(jnp.zeros(t.shape, t.dtype)), type)
    return value if value is None else widen(value, type, new)
