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
from functools import partial
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from combinators.context import Context
from combinators.depth import deep
from combinators.errors import ArgumentError
from combinators.identity import key_of
from combinators.infer import abstract, infer
from combinators.memo import Table
from combinators.operators import rebuilt
from combinators.origins import NOWHERE
from combinators.terms import Curry, Term, compose
from combinators.types import Function, Opaque, Type, pack
from combinators.values import Closure
from compile_ccc import compat, often
from compile_ccc.answers import NO_ANSWERS
from compile_ccc.arguments import argument_type, parameter_name
from compile_ccc.captures import Captured, captures
from compile_ccc.carriers import FunctionValue, active_traces, flatten, lam_p
from compile_ccc.foreign import fixed_parts
from compile_ccc.jax_traces import is_tracing
from compile_ccc.ran import Ran, asks_for_type, ran_before, running
from compile_ccc.reached import reached
from compile_ccc.redefined import is_lasting, rules_of
from compile_ccc.settled import settle
from compile_ccc.stage import NOT_GIVEN, Given, Traced, is_concrete, stage, trace_anew
from compile_ccc.tracers import class_of
from compile_ccc.watch import Watch


@dataclass(frozen=True)
class Found:
    """What is found out of a Python function f: what it captured, and its trace."""

    f: Any
    captured: Captured
    traced: Traced


@dataclass(frozen=True)
class Joined:
    """What is found out of an arrow f: of each function in it, and where what it captured begins in the environment."""

    f: Any
    parts: tuple[tuple[Found, int], ...] = ()


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
    program, cod, _, _ = stage(f, captured, types, dom, arity, own)
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
    return trace_anew(f, Captured((), [], [], lambda *_: nullcontext(f)), [], dom, 1, closed=True).closure([])


@dataclass(frozen=True)
class _Kept:
    """A trace that may be used again while the objects in its key live, and what it read and asked is what it was."""

    traced: Traced
    objects: tuple[weakref.ref[Any], ...]

    def holds(self, inputs: list[Any], varied: set[int]) -> bool:
        live = all(object() is not None for object in self.objects) and self.traced.read.holds()
        return live and (self.traced.answers is None or self.traced.answers.hold(inputs, varied))


@dataclass
class _Anew:
    """Why a program is traced at each call, what it read, whether that is certain, and whether it leaves tracers."""

    read: Watch
    after: Watch
    certain: bool
    leaves: bool


_kept: Table[Any, tuple[_Kept, ...]] = Table("traces", 1024)  # one for each path that Python took
_met: Table[Any, bool] = Table("programs that were traced within others", 1024)  # kept from the second time on
_CHANGES = "what it changes itself"
_AROUND = "a value of a program that is being traced"
_PATHS = 16  # of Python through one program, that are kept
_fixed: Table[Any, tuple[int, ...]] = Table("inputs that are code", 1024)
_anew: Table[Any, _Anew] = Table("programs that are traced anew at each call", 1024)


