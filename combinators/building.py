"""How terms are built: a function for each constructor whose arguments are checked, or may be Python functions."""

from __future__ import annotations

from typing import Any

import jax

from combinators.base import Composable, composite, mixed, only_terms
from combinators.depth import check_values
from combinators.edges import check_name, check_policy, flags
from combinators.errors import ArgumentError
from combinators.inductive.inductive import Inductive
from combinators.terms import (
    Call,
    Cata,
    Checkpoint,
    Compose,
    Const,
    Curry,
    Extend,
    Fix,
    Fold,
    Id,
    Inherit,
    Prod,
    Proj,
    Scan,
    Term,
)
from combinators.types import LEAF, FunctionLike, Type, children, require_types, require_values


@composite.register(object)
def compose(*steps: Any) -> Any:
    """f1 >> f2 >> ... in the order in which they run; of one arrow it is that arrow, of none it is `id`."""
    return mixed("compose", chain, *steps)


def chain(*steps: Term) -> Term:
    """`compose` of terms alone."""
    if Compose in map(type, steps):
        steps = tuple([f for step in steps for f in (step.steps if type(step) is Compose else (step,))])
    return steps[0] if len(steps) == 1 else Compose(steps) if steps else Id()


def prod(*parts: Any) -> Any:
    """⟨f1, ..., fn⟩ : τ ⇝ (τ1, ..., τn).

    One argument that is a pytree of terms gives a product of that shape: `prod({"W": f, "b": g})`, `prod(Context(f))`.
    """
    tree = parts[0] if len(parts) == 1 and not callable(parts[0]) else parts
    check_values(tree)
    leaves, form = jax.tree.flatten(tree, is_leaf=callable)
    is_flat = form.num_nodes == 1 + len(leaves)
    return mixed("prod", lambda *terms: Prod(terms, form) if is_flat else _product(form.unflatten(terms)), *leaves)


def _product(tree: Any) -> Term:
    if isinstance(tree, Term):
        return tree
    pairs, form = children(tree)
    return Prod(tuple([_product(part) for _, part in pairs]), form)


def const(v: Any) -> Const:
    """const(v) : τ ⇝ σ for a value v : σ.  Raises `ArgumentError` for what is no value."""
    require_values(v)
    return Const(v)


def curry(f: Any, argument: Type = None) -> Any:
    """curry(f) : Δ ⇝ (τ ⇝ σ) for f : Δ·τ ⇝ σ.  `argument` states τ, which a function needs to cross a traced lambda."""
    require_types("the argument of curry", argument)
    return mixed("curry", lambda f: Curry(f, argument), f)


def fix(f: Term, argument: Type, result: Type, max_depth: int = 1024) -> Curry:
    """fix(f) : Δ ⇝ (τ ⇝ σ) for f : Δ·(τ ⇝ σ)·τ ⇝ σ, the function that calls itself: f has it before its argument.

    `argument` and `result` state τ and σ.  In compiled code at most `max_depth` calls wait for others.
    Law: fix(f) = curry(Context(proj(0), ..., fix(f), proj(-1)) >> f), its unfolding.
    """
    only_terms("fix", (f,))
    require_types("the argument, or the result, of fix", (argument, result))
    return Curry(Fix(f, argument, result, max_depth), argument)


def extend(e: Any) -> Any:
    """extend(e) : Δ ⇝ Δ·τ for e : Δ ⇝ τ.  Law: extend(e) >> proj(-1) = e on a context."""
    return mixed("extend", Extend, e)


def call(f: Any, name: str) -> Any:
    """call(f, name) : τ ⇝ σ for f : τ ⇝ σ, compiled as one function of that name.  Law: call(f, name) = f."""
    check_name(name)
    return mixed("call", lambda f: Call(f, name), f)


