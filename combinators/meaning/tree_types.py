"""Types of folds over trees: what a function of each constructor is applied to, and the one type of all nodes.

Results have the type that the functions give: first those of the constructors without `Rec` are run on types, then the
others, until nothing is added.  States have that of the roots' states.
"""

from __future__ import annotations

from inspect import signature
from types import FunctionType
from typing import Any, NamedTuple

import jax

from combinators.arrays import Array
from combinators.errors import ArityError, CompositionError, LoopError, UnsupportedError
from combinators.inductive.constructors import Constructor
from combinators.inductive.forest import Forest
from combinators.meaning.loop_types import Apply
from combinators.terms import Cata, Inherit
from combinators.text.outline import outline
from combinators.types import UNKNOWN, Function, Tensor, Type, same_type
from combinators.values import is_function


class Given(NamedTuple):
    """The functions by constructors, the states of the roots, or (), and the forest: of values, or of types."""

    functions: dict[str, Any]
    start: Any
    forest: Forest


def result(apply: Apply, term: Cata | Inherit, x: Type) -> Type:
    """σ, from the type of ({name: function}, forest) or of ({name: function}, states of the roots, forest).

    Raises `CompositionError` for another domain, `LoopError` where the functions do not give one type, and
    `UnsupportedError` if that holds functions.
    """
    functions, start, forest = checked(term, x)
    found: Type = _row(start) if isinstance(term, Inherit) else None
    for c in sorted(called(term), key=lambda c: c.arity > 0):
        given = apply(functions[c.name], domain(term, c, found, forest))
        found = _strong(term, c, given) if found is None else found
        expected = c.places.unflatten([found] * c.arity) if isinstance(term, Inherit) else found
        if not same_type(expected, given):
            raise LoopError(
                f"the function of the constructor {c.name!r} does not give "
                + ("states for the nodes below" if isinstance(term, Inherit) else "what the others do"), part=term,
                expected=expected, got=given,
                hint="the states of all nodes have one type; a function gives them in the places of C.Rec, and None in "
                "those of the payload" if isinstance(term, Inherit) else
                "the results of all nodes have one type; a leaf gives the shape and dtype that a node does",
            )  # fmt: skip
    return found


def codomain(apply: Apply, term: Cata | Inherit, x: Type) -> Type:
    """[σ], of which there is one for each tree; or the forest with one at each node."""
    found, forest = result(apply, term, x), x[-1]
    if isinstance(term, Inherit) or term.every:
        return forest.annotated({c.name: Array(forest.room(c), found) for c in forest.constructors}, found)
    return Array(forest.count, found)


def called(term: Cata | Inherit) -> list[Constructor]:
    """The constructors that have a function: nothing is passed down from those without nodes below them."""
    return [c for c in term.type.constructors if c.arity or isinstance(term, Cata)]


def require_fold(term: Cata | Inherit, arguments: tuple[Any, ...]) -> None:
    """Looks at what a user hands to a fold: a dict of functions of the parts of constructors, and no trees as they are.

    Raises `CompositionError`, or `ArityError` for a Python function that takes other arguments than it gets.
    """
    if len(arguments) < 2:
        return
    functions, trees = arguments[0], arguments[-1]
    if isinstance(functions, list | tuple):
        raise _refused(term, "the functions are no dict", f"a {type(functions).__name__} in its place", _BY_NAME)
    if isinstance(trees, list | tuple):
        raise _refused(term, _NO_FOREST, f"a {type(trees).__name__} in its place", _ENCODED)
    for c in called(term):
        f = functions.get(c.name) if isinstance(functions, dict) else None
        passes = isinstance(term, Inherit)
        parts = ("a state", c.payload([c.leaves[i] for i in c.own])) if passes else c.whole
        count = len(parts) if type(parts) is tuple else 1
        if isinstance(f, FunctionType) and not (_binds(f, count) or _binds(f, 1)):
            raise ArityError(
                f"the function of the constructor {c.name!r} takes other arguments than it gets", part=term,
                expected=f"{count}: {parts!r}", got=f"{f.__name__}{signature(f)}",
                hint="the state of a node, and its payload, with None in the places of C.Rec" if passes else
                "a parameter for each part, with results in places of C.Rec; parts that are a dict are one argument",
            )  # fmt: skip


