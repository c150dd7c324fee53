"""Forward mode of named calls, case distinctions and loops: each stays one, over pairs of primals and tangents.

A call is a call of one program for its types, a case on a traced tag one `lax.switch`, fold and scan one `lax.scan`,
map one `jax.vmap`.  Tangents that are zero in every branch, or in every step, do not exist there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from combinators import staging
from combinators.depth import PROGRAMS, check_programs
from combinators.fixpoint import Fixpoints
from combinators.meaning.control import while_loop
from combinators.meaning.infer import carried
from combinators.meaning.joining import Leaves, join, widen
from combinators.memo import Facts
from combinators.origins import numbered, restored
from combinators.sums import among, branch_domain, chosen
from combinators.terms import Call, Case, Checkpoint, Fold, Scan, Term, While
from combinators.types import type_of
from compile_ccc.jaxprs.conds import switch
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import aval_of
from compile_ccc.jaxprs.recording import hoisted, inlined, record, row_types
from compile_ccc.jaxprs.scans import scan
from compile_ccc.reading.remat import remat
from tangents.control.ruled import pushed
from tangents.duals import dual, pair, primal, tangents, widened
from tangents.primitives.missing import check_searched
from tangents.represent import by_environment

type Forward = Callable[[Term, Any], Any]  # D[term] x
type Apply = Callable[[Any, Any], Any]  # D[eval] (f, x)

DUALS = Leaves(plain=primal)
TYPES = Leaves(plain=primal, renumbered=lambda _, tag: tag)

_active = Fixpoints[frozenset[int]]("tangents of loop states")
_known: Facts[Program] = Facts("pushforwards of calls", entries=64)


def call(forward: Forward, term: Call, x: Any) -> Any:
    """D[call(f, name)] = call(D[f], name), written down once for its types and active leaves."""
    if term.rule is not None:
        return pushed(by_environment, term, x)
    if tangents(x):
        check_searched(term)
    if term.programs > PROGRAMS:
        return forward(term.body, x)
    x, given = numbered(x)
    leaves, form = jax.tree.flatten(pair(x))
    key = (form, tuple(map(aval_of, leaves)), staging.settings())
    program = _known.get(term, key)
    if program is None:
        name = f"{term.name}_jvp" if tangents(x) else term.name
        program = record(lambda *given: pair(forward(term.body, dual(*given))), *pair(x), name=name)
        _known.put(term, program, key)
    return restored(dual(*program(*leaves)), given)


def checkpoint(forward: Forward, term: Checkpoint, x: Any) -> Any:
    """D[checkpoint(f)] = checkpoint(D[f])"""
    check_programs(term)
    run = lambda *given: pair(forward(term.body, dual(*given)))
    return dual(*remat(run, *pair(x), policy=term.policy, prevent_cse=term.prevent_cse))


def choice(forward: Forward, term: Case, x: Any) -> Any:
    """D[case(f0, ..., fn-1)] (ctx, inject i a) = D[fi] (ctx, a)"""
    rest, s = chosen(x, len(term.branches), term)
    domain = lambda i: branch_domain(rest, s.alternatives[i])
    if isinstance(s.tag, int):
        return forward(term.branches[s.tag], domain(s.tag))
    check_programs(term)
    possible = [i for i, a in enumerate(s.alternatives) if a is not None]
    programs = [record(lambda i=i: pair(forward(term.branches[i], domain(i)))) for i in possible]
    found = [program.form.unflatten([v.aval for v in program.outputs]) for program in programs]
    type = join([type_of(y) for y, _ in found], term)
    active = {i for y in found for i in tangents(widen(dual(*y), type, TYPES))}
    run = lambda program: widened(widen(dual(*inlined(program)), type, DUALS), active)
    return dual(*switch(among(s, possible, s.tag), [lambda program=program: run(program) for program in programs]))


def loop(apply: Apply, term: Fold | Scan, f: Any, state: Any, xs: Any) -> Any:
    """s1, s1' = D[eval] (f, (s0, x0)) ...: the state has tangents where some step gives it one."""
    scans, state_type = isinstance(term, Scan), carried(term, *primal((f, state, xs)))

    def step(s: Any, x: Any) -> Any:
        y = apply(f, (dual(*s), dual(*x)))
        return y if scans else (y, ())

    program, start = _repeated(term, (f, state, xs), state_type, step, row_types(pair(xs)))
    body = lambda s, x: program(*jax.tree.leaves((s, x)))
    last, outputs = scan(body, start, pair(xs), term.length, term.reverse, term.unroll)
    return (dual(*last), dual(*outputs)) if scans else dual(*last)


def repetition(apply: Apply, term: While, condition: Any, f: Any, state: Any) -> Any:
    """s1, s1' = D[eval] (f, (s0, s0')) ... as long as the condition says so of the primals"""
    state_type = carried(term, *primal((condition, f, state)))
    program, start = _repeated(term, (f, state), state_type, lambda s: (apply(f, dual(*s)), ()))
    asks = hoisted(record(lambda s: apply(primal(condition), s), start[0]))
    goes_on = lambda s: asks(*jax.tree.leaves(s[0]))
    return dual(*while_loop(goes_on, lambda s: program(*jax.tree.leaves(s))[0], start, term.max_steps))


def _repeated(term: Term, x: tuple[Any, ...], state_type: Any, step: Callable[..., Any], *rows: Any) -> Any:
    """A step as a program on pairs, which also puts something out, and the first state: the second component of x.

    The state has tangents where it has one at first, or some step gives it one.
    """
    leaves, form = jax.tree.flatten(pair(x))
    state = widen(x[1], state_type, DUALS)

    def attempt(active: frozenset[int]) -> tuple[frozenset[int], tuple[Program, Any]]:
        reached = set[int]()

        def once(*given: Any) -> Any:
            after, out = step(*given)
            after = widen(after, state_type, DUALS)
            reached.update(tangents(after))
            return widened(after, active), pair(out)

        start = widened(state, active)
        program = record(once, start, *rows)
        return active.union(reached), (program, start)

    key = (term, form, tuple(map(aval_of, leaves)), staging.settings())
    _, (program, start) = _active.of(key, frozenset(tangents(state)), attempt)
    return hoisted(program), start


def mapping(apply: Apply, f: Any, xs: Any) -> Any:
    """D[map] (f, xs) = map (D[f], xs)"""
    program = hoisted(record(lambda *x: pair(apply(f, dual(*x))), *row_types(pair(xs))))
    return dual(*jax.vmap(lambda x: program(*jax.tree.leaves(x)))(pair(xs)))
