"""Running a lambda under JAX's own tracing: `function`, and what `trace` and `ccc` are made of.

A Python function is traced once for each program that it can be: its code, what it captures as code, and the types of
its arguments and of its captured environment.  What it captures as environment is read anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from combinators.building import compose
from combinators.context import Context
from combinators.depth import deep
from combinators.edges import check_function
from combinators.meaning.infer import abstract, infer
from combinators.meaning.operators import rebuilt
from combinators.terms import Curry, Term
from combinators.types import Function, Opaque, Type, pack
from combinators.values import Closure
from compile_ccc.carriers import FunctionValue, active_traces, deferred, entered, flatten, made
from compile_ccc.tracing.arguments import argument_type
from compile_ccc.tracing.captures import Captured, captures
from compile_ccc.tracing.keeping import traced
from compile_ccc.tracing.lifting import lifted
from compile_ccc.tracing.stage import stage
from compile_ccc.tracing.traced import Traced, trace_anew
from compile_ccc.tracing.tracee import Tracee


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
    check_function(f, "a Python function")
    if not active_traces.get():
        return close(f, dom, len(domain))
    if isinstance(f, Closure):
        return lifted(f)
    return abstraction(f, dom, len(domain))


def abstraction(f: Callable[..., Any], dom: Type, arity: int, rule: Any = None) -> FunctionValue:
    """λ inside a traced lambda: the function value that is recorded there, with a derivative if `rule` states one."""
    own, tracee = active_traces.get()[-1], Tracee(f, captures(f), dom, arity)
    program, cod, *_ = stage(tracee, own)
    type = Function(dom, cod)
    return FunctionValue(recorded(tracee, program, type, rule), type, own)


def recorded(tracee: Tracee, program: Any, type: Function, rule: Any = None) -> Any:
    """The carrier of a function of this type, of which this is the program, in the one that is being traced."""
    captured = tracee.captured
    outer = [leaf for v, t in zip(captured.values, tracee.types, strict=True) for leaf in flatten(v, t)]
    names = [*["" for _ in program.consts], *captured.names]
    return made(program.jaxpr, [*program.consts, *outer], type, names, rule)


@entered.register(object)
def _entered(f: Any, type: Function) -> FunctionValue:
    return function(f, *(type.dom if isinstance(type.dom, tuple) and len(type.dom) != 1 else (type.dom,)))


@deferred.register(Term)
def _deferred(term: Term, x: Any) -> Any:
    own = active_traces.get()[-1]
    whole, leaves = rebuilt(x, lambda v: isinstance(v, Opaque))
    types = [argument_type(leaf) for leaf in leaves]
    body = compose(whole, term)
    type = Function((), abstract(infer(body, Context(*types, ()))))
    operands = [flatten(leaf, t)[0] for leaf, t in zip(leaves, types, strict=True)]
    return FunctionValue(made(Curry(body, ()), operands, type), type, own)()


def close(f: Callable[..., Any], dom: Type, arity: int) -> Closure:
    """The closure of a Python function at the values that it captures now."""
    captured = captures(f)
    values = [
        jnp.array(v) if isinstance(v, np.ndarray) else v for v in captured.values
    ]  # a NumPy array may change later
    return traced(f, captured, dom, arity).closure(values)


def seal(f: Callable[[Any], Any], dom: Type) -> Closure:
    """The closure of a function of one argument that closes over values of a trace: they become its environment."""
    nothing = Captured((), [], [], lambda *_: nullcontext(f))
    return trace_anew(Tracee(f, nothing, dom, 1), closed=True).closure([])
