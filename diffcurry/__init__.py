"""The front door: everything public under one name."""

import combinators as C
from compile_ccc import Arrow, Lam, black_box, ccc, function, lower, trace, translate
from tangents import (
    Block,
    Calls,
    Pullback,
    argmin,
    custom,
    fixed_point,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    represent,
    root,
    value_and_grad,
    vjp,
)

__all__ = [
    "Arrow",
    "Block",
    "C",
    "Calls",
    "Lam",
    "Pullback",
    "argmin",
    "black_box",
    "ccc",
    "custom",
    "fixed_point",
    "function",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "lower",
    "represent",
    "root",
    "trace",
    "translate",
    "value_and_grad",
    "vjp",
]
