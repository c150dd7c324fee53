"""One run of a Python function under JAX's own tracing, and the λ-term that is read off it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import jax
import jax.core
import numpy as np

from combinators import staging
from combinators.context import Context
from combinators.depth import check_values, users_own
from combinators.errors import (
    BareFunctionError,
    DiffcurryError,
    definition_line,
)
from combinators.identity import rules
from combinators.meaning.families import stated
from combinators.meaning.infer import abstract, note
from combinators.origins import NOWHERE
from combinators.types import Opaque, Type, leaf_type, require_values, type_of
from combinators.values import Closure, is_function
from compile_ccc.again import Run, attempted
from compile_ccc.asking.answers import Answers
from compile_ccc.asking.asking import Asked
from compile_ccc.asking.jax_traces import running_trace, trace_of
from compile_ccc.asking.tracers import asked_of
from compile_ccc.carriers import Trace, active, flatten, struct, unflatten
from compile_ccc.reading.read import read as read_program
from compile_ccc.reading.traces import Program
from compile_ccc.reading.writing import as_number, is_known
from compile_ccc.refusing.complaints import complaints, holds_array
from compile_ccc.refusing.refusals import check_captured, of_outside
from compile_ccc.rules.closing import closing, mapped, strays
from compile_ccc.rules.known import asks_for_value, traced_with_known
from compile_ccc.tracing.arguments import VALUES, argument_type, check_arity, parameter_name
from compile_ccc.tracing.captures import Captured
from compile_ccc.tracing.traced import NOT_GIVEN, Given, Traced
from compile_ccc.translate import translate
from compile_ccc.watching.before import Before, Still, is_shared
from compile_ccc.watching.handed import Handed, Written, write
from compile_ccc.watching.watch import NOTHING, Watch

_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python


def trace_anew(
    f: Callable[..., Any],
    captured: Captured,
    types: list[Type],
    dom: Type,
    arity: int,
    fixed: tuple[int, ...] = (),
    closed: bool = False,
    read: Watch = NOTHING,
    given: Given = NOT_GIVEN,
) -> Traced:
    """The trace of a function, made now.  It may be `closed`, a program of ours; `read` is what it is known to read."""
    with active(closed) as own:
        program, cod, fixed, answers, written = stage(f, captured, types, dom, arity, own, fixed, given)
        if found := program.consts:
            check_captured(program.jaxpr)
        constants = [own.value(c) for c in found]
    met = [(f"c{i}", argument_type(c)) for i, c in enumerate(constants)]
    lam, outer = read_program(
        program.jaxpr,
        [*met, *zip(captured.names, types, strict=True)],
        (parameter_name(f, arity), dom),
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
    if lasts and not any(map(is_function, _flatten(cod, None)[0])):  # inference knows the code of one that comes out
        for known in {code, value}:
            note(known, Context(*captured_types), lam.parameter.type, cod)
    origin = NOWHERE if closed else Program(lam)
    shared = tuple(rules.held_in(program.jaxpr, captured.shared)) if captured.shared else ()
    return Traced(
        lam, code, value, cod, sources, tuple(constants), fixed, origin, {}, read, answers, shared, written, given.order
    )


def stage(
    f: Callable[..., Any],
    captured: Captured,
    types: list[Type],
    dom: Type,
    arity: int,
    own: Trace,
    fixed: tuple[int, ...] = (),
    given: Given = NOT_GIVEN,
) -> tuple[Any, Type, tuple[int, ...], Answers | None, tuple[Written, ...]]:
    """The jaxpr of f over the leaves of its captured values and of its argument, and the type of its result.

    The third result says which of these inputs are code all the same, `fixed` which ones were known to be: those that
    have to be known to JAX (`traced_with_known`), and those that a rule of a derivative holds which is made inside f.
    Such a rule runs when the trace has ended, so it has to hold the value itself.  So are all that are known, if a
    function in f is one of numbers, as `x.at[i].apply` takes, and holds one of them.  The last ones are what Python was
    told of the inputs that are `given`, and what f changed in those.
    """
    check_arity(f, arity, dom)
    cods: list[Type] = []
    told: list[Answers | None] = []
    written: tuple[Written, ...] = ()
    live = False  # whether rules that captured what is mapped are closed in the trace
    inside: dict[int, Any] = {}  # the captured values as f sees them; JAX looks for tracers that outlive a trace
    structs = [struct(leaf) for leaf in _flatten((types, dom), None)[0]]
    inputs = [v if isinstance(v, (*VALUES, Closure)) else None for v in (*captured.values, *given.leaves)]
    inputs += [None] * (len(structs) - len(inputs))
    start = len(types)
    varied = frozenset([start + i for i in given.varied])
    wanted: set[int] = set()
    looked: set[int] = set()
    numbers: set[int] = set()  # inputs that a function of numbers holds, if they are code
    around = running_trace()
    before = given.before or Before(() if own.closed else [f])
    runs = given.run or Run(partial(captured.undo, f, before))
    captured_by_rules: list[Any] = []
    copied: dict[int, Any] = {}  # containers of which f saw a copy, by the identity of that

    def flat(*leaves: Any) -> list[Any]:
        nonlocal copied, written
        handed, written = None, ()
        asked = Asked(inputs, varied, around, numbers=bool(captured.written), captured=start)
        if not own.closed:
            asked.begin(leaves)
        try:
            if fixed:
                code = lambda i: inputs[i] if i < start else _own(inputs[i])
                known = lambda i: as_number(inputs[i]) if i in numbers else code(i)
                leaves = tuple(known(i) if i in fixed else leaf for i, leaf in enumerate(leaves))
            values, x = unflatten(leaves, (types, dom), own)
            inside.clear()
            for i, v in enumerate(values):
                if isinstance(v, jax.core.Tracer) and i not in fixed:
                    inside[i] = weakref.ref(v)
            room = nullcontext() if own.closed else users_own()
            arguments = x if arity != 1 else (x,)
            handed = Handed(given.own, arguments, before.reaches) if given.own and len(given.own) == arity else None
            again = captured.rebuilt(values, asked.settled)
            with again as rebuilt, closing() if live else nullcontext(), room:
                result = rebuilt(*arguments)
            written = () if handed is None else tuple(handed.written(asked.settled, f))
            copied = {} if own.closed else again.originals()
            cods.append(_result_type(result, f))
            told.append(asked.answers())
            return flatten(result, cods[-1])
        except Exception as error:
            written = () if handed is None else tuple(handed.written(asked.settled, f))
            error.args = jax.tree.map(lambda v: asked.settled(v) if isinstance(v, jax.core.Tracer) else v, error.args)
            raise
        finally:
            given.at_end(asked.settled)
            wanted.update(asked.wanted)
            looked.update(asked.looked)
            asked.end()

    def trace(known: tuple[int, ...]) -> Any:
        nonlocal fixed
        fixed = known
        runs.begins()
        wanted.clear()
        looked.clear()
        return staging.program(flat, structs)

    def demand(known: tuple[int, ...], program: Any, error: Exception | None) -> tuple[int, ...] | None:
        """The inputs to be known in the next trace: more, or the same if that closes rules; None if there is none."""
        nonlocal live
        more = set(wanted.intersection(knowable()) - set(known)) if wanted else set[int]()
        if error is not None:
            held = {i for i, v in enumerate(captured.values) if is_known(v)} if holds_array(error) else set[int]()
            more |= held - numbers
            numbers.update(held)
            if not more and _is_mistaken(error):
                more = next(filter(None, (group - set(known) for group in taken_for_values())), more)
        elif not more and not (more := _stale(captured.values, known, before)):
            held = captured_by_rules[:] = rules.held_tracers(program.jaxpr)
            own.rules_capture = bool(held)
            if held and mapped(held) and not live:
                live = True
                return known
            more = {i for i, v in inside.items() if any(v() is t for t in held)}
            if held and not more and strays(program.jaxpr, [t for t in held if not _is_of_around(t)]):
                more = set(knowable()) - set(known)
        return tuple(sorted({*known, *more})) if more else None

    def attempt(known: tuple[int, ...]) -> Any:
        program = attempted(trace, known, demand)
        return _with_constants(program, captured_by_rules) if captured_by_rules else program

    def knowable() -> list[int]:
        return [i for i, v in enumerate(inputs) if i not in varied and is_concrete(v)]

    def taken_for_values() -> Iterator[set[int]]:
        """Inputs that Python, or what is not of Python, may take for the values that they are not, the likely first."""
        yield looked.intersection(knowable())
        yield {i for i in knowable() if isinstance(inputs[i], int | float | complex)}
        yield set(knowable())

    def no_refs() -> None:
        if Before([f]).has_refs:
            raise of_outside("Ref", definition_line(f))

    try:
        with complaints():
            program = traced_with_known(attempt, fixed, knowable, no_refs)
    except Exception:
        write(written)
        raise
    if copied:
        rules.put_back(program.jaxpr, copied)
    return program, cods[-1], fixed, told[-1], written


def _with_constants(program: Any, captured: list[Any]) -> Any:
    """The program with further constants, which rules in it captured of a trace around that is still running."""
    found = {
        v: t for t in filter(_is_of_around, captured) if (v := staging.variable_of(t)) not in {None, *program.constvars}
    }
    if not found:
        return program
    return program.jaxpr.replace(constvars=[*program.constvars, *found]).with_consts([*program.consts, *found.values()])


def _is_of_around(tracer: Any) -> bool:
    return trace_of(tracer) is running_trace() or asked_of(tracer) is not None


def _own(value: Any) -> Any:
    """A value for the function that is traced; what that changes in an array, its caller does not see."""
    return value.copy("K") if isinstance(value, np.ndarray) and value.flags.writeable else value


def _stale(values: Sequence[Any], known: Sequence[int], before: Before | Still) -> set[int]:
    """The arrays among what a function captured that it changed while it had tracers in their places."""
    arrays = [i for i, v in enumerate(values) if isinstance(v, np.ndarray) and i not in known]
    rewritten = before.rewritten() if arrays else []
    return {i for i in arrays if any(is_shared(values[i], other) for other in rewritten)}


def _is_mistaken(error: Exception) -> bool:
    """Whether an error may be that of code which took a tracer for a value."""
    kinds = TypeError | ValueError | AttributeError | LookupError | ArithmeticError | NotImplementedError
    return isinstance(error, kinds) and not isinstance(error, DiffcurryError) and not asks_for_value(error)


def is_concrete(value: Any) -> bool:
    """Whether a value is known now, and no function."""
    return isinstance(value, VALUES) and not isinstance(value, jax.core.Tracer)


def _result_type(result: Any, f: Callable[..., Any]) -> Type:
    if isinstance(result, jax.core.Tracer):
        return leaf_type(result)
    check_values(result)
    for leaf in jax.tree.leaves(result, is_leaf=lambda v: isinstance(v, Opaque | Closure)):
        if callable(leaf) and not isinstance(leaf, Opaque | Closure):
            raise BareFunctionError(
                "a Python function is returned, or put into data, and its domain is not known",
                expected="a function value",
                got=f"{leaf!r} in the result of {getattr(f, '__name__', f)}",
                line=definition_line(leaf),
                hint="write function(f, domain), for example function(lambda x: ..., C.Tensor(()))",
            )
    require_values(result)
    return abstract(type_of(result))
