"""Tangent spaces, representation functions, derivatives of terms, and the checker of their laws.

What draws random examples (`check`, `tangents.strategies`) needs the extra `laws`, and is imported when it is used.
"""

from typing import Any

import jax

from tangents import as_jax
from tangents.api.backpropagators import J, J_inverse
from tangents.api.custom import custom
from tangents.api.define import define
from tangents.api.derivatives import grad, value_and_grad, vjp
from tangents.api.directional import grad_and_hvp, hvp, jvp
from tangents.api.jacobians import hessian, jacfwd, jacobian, jacrev, value_and_jacobian
from tangents.api.linear_maps import Pushforward, linear_transpose, linearize
from tangents.api.pullbacks import Pullback
from tangents.checking.comparison import compare
from tangents.checking.cost import assert_cheap_gradient
from tangents.checking.differences import difference
from tangents.checking.reading import READINGS, Reading, representation
from tangents.cotangents.calls import Block, Calls
from tangents.represent import represent
from tangents.solving.odes import odeint
from tangents.solving.solvers import argmin, fixed_point, root
from tangents.solving.unknowns import Report
from tangents.spaces.public import SPACES, add, inner, zero
from tangents.spaces.space import Space

checkpoint, custom_jvp, custom_vjp = jax.checkpoint, jax.custom_jvp, jax.custom_vjp  # which our derivatives read


def check(x: Any, *domain: Any, examples: int = 100, seed: int = 0, points: Any = None) -> Any:
    """Holds x against its laws; see `tangents.checking.check.check`."""
    from tangents.checking.check import check as checked

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
