"""The rewrites of a chain: one function for each combinator that may end the left side of a law.

Each looks at the last steps of a chain, and at the step that comes next.  Where a law applies, it takes the steps of
the left side away and gives those of the right side; where none does, it gives None.
"""

from __future__ import annotations

from typing import Any

from combinators import sums
from combinators.building import compose, prod
from combinators.context import Context
from combinators.terms import Case, Const, Curry, Extend, Fold, Id, Inject, Map, Prod, Proj, Scan, Tag, Term
from compile_ccc.optimiser.chains import PAIR, Chain, Kind, Steps, is_free, kind_after
from compile_ccc.optimiser.liveness import is_context, place, rearrangement, renumbered, steps_of


def from_start(proj: Proj, kind: Kind) -> Proj:
    """A projection, whose position counts from the start where it is seen which variable it is."""
    counts = isinstance(proj.key, int) and isinstance(kind, int) and -kind <= proj.key < 0
    return Proj(proj.key % kind) if counts else proj


def _is_last(f: Term, kind: Kind) -> bool:
    """Whether this is the projection to what was bound last, in a value of this kind to which something was bound."""
    last = -1 if kind is None else kind - 1 if isinstance(kind, int) else 1
    return isinstance(f, Proj) and f.key in (-1, last)


def rearranged(chain: Chain, step: Prod) -> Steps | None:
    """prod(f0, f1, ...) >> prod(proj(i), ...) = prod(fi, ...), where equal parts are computed once"""
    instead = rearrangement(chain.last(), step, chain.uses)
    if instead is None:
        return None
    chain.pop()
    return chain.law("products: β", instead)


def projected(chain: Chain, step: Proj) -> Steps | None:
    """prod(f0, f1, ...) >> proj(i) = fi and extend(e) >> proj(-1) = e, here or where a variable is bound to them"""
    bound = chain.value.scope.known.get(step.key)
    if isinstance(bound, Proj | Const):
        return chain.law("products: let β", bound)
    match chain.steps:
        case [*_, Prod(parts, form)] if (i := place(form, step.key)) is not None:
            if not all(chain.uses.is_pure(f) for j, f in enumerate(parts) if j != i):
                return None
            law, instead = "products: β", parts[i]
        case [*_, Proj(x)] if isinstance(product := chain.before[-1].scope.known.get(x), Prod):
            i = place(product.form, step.key)
            if i is None or not is_free(product.parts[i]):
                return None
            law, instead = "products: β", product.parts[i]
        case [*_, Extend(e)] if _is_last(step, chain.value.kind):
            law, instead = "products: let β", e
        case [*_, Prod((f, s, xs), form), Scan(reverse, length, unroll)] if step.key == 0:
            return _silent(chain, f, (s, xs), form, Fold(reverse, length, unroll))
        case _:
            return None
    chain.pop()
    return chain.law(law, *steps_of(instead))


def _silent(chain: Chain, f: Term, operands: Steps, form: Any, fold: Fold) -> Steps | None:
    """prod(curry(f >> prod(g, h)), s, e) >> scan >> proj(0) = prod(curry(f >> g), s, e) >> fold"""
    match _code(steps_of(f)):
        case [captured, Curry(body, argument)]:
            *before, last = steps_of(body)
        case _:
            return None
    if not (isinstance(last, Prod) and last.form == PAIR and chain.uses.is_pure(last.parts[1])):
        return None
    chain.pop()
    chain.pop()
    function = compose(*captured, Curry(compose(*before, last.parts[0]), argument))
    return chain.law("map and fold: fold is a silent scan", Prod((function, *operands), form), fold)


def _kind(chain: Chain, f: Term) -> Kind:
    """The kind of what an operand of the last product gives."""
    first, *rest = steps_of(f)
    match chain.last(2), first:
        case Prod(parts, form), Proj(key) if (i := place(form, key)) is not None:
            return kind_after(compose(*rest), kind_after(parts[i], chain.before[-2].kind))
        case _:
            return kind_after(f, chain.before[-1].kind)


def _code(steps: Steps) -> tuple[Steps, Curry] | None:
    """Of g >> curry(f): the steps of g, and the curry."""
    return (steps[:-1], steps[-1]) if isinstance(steps[-1], Curry) else None


def _function(chain: Chain, f: Term) -> tuple[Steps, Curry] | None:
    """The function among the operands of the last product, if it can be seen there or where its variable is bound."""
    bound = chain.before[-1].scope.known.get(f.key) if isinstance(f, Proj) else None
    if isinstance(bound, Curry) and isinstance(f, Proj):
        return _restricted(chain, bound, f.key)
    return _code(steps_of(f)) or (_code(steps_of(bound)) if bound is not None else None)


