"""Representation functions: paper 003, figure 2, one case per combinator.

    f : τ ⇝ σ    as    x ↦ (y, pullback),    x : τ,  y : σ,  pullback : T[σ] ⊸ T[τ]

Each operation is traced once forward and once backward, while JAX traces.  Leaves of x that are `Held` have no
cotangent, and what depends on them alone is computed without a pullback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, assert_never

from combinators import terms
from combinators.base import Composable, only_terms, term_on
from combinators.building import prod
from combinators.context import Context, extend
from combinators.depth import deep
from combinators.meaning.host import with_own_exceptions
from combinators.meaning.infer import component, infer
from combinators.memo import remembered
from combinators.records import as_records, from_records
from combinators.sums import tagged
from combinators.terms import Term
from combinators.types import children, pack, require_values
from tangents.control.checkpoint import checkpoint
from tangents.control.choice import choice, injection
from tangents.control.loops import loop, mapping
from tangents.control.named import call
from tangents.control.recursion import recursion
from tangents.control.solve import solve
from tangents.control.whiles import bounded, repetition
from tangents.cotangents.sparse import ZERO, Cotangent, LinearMap, Sparse, nothing, plus, release, split
from tangents.operators import operator
from tangents.primitives.pull import primitive
from tangents.spaces.edges import from_public
from tangents.spaces.environment import ENVIRONMENT
from tangents.spaces.functions import check_environments
from tangents.spaces.listing import by_captures
from tangents.spaces.public import space_named
from tangents.spaces.space import Represented, Space
from tangents.trees.rule import reduction


def represent(term: Term, functions: str = "environment") -> Callable[..., tuple[Any, Callable[[Any], Any]]]:
    """The representation function of a term: x ↦ (y, pullback), an ordinary JAX-traceable function.

    `pullback` takes a cotangent with the structure, shapes and dtypes of y and gives one with those of x; it is linear,
    pure, and may be applied many times.  Discrete leaves have zeros of their own dtype as cotangents.  At function
    types a cotangent is a `Closure` over the cotangents of the captured values (functions="environment", figure 5), or
    `Calls` (functions="list", figure 3).  Several arguments are one tuple.

    Raises what `infer` raises, `ArgumentError` for a cotangent that does not fit y, and `NotDifferentiableError` for a
    primitive without a derivative.  (Paper 003, figure 2.)
    """
    only_terms("represent", (term,), Term | Composable)
    space = space_named(functions)

    @deep
    def representation(*arguments: Any) -> tuple[Any, Callable[[Any], Any]]:
        require_values(arguments)
        f = term_on("represent", term, pack(arguments))
        infer(f, pack(arguments))
        check_environments(arguments, space)
        x = space.activate(as_records(pack(arguments)))
        y, pb = with_own_exceptions(rep, space, f, x)

        @deep
        def pullback(g: Any) -> Any:
            return from_records(space.dense(pb(from_public(g, y, space)), x))

        return from_records(release(y)), pullback

    return representation


def rep(space: Space, term: Term, x: Any) -> Represented:
    """(y, pullback) of `term` at a primal x whose held leaves are marked."""
    match term:
        case terms.Id():
            return x, lambda g: g
        case terms.Compose(steps):
            pullbacks: list[LinearMap] = []
            for f in steps:
                x, pb = rep(space, f, x)
                pullbacks.append(pb)
            return x, _composed(pullbacks)
        case terms.Prod(_, form):
            shared, places = _shared(term, space.shares)
            if places and isinstance(x, Context):
                return form.unflatten([x[i] for i in places]), partial(_rearranged, _keys(form), places)
            return _product(space, term, x) if shared is term else rep(space, shared, x)
        case terms.Proj(key):
            return component(x, key, term), partial(_placed, _key(x, key))
        case terms.Extend(e):
            y, pb = rep(space, e, x)
            return extend(x, y), _let(pb, x)
        case terms.Curry():
            return space.curry(lambda f, x: rep(space, f, x), term, x)
        case terms.Eval():
            return space.eval(lambda f, x: rep(space, f, x), *x)
        case terms.Const(value):
            return space.hold(value), nothing
        case terms.Primitive():
            return primitive(term, x)
        case terms.Call():
            return call(lambda f, x: rep(space, f, x), space, term, x)
        case terms.Checkpoint():
            return checkpoint(lambda f, x: rep(space, f, x), space, term, x)
        case terms.Operator():
            return operator(lambda f, x: rep(space, f, x), space, term, x)
        case terms.Inject():
            return injection(term, x)
        case terms.Tag(count):
            return space.hold(tagged(count, release(x))), nothing
        case terms.Case():
            return choice(lambda f, x: rep(space, f, x), space, term, x)
        case terms.Fold() | terms.Scan():
            captures = (lambda: _by_captures(term, x, _OF_ARRAYS)) if space.lists else None
            return loop(lambda f, x: rep(space, f, x), space, term, *x, by_captures=captures)
        case terms.Map():
            return mapping(lambda f, x: rep(space, f, x), space, *x)
        case terms.While(max_steps) if space.lists and max_steps is not None:
            return rep(space, bounded(max_steps), x)
        case terms.While() if space.lists:
            condition, *rest = x
            return _by_captures(term, (space.hold(condition), *rest), _OF_STEPS)
        case terms.While():
            return repetition(lambda f, x: rep(space, f, x), space, term, *x)
        case terms.Cata() | terms.Inherit() | terms.Fix() if space.lists:
            return _by_captures(term, x)
        case terms.Cata() | terms.Inherit():
            return reduction(lambda f, x: rep(space, f, x), space, term, *x)
        case terms.Solve():
            return solve(lambda f, x: rep(space, f, x), space, term, *x)
        case terms.Fix():
            return recursion(lambda f, x: rep(space, f, x), space, term, x)
        case _:
            assert_never(term)


def by_environment(term: Term, x: Any) -> Represented:
    """(y, pullback) of `term` at a marked primal x, in the environment space."""
    return rep(ENVIRONMENT, term, x)


_OF_ARRAYS = ", or a loop over arrays, which knows how many calls there are"
_OF_STEPS = ", or C.terms.While(max_steps=n) for a loop of at most n steps"


def _by_captures(term: Term, x: Any, hint: str = "") -> Represented:
    """A term in the list space, inside of which functions are what they captured; `hint` as for `by_captures`."""
    return by_captures(lambda f, x: rep(ENVIRONMENT, f, x), lambda x: rep(ENVIRONMENT, term, x), x, hint)


def _composed(pullbacks: list[LinearMap]) -> LinearMap:
    """(f >> g) a = (c, λ gc. pbf (pbg gc))    where f a = (b, pbf) and g b = (c, pbg)"""

    def pullback(g: Cotangent) -> Cotangent:
        for pb in reversed(pullbacks):
            if g is ZERO:
                return ZERO
            g = pb(g)
        return g

    return pullback


def _placed(key: Any, g: Cotangent) -> Cotangent:
    """proj(i) (x1, ..., xn) = (xi, λ g. (0, ..., g, ..., 0))"""
    return g if g is ZERO else Sparse({key: g})


def _product(space: Space, term: terms.Prod, x: Any) -> Represented:
    """⟨f1, ..., fn⟩ x = ((y1, ..., yn), λ (g1, ..., gn). pb1 g1 + ... + pbn gn)."""
    made = [rep(space, f, x) for f in term.parts]

    def pullback(g: Cotangent) -> Cotangent:
        total: Cotangent = ZERO
        for key, (_, pb) in zip(_keys(term.form), made, strict=True) if g is not ZERO else ():
            part = g.part(key)
            if part is not ZERO:
                total = plus(total, pb(part))
        return total

    return term.form.unflatten([y for y, _ in made]), pullback


def _rearranged(keys: tuple[Any, ...], places: tuple[int, ...], g: Cotangent) -> Cotangent:
    """⟨πi, ..., πj⟩ Δ: each cotangent goes to its variable, which has the sum of those that it gets."""
    found = Sparse()
    for key, place in zip(keys, places, strict=True) if g is not ZERO else ():
        part = g.part(key)
        if part is not ZERO:
            found[place] = plus(found[place], part) if place in found else part
    return found or ZERO


@remembered(entries=2048)
def _shared(term: terms.Prod, may: Callable[[Term], bool]) -> tuple[Term, tuple[int, ...]]:
    """⟨f, g, f⟩ = Context(f, g) >> ⟨π0, π1, π0⟩: f runs once, forward and back, if it may and is an operation.

    Of a product of projections by numbers from 0 on, these are said, too.
    """
    numbers = tuple([f.key for f in term.parts if type(f) is terms.Proj and type(f.key) is int and f.key >= 0])
    wires = terms.Id | terms.Proj | terms.Const
    again = {f for f, n in Counter(term.parts).items() if n > 1 and not isinstance(f, wires) and may(f)}
    if not again:
        return term, numbers if len(numbers) == len(term.parts) else ()
    bound = {f if f in again else i: f for i, f in enumerate(term.parts)}
    places = {name: terms.Proj(i) for i, name in enumerate(bound)}
    parts = [places[f if f in again else i] for i, f in enumerate(term.parts)]
    return terms.Compose((prod(Context(*bound.values())), terms.Prod(tuple(parts), term.form))), ()


def _let(pb: LinearMap, ctx: Any) -> LinearMap:
    """extend(e) Δ = (Δ·y, λ (gΔ, g). gΔ + pb g)    where e Δ = (y, pb)"""

    def pullback(g: Cotangent) -> Cotangent:
        before, last = split(g, ctx)
        return before if last is ZERO else plus(before, pb(last))

    return pullback


def _key(product: Any, key: Any) -> Any:
    """The key of a component as the product's own structure calls it."""
    if isinstance(product, Context) and key >= 0:
        return key
    if isinstance(product, Context) or (type(product) in (tuple, list) and isinstance(key, int)):
        return key % len(product)
    if not isinstance(key, int) or isinstance(product, dict):
        return key
    keys = [k for k, _ in children(product)[0]]
    return key if key in keys else keys[key]


@remembered(entries=1024)
def _keys(form: Any) -> tuple[Any, ...]:
    return tuple([key for key, _ in children(form.unflatten(range(form.num_leaves)))[0]])
