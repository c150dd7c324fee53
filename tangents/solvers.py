"""Solvers with implicit derivatives, whose function arguments capture whatever they like.

The result of each is defined by an equation; differentiating that equation gives the pullback, a linear system and one
call of the function at the solution.  How the solver came there takes no part in it, and nothing of it is kept.

    root:         f x = 0             [(x, -v)]   with  Jᵀ v = g,           J the derivative of f at x
    fixed_point:  f x = x             [(x, v)]    with  v = g + Jᵀ v
    argmin:       ∇f x = 0            as the root of ∇f
    odeint:       y' = f(y, t)        [((y, t), λ dt), ...]   with  -λ' = Jᵀ λ,  backwards from λ(t1) = g

Unknowns are pytrees of arrays of one dtype.  The systems are dense: n unknowns take an n × n matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from combinators.errors import ArgumentError
from combinators.types import Opaque, is_discrete, type_of
from combinators.values import Closure
from compile_ccc.tracing import function
from tangents.calls import Block, Calls
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


def odeint(f: Any, y0: Any, t0: Any, t1: Any, steps: int = 100) -> Any:
    """y(t1) for y' = f(y, t) and y(t0) = y0, by so many steps of the classical Runge-Kutta method.

    f is a function value, or a Python function of two arguments of the types of y0 and t0.  The derivative is that of
    the equation, not of the steps: the adjoint equation, solved backwards in as many, so both have an error of order 4.
    It stores no step.  (L. S. Pontryagin et al., The Mathematical Theory of Optimal Processes, 1962.)
    """

    def solve(f: Any, y0: Any, t0: Any, t1: Any) -> Any:
        return _runge_kutta(f, y0, t0, t1, steps)[0]

    def adjoint(primals: Any, y: Any, g: Any) -> Any:
        f, _, t0, t1 = primals

        def backwards(state: Any, t: Any) -> Any:
            y, by_y = state
            slope, pullback = vjp(lambda y: f(y, t), y)
            return slope, jax.tree.map(jnp.negative, pullback(by_y)[0])

        (y0, by_y0), (places, times, weights) = _runge_kutta(backwards, (y, g), t1, t0, steps)
        ys, by_ys = places
        cotangents = jax.tree.map(lambda c: jnp.negative(jax.vmap(jnp.multiply)(c, weights)), by_ys)
        calls = Calls(Block((ys, times), cotangents, axes=1))
        return calls, by_y0, -_product(by_y0, f(y0, t0)), _product(g, f(y, t1))

    y0, t0, t1 = _strong((y0, t0, t1))
    return custom(solve, adjoint, lambda f, y0, t0, t1: y0)(function(f, y0, t0), y0, t0, t1)


def _runge_kutta(f: Any, y: Any, t0: Any, t1: Any, steps: int) -> tuple[Any, Any]:
    """(y at t1, all places, times and weights at which f was called), these with one axis in front."""
    h = (t1 - t0) / steps
    stages = ((0.0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1.0, 1 / 6))  # the classical method's places and weights
    along = lambda y, k, share: jax.tree.map(lambda y, k: y + share * h * k, y, k)

    def step(y: Any, i: Any) -> Any:
        slopes, called = [], []
        for share, weight in stages:
            place = along(y, slopes[-1], share) if slopes else y
            called.append((place, t0 + (i + share) * h, weight * h))
            slopes.append(f(*called[-1][:2]))
        for slope, (_, weight) in zip(slopes, stages, strict=True):
            y = along(y, slope, weight)
        return y, jax.tree.map(lambda *leaves: jnp.stack(leaves), *called)

    y, called = jax.lax.scan(step, y, jnp.arange(steps, dtype=h.dtype))
    return y, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), called)


def _product(g: Any, t: Any) -> Any:
    """⟨g, t⟩"""
    return sum(jax.tree.leaves(jax.tree.map(lambda g, t: jnp.sum(g * t), g, t)))


def _start(_: Any, x0: Any) -> Any:
    return x0


def _arguments(f: Any, x0: Any) -> tuple[Any, Any]:
    x0 = _strong(x0)
    return function(f, x0), x0


def _strong(x: Any) -> Any:
    """The arrays of a pytree, none of them weakly typed.  Raises `ArgumentError` if they are discrete."""
    if any(map(is_discrete, jax.tree.leaves(type_of(x)))):
        raise ArgumentError(
            "a solver starts at whole numbers",
            expected="floating-point numbers",
            got=type_of(x),
            hint="write 1.0 for 1",
        )
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), x)


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
