"""Types of folds over trees: what a function of each constructor is applied to, and the one type that all give.

That type is found by running the functions on types: first those of the constructors without `Rec`, then the others,
until nothing is added.
"""

from __future__ import annotations

from typing import Any

import jax

from combinators.errors import CompositionError, LoopError, UnsupportedError
from combinators.inductive.constructors import Constructor
from combinators.inductive.forest import Forest
from combinators.meaning.loop_types import Apply
from combinators.terms import Cata
from combinators.text.outline import outline
from combinators.types import UNKNOWN, Array, Function, Tensor, Type, same_type
from combinators.values import is_function


def result(apply: Apply, term: Cata, x: Type) -> Type:
    """σ, from the type of ({name: function}, forest).

    Raises `CompositionError` for another domain, `LoopError` where the functions do not give one type, and
    `UnsupportedError` if that holds functions.
    """
    functions, forest = checked(term, x)
    found: Type = None
    for c in sorted(term.type.constructors, key=lambda c: c.arity > 0):
        given = apply(functions[c.name], domain(c, found, forest))
        found = _strong(term, c, given) if found is None else found
        if not same_type(found, given):
            raise LoopError(
                f"the function of the constructor {c.name!r} does not give what the others do",
                part=term, expected=found, got=given,
                hint="the results of all nodes have one type; a leaf gives the shape and dtype that a node does",
            )  # fmt: skip
    return found


def codomain(apply: Apply, term: Cata, x: Type) -> Type:
    """[σ], of which there is one for each tree; or the forest with one at each node."""
    found, forest = result(apply, term, x), x[1]
    if term.every:
        return forest.annotated({c.name: Array(forest.room(c), found) for c in forest.constructors}, found)
    return Array(forest.roots.shape[0], found)


def checked(term: Cata, x: Type) -> tuple[dict[str, Any], Forest]:
    """The functions and the forest, of types or of values.  Raises `CompositionError`."""
    functions, forest = x if isinstance(x, tuple) and len(x) == 2 else (None, None)
    if (
        isinstance(functions, dict)
        and isinstance(forest, Forest)
        and forest.constructors == term.type.constructors
        and functions.keys() == {c.name for c in forest.constructors}
    ):
        return functions, forest
    names = ", ".join(f"{c.name!r}: f" for c in term.type.constructors)
    raise CompositionError(
        f"the domain of {term} is not right", part=term, expected=f"({{{names}}}, a forest of {term.type})",
        got=outline(x), hint="a function for each constructor, by its name, and what encode gives of this very type",
    )  # fmt: skip


def domain(c: Constructor, inner: Type, forest: Forest) -> Type:
    """What the function of a constructor is applied to: `inner` for nodes of the type, and a row of the payload."""
    row = jax.tree.map(lambda t: Tensor(t.shape[1:], t.dtype), forest.payloads[c.name])
    return c.parts([inner] * c.arity, row)


def stated(found: Type, x: Type) -> Type:
    """The type of ({name: function}, forest), in which functions say what they are applied to, for these results."""
    functions, forest = x
    given = {c.name: domain(c, found, forest) for c in forest.constructors}
    return {name: Function(given[name], UNKNOWN) for name in functions}, forest


def _strong(term: Cata, c: Constructor, type: Type) -> Type:
    """A type of which there can be an array of results."""
    if any(not isinstance(t, Tensor) for t in jax.tree.leaves(type, is_leaf=is_function)):
        raise UnsupportedError(
            f"the function of the constructor {c.name!r} gives functions", part=term, expected="arrays", got=type,
            hint="give what the function captures, as arrays, and make the function of it where it is called",
        )  # fmt: skip
    return jax.tree.map(lambda t: Tensor(t.shape, t.dtype), type)
