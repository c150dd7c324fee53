"""The rewrites of a chain, one function for each combinator that may end a left side.

Each looks at the last steps of a chain and at the combinator that comes next.  If a law applies it takes away the
steps that belong to its left side, and gives those of its right side; if not, it gives None.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax

from combinators.context import Context
from combinators.errors import DiffcurryError
from combinators.infer import component
from combinators.terms import (
    Case,
    Compose,
    Const,
    Curry,
    Extend,
    Fold,
    Id,
    Inject,
    Map,
    Primitive,
    Prod,
    Proj,
    Scan,
    Term,
    compose,
    prod,
)
from combinators.types import LEAF
from compile_ccc.liveness import is_context, renumbered, steps_of

if TYPE_CHECKING:
    from compile_ccc.optimise import Chain

type Steps = tuple[Term, ...]
type Kind = Any  # of a context its length, of any other value a form, or LEAF; None if it may be either

PAIR = jax.tree.structure((0, 0))


def kind_after(step: Term, kind: Kind) -> Kind:
    """What can be seen of the kind of a value, by the step that gives it."""
    match step:
        case Id():
            return kind
        case Prod(parts, form):
            return len(parts) if is_context(form) else form
        case Extend():
            return None if kind is None else kind + 1 if isinstance(kind, int) else PAIR
        case Const(value):
            return len(value) if isinstance(value, Context) else LEAF
        case Curry() | Primitive() | Inject():
            return LEAF
        case Scan():
            return PAIR
        case Compose(steps):
            for f in steps:
                kind = kind_after(f, kind)
            return kind
        case _:
            return None


def from_start(proj: Proj, kind: Kind) -> Proj:
    """A projection whose position counts from the start, if it is that of a variable."""
    counts = isinstance(proj.key, int) and isinstance(kind, int) and -kind <= proj.key < 0
    return Proj(proj.key % kind) if counts else proj


def is_last(proj: Term, kind: Kind) -> bool:
    """Whether this is the projection to what an `extend` or an application adds, which gives a value of this kind."""
    if isinstance(kind, int):
        place = kind - 1
    else:
        place = 1 if kind is not None and kind == PAIR else -1
    return isinstance(proj, Proj) and proj.key in (-1, place)


def tells(e: Term) -> bool:
    """Whether it is worth knowing that a variable is bound to this: no computation, or a product."""
    match steps_of(e):
        case (Proj() | Const() | Prod() | Curry(),):
            return True
        case (Prod(parts, form), Curry()):
            return is_context(form) and all(map(_is_free, parts))
        case _:
            return False


def _is_free(f: Term) -> bool:
    """Whether nothing is computed: a variable, a component of one, or a constant."""
    return all(isinstance(step, Proj | Const) for step in steps_of(f))


@lru_cache(maxsize=65536)
def _place(form: Any, key: Any) -> int | None:
    """Which component of a product a projection takes."""
    try:
        return component(form.unflatten(range(form.num_leaves)), key)
    except DiffcurryError:
        return None


def rearranged(chain: Chain, step: Prod) -> Steps | None:
    """prod(f0, f1, ...) >> prod(proj(i), ...) = prod(fi, ...): a product shares equal parts, so none is repeated."""
    last = chain.last()
    if not (isinstance(last, Prod) and all(isinstance(f, Proj | Const) for f in step.parts)):
        return None
    places = [_place(last.form, f.key) if isinstance(f, Proj) else -1 for f in step.parts]
    unused = [f for i, f in enumerate(last.parts) if i not in places]
    if None in places or not all(map(chain.uses.is_pure, unused)):
        return None
    chain.pop()
    parts = tuple(f if isinstance(f, Const) else last.parts[i] for f, i in zip(step.parts, places, strict=True))
    return chain.law("products: β", Prod(parts, step.form))


def projected(chain: Chain, step: Proj) -> Steps | None:
    """prod(f0, f1, ...) >> proj(i) = fi, extend(e) >> proj(-1) = e, also where a variable is bound to them."""
    bound = chain.value.scope.known.get(step.key)
    if isinstance(bound, Proj | Const):
        return chain.law("products: let β", bound)
    match chain.steps:
        case [*_, Prod(parts, form)] if (i := _place(form, step.key)) is not None:
            if not all(chain.uses.is_pure(f) for j, f in enumerate(parts) if j != i):
                return None
            chain.pop()
            return chain.law("products: β", *steps_of(parts[i]))
        case [*_, Extend(e)] if is_last(step, chain.value.kind):
            chain.pop()
            return chain.law("products: let β", *steps_of(e))
        case [*_, Proj(x)] if isinstance(product := chain.before[-1].scope.known.get(x), Prod):
            i = _place(product.form, step.key)
            if i is None or not _is_free(product.parts[i]):
                return None
            chain.pop()
            return chain.law("products: β", *steps_of(product.parts[i]))
        case [*_, Prod((f, s, xs), form), Scan(reverse, length)] if step.key == 0:
            return _silent(chain, (f, s, xs), form, Fold(reverse, length))
        case _:
            return None


def _silent(chain: Chain, operands: Steps, form: Any, fold: Fold) -> Steps | None:
    """prod(curry(f >> prod(g, h)), s, e) >> scan >> proj(0) = prod(curry(f >> g), s, e) >> fold"""
    *captured, curry = steps_of(operands[0])
    match steps_of(curry.body) if isinstance(curry, Curry) else ():
        case (*f, Prod((g, h), pair)) if pair == PAIR and chain.uses.is_pure(h):
            function = compose(*captured, Curry(compose(*f, g), curry.argument))
        case _:
            return None
    chain.pop()
    chain.pop()
    return chain.law("map and fold: fold is a silent scan", Prod((function, *operands[1:]), form), fold)


def applied(chain: Chain) -> Steps | None:
    """prod(curry(f), e) >> eval = extend(e) >> f, without the closure; e is bound, so that its uses share it."""
    match chain.last():
        case Prod((f, e), form) if form == PAIR:
            function = _seen(chain, f)
        case _:
            return None
    match function:
        case [Curry(body)]:
            law, first = "exponentials: β in a context", Extend(e)
        case [Prod(captured, form), Curry(body)] if is_context(form):
            law, first = "exponentials: β in a context", prod(Context(*captured, e))
        case [*g, Curry(body)] if not isinstance(kind_after(compose(*g), chain.before[-1].kind), int | None):
            law, first = "exponentials: β", Prod((compose(*g), e), PAIR)
        case _:
            return None
    chain.pop()
    return chain.law(law, first, *steps_of(body))


def _seen(chain: Chain, f: Term) -> Steps:
    """The steps of an operand of the last product, or of what it is bound to if it is a variable."""
    known = chain.before[-1].scope.known
    bound = known.get(f.key) if isinstance(f, Proj) else None
    if isinstance(bound, Curry):
        return _restricted(chain, bound, f.key)
    return steps_of(f if bound is None or not isinstance(steps_of(bound)[-1], Curry) else bound)


def _restricted(chain: Chain, curry: Term, n: int) -> Steps:
    """prod(Context(proj(i), ...)) >> curry(...): a function of n variables that captures only those that it reads.

    Nothing if it takes its context as a whole.
    """
    if not isinstance(curry, Curry):
        return ()
    body = chain.optimiser.optimised(curry.body, n + 1)
    reads = chain.uses.reads(body, n + 1)
    if reads is None:
        return ()
    captured = sorted(reads - {n})
    places = {i: place for place, i in enumerate(captured)}
    moved = renumbered(body, lambda i: places[i] if i < n else i - n + len(captured))
    return prod(Context(*map(Proj, captured))), Curry(moved, curry.argument)


def chosen(chain: Chain, step: Case) -> Steps | None:
    """inject(i, n) >> case(f0, f1, ...) = fi, alone or after what the branches see, and case of a case."""
    count = len(step.branches)
    match chain.last():
        case Inject(i, n) if n == count:
            first = ()
        case Extend(e) if injection := _injection(e, count):
            i, part = injection
            first = (Extend(part),)
        case Prod([*rest, e], form) if injection := _injection(e, count):
            i, part = injection
            if not is_context(form) and (
                form != PAIR or isinstance(kind_after(rest[0], chain.before[-1].kind), int | None)
            ):
                return None
            first = (Prod((*rest, part), form),)
        case Case(branches):
            return _case_of_case(chain, branches, step.branches)
        case _:
            return None
    chain.pop()
    return chain.law("coproducts: β", *first, *steps_of(step.branches[i]))


def _injection(e: Term, count: int) -> tuple[int, Term] | None:
    """Of e = f >> inject(i, count): i and f."""
    match steps_of(e):
        case [*f, Inject(i, n)] if n == count:
            return i, compose(*f)
        case _:
            return None


def _case_of_case(chain: Chain, first: Steps, second: Steps) -> Steps | None:
    """case(f >> inject(0, 2), g >> inject(1, 2)) >> case(h, k) = case(f >> h, g >> k), each of h, k used once."""
    injections = [_injection(f, len(second)) for f in first]
    if not all(injections) or len({i for i, _ in injections}) < len(first):
        return None
    chain.pop()
    return chain.law("coproducts: distributivity", Case(tuple(compose(f, second[i]) for i, f in injections)))


def iterated(chain: Chain, step: Fold | Scan | Map) -> Steps | None:
    """The body of a loop that can be seen is optimised; prod(curry(proj(-1)), e) >> map = e."""
    match chain.last():
        case Prod((f, *operands), form):
            function, kind = _seen(chain, f), chain.before[-1].kind
        case _:
            return None
    if len(function) == 1 and isinstance(kind, int):
        function = _restricted(chain, function[0], kind) or function
    match function:
        case (*g, Curry(body, argument)):
            on = kind_after(Extend(Id()), kind_after(compose(*g), kind))
        case _:
            return None
    body = chain.optimiser.optimised(body, on)
    if isinstance(step, Map) and is_last(body, on) and chain.uses.is_pure(f):
        chain.pop()
        return chain.law("map and fold: map of id", *steps_of(operands[0]))
    new = compose(*g, Curry(body, argument))
    if new is f:
        return None
    chain.pop()
    replaced = Prod((new, *operands), form), step
    return chain.law("products: let β", *replaced) if isinstance(f, Proj) else replaced