def _binds(f: Any, count: int) -> bool:
    try:
        signature(f).bind(*range(count))
    except TypeError:
        return False
    return True


_BY_NAME = "a dict with a function for each constructor, by its name"
_NO_FOREST, _ENCODED = "the trees are no forest of this type", "what T.encode(trees) gives, of this very type T"


def _refused(term: Cata | Inherit, what: str, got: str, hint: str) -> CompositionError:
    names = ", ".join(f"{c.name!r}: f" for c in called(term))
    states = "the state of each root, " if isinstance(term, Inherit) else ""
    return CompositionError(
        f"the domain of {term} is not right: {what}", part=term,
        expected=f"({{{names}}}, {states}a forest of {term.type})", got=got, hint=hint,
    )  # fmt: skip


def checked(term: Cata | Inherit, x: Type) -> Given:
    """What a fold is applied to.  Raises `CompositionError`."""
    passes = isinstance(term, Inherit)
    refuse = lambda what, hint: _refused(term, what, outline(x), hint)
    constructors = called(term)
    if not isinstance(x, tuple) or len(x) != 2 + passes:
        raise refuse(f"it is no tuple of {2 + passes}", "C.inherit(T)(f, states, forest), and C.cata(T)(f, forest)")
    functions, forest = x[0], x[-1]
    if not isinstance(functions, dict) or functions.keys() != {c.name for c in constructors}:
        given = functions if isinstance(functions, dict) else ()
        missing = [repr(c.name) for c in constructors if c.name not in given]
        unknown = [repr(name) for name in given if name not in {c.name for c in constructors}]
        found = [f"{word} {', '.join(names)}" for word, names in (("none for", missing), ("one for", unknown)) if names]
        raise refuse(
            f"of the functions there is {' and '.join(found)}",
            _BY_NAME + (", but for those without C.Rec, which pass nothing on" if passes else ""),
        )
    for name, f in functions.items():
        if not is_function(f):
            raise refuse(f"what is given for {name!r} is no function", f"{{{name!r}: lambda: 0.0}} gives a number")
    if not isinstance(forest, Forest) or forest.constructors != term.type.constructors:
        raise refuse(_NO_FOREST, _ENCODED)
    start = x[1] if passes else ()
    count, leaves = forest.count, jax.tree.leaves(start, is_leaf=is_function)
    if not all(isinstance(t, Tensor) and t.shape[:1] == (count,) for t in leaves):
        raise refuse(f"there are {count} trees", "one state for each: jnp.broadcast_to(s, (forest.count, *s.shape))")
    return Given(functions, start, forest)


def domain(term: Cata | Inherit, c: Constructor, found: Type, forest: Forest) -> Type:
    """What the function of a constructor is applied to, by the type of results or states, and a row of the payload."""
    row = jax.tree.map(lambda t: Tensor(t.shape[1:], t.dtype), forest.payloads[c.name])
    return (found, row) if isinstance(term, Inherit) else c.parts([found] * c.arity, row)


def stated(term: Cata | Inherit, found: Type, x: Type) -> Type:
    """The type of what a fold is applied to, in which functions say what they take, for these results or states."""
    functions, *rest = x
    own = {c.name: domain(term, c, found, rest[-1]) for c in called(term)}
    return {name: Function(own[name], UNKNOWN) for name in functions}, *rest


def _row(start: Type) -> Type:
    return jax.tree.map(lambda t: Tensor(t.shape[1:], t.dtype), start)


def _strong(term: Cata | Inherit, c: Constructor, type: Type) -> Type:
    """A type of which there can be an array of results."""
    if any(not isinstance(t, Tensor) for t in jax.tree.leaves(type, is_leaf=is_function)):
        raise UnsupportedError(
            f"the function of the constructor {c.name!r} gives functions", part=term, expected="arrays", got=type,
            hint="give what the function captures, as arrays, and make the function of it where it is called",
        )  # fmt: skip
    return jax.tree.map(lambda t: Tensor(t.shape, t.dtype), type)
