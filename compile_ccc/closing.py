"""Rules of `jax.custom_jvp` that captured values of the program around them, as rules of these values too.

An array in `nondiff_argnums` is captured by the rule, which JAX runs when the program has been traced.  By then the
array is a tracer without a trace.  Which value of the program it was is known where the program is read: it becomes an
operand, of which the rule knows no tangent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from combinators import rules, staging
from combinators.types import is_discrete, type_of
from compile_ccc import compat

type Place = Callable[[Any], Any]  # of a tracer in the program around, None if it belongs to another one


def closed(eqn: Any, place: Place) -> tuple[Any, list[Any]] | None:
    """A program that does what an equation does, of what its rule captured and its operands, and the former's places.

    The result is None if its rule captured nothing, or what has no place.
    """
    if not captures(eqn):
        return None
    try:
        call, captured = _call(eqn)
    except jax.errors.UnexpectedTracerError:  # it captured what was mapped, by a `jax.vmap` that has ended
        return None
    places = list(map(place, captured))
    if not captured or None in places:
        return None
    count, types = len(captured), [v.aval for v in (*captured, *eqn.invars)]
    return staging.program(lambda *xs: call(xs[:count], xs[count:]), types), places


def parameters(eqn: Any) -> dict[str, Any]:
    """The parameters of an equation, with programs in them whose rules captured nothing of these programs."""
    return {name: _closed_program(value) for name, value in eqn.params.items()}


def _closed_program(value: Any) -> Any:
    if isinstance(value, tuple) and any(isinstance(v, jex.Jaxpr) for v in value):
        return tuple(map(_closed_program, value))
    if not isinstance(value, jex.Jaxpr) or not rules.held_tracers(value):
        return value
    run = lambda *xs: _run(value, [*value.consts, *xs], {})
    return staging.program(run, [v.aval for v in value.invars])


def captures(eqn: Any) -> bool:
    """Whether an equation calls a function whose rule captured tracers."""
    named = eqn.primitive.name == "custom_jvp_call"
    return named and any(map(rules.captured_tracers, filter(rules.is_function, eqn.params.values())))


def _call(eqn: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The call of an equation as a function of what its rule captured and of its operands, with what that is."""
    program, first = eqn.params["call_jaxpr"], eqn.params["num_consts"]
    real = [not is_discrete(type_of(v.aval)) for v in eqn.invars[first:]]
    symbolic = eqn.params["symbolic_zeros"]
    jaxpr, consts, out_zeros = compat.rule_program(eqn, [symbolic and not r for r in real])
    captured = {id(c): c for c in consts if isinstance(c, jax.core.Tracer)}
    names = list(captured)  # a rule that held the tracers would be one that captured them
    parts = [names.index(id(c)) if id(c) in captured else _Known(c) for c in consts]

    @jax.custom_jvp
    def call(values: tuple[Any, ...], operands: tuple[Any, ...]) -> Any:
        return jax.core.eval_jaxpr(program, program.consts, *operands)

    def rule(primals: Any, tangents: Any) -> Any:
        (values, operands), (of_values, of_operands) = primals, tangents
        if not all(isinstance(t, SymbolicZero) for t in (*of_values, *of_operands[:first])):
            raise TypeError("the rule of a jax.custom_jvp knows no derivative by a closed-over value")
        given = [p.value if isinstance(p, _Known) else values[p] for p in parts]
        written = [
            jnp.zeros(x.shape, x.dtype) if r and isinstance(t, SymbolicZero) else t if r else _no_tangent(x)
            for x, t, r in zip(operands[first:], of_operands[first:], real, strict=True)
            if r or not symbolic
        ]
        results = _run(jaxpr, [*given, *operands[first:], *written], dict(zip(names, values, strict=True)))
        y, t = results[: len(out_zeros)], iter(results[len(out_zeros) :])
        return y, [
            SymbolicZero(jax.typeof(p).to_tangent_aval()) if z else next(t) for p, z in zip(y, out_zeros, strict=True)
        ]

    call.defjvp(rule, symbolic_zeros=True)
    return call, list(captured.values())


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
            types = list(map(jax.typeof, operands))
            tangents = [t.to_tangent_aval() for t in types]
            program = staging.program(lambda *xs: list(map(_written, jvp.call_wrapped(*xs))), [*types, *tangents])
            for store in filter(None, jvp.stores):
                store.reset()  # what the function itself gives is stored there again
            captured = [c for c in program.consts if isinstance(c, jax.core.Tracer)]
            names = list(map(id, captured))
            parts = [names.index(id(c)) if id(c) in names else _Known(c) for c in program.consts]
            call = jax.custom_jvp(lambda values, operands: list(fun.call_wrapped(*operands)))

            def rule(primals: Any, tangents: Any) -> Any:
                (values, operands), (_, given) = primals, tangents
                constants = [p.value if isinstance(p, _Known) else values[p] for p in parts]
                results = _run(program.jaxpr, [*constants, *operands, *given], dict(zip(names, values, strict=True)))
                return results[: len(results) // 2], results[len(results) // 2 :]

            call.defjvp(rule)
            return call(captured, list(operands))


@contextmanager
def closing() -> Generator[None]:
    """Inside of the `with`, the running trace is a `_Closing` one."""
    with jex.take_current_trace() as around, jex.set_current_trace(_Closing(around)):
        yield


def mapped(tracers: list[Any]) -> bool:
    """Whether there are tracers of a `jax.vmap` among these."""
    return any(compat.variable_of(t) is None for t in tracers)


def _zeros(like: Any) -> Any:
    return jnp.zeros(like.shape, like.dtype)


def _written(value: Any) -> Any:
    return _zeros(value) if isinstance(value, SymbolicZero) else value


class _Known:
    """A constant of a rule, beside the numbers of what it captured."""

    def __init__(self, value: Any):
        self.value = value


def _no_tangent(x: Any) -> Any:
    return np.zeros(x.shape, jax.dtypes.float0)


def _run(jaxpr: Any, values: list[Any], known: dict[int, Any]) -> list[Any]:
    """The results of a program on its constants and inputs; its equations may have captured these, or known values."""
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), values, strict=True))
    for eqn in jaxpr.eqns:
        operands = tuple(v.val if isinstance(v, jex.Literal) else env[v] for v in eqn.invars)
        if captures(eqn):
            call, captured = _call(eqn)
            results = call(tuple(env.get(compat.variable_of(c), known.get(id(c), c)) for c in captured), operands)
        else:
            results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(parameters(eqn)))
        env.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results], strict=True))
    return [v.val if isinstance(v, jex.Literal) else env[v] for v in jaxpr.outvars]