def checkpoint(f: Any, policy: Any = None, prevent_cse: bool = True) -> Any:
    """checkpoint(f) : τ ⇝ σ for f : τ ⇝ σ, whose pullback keeps x : τ alone and runs f again: time instead of memory.

    `policy` and `prevent_cse` are those of `jax.checkpoint`.  Law: checkpoint(f) = f.
    """
    flags(prevent_cse=prevent_cse)
    check_policy(policy)
    return mixed("checkpoint", lambda f: Checkpoint(f, policy, prevent_cse), f)


def segmented(loop: Fold | Scan) -> Term:
    """segmented(fold) : ((σ, τ) ⇝ σ, σ, [[τ]]) ⇝ σ, and likewise of scan: the loop over the rows of rows.

    Its pullback keeps the state before each row of rows, and runs one of these again at a time: of T steps in rows of
    √T, about 2 √T of what a step needs instead of T.  Law: segmented(fold) (f, s, xs) = fold (fold f, s, xs), where
    fold f is λ(s, x). fold (f, s, x).  Raises `ArgumentError` for what is no fold or scan.
    """
    if not isinstance(loop, Fold | Scan):
        raise ArgumentError(
            "only loops over elements have segments", expected="C.fold, C.scan, or one of C.terms", got=loop,
            hint="C.segmented(C.fold)(f, state, xs), where xs has two leading axes",
        )  # fmt: skip
    row = compose(prod(Proj(0), Proj(1) >> Proj(0), Proj(1) >> Proj(1)), Checkpoint(loop))
    rows = type(loop)(reverse=loop.reverse)
    return compose(prod(compose(Proj(0), Curry(row)), Proj(1), Proj(2)), rows)


def cata(type: Inductive) -> Cata:
    """cata(T) : ({constructor: function}, forest) ⇝ [σ], the fold over the trees of an inductive type; see `Cata`."""
    if not isinstance(type, Inductive):
        raise ArgumentError(
            "this is no inductive type", expected="C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Rec))", got=repr(type),
            hint="a fold is of a type first, then of functions and a forest: C.cata(T)({'leaf': f, 'node': g}, forest)",
        )  # fmt: skip
    return Cata(type)


def annotate(type: Inductive) -> Cata:
    """annotate(T) : ({constructor: function}, forest) ⇝ forest, with the result of `cata` at every node; see `Cata`.

    A constructor's parts p become (p, result): a forest of `T.annotated(σ)`, in which rows that are no node are zero.
    """
    return Cata(cata(type).type, True)


def inherit(type: Inductive) -> Inherit:
    """inherit(T) : ({constructor: function}, states of the roots, forest) ⇝ forest, with the state at every node.

    Functions take (state, payload) and give the states of the nodes below, in their places; see `Inherit`.
    """
    return Inherit(cata(type).type)


def _is_arrow(argument: Any) -> bool:
    """Whether an argument is a term, an arrow or a Python function, rather than a value."""
    if isinstance(argument, Term | Composable):
        return True
    return callable(argument) and not isinstance(argument, FunctionLike) and children(argument)[1] == LEAF


def holds_arrow(argument: Any) -> bool:
    """Whether an argument is a term, an arrow or a Python function, or a dict with one among its values."""
    return any(map(_is_arrow, argument.values())) if type(argument) is dict else _is_arrow(argument)


def with_functions(term: Term, arguments: tuple[Any, ...]) -> Any:
    """term(f, x, ...), where each function stands for the value that it is on the domain at which the term applies it.

    So C.map(jnp.sin, xs) is prod(prod(()) >> curry(proj(-1) >> f), proj(0), ...) >> term at (x, ...).
    """
    rows = [x if type(x) is dict and holds_arrow(x) else {None: x} for x in arguments]
    values = tuple([x for row in rows for x in row.values() if not _is_arrow(x)])
    places = iter([Id()] if len(values) == 1 else [Proj(i) for i in range(len(values))])
    function = lambda f: compose(prod(()), curry(compose(Proj(-1), f)))  # which captures none of the values
    made = [{k: function(x) if _is_arrow(x) else next(places) for k, x in row.items()} for row in rows]
    parts = [row[None] if None in row else prod(row) for row in made]
    return compose(parts[0] if len(parts) == 1 else prod(*parts), term)(*values)
