"""Reading `lax.while_loop`: a while over two abstractions, the condition and the step.

Under `jax.vmap` the condition has an answer for each lane, and the loop goes on as long as one of them does.  A lane
that has ended keeps its state.  What its steps would give is not used, and they run on the state before its last step,
held: there is no derivative there, and none that is infinite, which would disturb what all lanes captured.  A lane that
takes no step borrows the first state of one that does.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from combinators import staging
from combinators.meaning.control import most_steps
from combinators.terms import While
from combinators.types import Function, shape_struct
from compile_ccc.carriers import is_carrier
from compile_ccc.jaxprs import compat
from compile_ccc.lambda_terms import Arrow, Constant, Var, atom_type, lam, single
from compile_ccc.reading.builder import Builder, array_of_functions
from compile_ccc.reading.refs import changed, contents, put, within


def repeated(block: Builder, eqn: Any, operands: list[Any]) -> list[Any]:
    """while (λs. condition) (λs. step) state, over the operands of a `while` equation."""
    loop = compat.While.of(eqn)
    asks, body, cells = loop.asks, loop.body, changed(eqn, operands)
    of_cond, of_body, start = loop.parts(operands)
    init = [*start, *contents(cells)]
    types = [*(v.aval for v in body.jaxpr.outvars), *(shape_struct(atom_type(a)) for a in contents(cells))]
    (going,) = asks.out_avals
    count, carry, bound = len(types), len(body.jaxpr.outvars), most_steps(asks.jaxpr)

    def condition(inner: Builder, s: list[Any]) -> list[Any]:
        _, captured = within(inner, of_cond, cells, s[carry:])
        return _inlined(inner, asks, captured, s[:carry])

    def step(inner: Builder, s: list[Any]) -> list[Any]:
        inside, captured = within(inner, of_body, cells, s[carry:])
        return [*_inlined(inner, body, captured, s[:carry]), *contents(inside)]

    if not going.shape:
        return put(cells, _while(block, While(bound), init, condition, step))
    for f in (a for a, t in zip(init, types, strict=True) if is_carrier(t)):
        raise array_of_functions(eqn, going.shape[0], atom_type(f))
    some, first, before, after = _programs(going, types)

    def of_some(inner: Builder, s: list[Any]) -> list[Any]:
        return _inlined(inner, some, condition(inner, s[:count]), [])

    def of_lanes(inner: Builder, s: list[Any]) -> list[Any]:
        now, last = s[:count], s[count:]
        lanes = condition(inner, now)
        taken = _inlined(inner, before, lanes, [*now, *last])
        return [*_inlined(inner, after, lanes, [*step(inner, taken), *now]), *taken]

    last = _inlined(block, first, condition(block, init), init)
    return put(cells, _while(block, While(bound), [*init, *last], of_some, of_lanes)[:count])


def _programs(going: Any, types: list[Any]) -> list[Any]:
    """Whether some lane goes on; for lanes that take no step, the state of one that does; to step from; and after."""
    count = len(types)

    def chosen(lanes: Any, new: Any, old: Any) -> Any:
        return [lax.select(_along(lanes, x.shape), x, y) for x, y in zip(new, old, strict=True)]

    def of_one(lanes: Any, x: Any) -> Any:
        one = lax.argmax(lanes.reshape(-1), 0, jnp.int32)
        found = lax.dynamic_index_in_dim(x.reshape(-1, *x.shape[lanes.ndim :]), one, 0, keepdims=False)
        return lax.broadcast_in_dim(found, x.shape, range(lanes.ndim, x.ndim))

    programs = [
        (lambda lanes: [jnp.any(lanes)], []),
        (lambda lanes, *s: chosen(lanes, s, [lax.stop_gradient(of_one(lanes, x)) for x in s]), types),
        (lambda lanes, *s: chosen(lanes, s[:count], map(lax.stop_gradient, s[count:])), 2 * types),
        (lambda lanes, *s: chosen(lanes, s[:count], s[count:]), 2 * types),
    ]
    return [staging.program(f, [going, *others]) for f, others in programs]


def _along(lanes: Any, shape: tuple[int, ...]) -> Any:
    return lax.broadcast_in_dim(lanes, shape, range(lanes.ndim))


def _while(block: Builder, term: While, init: list[Any], condition: Any, step: Any) -> list[Any]:
    state = single([atom_type(a) for a in init])
    functions = [_function(block, f, state) for f in (condition, step)]
    return block.leaves(block.let(Arrow(term, (*functions, block.build(list(init), state))), state), state)


def _function(block: Builder, f: Any, state: Any) -> Var:
    """λs. what f gives of the leaves of s."""
    inner, x = block.inner(), Var(next(block.names), state)
    results = f(inner, inner.leaves(x, state))
    cod = single([atom_type(a) for a in results])
    return block.let(lam(x, inner.close(inner.build(list(results), cod))), Function(state, cod))


def _inlined(inner: Builder, program: Any, captured: list[Any], s: list[Any]) -> list[Any]:
    return inner.run(program.jaxpr, [*map(Constant, program.consts), *captured, *s])
