"""Representation of `inject` and `case`.

A case on a known tag is its branch.  On a traced tag, forward and backward are each one `lax.switch`: every branch has
its own residuals and its own pullback, and only those of the branch that ran are used, also lane by lane under
`jax.vmap`, so that a branch not taken adds neither work nor NaN.  Its alternatives' cotangents, and the calls that it
made, are zero.
"""

from __future__ import annotations

from typing import Any

import jax

from combinators.context import Context
from combinators.depth import check_programs
from combinators.meaning.joining import join, widen
from combinators.sums import Sum, among, branch_domain, chosen, injected
from combinators.terms import Case, Inject
from combinators.types import Type, type_of
from compile_ccc.jaxprs.conds import switch
from compile_ccc.jaxprs.recording import inlined, record, zeros
from tangents.cotangents.calls import Calls
from tangents.cotangents.residuals import Residuals
from tangents.cotangents.sparse import ZERO, Cotangent, Sparse, nothing, pair, plus, release, split
from tangents.spaces.space import Representation, Represented, Space
from tangents.spaces.widening import MARKS, narrow


def injection(term: Inject, x: Any) -> Represented:
    """inject(i, n) x = (x as alternative i, λ g. the i-th component of g)"""
    return injected(term.index, term.count, x), lambda g: ZERO if g is ZERO else g.part(term.index)


def choice(rep: Representation, space: Space, term: Case, x: Any) -> Represented:
    """case(f0, ..., fn-1) (ctx, inject i a) = f_i (ctx, a), and so its pullback"""
    rest, s = chosen(x, len(term.branches), term)
    if not isinstance(_tag(s), int):
        return _switch(rep, space, term, rest, s)
    y, pb = rep(term.branches[s.tag], branch_domain(rest, s.alternatives[s.tag]))

    def pullback(g: Cotangent) -> Cotangent:
        g_rest, g_part = _split(pb(g), rest)
        return _whole(g_rest, _alternative(s.tag, g_part), rest)

    return y, pullback


class _Branch:
    """A branch: its program, which gives its result and residuals, its result, and its pullback over residuals.

    `example` is a cotangent of its result, by leaves; `kept`, `result`: see `Residuals`.
    """

    y: Any
    residuals: Residuals

    def __init__(self, rep: Representation, space: Space, f: Any, rest: Any, part: Any, example: Any = None):
        outside = jax.tree.leaves(release((rest, part)))

        def forward() -> Any:
            self.y, pb = rep(f, branch_domain(rest, part))

            def pull(g: dict[int, Any]) -> tuple[dict[int, Cotangent], dict[int, Cotangent]]:
                g_rest, g_part = _split(pb(space.placed(g, self.y)), rest)
                return space.present(g_rest, rest), space.present(g_part, part)

            if example is None and space.has_functions(self.y):
                return release(self.y), []  # how many calls a function will have had, is not known yet
            given = space.structs(self.y) if example is None else example(self.y)
            self.residuals = Residuals(pull, (given,), outside, ())
            return release(self.y), self.residuals.kept

        self.program = record(forward, stays=True)
        self.kept = self.program.form.unflatten([v.aval for v in self.program.outputs])[1]


def _switch(rep: Representation, space: Space, term: Case, rest: Any, s: Sum) -> Represented:
    check_programs(term)
    possible = [i for i, a in enumerate(s.alternatives) if a is not None]
    which = among(s, possible, _tag(s))

    def run(example: Any = None) -> tuple[dict[int, _Branch], Type, Any, dict[int, Any]]:
        branches = {i: _Branch(rep, space, term.branches[i], rest, s.alternatives[i], example) for i in possible}
        type = join([type_of(release(b.y)) for b in branches.values()], term)

        def forward(i: int) -> Any:
            y, kept = inlined(branches[i].program)
            return widen(y, type), {j: kept if i == j else _zeros(b.kept) for j, b in branches.items()}

        return branches, type, *switch(which, [lambda i=i: forward(i) for i in possible])

    branches, type, y, kept = run()
    of_branches = [space.marks(widen(b.y, type, MARKS)) for b in branches.values()]
    y = space.remark(y, tuple(map(all, zip(*of_branches, strict=True))))
    if not space.is_active(y):
        return y, nothing

    def pullback(g: Cotangent) -> Cotangent:
        of_branch = lambda y: space.arriving(narrow(g, y, type, space), y)
        made, kept_now = branches, kept
        if space.has_functions(y):
            made, _, _, kept_now = run(of_branch)
        pulled = {j: b.residuals.at(of_branch(b.y)) for j, b in made.items()}
        like = {j: p.result for j, p in pulled.items()}
        shared = {n: c for g_rest, _ in like.values() for n, c in g_rest.items() if not isinstance(c, Calls)}

        def backward(i: int) -> Any:
            g_rest, g_part = pulled[i](kept_now[i], [], of_branch(made[i].y))
            summed = {n: g_rest[n] if n in g_rest else _zeros(c) for n, c in shared.items()}
            own = ({n: c for n, c in g_rest.items() if n not in shared}, g_part)
            absent = {j: ({n: c for n, c in r.items() if n not in shared}, p) for j, (r, p) in like.items()}
            return summed, {j: own if i == j else _zeros(a) for j, a in absent.items()}

        summed, own = switch(which, [lambda i=i: backward(i) for i in possible])
        g_rest, g_sum = space.placed(summed, rest), Sparse()
        for place, (i, (calls, g_part)) in enumerate(own.items()):
            g_rest = plus(g_rest, space.placed(_when(which, place, calls), rest))
            g_sum[i] = space.placed(_when(which, place, g_part), s.alternatives[i])
        return _whole(g_rest, g_sum, rest)

    return y, pullback


def _tag(s: Sum) -> Any:
    return release(s.tag)


def _zeros(like: Any) -> Any:
    return jax.tree.map(zeros, like)


def _when(which: Any, place: int, found: dict[int, Cotangent]) -> dict[int, Cotangent]:
    """Cotangents that the branch in this place gives: its calls are those that ran."""
    return {n: c.where(which == place) if isinstance(c, Calls) else c for n, c in found.items()}


def _alternative(index: int, g: Cotangent) -> Cotangent:
    return g if g is ZERO else Sparse({index: g})


def _split(g: Cotangent, rest: Any) -> tuple[Cotangent, Cotangent]:
    return (ZERO, g) if rest is None else split(g, rest)


def _whole(g_rest: Cotangent, g_sum: Cotangent, rest: Any) -> Cotangent:
    """The cotangent of Δ·(τ0 + ...), of the pair, or of the sum alone."""
    match rest:
        case None:
            return g_sum
        case Context():
            return plus(g_rest, ZERO if g_sum is ZERO else Sparse({len(rest): g_sum}))
        case _:
            return pair(g_rest, g_sum)
