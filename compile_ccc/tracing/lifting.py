"""Closures inside a trace: known functions as function values of the program that is being traced."""

from __future__ import annotations

from combinators.building import compose, prod
from combinators.context import Context
from combinators.meaning.operators import rebuilt
from combinators.terms import Curry, Prod, Proj
from combinators.types import Function, Opaque, Tensor
from combinators.values import Closure
from compile_ccc.carriers import FunctionValue, active_traces, flatten, made
from compile_ccc.tracing.arguments import argument_type


def lifted(f: Closure) -> FunctionValue:
    """A closure as a function value of the program that is being traced: its code stays, what it captured goes in."""
    own, type, code, environment = active_traces.get()[-1], f.type, f.code, f.environment
    is_context = isinstance(environment, Context)
    if is_context and all(isinstance(argument_type(v), Tensor | Function) for v in environment):
        leaves = list(environment)
    else:
        whole, leaves = rebuilt(environment, lambda v: isinstance(v, Opaque))
        x = Proj(len(leaves))
        parts = Context(*whole.parts, x) if is_context and isinstance(whole, Prod) else (whole, x)
        code = Curry(compose(prod(parts), code.body), code.argument)
    operands = [flatten(leaf, argument_type(leaf))[0] for leaf in leaves]
    return FunctionValue(made(code, operands, type, origin=f.origin), type, own)
