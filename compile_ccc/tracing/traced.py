"""The trace of a Python function: the λ-term that is read off its program, as code and as a function value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from combinators.context import Context
from combinators.depth import check_depth
from combinators.identity import rules
from combinators.meaning.families import stated
from combinators.meaning.infer import note
from combinators.origins import NOWHERE, Origin
from combinators.terms import Curry
from combinators.types import Function, Type
from combinators.values import Closure, depth_of, is_function
from compile_ccc.asking.answers import Answers
from compile_ccc.carriers import Trace
from compile_ccc.lambda_terms import Lam
from compile_ccc.reading.read import read as read_program
from compile_ccc.reading.traces import Program
from compile_ccc.refusing.refusals import check_captured
from compile_ccc.tracing.arguments import argument_type, parameter_name
from compile_ccc.tracing.stage import stage
from compile_ccc.tracing.tracee import Surroundings, Tracee
from compile_ccc.translate import translate
from compile_ccc.watching.handed import Order, Written
from compile_ccc.watching.ran import Ran
from compile_ccc.watching.watch import NOTHING, Watch


@dataclass(frozen=True)
class Traced:
    """A traced lambda: its λ-term, its code, the type of its result, and where its environment comes from.

    `value` is the code of the function value, which goes anywhere: it says for which environment it was traced.
    """

    lam: Lam
    code: Curry
    value: Curry
    cod: Type
    sources: tuple[tuple[bool, int], ...]  # (whether a constant met in tracing, its place) for each free variable
    constants: tuple[Any, ...]
    fixed: tuple[int, ...]  # which inputs are code
    origin: Origin
    ran: Ran  # the functions that ran
    read: Watch  # what it read beside what the function captured
    answers: Answers | None = None  # what Python was told of its inputs
    shared: tuple[int, ...] = ()  # places among what the function shares that functions in the program reach, too
    written: tuple[Written, ...] = ()  # what it changed in its arguments
    order: Order = ()  # of the entries of these, see `Given`

    def closure(self, values: list[Any]) -> Closure:
        captured = [(self.constants if met else values)[i] for met, i in self.sources]
        f = Closure(self.value, Context(*captured), self.origin)
        if Closure not in map(type, captured):
            return f
        check_depth(depth_of(f))
        f.known_type = bool(jax.config.jax_enable_x64), Function(self.lam.parameter.type, self.cod)
        return f


def trace_anew(
    tracee: Tracee,
    fixed: tuple[int, ...] = (),
    closed: bool = False,
    read: Watch = NOTHING,
    around: Surroundings | None = None,
) -> Traced:
    """The trace of a function, made now.  It may be `closed`, a program of ours; `read` is what it is known to read."""
    captured, types = tracee.captured, tracee.types
    with Trace(closed) as own:
        program, cod, fixed, answers, written = stage(tracee, own, fixed, around)
        if found := program.consts:
            check_captured(program.jaxpr)
        constants = [own.value(c) for c in found]
    met = [(f"c{i}", argument_type(c)) for i, c in enumerate(constants)]
    lam, outer = read_program(
        program.jaxpr,
        [*met, *zip(captured.names, types, strict=True)],
        (parameter_name(tracee.f, tracee.arity), tracee.dom),
        cod,
        own.has_functions,
        own.rules_capture,
    )
    place = {x: i for i, x in enumerate(outer)}
    count = len(met)
    sources = tuple([(place[x] < count, place[x] - (0 if place[x] < count else count)) for x in lam.free])
    captured_types = [x.type for x in lam.free]
    code = translate(lam)
    value = stated(code, captured_types)
    lasts = read is NOTHING  # or it is traced at each call, and its code may be another then
    if lasts and not any(map(is_function, jax.tree.leaves(cod))):  # inference knows the code of one that comes out
        for known in {code, value}:
            note(known, Context(*captured_types), lam.parameter.type, cod)
    origin = NOWHERE if closed else Program(lam)
    shared = tuple(rules.held_in(program.jaxpr, captured.shared)) if captured.shared else ()
    order = tracee.given.order
    return Traced(
        lam, code, value, cod, sources, tuple(constants), fixed, origin, {}, read, answers, shared, written, order
    )
