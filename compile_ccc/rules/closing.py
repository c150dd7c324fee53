"""Rules of `jax.custom_jvp` and `jax.custom_vjp` that captured values of the program around, as rules of these too.

JAX runs a rule when the program has been traced.  By then, what it captured is a tracer without a trace, and so is an
array in the `nondiff_argnums` of a `jax.custom_jvp`.  Which value of the program it was is known where the program is
read: it becomes an operand, of which the rule knows no tangent, and for which it has no cotangent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import numpy as np
from jax.custom_derivatives import SymbolicZero

from combinators import staging
from combinators.errors import LeakedFunctionError
from combinators.identity import rules
from combinators.types import is_discrete, type_of
from compile_ccc.jaxprs import compat
from compile_ccc.refusing.refusals import of_a_rule
from compile_ccc.rules.as_programs import backward, residuals, with_cotangents, with_tangents, written

type Place = Callable[[Any], Any]  # of a tracer in the program around, None if it belongs to another one


def closed(eqn: Any, place: Place) -> tuple[Any, list[Any]] | None:
    """A program that does what an equation does, of what its rule captured and its operands, and the former's places.

    The result is None if its rule captured nothing, or what has no place.
    """
    if not captures(eqn):
        return None
    try:
        call, captured = _CALLS[eqn.primitive.name](eqn)
    except jax.errors.UnexpectedTracerError:  # it captured what was mapped, by a `jax.vmap` that has ended
        return None
    except LeakedFunctionError as error:
        raise of_a_rule(error) from error
    places = list(map(place, captured))
    if not captured or None in places:
        return None
    count, types = len(captured), [v.aval for v in (*captured, *eqn.invars)]
    return staging.program(lambda *xs: call(xs[:count], xs[count:]), types), places


def parameters(eqn: Any) -> dict[str, Any]:
    """The parameters of an equation, with programs in them whose rules captured nothing of these programs."""
    return {name: _closed_program(value) for name, value in eqn.params.items()}


_NO_PROGRAMS = frozenset({bool, int, float, str, type(None), np.dtype})


def _closed_program(value: Any) -> Any:
    if type(value) in _NO_PROGRAMS:
        return value
    if isinstance(value, tuple) and any(isinstance(v, jex.Jaxpr) for v in value):
        return getattr(value, "_make", tuple)(map(_closed_program, value))  # a tuple with names stays one
    if not isinstance(value, jex.Jaxpr) or not rules.held_tracers(value):
        return value
    run = lambda *xs: _run(value, [*value.consts, *xs], {})
    return staging.program(run, [v.aval for v in value.invars])


def captures(eqn: Any) -> bool:
    """Whether an equation calls a function whose rule captured tracers."""
    if eqn.primitive.name not in _CALLS:
        return False
    return any(map(rules.captured_tracers, filter(rules.is_function, eqn.params.values())))


@contextmanager
def closing() -> Generator[None]:
    """Inside of the `with`, the running trace is a `_Closing` one."""
    with jex.take_current_trace() as around, jex.set_current_trace(_Closing(around)):
        yield


class _Closing(jax.core.Trace):  # type: ignore[type-arg]
    """A trace of JAX that closes rules which captured what is mapped, while they are called.

    When the `jax.vmap` has ended, such a rule cannot be run any more.
    """

    def __init__(self, around: Any):
        super().__init__()
        self.around, self.requires_low = around, around.requires_low

    def stage_value(self, val: Any) -> Any:
        return self.around.stage_value(val)

    def process_primitive(self, primitive: Any, values: Any, params: dict[str, Any], /) -> Any:
        return self.around.process_primitive(primitive, values, params)

    def process_custom_vjp_call(self, primitive: Any, *functions: Any, **params: Any) -> Any:
        return self.around.process_custom_vjp_call(primitive, *functions, **params)

    def process_custom_jvp_call(self, primitive: Any, *functions: Any, **params: Any) -> Any:
        fun, jvp, operands = functions
        if not mapped(rules.captured_tracers(jvp)):
            return self.around.process_custom_jvp_call(primitive, *functions, **params)
        with jex.set_current_trace(self.around):
            return with_rule_as_program(fun, jvp, operands)


def with_rule_as_program(
    fun: Any,
    jvp: Any,
    operands: Any,
    seen: Callable[..., Any] = lambda f, *xs: f(*xs),
    varied: Sequence[bool] | None = None,
) -> Any:
    """The call of a function with a rule, which is made a program now; that is `seen` by what runs it on tracers.

    If the rule is told which tangents are zeros, it is made two programs: for tangents of all operands with real
    numbers, and of what is `varied`, which may be another path through it, and is the one that JAX takes.
    """
    types = list(map(jax.typeof, operands))
    tangents = [t.to_tangent_aval() for t in types]

    def rule_for(present: Sequence[bool]) -> tuple[_Rule, list[Any]]:
        def run(*xs: Any) -> list[Any]:
            rest = iter(xs[len(types) :])
            given = [next(rest) if p else SymbolicZero(t) for p, t in zip(present, tangents, strict=True)]
            return list(map(written, jvp.call_wrapped(*xs[: len(types)], *given)))

        try:
            program = staging.program(lambda *xs: seen(run, *xs), [*types, *compress(tangents, present)])
        finally:
            emptied(jvp)  # the call of the function itself fills them again
        return rule_of(program.jaxpr, program.consts)

    every = tuple(varied is None or not is_discrete(type_of(t)) for t in types)
    some = every if varied is None else tuple(v and r for v, r in zip(varied, every, strict=True))
    found = {present: rule_for(present) for present in dict.fromkeys((every, some))}  # this one last
    numbered = enumerate((present, rule) for present, (rule, _) in found.items())  # without what they captured
    programs = {present: lambda held, xs, i=i, rule=rule: rule(held[1][i], xs) for i, (present, rule) in numbered}
    call = with_tangents(lambda _, operands: list(fun.call_wrapped(*operands)), programs)
    return call([[], [captured for _, captured in found.values()]], operands)


def emptied(f: Any) -> None:
    """Empties what a function of JAX's keeps of its last run."""
    for store in filter(None, f.stores):
        store.reset()


