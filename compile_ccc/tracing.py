"""Running a lambda under JAX's own tracing: `function`, and what `trace` and `ccc` are made of.

A Python function is traced once for each program that it can be: its code, what it captures as code, and the types of
its arguments and of its captured environment.  What it captures as environment is read anew each time.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from combinators import rules, staging
from combinators.context import Context
from combinators.depth import check_depth, check_values, deep, users_own
from combinators.errors import (
    ArgumentError,
    BareFunctionError,
    definition_line,
)
from combinators.families import stated
from combinators.identity import key_of
from combinators.infer import abstract, infer, is_function, note
from combinators.memo import Table
from combinators.operators import rebuilt
from combinators.origins import NOWHERE, Origin
from combinators.terms import Curry, Term, compose
from combinators.types import Function, Opaque, Type, leaf_type, pack, require_values, type_of
from combinators.values import Closure, depth_of
from compile_ccc import compat
from compile_ccc.arguments import argument_type, check_arity, parameter_name
from compile_ccc.captures import Captured, captures
from compile_ccc.carriers import FunctionValue, Trace, active, active_traces, flatten, lam_p, struct, unflatten
from compile_ccc.closing import closing, mapped
from compile_ccc.complaints import complaints, holds_array
from compile_ccc.foreign import fixed_parts
from compile_ccc.known import traced_with_known
from compile_ccc.lambda_terms import Lam
from compile_ccc.ran import Ran, ran_before, running
from compile_ccc.reached import reached
from compile_ccc.read import read as read_program
from compile_ccc.redefined import is_lasting, rules_of
from compile_ccc.traces import Program
from compile_ccc.translate import translate
from compile_ccc.watch import NOTHING, Watch
from compile_ccc.writing import as_number, is_known


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
    fixed: tuple[int, ...]  # which captured values are code
    origin: Origin
    ran: Ran  # the functions that ran
    read: Watch  # what it read beside what the function captured

    def closure(self, values: list[Any]) -> Closure:
        environment = Context(*((self.constants if met else values)[i] for met, i in self.sources))
        f = Closure(self.value, environment, self.origin)
        if not any(isinstance(v, Closure) for v in environment):
            return f
        check_depth(depth_of(f))
        f.known_type = bool(jax.config.jax_enable_x64), Function(self.lam.parameter.type, self.cod)
        return f


@dataclass(frozen=True)
class Found:
    """What is found out of a Python function f: what it captured, and its trace."""

    f: Any
    captured: Captured
    traced: Traced


@deep
def function(f: Callable[..., Any], *domain: Any) -> Any:
    """λ: the Python function `f` as a function value of the domain, one entry for each argument of f.

    Domain entries are types, or arrays and `ShapeDtypeStruct`s whose type is taken, or closures.  Inside a traced
    lambda the result is a function of that program (it can be called, captured, returned, folded over); elsewhere it is
    a `Closure` whose environment holds what f captures: Python floats and inexact arrays, read now.

    Raises `BareFunctionError` if f returns a Python function, `TracedBranchError` if it branches on a traced value.
    (Paper 003, figure 1: BDLAM.)
    """
    dom = pack(tuple(map(argument_type, domain)))
    if isinstance(f, Closure | Opaque) and not active_traces.get():
        return f
    if not callable(f):
        raise ArgumentError(
            "this is no function", expected="a Python function", got=repr(f), hint="function(f, domain)"
        )
    if not active_traces.get():
        return close(f, dom, len(domain))
    if isinstance(f, Closure):
        from compile_ccc.lifting import lifted

        return lifted(f)
    return abstraction(f, dom, len(domain))


def abstraction(f: Callable[..., Any], dom: Type, arity: int, rule: Any = None) -> FunctionValue:
    """λ inside a traced lambda: the function value that is recorded there, with a derivative if `rule` states one."""
    own = active_traces.get()[-1]
    captured = captures(f)
    types = [argument_type(v) for v in captured.values]
    program, cod, _ = _stage(f, captured, types, dom, arity, own)
    outer = [leaf for v, t in zip(captured.values, types, strict=True) for leaf in flatten(v, t)]
    type = Function(dom, cod)
    names = (*("" for _ in program.consts), *captured.names)
    facts = {"type": type, "name": parameter_name(f, arity), "names": names, "rule": rule, "origin": NOWHERE}
    carrier = lam_p.bind(*program.consts, *outer, body=program.jaxpr, batch=(), **facts)
    return FunctionValue(carrier, type, own)


def deferred(term: Term, x: Any) -> Any:
    """term at x, a value of the program that is being traced, recorded there until the functions in x are known."""
    own = active_traces.get()[-1]
    whole, leaves = rebuilt(x, lambda v: isinstance(v, Opaque))
    types = [argument_type(leaf) for leaf in leaves]
    body = compose(whole, term)
    type = Function((), abstract(infer(body, Context(*types, ()))))
    operands = [flatten(leaf, t)[0] for leaf, t in zip(leaves, types, strict=True)]
    facts = {"type": type, "name": str(term), "names": ("",) * len(operands), "rule": None, "origin": NOWHERE}
    return FunctionValue(lam_p.bind(*operands, body=Curry(body, ()), batch=(), **facts), type, own)()


def close(f: Callable[..., Any], dom: Type, arity: int) -> Closure:
    """The closure of a Python function at the values that it captures now."""
    captured = captures(f)
    values = [
        jnp.array(v) if isinstance(v, np.ndarray) else v for v in captured.values
    ]  # a NumPy array may change later
    return traced(f, captured, dom, arity).closure(values)


def seal(f: Callable[[Any], Any], dom: Type) -> Closure:
    """The closure of a function of one argument that closes over values of a trace: they become its environment."""
    return _trace(f, Captured((), [], [], lambda _: f, []), [], dom, 1, closed=True).closure([])


@dataclass(frozen=True)
class _Kept:
    """A trace that may be used again while the objects in its key live, and while what it read is what it was."""

    traced: Traced
    objects: tuple[weakref.ref[Any], ...]

    def holds(self) -> bool:
        return all(object() is not None for object in self.objects) and self.traced.read.holds()


@dataclass
class _Anew:
    """Why a program is traced at each call, what it read, and whether that is certain."""

    read: Watch
    after: Watch
    certain: bool


_kept: Table[Any, _Kept] = Table("traces", 1024)
_fixed: Table[Any, tuple[int, ...]] = Table("captured values that are code", 1024)
_anew: Table[Any, _Anew] = Table("programs that are traced anew at each call", 1024)


def traced(f: Callable[..., Any], captured: Captured, dom: Type, arity: int) -> Traced:
    """The trace of `f` on a domain; the one from before, if the same program was traced and what it read stayed."""
    types = [argument_type(v) for v in captured.values]
    leaves, form = jax.tree.flatten((dom, types))
    of_types = (captured.key, arity, form, tuple([(t, getattr(t, "weak", False)) for t in leaves]), compat.flags())
    values = lambda fixed: [captured.values[i] for i in fixed]
    fixed = _fixed.get(of_types) or ()
    key = (of_types, key_of(values(fixed)) if fixed else ())
    anew = _anew.get(key)
    known = _kept.get(key) if anew is None else None
    if known is not None and known.holds():
        ran_before(known.traced.ran)
        return known.traced
    lasting = all(is_lasting(g) for g, _ in rules_of(f))
    if anew is not None and anew.certain:
        return _trace(f, captured, types, dom, arity, fixed, read=anew.read)
    parts = [part for shape in (form, *captured.forms) for part in fixed_parts(shape)]
    before = reached(None, [f, *parts])
    if before.reason and anew is not None:
        before = anew.after
    held = before.holds()
    with running() as ran:
        result = _trace(f, captured, types, dom, arity, fixed)
    if result.fixed:
        _fixed.put(of_types, result.fixed)
        key = (of_types, key_of(values(result.fixed)))
    holds = (*result.constants, *values(result.fixed), *captured.kept)
    if not lasting or any(isinstance(value, jax.core.Tracer | FunctionValue) for value in holds):
        return replace(result, read=Watch(reason="a value of a program that is being traced"))
    changed = not before.holds() or not captured.watch.holds()
    after = reached(ran, [*captured.kept, *parts])
    read = Watch(reason="what it changes itself") if changed and not after.reason else after
    if read.reason:
        certain = bool(after.reason) or (anew is not None and held)
        _anew.drop(key)
        _anew.put(key, _Anew(read, after, certain))  # the first time, it may be what is worked out once
    else:
        _anew.drop(key)
        _keep(key, replace(result, ran=ran, read=read), captured.kept)
    return replace(result, ran=ran, read=read)


def _keep(key: Any, result: Traced, objects: list[Any]) -> None:
    """Keeps a trace under its key; what is in that by identity must stay alive, and is not kept alive by it."""
    drop, at_the_end = _kept.drop, sys.is_finalizing
    try:
        references = tuple(weakref.ref(value, lambda _: None if at_the_end() else drop(key)) for value in objects)
    except TypeError:
        return
    _kept.drop(key)
    _kept.put(key, _Kept(result, references))


def _trace(
    f: Callable[..., Any],
    captured: Captured,
    types: list[Type],
    dom: Type,
    arity: int,
    fixed: tuple[int, ...] = (),
    closed: bool = False,
    read: Watch = NOTHING,
) -> Traced:
    with active(closed) as own:
        program, cod, fixed = _stage(f, captured, types, dom, arity, own, fixed)
        constants = [own.value(c) for c in program.consts]
    met = [(f"c{i}", argument_type(c)) for i, c in enumerate(constants)]
    lam, outer = read_program(
        program.jaxpr,
        [*met, *zip(captured.names, types, strict=True)],
        (parameter_name(f, arity), dom),
        cod,
        own.has_functions,
    )
    place = {x: i for i, x in enumerate(outer)}
    sources = tuple((place[x] < len(met), place[x] - (0 if place[x] < len(met) else len(met))) for x in lam.free)
    environment = Context(*(x.type for x in lam.free))
    code = translate(lam)
    value = stated(code, environment)
    if not any(map(is_function, jax.tree.leaves(cod))):  # of a function that comes out, inference knows the code
        for known in dict.fromkeys((code, value)):
            note(known, environment, lam.parameter.type, cod)
    origin = NOWHERE if closed else Program(lam)
    return Traced(lam, code, value, cod, sources, tuple(constants), fixed, origin, {}, read)


def _stage(
    f: Callable[..., Any],
    captured: Captured,
    types: list[Type],
    dom: Type,
    arity: int,
    own: Trace,
    fixed: tuple[int, ...] = (),
) -> tuple[Any, Type, tuple[int, ...]]:
    """The jaxpr of f over the leaves of its captured values and of its argument, and the type of its result.

    The last result says which captured values are code all the same, `fixed` which ones were known to be: those that
    have to be known to JAX (`traced_with_known`), and those that a rule of a derivative holds which is made inside f.
    Such a rule runs when the trace has ended, so it has to hold the value itself.  So are all that are known, if a
    function in f is one of numbers, as `x.at[i].apply` takes, and holds one of them.
    """
    check_arity(f, arity, dom)
    cods: list[Type] = []
    live = False  # whether rules that captured what is mapped are closed in the trace
    inside: dict[int, Any] = {}  # the captured values as f sees them; JAX looks for tracers that outlive a trace

    def flat(*leaves: Any) -> list[Any]:
        values, x = unflatten(leaves, (types, dom), own)
        values = [as_number(captured.values[i]) if i in fixed else v for i, v in enumerate(values)]
        tracers = ((i, v) for i, v in enumerate(values) if isinstance(v, jax.core.Tracer) and i not in fixed)
        inside.clear()
        inside.update((i, weakref.ref(v)) for i, v in tracers)
        rebuilt = captured.rebuild(values)
        with closing() if live else nullcontext(), nullcontext() if own.closed else users_own():
            result = rebuilt(*(x if arity != 1 else (x,)))
        cods.append(_result_type(result, f))
        return flatten(result, cods[0])

    structs = [struct(leaf) for leaf in jax.tree.leaves((types, dom))]

    def attempt(known: tuple[int, ...]) -> Any:
        nonlocal fixed, live
        fixed = known
        try:
            program = staging.program(flat, structs)
        except (NotImplementedError, TypeError) as error:
            numbers = tuple(i for i, v in enumerate(captured.values) if is_known(v))
            if not holds_array(error) or set(numbers) <= set(known):
                raise
            return attempt(tuple(sorted({*known, *numbers})))
        held = rules.held_tracers(program.jaxpr)
        if mapped(held) and not live:
            live = True
            return attempt(known)
        more = [i for i, v in inside.items() if any(v() is t for t in held)]
        return attempt((*known, *more)) if more else program

    known = [i for i, v in enumerate(captured.values) if not isinstance(v, jax.core.Tracer | Opaque | Closure)]
    with complaints():
        program = traced_with_known(attempt, fixed, known)
    return program, cods[-1], fixed


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
