"""Solvers with implicit derivatives, whose function arguments capture whatever they like.

The result of each is defined by an equation; differentiating that equation gives the pullback, a linear system and one
call of the function at the solution.  How the solver came there takes no part in it, and nothing of it is kept.

    root:         f x = 0             [(x, -v)]   with  Jᵀ v = g,           J the derivative of f at x
    fixed_point:  f x = x             [(x, v)]    with  v = g + Jᵀ v
    argmin:       ∇f x = 0            as the root of ∇f

Unknowns are pytrees of arrays of one dtype.  The systems are dense: n unknowns take an n × n matrix.  Arrays of them
that a cotangent does not concern take no part in its system: see `coupled.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from combinators.edges import flags, whole
from combinators.types import Opaque
from combinators.values import Closure
from tangents.api.custom import custom
from tangents.api.derivatives import grad, vjp
from tangents.solving.coupled import Coupled, groups
from tangents.solving.unknowns import Report, applicable, no_report, unknowns

type _Step = Callable[[Any, Any], tuple[Any, Any, Any]]  # (f, x) ↦ (the next x, the residual, whether that is right)
type _Equation = Callable[[Any, Any], Any]  # (Jᵀ, g) ↦ v


def root(f: Any, x0: Any, steps: int = 100, report: bool = False) -> Any:
    """x with f(x) = 0, by Newton's method from x0; f gives the type of x.  With `report`, the pair (x, `Report`).

    f is a function value, or a Python function of one argument of the type of x0.  It takes at most `steps` steps, and
    ends when they no longer change x.  A report has converged if a further step would not change more of x than ε^¾ in
    units of 1 + |x|, with the precision ε; the residual is the largest entry of |f(x)|.  Where it has not, the last x
    comes out, and no derivative is right.

    Raises `ArgumentError` for a function whose result has another type than x, and for whole numbers.
    """
    return _implicit(_newton, _of_root, "the result of the function of a root", f, x0, steps, report)


def fixed_point(f: Any, x0: Any, steps: int = 10_000, report: bool = False) -> Any:
    """x with f(x) = x, by iterating f from x0; the residual is the largest entry of |f(x) - x|.  See `root`."""
    return _implicit(_iteration, _of_fixed_point, "the result of the function of a fixed point", f, x0, steps, report)


def argmin(f: Any, x0: Any, steps: int = 100, report: bool = False) -> Any:
    """x at which the gradient of f, which gives a scalar, is zero, by Newton's method from x0: near a minimum, that.

    It has converged where that is so and the Hessian is positive definite.  See `root`.
    """
    by_value = isinstance(f, Closure | Opaque)
    slope = lambda x: gradient(f, x) if by_value else grad(f)(x)
    return _implicit(_descent, _of_root, "the gradient", slope, x0, steps, report)


def _implicit(step: _Step, rule: _Equation, what: str, f: Any, x0: Any, steps: int, report: bool) -> Any:
    """The solution of an equation by an iteration, with the pullback that follows from the equation alone."""
    steps = min(whole("the number of steps", steps, 1), np.iinfo(np.int32).max)
    flags(report=report)
    x0 = unknowns(x0, "start")
    f = applicable(f, (x0,), x0, what)

    def solve(f: Any, x0: Any) -> Any:
        return _iterated(step, f, x0, steps, report)

    def pullback(primals: Any, y: Any, g: Any, arrived: Any) -> Any:
        f, (x, g) = primals[0], (y[0], g[0]) if report else (y, g)
        coupled = Coupled(f, x, arrived)
        return _calls(rule, f, x, g, coupled) if coupled.numbers else None, None

    def apart(primals: Any, y: Any) -> Any:
        return groups(primals[0], y[0] if report else y)

    return custom(solve, pullback, lambda f, x0: (x0, no_report(x0)) if report else x0, apart)(f, x0)


def _iterated(step: _Step, f: Any, x0: Any, steps: int, report: bool) -> Any:
    """x0 after steps until they change nothing any more, or are so many; and how that went, if it is asked for."""
    f, start, form = _flat(f, x0)
    precise = float(jnp.finfo(start.dtype).eps)

    def changes(x: Any, before: Any, share: float) -> Any:
        return jnp.any(jnp.abs(x - before) > share * (1 + jnp.abs(x)))

    def goes_on(state: Any) -> Any:
        x, before, count = state
        return (count < steps) & changes(x, before, 4 * precise)

    def body(state: Any) -> Any:
        x, _, count = state
        return step(f, x)[0], x, count + 1

    x, _, count = jax.lax.while_loop(goes_on, body, (start, start + jnp.inf, jnp.zeros((), np.int32)))
    if not report:
        return form(x)
    further, residual, sound = step(f, x)
    converged = sound & jnp.all(jnp.isfinite(further)) & ~changes(further, x, precise**0.75)
    return form(x), Report(converged, count, jnp.max(jnp.abs(residual)))


def _newton(f: Any, x: Any) -> tuple[Any, Any, Any]:
    y, jacobian = _linear(f, x)
    return x - _solution(jacobian, y), y, True


def _descent(f: Any, x: Any) -> tuple[Any, Any, Any]:
    """Newton's method for a gradient f, which is at a minimum where the Hessian has a Cholesky decomposition."""
    y, hessian = _linear(f, x)
    return x - _solution(hessian, y), y, jnp.all(jnp.isfinite(jnp.linalg.cholesky(_wide(hessian))))


