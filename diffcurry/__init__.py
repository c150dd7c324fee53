"""The front door: everything public under one name."""

import combinators as C
from compile_ccc import Arrow, Lam, black_box, ccc, function, lower, trace, translate
from tangents import Block, Calls, Pullback, grad, hessian, hvp, jacobian, jvp, represent, value_and_grad, vjp

__all__ = [
    "Arrow",
    "Block",
    "C",
    "Calls",
    "Lam",
    "black_box",
    "Pullback",
    "ccc",
    "function",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "lower",
    "represent",
    "trace",
    "translate",
    "value_and_grad",
    "vjp",
]
