"""What we read of a trace of JAX's, and of its tracers, that has no public name."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
from jax.interpreters import partial_eval

from combinators.staging import names

Tracer: Any = partial_eval.DynamicJaxprTracer  # of a trace that writes down what it meets


running_trace = partial(jex.find_top_trace, ())  # the trace of this thread, or what stands for running at once
trace_of = attrgetter("_trace")  # the trace that a tracer belongs to


def _of_a_fresh_thread() -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(running_trace()))
    thread.start()
    thread.join()
    return found[0]


def _of_a_program() -> type:
    found: list[type] = []
    jax.make_jaxpr(lambda: found.append(type(running_trace())))()
    return found[0]


EVALUATION: Any = _of_a_fresh_thread()  # in which operations run at once
Tracing: Any = _of_a_program()


def is_tracing() -> bool:
    """Whether JAX traces a program, so that operations do not run at once."""
    return type(running_trace()) is not type(EVALUATION)


def evaluating() -> Any:
    """Operations on what is known run at once inside of the `with`, in the middle of a trace."""
    return jex.set_current_trace(EVALUATION)


def constant(tracer: Any, variable: Any) -> Any:
    """What a variable of a tracer's program stands for, if it is a constant; else None."""
    return trace_of(tracer).frame.constvar_to_val.get(variable)


def is_ref(tracer: Any) -> bool:
    """Whether a tracer stands for a ref, which is no value."""
    return not isinstance(tracer.aval, jax.core.ShapedArray)


def written_down(tracer: Any) -> list[Any]:
    """What the trace of a tracer wrote down of operations up to now, in order."""
    found = (e() if isinstance(e, weakref.ref) else e for e in trace_of(tracer).frame.tracing_eqns)
    return [e for e in found if e is not None and hasattr(e, "in_tracers")]


def writings(refs: Sequence[Any], until: Any) -> list[Any]:
    """What a trace wrote down of operations that may write into these refs, until this one."""
    variables = {id(t.val) for t in refs}
    before = takewhile(lambda e: e is not until, written_down(refs[0]))
    return [
        e for e in before if e.primitive.name != "get" and not variables.isdisjoint(id(t.val) for t in e.in_tracers)
    ]


def equation(written: Any) -> Any:
    """What a trace wrote down of an operation, as an equation of a program."""
    variables = [tracer.val for tracer in written.in_tracers]
    return jex.new_jaxpr_eqn(
        variables, written.outvars, written.primitive, written.params, written.effects, written.source_info, written.ctx
    )


def program_of(inputs: Sequence[Any], results: Sequence[Any], equations: Sequence[Any]) -> Any:
    """The program of these equations."""
    return jex.Jaxpr((), inputs, results, equations, debug_info=names("asked", len(inputs), len(results)))


_PASSING = ("is_concrete", "to_concrete_value")
_IN_EARNEST = ("concrete_or_error", "expand_bool_indices", "_is_slice_element_none_or_constant_or_symbolic")
_OF_INTEGERS = ("fori_loop", "_power")  # which mean something else for an integer that is known


def choice() -> tuple[Any, int] | None:
    """The call of `lax.cond` or `lax.switch` that asks a tracer which branch runs, and how many there are.

    Of `lax.while_loop`, which asks whether it goes on, there are none.
    """
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_code.co_name in _PASSING or frame.f_code.co_filename in _OURS:
        frame = frame.f_back
    if frame.f_code.co_name not in _CHOOSING or not frame.f_globals["__name__"].startswith("jax."):
        return None
    branches = {"cond": (False, True), "while_loop": ()}.get(frame.f_code.co_name)
    return frame, len(frame.f_locals["branches"] if branches is None else branches)


_CHOOSING = ("cond", "_switch_internal", "while_loop")
_OURS = (__file__, os.path.join(os.path.dirname(__file__), "tracers.py"))


def needs_value(tracer: Any) -> bool:
    """Whether JAX, which asks a tracer for its value, does so since it makes a difference."""
    frame: Any = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame.f_code.co_name in _PASSING:
        frame = frame.f_back
    asks = frame.f_code.co_name
    return asks in _IN_EARNEST or (asks in _OF_INTEGERS and not tracer.shape and tracer.dtype.kind in "iub")
