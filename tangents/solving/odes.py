"""`odeint`, whose derivative is the adjoint equation, on the very steps that the solution took.

    odeint:   y' = f(y, t)        [((y, t), λ dt), ...]   with  -λ' = Jᵀ λ,  backwards from λ(t1) = g

Pulled back, a Runge-Kutta method on y is one on λ.  So the derivative has the order of the solution, is as stable as it
is, since y is not solved backwards, and is linear in g, also where errors chose the steps: their choice has none.
(J. M. Sanz-Serna, Symplectic Runge-Kutta schemes for adjoint equations, SIAM Review 58, 2016.)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from combinators.edges import flags, one_of, real, whole
from combinators.errors import ArgumentError
from combinators.terms import Const
from combinators.types import Tensor, no_types, type_of
from tangents.api.custom import custom
from tangents.api.derivatives import vjp
from tangents.cotangents.calls import Block, Calls
from tangents.solving.coupled import Coupled
from tangents.solving.runge_kutta import METHODS, Equation, Method, solve, weighed
from tangents.solving.unknowns import applicable, no_report, precision, unknowns


def odeint(
    f: Any,
    y0: Any,
    t0: Any,
    t1: Any,
    steps: int | None = None,
    method: str = "rk4",
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int | None = None,
    report: bool = False,
) -> Any:
    """y(t1) for y' = f(y, t) and y(t0) = y0; with `report`, the pair (y(t1), `Report`).

    f is a function value, or a Python function of two arguments of the types of y0 and t0; it gives the type of y0.

    method="rk4" takes `steps` (100) equal steps of the classical Runge-Kutta method, whatever their errors are.
    method="dopri" takes those steps of the method of Dormand and Prince that keep the error of each within rtol |y| +
    atol, by the error control of `jax.experimental.ode`.  If more than `max_steps` (1000) are tried, y is not a number.

    A report has converged if y is finite, and the estimated error of each step within the tolerances; the residual is
    the largest error, in units of them.  They are 1.4e-8 for "dopri" and 1e-5 for "rk4" if none are given, but at least
    ten units of the precision of y.

    The derivative is the adjoint equation on the steps that were taken.  It takes them again, and keeps them.
    (L. S. Pontryagin et al., The Mathematical Theory of Optimal Processes, 1962.)

    Raises `ArgumentError` for arguments that do not fit, and for options that the method does not have.
    """
    flags(report=report)
    one_of("method", method, METHODS, '"rk4" takes equal steps, "dopri" steps that keep their errors within tolerances')
    chosen = METHODS[method]
    count = _count(method, steps, max_steps)
    y0 = unknowns(y0, "y0")
    t0, t1 = _times(y0, t0, t1)
    f = applicable(f, (y0, t0), y0, "the derivative of the unknowns")
    given = {"rtol": rtol, "atol": atol}
    tolerances = Const(tuple(_tolerance(*item, chosen, y0) for item in given.items()))  # no environment of the solver

    def solution(f: Any, y0: Any, t0: Any, t1: Any) -> Any:
        return solve(METHODS[method], count, tolerances.value, Equation(f, y0, t0, t1))

    def adjoint(primals: Any, result: Any, g: Any, arrived: Any) -> Any:
        equation = Equation(*primals)
        coupled = Coupled(lambda y: equation.f(y, equation.t0), equation.form(equation.y0), arrived)
        if not coupled.numbers:
            return None, None, None, None
        return _adjoint(METHODS[method], equation, coupled, result, g[0])

    def like(f: Any, y0: Any, t0: Any, t1: Any) -> Any:
        return y0, jnp.zeros(count, precision(y0)), no_report(y0)

    y, _, found = custom(solution, adjoint, like)(f, y0, t0, t1)
    return (y, found) if report else y


def _adjoint(method: Method, equation: Equation, coupled: Coupled, result: Any, g: Any) -> Any:
    """The calls of f, and the cotangents of y0, t0 and t1, from that of y, of what is coupled alone."""
    y1, shares, report = result
    y0, y1, g = equation.y0, ravel_pytree(y1)[0], coupled.flat(g)

    def slope(y: Any, s: Any) -> Any:
        """dy/dt of the coupled unknowns, for a pytree y."""
        return coupled.flat(equation.f(y, equation.time(s)))

    by_y1 = jnp.where(report.converged, g, jnp.nan) if method.adaptive else g

    def forwards(state: Any, h: Any) -> Any:
        y, slope, s = state
        places, slopes = equation.step(method, y, slope, s, h)
        times = s + h * jnp.asarray(method.c[: method.inner], h.dtype)
        return (places[-1], slopes[-1], s + h), (jnp.stack(places[: method.inner]), times)

    def stay(state: Any, _: Any) -> Any:
        y, _, s = state
        return state, (jnp.broadcast_to(y, (method.inner, *y.shape)), jnp.broadcast_to(s, method.inner))

    def backwards(by_y: Any, h: Any, places: Any, times: Any) -> Any:
        by_slopes: list[Any] = [None] * method.inner
        by_places: list[Any] = [None] * method.inner
        for i in reversed(range(method.inner)):
            weights = [method.a[-1][i], *(method.a[j][i] for j in range(i + 1, method.inner))]
            by_slopes[i] = equation.size(h) * weighed(weights, [by_y, *by_places[i + 1 :]])
            y = equation.form(places[i])
            _, pullback = vjp(lambda v, y=y, i=i: slope(coupled.within(v, y), times[i]), coupled.flat(y))
            (by_places[i],) = pullback(by_slopes[i])
        return by_y + sum(by_places), jnp.stack(by_slopes)

    def keep(by_y: Any, *_: Any) -> Any:
        return by_y, jnp.zeros((method.inner, *by_y.shape), by_y.dtype)

    def where_taken(step: Any, otherwise: Any) -> Any:
        """`step` with a share that is not zero, as those are that an adaptive method had no need of."""
        return lambda *x: jax.lax.cond(x[1] > 0, step, otherwise, *x) if method.adaptive else step(*x)

    forwards, backwards = where_taken(forwards, stay), where_taken(backwards, keep)
    start = (y0, equation.slope(y0, equation.start), equation.start)
    _, (places, times) = jax.lax.scan(forwards, start, shares)
    by_y0, by_slopes = jax.lax.scan(lambda g, x: backwards(g, *x), by_y1, (shares, places, times), reverse=True)

    made = jnp.broadcast_to(shares[:, None] > 0, times.shape) if method.adaptive else None
    trees = jax.vmap(jax.vmap(equation.form))
    by_calls = jax.vmap(jax.vmap(coupled.alone))(by_slopes)
    calls = Calls(Block((trees(places), equation.time(times)), by_calls, 2, made))
    by_t0 = -_product(by_y0, slope(equation.form(y0), equation.start), equation.t0)
    by_t1 = _product(by_y1, slope(equation.form(y1), equation.start + 1), equation.t1)
    return calls, coupled.alone(by_y0), by_t0, by_t1


def _product(g: Any, slope: Any, t: Any) -> Any:
    """⟨g, slope⟩, the cotangent of the time t."""
    return jnp.asarray(jnp.sum(g * slope).real, t.dtype)


def _times(y0: Any, t0: Any, t1: Any) -> tuple[Any, Any]:
    """The two times, of one real dtype: that of y0 if they do not say another."""
    no_types((t0, t1))
    types = (type_of(t0), type_of(t1))
    if not all(isinstance(t, Tensor) and not t.shape and jnp.issubdtype(t.dtype, jnp.floating) for t in types):
        raise ArgumentError(
            "a time is no real number",
            expected="two scalars of a floating-point dtype",
            got=types,
            hint="write 1.0 for 1",
        )
    dtypes = [t.dtype for t in types if not t.weak] or [precision(y0)]
    dtype = max(dtypes, key=lambda dtype: jnp.finfo(dtype).bits)
    return jnp.asarray(t0, dtype), jnp.asarray(t1, dtype)


def _count(method: str, steps: Any, max_steps: Any) -> int:
    """The number of steps, or of those that may be tried."""
    options = {"steps": steps, "max_steps": max_steps}
    name, other = ("max_steps", "steps") if METHODS[method].adaptive else ("steps", "max_steps")
    if options[other] is not None:
        raise ArgumentError(
            f"the method {method!r} has no option {other}", expected=name, got=f"{other}={options[other]!r}",
            hint='method="rk4" takes so many `steps`; method="dopri" as many as it needs, below `max_steps`',
        )  # fmt: skip
    return METHODS[method].count if options[name] is None else whole(name, options[name], 1)


def _tolerance(name: str, given: Any, method: Method, y0: Any) -> float:
    if given is None:
        return max(method.tolerance, 10 * float(jnp.finfo(precision(y0)).eps))
    return real(name, given)
