"""Where results of several branches, or of several steps, become values of one type.

Sums whose tags are known become sums of all that may be there.  Functions of different code become one function, which
captured a sum of functions:

    f : a ⇝ b,  g : a ⇝ b        curry(case(eval, eval)) at f + g

So a function that is chosen at run time is a closure like any other: `eval` finds out by its `case` which code runs,
and the environments of the others have zero cotangents.  Functions of one code are one alternative.  (Paper 003,
definition 5.1: there an existential quantifier hides the environment's type; the sum is a concrete form of it.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from combinators.building import compose, prod
from combinators.context import Context
from combinators.errors import CompositionError, UntypedFunctionError
from combinators.sums import Sum
from combinators.terms import Case, Curry, Eval, Proj
from combinators.types import LEAF, Function, Type, children, same_type, type_of
from combinators.values import Closure, accepts, function_type


def one_of(count: int, argument: Type) -> Curry:
    """curry(case(eval, ..., eval)): the code of a function that is one of so many, which its environment holds."""
    alternative = compose(prod(Proj(1), Proj(0)), Eval())
    return Curry(compose(prod(Context(Proj(1), Proj(0))), Case((alternative,) * count)), argument)


def join(types: list[Type], part: Any) -> Type:
    """The one type of the results of several branches, of which those that are None cannot be there.

    Raises `CompositionError` if the branches differ in more than the tags of sums and the codes of functions.
    """
    known = [t for t in types if t is not None]
    if all(same_type(known[0], t) for t in known[1:]):
        return known[0] if known else None
    if all(isinstance(t, Closure | Function) for t in known):
        return _join_functions(known, part)
    if all(isinstance(t, Sum) for t in known) and len({len(t.alternatives) for t in known}) == 1:
        places = zip(*(t.alternatives for t in known), strict=True)
        return Sum(*(join(list(place), part) for place in places))
    levels = [children(t) for t in known]
    if all(form == levels[0][1] for _, form in levels) and levels[0][1] != LEAF:
        columns = zip(*([t for _, t in pairs] for pairs, _ in levels), strict=True)
        return levels[0][1].unflatten([join(list(column), part) for column in columns])
    raise _differ(types, part)


def _join_functions(functions: list[Any], part: Any) -> Type:
    stated = [f for f in functions if isinstance(f, Function)]
    if stated:
        if all(accepts(stated[0], f) for f in functions):
            return stated[0]
        raise _differ(functions, part)
    kinds: dict[Any, list[Closure]] = {}
    for f in functions:
        for g in alternatives(f):
            kinds.setdefault(_kind(g), []).append(g)
    joined = [Closure(fs[0].code, join([f.environment for f in fs], part)) for fs in kinds.values()]
    arguments = [f.code.argument for f in joined if f.code.argument is not None]
    if not all(same_type(arguments[0], a) for a in arguments[1:]):
        raise _differ(functions, part)
    argument = arguments[0] if arguments else None
    return joined[0] if len(joined) == 1 else Closure(one_of(len(joined), argument), Context(Sum(*joined)))


def _differ(types: list[Type], part: Any) -> CompositionError:
    return CompositionError(
        "the branches of a case give different types", part=part, expected=types[0], got=types[1:],
        hint="every branch needs the same result type; inject results that differ into a sum",
    )  # fmt: skip


def alternatives(f: Closure) -> tuple[Any, ...]:
    """What a function may be: itself, or the functions of which it is one."""
    match f.environment:
        case Context() as ctx if len(ctx) == 1 and isinstance(ctx[0], Sum):
            functions = ctx[0].alternatives
            return functions if f.code is one_of(len(functions), f.code.argument) else (f,)
        case _:
            return (f,)


_ROUNDS = 64  # of joining
_GROWTH = 8  # of how often a function captures one of its own code: that of the step, or of the call, before


def settled(type: Type, more: Callable[[Type], Type], endless: Callable[[], Exception]) -> Type:
    """The type, joined with more until nothing is added: `more(type)` is what it is joined to next.

    Raises what `endless` gives where functions in it capture each other without end.
    """
    limit = None
    for _ in range(_ROUNDS):
        before, type = type, more(type)
        if same_type(before, type):
            return before
        limit = _nesting(type) + _GROWTH if limit is None else limit
        if _nesting(type) > limit:
            break
    raise endless()


def _nesting(type: Type) -> int:
    """How many functions of one code, which are no choices among others, hold each other in a type at most."""
    most, inside = 0, Counter[Any]()
    waiting: list[tuple[Any, bool]] = [(type, True)]
    while waiting:
        node, entered = waiting.pop()
        if not entered:
            inside[node.code] -= 1
            continue
        if isinstance(node, Closure) and len(alternatives(node)) == 1:
            inside[node.code] += 1
            most = max(most, inside[node.code])
            waiting.append((node, False))
        parts, form = children(node)
        waiting += [(part, True) for _, part in parts if form != LEAF]
    return most


def places(f: Closure, type: Closure, plain: Callable[[Any], Any] = lambda leaf: leaf) -> list[int]:
    """Where what a function may be stands among the alternatives of the joined type."""
    wanted = [_kind(t) for t in alternatives(type)]
    return [wanted.index(_kind(g, plain)) for g in alternatives(f)]


def _kind(f: Closure, plain: Callable[[Any], Any] = lambda leaf: leaf) -> Any:
    """Two functions of one kind can be one alternative: equal code, and environments that differ in what joins.

    Functions that were captured join if they are of one type.
    """
    leaves, form = jax.tree.flatten(f.environment, is_leaf=lambda node: isinstance(node, Closure | Sum | Function))
    return f.code, form, tuple([_joinable(plain(x)) for x in leaves])


def _joinable(x: Any) -> Any:
    match x:
        case Closure():
            with suppress(UntypedFunctionError):
                return function_type(Closure(x.code, type_of(x.environment)))
            return None
        case Sum() | Function():
            return None
        case _:
            return type_of(x)


@dataclass(frozen=True)
class Leaves:
    """How widening treats leaves: `new` marks those that are filled in, `plain` takes marks away.

    `renumbered(places, tag)` is the tag of what has moved to these places.
    """

    new: Callable[[Any], Any] = lambda leaf: leaf
    plain: Callable[[Any], Any] = lambda leaf: leaf
    renumbered: Callable[[list[int], Any], Any] = lambda places, tag: jnp.asarray(places, jnp.int32)[tag]


VALUES = Leaves()


def joins(value: Any) -> bool:
    """Whether there is something in a value that widening may change: a function or a sum."""
    is_one = lambda node: isinstance(node, Closure | Sum)
    return any(map(is_one, jax.tree.leaves(value, is_leaf=is_one)))


def widen(value: Any, type: Type, leaves: Leaves = VALUES) -> Any:
    """A result as a value of the joined type: its structure is the type's."""
    if isinstance(value, Sum) and not (isinstance(type, Sum) and isinstance(type.tag, int)):
        return _sum(dict(enumerate(value.alternatives)), value.tag, type, leaves)
    if isinstance(value, Closure):
        if not isinstance(type, Closure):
            return value
        if value.code is not type.code or len(alternatives(value)) > 1:
            return _chosen(value, type, leaves)
    pairs, form = children(value)
    if form == LEAF and isinstance(whole := leaves.plain(value), Closure | Sum):  # marked as a whole
        return leaves.new(widen(whole, type, replace(VALUES, renumbered=leaves.renumbered)))
    if form == LEAF or not pairs:
        return value
    types = [t for _, t in children(type)[0]]
    return form.unflatten([widen(v, t, leaves) for (_, v), t in zip(pairs, types, strict=True)])


def _chosen(f: Closure, type: Closure, leaves: Leaves) -> Closure:
    """A function as one of several."""
    functions, where = alternatives(f), places(f, type, leaves.plain)
    tag = where[0] if functions[0] is f else f.environment[0].tag
    if len(where) > 1 and where != list(range(len(where))):
        tag = leaves.new(leaves.renumbered(where, leaves.plain(tag)))
    parts = dict(zip(where, functions, strict=True))
    return Closure(type.code, Context(_sum(parts, tag, type.environment[0], leaves)))


def _sum(parts: dict[int, Any], tag: Any, type: Sum, leaves: Leaves) -> Sum:
    """The sum with these alternatives, others filled in where the type has them."""
    filled = [_filled(parts.get(i), t, leaves) for i, t in enumerate(type.alternatives)]
    return Sum(*filled, tag=leaves.new(jnp.int32(tag)) if isinstance(tag, int) else tag)


def _filled(value: Any, type: Type, leaves: Leaves) -> Any:
    if value is None and type is not None:
        return jax.tree.map(lambda t: leaves.new(jnp.zeros(t.shape, t.dtype)), type)
    return value if value is None else widen(value, type, leaves)
