"""From λ-terms to combinators: paper 003, figure 1, over flat contexts.

    J⟦Δ ⊢ e : τ⟧ : Δ ⇝ τ

    J⟦Δ ⊢ λx. e⟧         = curry J⟦Δ·x ⊢ e⟧                      BDLAM
    J⟦Δ ⊢ e1 e2⟧         = prod(J⟦e1⟧, J⟦e2⟧) >> eval            BDAPP
    J⟦Δ ⊢ x⟧             = proj(i)    for the i-th variable of Δ  BDVAR
    J⟦Δ ⊢ (e1, ..., en)⟧ = prod(J⟦e1⟧, ..., J⟦en⟧)               BDPROD
    J⟦Δ ⊢ case e of λx. e1 | ...⟧ = prod(Context(id, J⟦e⟧)) >> case(J⟦Δ·x ⊢ e1⟧, ...)
    J⟦Δ ⊢ checkpoint e⟧  = checkpoint J⟦Δ ⊢ e⟧

A `let` extends the context by one, so a block of n bindings is one chain of n extensions.  An abstraction first
restricts Δ to what it uses, so a closure captures nothing else; so do the branches of a case, together, and so does
what a checkpoint runs again, which keeps nothing else.
"""

from __future__ import annotations

from typing import Any, assert_never

import jax

from combinators.building import chain, prod
from combinators.context import Context
from combinators.depth import deep
from combinators.errors import ArgumentError
from combinators.meaning.families import stated
from combinators.memo import remembered
from combinators.sums import case
from combinators.terms import Call, Checkpoint, Compose, Const, Curry, Eval, Extend, Prod, Proj, Term
from compile_ccc.lambda_terms import (
    Again,
    App,
    Arrow,
    Atom,
    Block,
    Component,
    Constant,
    Expression,
    Lam,
    Match,
    Product,
    Var,
)

type Scope = dict[Var, int]  # the variables of Δ and their places


@deep
def translate(lam: Lam) -> Curry:
    """The code of an abstraction: a `curry` over the context of its free variables."""
    if not isinstance(lam, Lam):
        raise ArgumentError(
            "this is no λ-term",
            expected="an abstraction, as trace(f, domain).lambda_term is one",
            got=repr(lam),
            hint="trace(f, domain).term is translated already",
        )
    scope = {x: i for i, x in enumerate((*lam.free, lam.parameter))}
    body = _block(scope, lam.body)
    body = body if lam.rule is None else Call(body, lam.rule.__name__, lam.rule)
    code = Curry(body, lam.parameter.type, None)
    return stated(code, [x.type for x in lam.free]) if lam.is_value else code


def _block(scope: Scope, block: Block) -> Term:
    steps: list[Term] = []
    for x, e in block.bindings:
        steps.append(Extend(_expression(scope, e)))
        scope[x] = len(scope)
    result = _atom(scope, block.result)
    return Compose((*steps, result)) if steps else result


def _expression(scope: Scope, e: Expression) -> Term:
    match e:
        case Var() | Constant():
            return _atom(scope, e)
        case Lam():
            return chain(*_restriction(scope, e.free), translate(e))
        case App(f, x):
            return Compose((_tuple(scope, (f, x)), Eval()))
        case Product(parts, form):
            return Prod(tuple([_atom(scope, a) for a in parts]), form)
        case Component(product, key):
            return Compose((_atom(scope, product), _place(key) if type(key) is int else Proj(key)))
        case Arrow(term, atoms):
            return chain(_atom(scope, *atoms), term) if len(atoms) == 1 else Compose((_tuple(scope, atoms), term))
        case Match(scrutinee, branches):
            used = list(dict.fromkeys(x for branch in branches for x in branch.free))
            inner = {x: i for i, x in enumerate(used)}
            codes = [_block({**inner, b.parameter: len(used)}, b.body) for b in branches]
            return chain(prod(Context(*(_atom(scope, x) for x in (*used, scrutinee)))), case(*codes))
        case Again(body, free, policy, prevent_cse):
            code = _block({x: i for i, x in enumerate(free)}, body)
            return chain(*_restriction(scope, free), Checkpoint(code, policy, prevent_cse))
        case _:
            assert_never(e)


def _tuple(scope: Scope, atoms: tuple[Atom, ...]) -> Term:
    return Prod(tuple([_atom(scope, a) for a in atoms]), _tuple_of(len(atoms)))


@remembered(entries=256)
def _tuple_of(size: int) -> Any:
    """The form of a tuple."""
    return jax.tree.structure((0,) * size)


@remembered(entries=4096)
def _place(number: int) -> Proj:
    return Proj(number)


def _atom(scope: Scope, a: Atom) -> Term:
    match a:
        case Var():
            return _place(scope[a])
        case Constant(value):
            return Const(value)
        case _:
            assert_never(a)


def _restriction(scope: Scope, free: tuple[Var, ...]) -> tuple[Term, ...]:
    """Δ ⇝ the context of what is captured; nothing if that is Δ itself."""
    places = [scope[x] for x in free]
    return () if places == list(range(len(scope))) else (prod(Context(*map(Proj, places))),)
