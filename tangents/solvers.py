"""Solvers with implicit derivatives, whose function arguments capture whatever they like.

The result of each is defined by an equation; differentiating that equation gives the pullback, a linear system and one
call of the function at the solution.  How the solver came there takes no part in it, and nothing of it is kept.

    root:         f x = 0             [(x, -v)]   with  Jᵀ v = g,           J the derivative of f at x
    fixed_point:  f x = x             [(x, v)]    with  v = g + Jᵀ v
    argmin:       ∇f x = 0            as the root of ∇f

Unknowns are pytrees of arrays of one dtype.  The systems are dense: n unknowns take an n × n matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from combinators.types import Opaque
from combinators.values import Closure
from compile_ccc.tracing import function
from tangents.custom import custom
from tangents.derivatives import grad, vjp


def root(f: Any, x0: Any, steps: int = 100) -> Any:
    """x with f(x) = 0, by Newton's method from x0; f gives as many numbers as x has.

    f is a function value, or a Python function of one argument of the type of x0.  It takes at most `steps` steps, and
    ends when they no longer change x.  Where they do not converge, the last x comes out, and no derivative is right.
    """

    def newton(f: Any, x0: Any) -> Any:
        return _iterated(lambda x, y, jacobian: x - jnp.linalg.solve(jacobian, y), f, x0, steps)

    return custom(newton, _of_root, _start)(*_arguments(f, x0))


def fixed_point(f: Any, x0: Any, steps: int = 10_000) -> Any:
    """x with f(x) = x, by iterating f from x0; the same as `root` otherwise."""

    def iterate(f: Any, x0: Any) -> Any:
        return _iterated(lambda x, y, _: y, f, x0, steps)

    return custom(iterate, _of_fixed_point, _start)(*_arguments(f, x0))


def argmin(f: Any, x0: Any, steps: int = 100) -> Any:
    """x at which the gradient of f, which gives a scalar, is zero, by Newton's method from x0: near a minimum, that."""
    by_value = isinstance(f, Closure | Opaque)
    return root(lambda x: gradient(f, x) if by_value else grad(f)(x), x0, steps)


def _start(_: Any, x0: Any) -> Any:
    return x0


def _arguments(f: Any, x0: Any) -> tuple[Any, Any]:
    x0 = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), x0)
    return function(f, x0), x0


def _linear(f: Any, x: Any) -> tuple[Any, Any]:
    """(f x, the matrix of its derivative), over flat x."""
    y, pullback = vjp(f, x)
    flat, form = ravel_pytree(y)
    return flat, jax.vmap(lambda g: ravel_pytree(pullback(form(g)))[0])(jnp.eye(flat.size, dtype=flat.dtype))


def _iterated(step: Callable[..., Any], f: Any, x0: Any, steps: int) -> Any:
    """x0 after steps x ↦ step(x, f x, J), until they change nothing any more, or are `steps`."""
    start, form = ravel_pytree(x0)
    near = 4 * jnp.finfo(start.dtype).eps

    def changes(state: Any) -> Any:
        x, before, count = state
        return (count < steps) & jnp.any(jnp.abs(x - before) > near * (1 + jnp.abs(x)))

    def body(state: Any) -> Any:
        x, _, count = state
        return step(x, *_linear(f, form(x))), x, count + 1

    return form(jax.lax.while_loop(changes, body, (start, start + jnp.inf, 0))[0])


def _of_root(primals: Any, x: Any, g: Any) -> Any:
    (_, jacobian), (flat, form) = _linear(primals[0], x), ravel_pytree(g)
    return [(x, form(-jnp.linalg.solve(jacobian.T, flat)))], None


def _of_fixed_point(primals: Any, x: Any, g: Any) -> Any:
    (_, jacobian), (flat, form) = _linear(primals[0], x), ravel_pytree(g)
    return [(x, form(jnp.linalg.solve(jnp.eye(flat.size, dtype=flat.dtype) - jacobian.T, flat)))], None


def _slope(f: Any, x: Any) -> Any:
    return grad(f)(x)


def _of_slope(primals: Any, _: Any, g: Any) -> Any:
    f, x = primals
    leaves, form = jax.tree.flatten(f)
    _, pullback = vjp(lambda leaves, x: grad(form.unflatten(leaves))(x), leaves, x)
    by_leaves, by_x = pullback(g)
    return form.unflatten(by_leaves), by_x


gradient = custom(_slope, _of_slope, lambda _, x: x)  # of a function value that is not known yet
