"""Well-typed random terms, made from a domain and a codomain.

An arrow Δ ⇝ σ is found by one of a few rules: a variable of Δ, a constant, an introduction (prod, curry, inject), a
primitive with such a result, a `let`, an application, a case, a chain through another type, a loop over a function
value.  Each spends the `size` of its goal on its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from hypothesis import strategies as st
from jax.ad_checkpoint import checkpoint_policies

from combinators.building import compose, prod
from combinators.context import Context
from combinators.primitives import primitive
from combinators.sums import Sum, case
from combinators.terms import (
    Call,
    Checkpoint,
    Compose,
    Const,
    Curry,
    Eval,
    Extend,
    Id,
    Inject,
    Prod,
    Proj,
    Tag,
    Term,
)
from combinators.types import Function, Tensor, Type, children
from tangents.strategies import loops
from tangents.strategies.choices import choose, flip, number, some
from tangents.strategies.goals import Goal, arrows, has_functions, has_sums, is_real, together, variables
from tangents.strategies.numbers import Numbers
from tangents.strategies.operations import SQUASH, operation
from tangents.strategies.types import some_type
from tangents.strategies.values import value

ADD, SUB = primitive("add"), primitive("sub")


@st.composite
def terms(
    draw: st.DrawFn,
    domain: Type,
    codomain: Type = None,
    size: int = 8,
    kinks: bool = False,
    control: bool = True,
) -> Term:
    """Terms from `domain`, a type or a `Context` of types, to `codomain`, which is drawn if it is None.

    `C.infer(term, domain)` is the codomain, functions up to what is known of their code.  `size` is about the number of
    combinators.  On values of `values_of(domain)` the result is smooth and of moderate size, unless `kinks` allows max,
    min, abs and comparisons of reals.  Without `control` there are no loops and branches, which cost a compilation.
    """
    cod = some_type(draw, depth=2) if codomain is None else codomain
    return draw(arrows(Goal(domain, cod, size, Numbers(draw), kinks, control)))


@st.composite
def _arrows(draw: st.DrawFn, goal: Goal) -> Term:
    return choose(draw, list(_rules(goal)))(draw, goal)


arrows.register(Goal, _arrows)


type Rule = Callable[[st.DrawFn, Goal], Term]


def _rules(goal: Goal) -> Iterator[Rule]:
    """The rules that lead to a goal, simplest first; one that stands here twice is drawn twice as often."""
    cod, grows = goal.codomain, goal.size > 0
    if goal.variables():
        yield from [_variable] * (2 if grows else 8)
    reals = any(is_real(type) for _, type in variables(goal.domain))
    if isinstance(cod, Tensor | Sum) or not (reals or has_functions(cod)):
        yield _constant
    if is_real(cod) and reals:
        yield from [_resized] * (1 if grows else 3)
        yield from [_all_reals] * (2 if grows else 8)
    if isinstance(cod, Function):
        yield from [_abstraction, _restricted_abstraction]
    if isinstance(cod, Sum):
        yield from [_injection] * 2
        if all(type == () for type in cod.alternatives):
            yield _number
    if not isinstance(cod, Tensor | Function | Sum):
        yield from [_product] * 2
    if not grows:
        return
    if isinstance(cod, Tensor):
        yield from [_operation] * 6
    yield from [*[_let] * 3, _chain, _named, _again, _application, _application]
    if goal.callees():
        yield from [_call] * 3
    if not goal.control:
        return
    yield _case
    if not has_functions(cod) and not has_sums(cod):
        yield from [loops.fold, loops.scan, loops.repetition]
    if isinstance(cod, Tensor) and cod.shape:
        yield from [loops.mapping, loops.mapping, loops.scan_outputs]


def _variable(draw: st.DrawFn, goal: Goal) -> Term:
    return choose(draw, goal.variables())


def _constant(draw: st.DrawFn, goal: Goal) -> Term:
    return Const(value(draw, goal.codomain, goal.numbers, 0))


def _resized(draw: st.DrawFn, goal: Goal) -> Term:
    """A real variable of whatever shape, summed up and repeated until it fits."""
    return _fitted(goal, *choose(draw, [(f, type) for f, type in variables(goal.domain) if is_real(type)]))


def _all_reals(draw: st.DrawFn, goal: Goal) -> Term:
    """What depends on every real variable, up to three of them, and on each in a way that depends on the others."""
    held = [(f, type) for f, type in variables(goal.domain) if is_real(type) and f is not Proj(-1)]
    first = number(draw, len(held) - 1)
    result, *others = [_fitted(goal, *held[(first + i) % len(held)]) for i in range(min(3, len(held)))]
    for f in others:
        result = compose(prod(result, f), choose(draw, (ADD, SUB)), SQUASH)
    return result


def _fitted(goal: Goal, f: Term, type: Tensor) -> Term:
    total = primitive("reduce_sum", axes=tuple(range(len(type.shape))))
    repeated = primitive("broadcast_in_dim", shape=goal.codomain.shape, broadcast_dimensions=())
    return compose(f, *[total] * bool(type.shape), SQUASH, *[repeated] * bool(goal.codomain.shape))


def _abstraction(draw: st.DrawFn, goal: Goal) -> Term:
    dom, cod = goal.codomain.dom, goal.codomain.cod
    return Curry(draw(arrows(goal.under(dom).to(cod))), dom)


def _restricted_abstraction(draw: st.DrawFn, goal: Goal) -> Term:
    """A curry over what it captures, in any order, as the translation of a lambda makes them."""
    held = list(variables(goal.domain))
    captured = some(draw, lambda: choose(draw, held), 0, 3 if held else 0)
    dom, cod = goal.codomain.dom, goal.codomain.cod
    inner = replace(goal, domain=Context(*(type for _, type in captured)))
    return compose(prod(Context(*(f for f, _ in captured))), Curry(draw(arrows(inner.under(dom).to(cod))), dom))


def _product(draw: st.DrawFn, goal: Goal) -> Term:
    pairs, form = children(goal.codomain)
    return Prod(together(draw, goal, *(type for _, type in pairs)), form)


def _injection(draw: st.DrawFn, goal: Goal) -> Term:
    alternatives = goal.codomain.alternatives
    i = number(draw, len(alternatives) - 1)
    return compose(draw(arrows(goal.to(alternatives[i]))), Inject(i, len(alternatives)))


def _number(draw: st.DrawFn, goal: Goal) -> Term:
    return compose(draw(arrows(goal.to(Tensor((), jnp.int32)))), Tag(len(goal.codomain.alternatives)))


def _named(draw: st.DrawFn, goal: Goal) -> Term:
    return Call(draw(arrows(goal.to(goal.codomain))), "f")


def _again(draw: st.DrawFn, goal: Goal) -> Term:
    policy = choose(draw, (None, checkpoint_policies.everything_saveable, checkpoint_policies.dots_saveable))
    return Checkpoint(draw(arrows(goal.to(goal.codomain))), policy)


def _operation(draw: st.DrawFn, goal: Goal) -> Term:
    made = operation(draw, goal.codomain, goal.kinks)
    operands = [
        compose(f, SQUASH) if i in made.squashed and not _is_variable(f) else f
        for i, f in enumerate(together(draw, goal, *made.operands))
    ]
    return compose(*operands if len(operands) == 1 else (prod(*operands),), made.term)


def _let(draw: st.DrawFn, goal: Goal) -> Term:
    type = _related(draw, goal)
    bound = draw(arrows(goal.to(type, 0.4)))
    return compose(Extend(bound), draw(arrows(goal.under(type).to(goal.codomain, 0.6))))


def _chain(draw: st.DrawFn, goal: Goal) -> Term:
    """Through a type that has nothing to do with the domain."""
    middle = choose(draw, (lambda: _related(draw, goal), lambda: Context(_related(draw, goal), _related(draw, goal))))()
    first = draw(arrows(goal.to(middle, 0.5)))
    return compose(first, draw(arrows(replace(goal, domain=middle).to(goal.codomain, 0.5))))


def _application(draw: st.DrawFn, goal: Goal) -> Term:
    """A β-redex, or any other arrow to a function, applied.  What is applied at once needs no annotation."""
    dom = _related(draw, goal)
    f = draw(arrows(goal.to(Function(dom, goal.codomain), 0.6)))
    if isinstance(f, Curry) and flip(draw):
        f = Curry(f.body)
    return compose(prod(f, draw(arrows(goal.to(dom, 0.4)))), Eval())


def _call(draw: st.DrawFn, goal: Goal) -> Term:
    """A function of the domain, applied to as many arguments as it takes to get there."""
    f, doms = choose(draw, goal.callees())
    for argument in together(draw, goal, *doms):
        f = compose(prod(f, argument), Eval())
    return f


def _case(draw: st.DrawFn, goal: Goal) -> Term:
    """A sum, of the domain or made here, and what to do with each of its alternatives."""
    fresh = Sum(*(some_type(draw, functions=False, depth=0) for _ in range(2)))
    sums = [fresh, Sum((), ()), *(type for _, type in variables(goal.domain) if isinstance(type, Sum))]
    s = choose(draw, sums)
    share = 1 / (1 + len(s.alternatives))
    chosen = draw(arrows(goal.to(s, share)))
    branches = [draw(arrows(goal.under(type).to(goal.codomain, share))) for type in s.alternatives]
    return compose(Extend(chosen), case(*branches))


def _related(draw: st.DrawFn, goal: Goal) -> Type:
    """A type that is likely to be of use on the way to a goal, or any other."""
    if number(draw, 3) == 3:
        return some_type(draw)
    held = [type for _, type in variables(goal.domain)]
    functions = (Function(dom, goal.codomain) for dom in (Tensor(), *held[:2]))
    return choose(draw, [Tensor(), goal.codomain, *held, *functions])


def _is_variable(f: Term) -> bool:
    steps: tuple[Any, ...] = f.steps if isinstance(f, Compose) else (f,)
    return all(isinstance(step, Id | Proj) for step in steps)
