"""Tangent spaces, representation functions, derivatives of terms, and the checker of their laws.

What draws random examples (`check`, `tangents.strategies`) needs the extra `laws`, and is imported when it is used.
"""

from typing import Any

import jax

from tangents import as_jax
from tangents.backpropagators import J, J_inverse
from tangents.calls import Block, Calls
from tangents.comparison import compare
from tangents.cost import assert_cheap_gradient
from tangents.custom import custom
from tangents.define import define
from tangents.derivatives import grad, value_and_grad, vjp
from tangents.differences import difference
from tangents.directional import grad_and_hvp, hvp, jvp
from tangents.jacobians import hessian, jacfwd, jacobian, jacrev, value_and_jacobian
from tangents.linear_maps import Pushforward, linear_transpose, linearize
from tangents.odes import odeint
from tangents.public import add, inner, zero
from tangents.pullbacks import Pullback
from tangents.reading import READINGS, Reading, representation
from tangents.represent import SPACES, represent
from tangents.solvers import argmin, fixed_point, root
from tangents.space import Space
from tangents.unknowns import Report

checkpoint, custom_jvp, custom_vjp = jax.checkpoint, jax.custom_jvp, jax.custom_vjp  # which our derivatives read


def check(x: Any, *domain: Any, examples: int = 100, seed: int = 0, points: Any = None) -> Any:
    """Holds x against its laws; see `tangents.checker.check`."""
    from tangents.checker import check as checked

    return checked(x, *domain, examples=examples, seed=seed, points=points)


__all__ = [
    "READINGS",
    "SPACES",
    "Block",
    "Calls",
    "J",
    "J_inverse",
    "Pullback",
    "Pushforward",
    "Reading",
    "Report",
    "Space",
    "add",
    "argmin",
    "as_jax",
    "assert_cheap_gradient",
    "check",
    "checkpoint",
    "compare",
    "custom",
    "custom_jvp",
    "custom_vjp",
    "define",
    "difference",
    "fixed_point",
    "grad",
    "grad_and_hvp",
    "hessian",
    "hvp",
    "inner",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linear_transpose",
    "linearize",
    "odeint",
    "represent",
    "representation",
    "root",
    "value_and_grad",
    "value_and_jacobian",
    "vjp",
    "zero",
]