def traced(f: Callable[..., Any], captured: Captured, dom: Type, arity: int, given: Given = NOT_GIVEN) -> Traced:
    """The trace of `f` on a domain; the one from before, if the same program was traced and what it read stayed."""
    types = [argument_type(v) for v in captured.values]
    leaves, form = jax.tree.flatten((dom, types))
    of_types = (captured.key, arity, form, tuple([(t, getattr(t, "weak", False)) for t in leaves]), compat.flags())
    inputs = [*captured.values, *given.leaves, *[None] * (len(leaves) - len(types) - len(given.leaves))]
    values = lambda fixed: [inputs[i] for i in fixed]
    key_with = lambda fixed: (of_types, fixed, key_of(values(fixed)), tuple([type(v) for v in values(fixed)]))
    varied = {len(captured.values) + i for i in given.varied}  # which is never code
    known = [i for i, value in enumerate(inputs) if i not in varied and is_concrete(value)]
    as_code = _fixed.get(of_types) or ()
    fixed = tuple([i for i in known if i in as_code or type(inputs[i]) is bool])
    key = key_with(fixed) if fixed else (of_types, (), (), ())
    anew = _anew.get(key)
    for kept in (_kept.get(key) or ()) if anew is None else ():
        if kept.holds(inputs, varied):
            ran_before(kept.traced.ran)
            return kept.traced
    lasting = False not in [is_lasting(g) for g, _ in rules_of(f)]
    if anew is not None and anew.certain:
        given = replace(given, at_end=partial(settle, [f])) if anew.leaves else given
        return trace_anew(f, captured, types, dom, arity, fixed, read=anew.read, given=given)
    parts = [part for shape in (form, *captured.forms) for part in fixed_parts(shape)]
    roots = [f, *parts]
    no_arrays = [i for i in known if not isinstance(inputs[i], jax.Array)]

    def observed(given: Given) -> tuple[Traced, Ran]:
        """The trace, and what ran in it; inputs whose type may be asked for there are code."""
        with running() as ran:
            result = trace_anew(f, captured, types, dom, arity, fixed, given=given)
            if more := {i for i in no_arrays if asks_for_type(ran, inputs[i])} - {*result.fixed}:
                known = tuple(sorted({*result.fixed, *more}))
                result = trace_anew(f, captured, types, dom, arity, known, given=given)
        return result, ran

    if is_tracing() and _met.get(key) is None:
        _met.put(key, True)
        result, _ = observed(replace(given, at_end=partial(settle, roots)))
        if result.fixed:
            _fixed.put(of_types, result.fixed)
        return replace(result, read=Watch(reason=_AROUND))
    before = reached(None, roots)
    if before.reason and anew is not None:
        before = anew.after
    held = before.holds()
    left: list[bool] = []
    given = replace(given, at_end=lambda settled: left.append(not before.holds() and settle(roots, settled)))
    result, ran = observed(given)
    if asks_for_type(ran):
        looked = {i: None if i in varied else class_of(value) for i, value in enumerate(inputs) if value is not None}
        result = replace(result, answers=replace(result.answers or NO_ANSWERS, looked=looked))
    if result.fixed:
        _fixed.drop(of_types)
        _fixed.put(of_types, result.fixed)
        often.note(of_types, f, captured.names, dom, result.fixed, inputs)
        key = key_with(result.fixed)
    holds = (*result.constants, *values(result.fixed), *captured.kept)
    if not lasting or any(isinstance(value, jax.core.Tracer | FunctionValue) for value in holds):
        return replace(result, read=Watch(reason=_AROUND))
    changed = not before.holds() or not captured.watch.holds()
    after = reached(ran, [*captured.kept, *parts])
    read = Watch(reason=captured.watch.reason or _CHANGES) if changed and not after.reason else after
    if read.reason:
        certain = bool(after.reason) or (anew is not None and held)
        _anew.drop(key)
        _anew.put(key, _Anew(read, after, certain, any(left)))  # the first time, it may be what is worked out once
    else:
        _anew.drop(key)
        _keep(key, replace(result, ran=ran, read=read), captured.kept)
    return replace(result, ran=ran, read=read)


def _keep(key: Any, result: Traced, objects: list[Any]) -> None:
    """Keeps a trace under its key; what is in that by identity must stay alive, and is not kept alive by it."""
    owners = {id(owner) for owner, *_ in result.read.attributes}
    if any(id(value) in owners for value in objects):
        return  # what is watched of them would keep them alive
    drop, at_the_end = _kept.drop, sys.is_finalizing
    try:
        references = tuple(weakref.ref(value, lambda _: None if at_the_end() else drop(key)) for value in objects)
    except TypeError:
        return
    others = [] if result.answers is None else [k for k in _kept.get(key) or () if k.traced.read.holds()]
    _kept.drop(key)
    _kept.put(key, (_Kept(result, references), *others)[:_PATHS])