def mapped(tracers: list[Any]) -> bool:
    """Whether there are tracers of a `jax.vmap` among these."""
    return None in map(staging.variable_of, tracers)


def strays(program: Any, tracers: list[Any]) -> bool:
    """Whether no program in this one has the variable of one of these tracers: `jax.vmap` wrote one down anew."""
    variables = {staging.variable_of(t) for t in tracers} - {None}
    waiting = [program] if variables else []
    while waiting and variables:
        jaxpr = waiting.pop()
        variables -= {*jaxpr.constvars, *jaxpr.invars, *(v for eqn in jaxpr.eqns for v in eqn.outvars)}
        waiting += [inner for eqn in jaxpr.eqns for inner in jex.jaxprs_in_params(eqn.params)]
    return bool(variables)


@dataclass(frozen=True)
class _Rule:
    """A rule as a program: its constants are what it captured, by the numbers in `names`, or known."""

    jaxpr: Any
    names: tuple[int, ...]
    known: tuple[Any, ...]  # None for what it captured; a rule that held the tracers would be one that captured them
    places: tuple[int, ...]

    def __call__(self, values: Any, rest: list[Any]) -> list[Any]:
        """What the program gives for these values of what it captured, and its other inputs."""
        pairs = zip(self.known, self.places, strict=True)
        constants = [values[place] if place >= 0 else constant for constant, place in pairs]
        return _run(self.jaxpr, [*constants, *rest], dict(zip(self.names, values, strict=True)))


def rule_of(jaxpr: Any, constants: Any) -> tuple[_Rule, list[Any]]:
    """The rule that a program with these constants is, and the tracers that it captured."""
    captured = list({id(c): c for c in constants if isinstance(c, jax.core.Tracer)}.values())
    names = tuple(map(id, captured))
    places = tuple(names.index(id(c)) if id(c) in names else -1 for c in constants)
    known = tuple(None if place >= 0 else c for c, place in zip(constants, places, strict=True))
    return _Rule(jaxpr, names, known, places), captured


def _of_tangents(eqn: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The call of an equation as a function of what its rule captured and of its operands, with what that is."""
    program, first, symbolic = (eqn.params[name] for name in ("call_jaxpr", "num_consts", "symbolic_zeros"))
    real = [not is_discrete(type_of(v.aval)) for v in eqn.invars[first:]]
    jaxpr, constants, zeros = compat.rule_program(eqn, [symbolic and not r for r in real])
    rule, captured = rule_of(jaxpr, constants)
    value = lambda held, operands: jax.core.eval_jaxpr(program, program.consts, *held[1], *operands)
    present = tuple(r or not symbolic for r in real)
    call = with_tangents(value, {present: lambda held, xs: rule(held[0], xs)}, zeros)
    return lambda values, operands: call([values, operands[:first]], operands[first:]), captured


def _of_cotangents(eqn: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The same for a rule that gives cotangents; if it asks which of them are zeros, it is told that none is."""
    program, first = eqn.params["call_jaxpr"], eqn.params["num_consts"]
    jaxpr, constants = compat.forward_program(eqn)
    places = [place if place is None else place - first for place in compat.residual_places(eqn)]
    count, outputs = places.count(None), [v.aval for v in jaxpr.outvars]
    kept = residuals(outputs, [v.aval for v in eqn.invars[first:]], places)
    back, zeros = backward(eqn.params["bwd"], [*kept, *(t.to_tangent_aval() for t in outputs[count:])])
    forward, pulled = rule_of(jaxpr, constants), rule_of(back.jaxpr, back.consts)

    def call(values: Any, operands: Any) -> Any:
        value = lambda rest: jax.core.eval_jaxpr(program, program.consts, *operands[:first], *rest)
        return with_cotangents(value, forward, pulled, zeros, places)[0](values, operands[first:])

    return call, [*forward[1], *pulled[1]]


_CALLS = {"custom_jvp_call": _of_tangents, "custom_vjp_call": _of_cotangents}


def _run(jaxpr: Any, values: list[Any], known: dict[int, Any]) -> list[Any]:
    """The results of a program on its constants and inputs; its equations may have captured these, or what is known."""
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), values, strict=True))
    for eqn in jaxpr.eqns:
        operands = tuple(v.val if isinstance(v, jex.Literal) else env[v] for v in eqn.invars)
        if captures(eqn):
            call, captured = _CALLS[eqn.primitive.name](eqn)
            results = call(tuple(env.get(staging.variable_of(c), known.get(id(c), c)) for c in captured), operands)
        else:
            results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(parameters(eqn)))
        env.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results], strict=True))
    return [v.val if isinstance(v, jex.Literal) else env[v] for v in jaxpr.outvars]
