"""Operators: arrows that have to know the code of the functions that they are given, such as derivatives.

Where the functions are known, an operator is an arrow from the leaves of its domain, environments of functions opened
up, to the leaves of its codomain.  Which arrow that is, its `instance` says for each type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from combinators.building import compose, prod
from combinators.context import Context
from combinators.errors import UnsupportedError
from combinators.origins import numbered, restored
from combinators.terms import Const, Curry, Operator, Proj, Term
from combinators.types import LEAF, Function, Tensor, Type, children
from combinators.values import Closure


def opened(term: Operator, x: Any, type: Type) -> tuple[Term, Context, Any]:
    """(f, ctx, form): the operator at x, of this type, is f at ctx, and its result has these leaves and this form.

    Raises `UnsupportedError` for a function of which only the type is known.
    """
    type, given = numbered(type)
    leaves, form = jax.tree.flatten(type)
    if any(isinstance(t, Function) for t in leaves):
        raise UnsupportedError(
            f"{term} meets a function that is not known yet", part=term, expected="a function whose code is known",
            got=type, hint="apply the operator from outside, where the function is a closure",
        )  # fmt: skip
    code, result = term.instance.at(tuple(leaves), form)
    if given:
        result = jax.tree.structure(restored(result.unflatten(range(result.num_leaves)), given))
    return code.body, Context(tuple(jax.tree.leaves(x))), result


def stubbed(type: Type) -> Type:
    """The type with a known function, which gives zeros, in place of each function of which only the type is known."""
    if not any(isinstance(t, Function) for t in jax.tree.leaves(type)):
        return type
    return jax.tree.map(lambda t: Closure(_stub(t), Context()) if isinstance(t, Function) else t, type)


def _stub(type: Function) -> Curry:
    return Curry(_zero(type.cod), type.dom)


def _zero(type: Type) -> Term:
    match type:
        case Tensor():
            return Const(jnp.zeros(type.shape, type.dtype))
        case Function():
            return compose(prod(Context()), _stub(type))
        case _:
            pairs, form = children(type)
            return prod(form.unflatten([_zero(t) for _, t in pairs])) if pairs else Const(type)


def rebuilt(x: Any, is_leaf: Callable[[Any], bool]) -> tuple[Term, list[Any]]:
    """The leaves of a value, those of environments among them, and the term that makes it from a context of these."""
    leaves: list[Any] = []

    def of(x: Any) -> Term:
        if isinstance(x, Closure):
            return compose(of(x.environment), x.code)
        pairs, form = children(x)
        if is_leaf(x) or form == LEAF:
            leaves.append(x)
            return Proj(len(leaves) - 1)
        return prod(form.unflatten([of(part) for _, part in pairs])) if pairs else Const(x)

    return of(x), leaves
