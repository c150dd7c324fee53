"""Paper 003, figure 3: the tangent of a function value is the list of its calls.

    T[τ ⇝ σ] = [(τ, T[σ])]

`eval` records its argument and the cotangent of its result; `curry` runs the function again, forwards and backwards,
for every recorded call, and sums the cotangents of what it captured.  To pull back a call of a function, nobody has to
know what it captured.

A loop of which nobody knows the number of steps, or which has functions as state, has no room for the list of their
calls.  Inside, functions are what they captured, as in figure 5, and outside `Captured` stands for the list: `curry`,
which would have used up the calls, finds what they would have given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from combinators.context import extend
from combinators.depth import bottom_up
from combinators.memo import ByObject
from combinators.terms import Cata, Curry, Eval, Fix, Fold, Inherit, Map, Scan, Solve, Term, While, parts
from combinators.values import Closure
from compile_ccc.jaxprs.recording import record, row_types, run, silently
from compile_ccc.jaxprs.scans import scan
from tangents.at_once.ahead import ahead
from tangents.at_once.once import Once
from tangents.cotangents.calls import Block, Calls, Captured
from tangents.cotangents.leaves import ARRAYS, Primals
from tangents.cotangents.residuals import Residuals
from tangents.cotangents.sparse import ZERO, Cotangent, Held, masked, nothing, pair, plus, release, split
from tangents.spaces.functions import code_of
from tangents.spaces.space import Representation, Represented, Space


def is_function(value: Any) -> bool:
    """A function value is one leaf: its tangent is its calls, whatever it captured."""
    return isinstance(value, Closure)


def curry(rep: Representation, f: Curry, t: Any) -> Represented:
    """curry f t = (g, λ grs. Σ fst (snd (f (t, s)) gr) over (s, gr) in grs)"""
    if not LIST.is_active(t):
        return Held(Closure(f, release(t))), nothing
    return Closure(f, t), lambda grs: pull_calls(rep, LIST, f, t, grs)


def eval(rep: Representation, f: Any, x: Any) -> Represented:
    """eval (f, x) = let (y, pb) = f x in (y, λ g. ([(x, g)], pb g))"""
    closure = code_of(f)
    y, pb = rep(closure.code.body, extend(LIST.hold(closure.environment), x))
    if isinstance(f, Held):
        return y, lambda g: pair(ZERO, split(pb(g), closure.environment)[1])
    y = LIST.activate(y)

    def pullback(g: Cotangent) -> Cotangent:
        call = Block(release(x), LIST.partly(g, y))
        return pair(Calls(call), split(pb(g), closure.environment)[1])

    return y, pullback


def pull_calls(rep: Representation, space: Primals, f: Curry, t: Any, calls: Calls) -> Cotangent:
    """Σ of fst (snd (f (t, s)) gr) over (s, gr) in calls: the cotangent of what a function captured, from its calls."""
    if not space.is_active(t):
        return ZERO

    def again(s: Any, gr: Any, made: Any) -> Cotangent:
        r, pb = silently(lambda: rep(f.body, extend(t, space.hold(s))))
        g = LIST.fitted(gr, r)
        g = g if space is LIST else of_captures(rep, g, r)
        return masked(split(pb(g), t)[0], made)

    total: Cotangent = ZERO
    for block in calls.blocks:
        if isinstance(block, Captured):
            total = plus(total, _of_captured(ARRAYS.placed(block.total(), _opened(t)), t, space, block.hint))
            continue
        one = (block.argument, block.cotangent, block.valid)
        total = plus(total, _sum_over(again, space, block, t) if block.axes else again(*one))
    return total


def of_captures(rep: Representation, g: Cotangent, y: Any) -> Cotangent:
    """The cotangent of y with functions as what they captured, from one with the calls of functions."""
    found = zip(LIST.gather(g, y), LIST.leaves(y), strict=True)
    pulled = (
        pull_calls(rep, ARRAYS, leaf.code, leaf.environment, c) if isinstance(c, Calls) else c for c, leaf in found
    )
    return LIST.scatter(pulled, y)


def by_captures(rep: Representation, run: Callable[[Any], Represented], x: Any, hint: str = "") -> Represented:
    """What `run` gives of x, where functions are what they captured: x and the result have functions as leaves.

    `hint` says what else to write where the calls of a function have to be a list.
    """
    y, pb = run(_opened(x))
    closed = lambda leaf: leaf if not isinstance(leaf, Closure) or ARRAYS.is_active(leaf) else Held(release(leaf))
    listed = jax.tree.map(closed, y, is_leaf=is_function)
    listed = LIST.activate(listed) if LIST.has_functions(x) else listed  # in which they may have had a part
    pullback = lambda g: ZERO if g is ZERO else _of_captured(pb(of_captures(rep, g, y)), x, LIST, hint)
    return listed, pullback if LIST.is_active(listed) else nothing


def _opened(x: Any) -> Any:
    """A primal, in which a function may be marked as a whole, with the marks at its arrays."""
    return ARRAYS.hold_discrete(jax.tree.map(_opened_leaf, x, is_leaf=lambda leaf: isinstance(leaf, Held)))


def _opened_leaf(leaf: Any) -> Any:
    return ARRAYS.hold(release(leaf.value)) if isinstance(leaf, Held) else leaf


def _of_captured(g: Cotangent, t: Any, space: Primals, hint: str) -> Cotangent:
    """The cotangent of t, with functions among its leaves, from one in which functions are what they captured.

    A function that captured nothing has been called all the same, and its list is not empty.  `hint` says what to write
    for calls that are a list.
    """
    found = zip(space.gather(g, t), space.leaves(t), strict=True)
    return space.scatter((_listed(c, leaf, hint) for c, leaf in found), t)


def _listed(c: Cotangent, leaf: Any, hint: str) -> Cotangent:
    if isinstance(leaf, Held):
        return ZERO
    return Calls(Captured(ARRAYS.present(c, _opened(leaf)), hint)) if isinstance(leaf, Closure) else c


def _sum_over(again: Any, space: Primals, block: Block, t: Any) -> Cotangent:
    """Σ over the rows of a block, with what is linear in them contracted once; calls of captured functions are stacked.

    Where a product has few rows, it is worked out for all rows of the block at once, before the loop over these.
    """
    rows = block.rows()
    xs, form = jax.tree.flatten((rows.argument, rows.cotangent, rows.valid))
    found = dict(enumerate(xs))
    pull = lambda _, row: (space.present(again(*form.unflatten(row.values())), t),)
    residuals = Residuals(pull, ({}, row_types(found)), jax.tree.leaves(release(t)), (), opened=True)
    fixed = residuals.kept  # nothing that varies is outside of the rows
    once = Once(residuals.all, dict(enumerate(fixed)), len(rows))
    program = record(lambda row: once(fixed, [], {}, row), row_types(found))
    products, program = ahead(program, 0, xs)

    def step(total: list[Any], row: list[Any]) -> Any:
        added, stacked, (calls,) = program.form.unflatten(run(program, row))
        return list(map(plus, total, added)), (stacked, calls)

    added, (stacked, calls) = scan(step, once.zeros, [*xs, *products], len(rows), False)
    total = once.totals(added, stacked, fixed, [], {}, found)
    return space.placed({**total, **{i: g.stacked() for i, g in calls.items()}}, t)


_silent: ByObject[Term, bool] = ByObject("arrows that apply no function")


def calls_nothing(f: Term) -> bool:
    """Whether an arrow applies no function, so that running it once for two places leaves out no call."""
    return bottom_up(f, parts, lambda f, inner: not isinstance(f, _CALLING) and all(inner), _silent)


_CALLING = (Eval, Fold, Scan, Map, Solve, While, Cata, Inherit, Fix)


LIST = Space("list", curry, eval, is_leaf=is_function, shares=calls_nothing)