def _iteration(f: Any, x: Any) -> tuple[Any, Any, Any]:
    y = f(x)
    return y, y - x, True


def _linear(f: Any, x: Any) -> tuple[Any, Any]:
    """(f x, the matrix of its derivative)"""
    y, pullback = vjp(f, x)
    return y, jax.vmap(lambda g: pullback(g)[0])(jnp.eye(y.size, dtype=y.dtype))


def _solution(matrix: Any, y: Any) -> Any:
    return jnp.linalg.solve(_wide(matrix), _wide(y)).astype(y.dtype)


def _wide(x: Any) -> Any:
    """x in a precision in which linear systems are solved, as half precision is none."""
    return x.astype(np.float32) if jnp.finfo(x.dtype).bits < 32 else x


def _flat(f: Any, x: Any) -> tuple[Any, Any, Any]:
    """(f on flat unknowns, x as one of them, how to make a pytree of one)"""
    flat, form = ravel_pytree(x)
    return lambda v: ravel_pytree(f(form(v)))[0], flat, form


def _calls(rule: _Equation, f: Any, x: Any, g: Any, coupled: Coupled) -> Any:
    """The call of f at the solution x, with the cotangent that follows from the one of x: of what is coupled alone."""
    jacobian = _linear(lambda v: coupled.flat(f(coupled.within(v, x))), coupled.flat(x))[1]
    return [(x, coupled.alone(rule(jacobian.T, coupled.flat(g))))]


def _of_root(transposed: Any, g: Any) -> Any:
    return -_solution(transposed, g)


def _of_fixed_point(transposed: Any, g: Any) -> Any:
    return _solution(jnp.eye(g.size, dtype=g.dtype) - transposed, g)


def _slope(f: Any, x: Any) -> Any:
    return grad(f)(x)


def _of_slope(primals: Any, _: Any, g: Any, arrived: Any) -> Any:
    f, x = primals
    leaves, form = jax.tree.flatten(f)
    these = lambda x: [leaf for leaf, a in zip(jax.tree.leaves(x), arrived, strict=True) if a]
    _, pullback = vjp(lambda leaves, x: these(grad(form.unflatten(leaves))(x)), leaves, x)
    by_leaves, by_x = pullback(these(g))
    return form.unflatten(by_leaves), by_x


gradient = custom(_slope, _of_slope, lambda _, x: x)  # of a function value that is not known yet
