"""Reading `lax.while_loop`: a while over two abstractions, the condition and the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from combinators.terms import While
from combinators.types import Function
from compile_ccc.lambda_terms import Arrow, Constant, Var, atom_type, lam, single

if TYPE_CHECKING:
    from compile_ccc.read import Builder


def repeated(block: Builder, eqn: Any, operands: list[Any]) -> list[Any]:
    """while (λs. condition) (λs. step) state, over the operands of a `while` equation."""
    params = eqn.params
    after_cond = params["cond_nconsts"]
    after_body = after_cond + params["body_nconsts"]
    init = operands[after_body:]
    state = single([atom_type(a) for a in init])
    condition = _function(block, params["cond_jaxpr"], operands[:after_cond], state)
    step = _function(block, params["body_jaxpr"], operands[after_cond:after_body], state)
    arguments = (condition, step, block.build(list(init), state))
    return block.leaves(block.let(Arrow(While(), arguments), state), state)


def _function(block: Builder, body: Any, captured: list[Any], state: Any) -> Var:
    """λs. body, for a program of what it captured and of the leaves of s."""
    inner, x = block.inner(), Var(next(block.names), state)
    results = inner.run(body.jaxpr, [*map(Constant, body.consts), *captured, *inner.leaves(x, state)])
    cod = single([atom_type(a) for a in results])
    return block.let(lam(x, inner.close(inner.build(list(results), cod))), Function(state, cod))
