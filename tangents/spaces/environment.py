"""Paper 003, figure 5: the tangent of a function value is the tangent of what it captured.

    T[f : τ ⇝ σ] = T[Δ]    where f captured Δ

`eval` runs the code's representation function once, and its pullback gives the environment's cotangent along with the
argument's; `curry` passes that on as it is.
"""

from __future__ import annotations

from typing import Any

from combinators.context import extend
from combinators.terms import Curry
from combinators.values import Closure
from tangents.cotangents.calls import Calls
from tangents.cotangents.leaves import ARRAYS
from tangents.cotangents.sparse import Cotangent, pair, split
from tangents.spaces.functions import code_of
from tangents.spaces.listing import pull_calls
from tangents.spaces.space import Representation, Represented, Space


def curry(rep: Representation, f: Curry, t: Any) -> Represented:
    """curry f t = (g, λ env. env)"""
    return Closure(f, t), lambda env: env


def eval(rep: Representation, f: Any, x: Any) -> Represented:
    """eval (f, x) = let (y, pb) = f x in (y, λ g. pb g)"""
    f = code_of(f)
    y, pb = rep(f.code.body, extend(f.environment, x))

    def pullback(g: Cotangent) -> Cotangent:
        env, gx = split(pb(g), f.environment)
        return pair(env, gx)

    return y, pullback


def of_calls(rep: Representation, f: Closure, calls: Calls) -> Cotangent:
    """What the function captured gets its cotangent from the calls, as it does by figure 3."""
    return pull_calls(rep, ARRAYS, f.code, f.environment, calls)


ENVIRONMENT = Space("environment", curry, eval, ARRAYS.is_leaf, of_calls)
