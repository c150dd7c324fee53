"""Calls of functions with rules of derivatives, in a trace that knows its inputs: Python may ask in these, too.

Functions are always run so that they can ask.  A rule runs when the trace is over; only if it asks then, the trace is
made again, and the rule is made a program where its function is called, beside the values.  Rules that such a rule
itself needs, for derivatives of derivatives, are one level further in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.extend.linear_util as linear_util

from combinators import staging
from combinators.errors import line_of_error
from combinators.memo import Table
from compile_ccc.again import Run, attempted
from compile_ccc.asking.jax_traces import Tracer, running_trace, trace_of
from compile_ccc.asking.tracers import Asking, Traced, asked_of, running
from compile_ccc.jaxprs import compat
from compile_ccc.refusing.refusals import misfit
from compile_ccc.rules.as_programs import backward, residuals, with_cotangents
from compile_ccc.rules.closing import emptied, rule_of, with_rule_as_program
from compile_ccc.rules.known import asks_for_value

_LEVELS = 4  # of rules within rules


class _Look:
    """How many levels of rules are looked into, whether there were so many, and how programs that ran are undone.

    `before` gives what functions reach now, which can be put back.  The programs are those that ran in the trace of the
    look: what ran in another one inside of it is undone where that is made again.
    """

    def __init__(self, levels: int, before: Callable[[list[Any]], Any] | None = None):
        self.levels, self.before, self.reached = levels, before, False
        self.ran: list[Callable[[], object]] = []
        self.trace = id(running_trace())


_NONE = _Look(0)
_look: ContextVar[_Look] = ContextVar("rules that are looked into", default=_NONE)
_levels: Table[Any, int] = Table("programs whose rules ask for values", 1024)


def asking_in_rules[**P, Result](f: Callable[P, Result]) -> Callable[P, Result]:
    """A function that traces programs and derives them; it runs again if rules in them ask for values."""

    @wraps(f)
    def again(*arguments: P.args, **keywords: P.kwargs) -> Result:
        around = _look.get()

        def attempt(look: _Look) -> Result:
            token = _look.set(look)
            try:
                return f(*arguments, **keywords)
            finally:
                _look.reset(token)
                if around is not _NONE:
                    around.reached |= look.reached
                    around.ran += look.ran if around.trace == look.trace else []

        def deeper(look: _Look, _: Result | None, error: Exception | None) -> _Look | None:
            more = look.reached or look.levels == around.levels
            if error is None or not (more and look.levels < _LEVELS and asks_for_value(error)):
                return None
            for undo in reversed(look.ran):
                undo()
            return _Look(look.levels + 1, look.before)

        return attempted(attempt, _Look(around.levels, around.before), deeper)

    return again


def undone_by(undo: Callable[[], object]) -> None:
    """Notes how what a program changes is put back, should it run again since a rule asks for a value."""
    if (look := _look.get()) is not _NONE and look.trace == id(running_trace()):
        look.ran.append(undo)


class levels_of:
    """Inside of the `with`, at least as many levels of rules are looked into as were needed for this program.

    What a rule reaches `before` it runs is put back if that runs more than once.
    """

    def __init__(self, program: Any, before: Callable[[list[Any]], Any]):
        self._look, known = _look.get(), _levels.get(program) or 0
        if self._look.levels > known:
            _levels.drop(program)
            _levels.put(program, self._look.levels)
        self._inner = _Look(known) if known > self._look.levels else self._look
        self._inner.before = before

    def __enter__(self) -> int:
        if self._look.trace == self._inner.trace and self._look is not _NONE:
            self._inner.ran = self._look.ran
        self._token = _look.set(self._inner)
        return self._inner.levels

    def __exit__(self, *error: Any) -> None:
        _look.reset(self._token)
        if self._inner.reached and self._look is not _NONE:
            self._look.levels, self._look.reached = self._inner.levels, True


class Ruled(Traced):
    """A trace whose values can be asked for, in functions with rules too."""

    __slots__ = ()

    def process_custom_jvp_call(self, primitive: Any, *functions: Any, **params: Any) -> Any:
        fun, jvp, operands = functions = _with_integers(functions, 1)
        asked, plainly = running.get(id(self)), super().process_custom_jvp_call
        if asked is None:
            return plainly(primitive, *functions, **params)
        found = _looked_into(self, asked, _jvp, functions, params)
        return found or plainly(primitive, _seen(fun, asked, operands), jvp, operands, **params)

    def process_custom_vjp_call(self, primitive: Any, *functions: Any, **params: Any) -> Any:
        fun, fwd, bwd, operands = functions = _with_integers(functions, 2)
        asked, plainly = running.get(id(self)), super().process_custom_vjp_call
        if asked is None:
            return plainly(primitive, *functions, **params)
        found = _looked_into(self, asked, partial(_vjp, params["out_trees"]), functions, params)
        return found or plainly(primitive, _seen(fun, asked, operands), fwd, bwd, operands, **params)


def _with_integers(functions: tuple[Any, ...], step: int) -> tuple[Any, ...]:
    """A call's functions, of which the first and the rule have Python's integers as they are, not as operands.

    So JAX runs rules where there is no trace: an axis, or a number of decimals, may be code of what they call.  The
    rule has an operand at each step.
    """
    f, rule, *others, operands = functions
    integers = {i: x for i, x in enumerate(operands) if isinstance(x, int)}
    if not integers:
        return functions
    of_rule = {step * i: x for i, x in integers.items()}
    return _given(f, tuple(integers.items())), _given(rule, tuple(of_rule.items())), *others, operands


@linear_util.transformation2
def _given(f: Any, numbers: Any, *xs: Any) -> Any:
    """f at these operands, but for numbers at these places."""
    known = dict(numbers)
    return f(*(known.get(i, x) for i, x in enumerate(xs)))


def _looked_into(
    trace: Any, asked: Any, how: Callable[..., Any], functions: Sequence[Any], params: dict[str, Any]
) -> Any:
    """The results of a call whose rule is looked into; None if it is not, or does not allow it."""
    look, level = _look.get(), asked.level
    if level is None or level >= look.levels:
        return None
    varied = [isinstance(x, Asking) and asked_of(x) is asked and asked.is_varied(x) for x in functions[-1]]
    if not any(varied):
        return None  # which has no derivative
    look.reached |= level == look.levels - 1
    asked.level = None  # the call that is made of this one is a call like others
    try:
        with jex.set_current_trace(trace):
            return how(partial(_run, asked, level + 1), varied if params["symbolic_zeros"] else None, *functions)
    except Exception as error:
        if asked.wanted or not (asks_for_value(error) or compat.says_no_rule(error)):
            raise
        if compat.says_no_rule(error):
            raise misfit(str(error).strip().splitlines()[0], line_of_error(error)) from error
        for f in functions[:-1]:
            emptied(f)
        return None  # what it asks for is not known here either
    finally:
        asked.level = level


def _jvp(run: Any, varied: Sequence[bool] | None, fun: Any, jvp: Any, operands: Any) -> Any:
    again = _repeated(jvp, run)
    seen = lambda f, *xs: again([*operands, *[None] * (len(xs) - len(operands))], f, *xs)
    return with_rule_as_program(fun, jvp, operands, seen, varied)


def _vjp(out_trees: Any, run: Any, varied: Any, fun: Any, fwd: Any, bwd: Any, operands: Any) -> Any:
    """The call of a function with a rule that was made two programs, for cotangents of all operands."""
    types = list(map(jax.typeof, operands))
    interleaved = lambda *xs: fwd.call_wrapped(*(v for x in xs for v in (x, True)))
    try:
        forward = staging.program(lambda *xs: run(operands, interleaved, *xs), types)
        _, form, places = out_trees()
        count, outputs = places.count(None), [v.aval for v in forward.outvars]
        taken = [*residuals(outputs, types, places), *(t.to_tangent_aval() for t in outputs[count:])]
        again = _repeated(bwd, run)
        pulled = lambda kept: backward(bwd, taken, partial(again, [*kept, *[None] * (len(outputs) - count)]))
        try:
            back, zeros = pulled([None] * form.num_leaves)
        except Exception as error:
            if not asks_for_value(error):
                raise
            held = list(map(jax.lax.stop_gradient, operands))  # what is computed to be asked for has no derivative
            back, zeros = pulled(residuals(jax.core.eval_jaxpr(forward, forward.consts, *held), held, places))
    finally:
        emptied(fwd)
    value = lambda operands: list(fun.call_wrapped(*operands))
    to, fro = rule_of(forward.jaxpr, forward.consts), rule_of(back.jaxpr, back.consts)
    call, captured = with_cotangents(value, to, fro, zeros, places)
    return call(captured, operands)


def _repeated(rule: Any, run: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a rule that is made a program more than once: what it reaches is put back each time but the first."""
    make = _look.get().before
    before = make and make([rule])
    rules = Run(partial(before.restore, rule)) if before else Run()

    def again(*given: Any) -> Any:
        rules.begins()
        return run(*given)

    return again


def _seen(fun: Any, asked: Any, operands: Any) -> Any:
    """A function of JAX's, which may ask for the values of its operands."""
    return _asking(fun, asked, None, operands)


@linear_util.transformation2
def _asking(f: Any, asked: Any, level: int | None, operands: Any, *xs: Any) -> Any:
    return _run(asked, level, operands, f, *xs)


def _run(asked: Any, level: int | None, values: Any, f: Any, *xs: Any) -> Any:
    """f at the inputs of a trace of its own, of which these values are known in the trace around."""
    if not xs or type(xs[0]) is not Tracer or id(trace_of(xs[0])) in running:
        return f(*xs)
    inner = asked.within(values, level)
    inner.begin(xs)
    try:
        return f(*xs)
    finally:
        inner.end()