def _restricted(chain: Chain, curry: Curry, n: int) -> tuple[Steps, Curry] | None:
    """prod(Context(proj(i), ...)) and a curry after it: a function of n variables that captures only what it reads.

    None if it takes its context as a whole.
    """
    body = chain.optimised(curry.body, n + 1)
    reads = chain.uses.reads(body, n + 1)
    if reads is None:
        return None
    captured = sorted(reads - {n})
    places = {i: j for j, i in enumerate(captured)}
    moved = renumbered(body, lambda i: places[i] if i < n else i - n + len(captured))
    return (prod(Context(*map(Proj, captured))),), Curry(moved, curry.argument)


def applied(chain: Chain) -> Steps | None:
    """prod(curry(f), e) >> eval = extend(e) >> f: no closure is made, and e is bound, so that its uses share it"""
    match chain.last():
        case Prod((f, e), form) if form == PAIR:
            function = _function(chain, f)
        case _:
            return None
    match function:
        case [(), curry]:
            law, bound = "exponentials: β in a context", Extend(e)
        case [(Prod(captured, form),), curry] if is_context(form):
            law, bound = "exponentials: β in a context", prod(Context(*captured, e))
        case [g, curry] if not isinstance(_kind(chain, compose(*g)), int | None):
            law, bound = "exponentials: β", Prod((compose(*g), e), PAIR)
        case _:
            return None
    chain.pop()
    return chain.law(law, bound, *steps_of(curry.body))


def iterated(chain: Chain, step: Fold | Scan | Map) -> Steps | None:
    """The body of a loop is optimised where it can be seen; prod(curry(proj(-1)), e) >> map = e"""
    match chain.last():
        case Prod((f, *operands), form):
            function, kind = _function(chain, f), chain.before[-1].kind
        case _:
            return None
    if function and not function[0] and isinstance(kind, int):
        function = _restricted(chain, function[1], kind) or function
    if function is None:
        return None
    captured, curry = function
    domain = kind_after(Extend(Id()), kind_after(compose(*captured), kind))
    body = chain.optimised(curry.body, domain)
    new = compose(*captured, Curry(body, curry.argument))
    if isinstance(step, Map) and _is_last(body, domain) and len(operands) == 1 and chain.uses.is_pure(new):
        chain.pop()
        return chain.law("map and fold: map of id", *steps_of(operands[0]))
    if new is f:
        return None
    chain.pop()
    replaced = Prod((new, *operands), form), step
    return chain.law("products: let β", *replaced) if isinstance(f, Proj) else replaced


def tagged(chain: Chain, step: Tag, number: Const) -> Steps:
    """const(i) >> tag(n) = const(()) >> inject(i, n)"""
    chain.pop()
    return chain.law("coproducts: tag", Const(()), Inject(int(sums.tagged(step.count, number.value).tag), step.count))


def chosen(chain: Chain, step: Case) -> Steps | None:
    """inject(i, n) >> case(f0, f1, ...) = fi, alone and after what the branches see"""
    match chain.last():
        case Inject(i, n) if n == len(step.branches):
            instead = ()
        case Extend(e) if injection := _injection(e, step):
            i, part = injection
            instead = (Extend(part),)
        case Prod((*rest, e), form) if injection := _injection(e, step):
            i, part = injection
            is_pair = form == PAIR and not isinstance(_kind(chain, rest[0]), int | None)
            if not (is_pair or is_context(form)):
                return None
            instead = (Prod((*rest, part), form),)
        case Case(branches):
            return _case_of_case(chain, branches, step)
        case _:
            return None
    chain.pop()
    return chain.law("coproducts: β", *instead, *steps_of(step.branches[i]))


def _injection(e: Term, case: Case) -> tuple[int, Term] | None:
    """Of e = f >> inject(i, n), an alternative of the case: i and f."""
    *f, last = steps_of(e)
    return (last.index, compose(*f)) if isinstance(last, Inject) and last.count == len(case.branches) else None


def _case_of_case(chain: Chain, branches: Steps, step: Case) -> Steps | None:
    """case(f >> inject(0, 2), g >> inject(1, 2)) >> case(h, k) = case(f >> h, g >> k), where none is used twice"""
    injections = [injection for f in branches if (injection := _injection(f, step))]
    if len({i for i, _ in injections}) < len(branches):
        return None
    chain.pop()
    return chain.law("coproducts: distributivity", Case(tuple(compose(f, step.branches[i]) for i, f in injections)))
