"""Forward mode by dual numbers: paper 002, figures 3 and 4, read off the combinators.

    D[f] : D[τ] ⇝ D[σ]  for  f : τ ⇝ σ         D[ℝ] = ℝ × δℝ,  and D goes through products, sums and functions

Only real leaves and primitives know of tangents; every other case is that of the plain meaning, on duals.  So the dual
of a function value is a closure over duals: its tangent is the tangent of its environment.  A leaf that is no `Dual`
has the tangent zero, which is not computed, and what depends on such leaves alone has it too.
"""

from __future__ import annotations

from typing import Any, assert_never

import jax

from combinators import terms
from combinators.context import Context, extend
from combinators.meaning.infer import component
from combinators.meaning.joining import widen
from combinators.meaning.operators import opened
from combinators.meaning.recursion import machine
from combinators.sums import injected, tagged
from combinators.terms import Term
from combinators.types import type_of
from combinators.values import Closure
from tangents.control.solve import pushed as solve
from tangents.duals import primal
from tangents.forward.control import DUALS, call, checkpoint, choice, loop, mapping, repetition
from tangents.forward.primitives import primitive
from tangents.forward.trees import reduction
from tangents.spaces.functions import code_of


def forward(term: Term, x: Any) -> Any:
    """D[term] x: the values of the arrow `term` at x with their tangents, for a value x whose active leaves are `Dual`.

    Raises `NotDifferentiableError` for a primitive without a derivative.  (Paper 002, figure 3.)
    """
    match term:
        case terms.Id():
            return x
        case terms.Compose(steps):
            for f in steps:
                x = forward(f, x)
            return x
        case terms.Prod(parts, form):
            duals = {f: forward(f, x) for f in dict.fromkeys(parts)}
            return form.unflatten([duals[f] for f in parts])
        case terms.Proj(key):
            return component(x, key, term)
        case terms.Extend(e):
            return extend(x, forward(e, x))
        case terms.Curry():
            return Closure(term, x)
        case terms.Eval():
            return apply(*x)
        case terms.Const(value):
            return value
        case terms.Primitive():
            return primitive(term, x)
        case terms.Call():
            return call(forward, term, x)
        case terms.Checkpoint():
            return checkpoint(forward, term, x)
        case terms.Operator():
            f, ctx, form = opened(term, x, type_of(primal(x)))
            return form.unflatten(forward(f, ctx))
        case terms.Inject(index, count):
            return injected(index, count, x)
        case terms.Tag(count):
            return tagged(count, x)
        case terms.Case():
            return choice(forward, term, x)
        case terms.Fold() | terms.Scan():
            return loop(apply, term, *x)
        case terms.Map():
            return mapping(apply, *x)
        case terms.While():
            return repetition(apply, term, *x)
        case terms.Cata() | terms.Inherit():
            return reduction(apply, term, *x)
        case terms.Solve():
            return solve(apply, term, *x)
        case terms.Fix():
            f, domain, form = machine(term, type_of(primal(x)))
            return form.unflatten(forward(f, Context(tuple(jax.tree.leaves(widen(x, domain, DUALS))))))
        case _:
            assert_never(term)


def apply(f: Any, x: Any) -> Any:
    """D[eval] (f, x): the code of the closure runs on the duals of what it captured, extended by the argument's."""
    f = code_of(f)
    return forward(f.code.body, extend(f.environment, x))
