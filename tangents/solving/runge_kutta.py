"""Initial value problems by Runge-Kutta methods, in steps that are equal, or chosen by their errors.

y' = f(y, t)        y(t + h) = y + h Σ bᵢ kᵢ        kᵢ = f(y + h Σ aᵢⱼ kⱼ, t + cᵢ h)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.ode import initial_step_size, mean_error_ratio, optimal_step_size
from jax.flatten_util import ravel_pytree

from tangents.solving.unknowns import Report, precision


@dataclass(frozen=True)
class Method:
    """c, the rows of a, of which the last is b, and the weights of an error; the last stage is the end of the step.

    `tolerance` is what the estimated error of a step may be, if nothing else is said.  `adaptive` methods choose their
    steps by it.  Either way they are `count`, or at most so many.
    """

    c: Sequence[float]
    a: Sequence[Sequence[float]]
    error: Sequence[float]
    tolerance: float
    adaptive: bool
    count: int

    @property
    def inner(self) -> int:
        """The number of stages before the end of the step: all those that it is made of."""
        return len(self.c) - 1


METHODS = {
    "rk4": Method(  # the classical method; its error is held against a method of order 3 with the same stages
        (0.0, 1 / 2, 1 / 2, 1.0, 1.0),
        ((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
        (0.0, 0.0, 0.0, 1 / 10, -1 / 10),
        1e-5,
        adaptive=False,
        count=100,
    ),
    "dopri": Method(  # J. R. Dormand, P. J. Prince, A family of embedded Runge-Kutta formulae, 1980
        (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
        (
            (),
            (1 / 5,),
            (3 / 40, 9 / 40),
            (44 / 45, -56 / 15, 32 / 9),
            (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
            (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
            (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
        ),
        (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
        1.4e-8,
        adaptive=True,
        count=1000,
    ),
}


class Equation:
    """y' = f(y, t) on flat unknowns, over shares s of the time from t0 to t1: dt = `span` ds."""

    def __init__(self, f: Any, y0: Any, t0: Any, t1: Any):
        self.f, self.t0, self.t1 = f, t0, t1
        self.y0, self.form = ravel_pytree(y0)
        self.span = jnp.asarray(t1 - t0, self.y0.dtype)
        self.start = jnp.zeros((), precision(self.y0))

    def time(self, s: Any) -> Any:
        """t, at the share s of the time."""
        return self.t0 + jnp.asarray(s, self.t0.dtype) * (self.t1 - self.t0)

    def slope(self, y: Any, s: Any) -> Any:
        """dy/dt"""
        return ravel_pytree(self.f(self.form(y), self.time(s)))[0]

    def step(self, method: Method, y: Any, slope: Any, s: Any, h: Any) -> tuple[list[Any], list[Any]]:
        """The places and the slopes of all stages of a step of the share h, from y and its slope there."""
        places, slopes = [y], [slope]
        for c, a in zip(method.c[1:], method.a[1:], strict=True):
            places.append(y + self.size(h) * weighed(a, slopes))
            slopes.append(self.slope(places[-1], s + c * h))
        return places, slopes

    def size(self, h: Any) -> Any:
        """dt of a share of the time, as a factor of slopes."""
        return self.span * jnp.asarray(h, self.span.dtype)


def weighed(weights: Sequence[float], vectors: Sequence[Any]) -> Any:
    """Σ w v, without what has no weight."""
    return sum(w * v for w, v in zip(weights, vectors, strict=True) if w)


def solve(method: Method, count: int, tolerances: tuple[float, float], equation: Equation) -> tuple[Any, Any, Report]:
    """(y at the end, the shares of the steps, a report)"""
    return (_adaptive if method.adaptive else _equal)(method, count, tolerances, equation)


def _equal(method: Method, count: int, tolerances: tuple[float, float], equation: Equation) -> tuple[Any, Any, Report]:
    """By so many equal steps."""
    h = jnp.asarray(1 / count, equation.start.dtype)

    def step(state: Any, i: Any) -> Any:
        y, slope, worst = state
        places, slopes = equation.step(method, y, slope, i * h, h)
        error = equation.size(h) * weighed(method.error, slopes)
        ratio = mean_error_ratio(error, *tolerances, y, places[-1])
        return (places[-1], slopes[-1], jnp.maximum(worst, ratio)), None

    state = (equation.y0, equation.slope(equation.y0, equation.start), equation.start)
    (y, _, worst), _ = jax.lax.scan(step, state, jnp.arange(count, dtype=h.dtype))
    converged = jnp.all(jnp.isfinite(y)) & (worst <= 1)
    return equation.form(y), jnp.full(count, h), Report(converged, jnp.asarray(count, np.int32), worst)


def _adaptive(
    method: Method, count: int, tolerances: tuple[float, float], equation: Equation
) -> tuple[Any, Any, Report]:
    """By as many steps as the tolerances ask for; y is not a number if these are more than `count`."""
    y0, start = equation.y0, equation.start
    slope = equation.slope(y0, start)
    by_share = lambda y, s: equation.span * equation.slope(y, s)
    h = initial_step_size(by_share, start, y0, 4, *tolerances, equation.span * slope)

    def goes_on(state: Any) -> Any:
        return (state["s"] < 1) & (state["tried"] < count)

    def step(state: Any) -> Any:
        y, s, taken = state["y"], state["s"], state["taken"]
        h = jnp.minimum(state["h"], 1 - s)
        places, slopes = equation.step(method, y, state["slope"], s, h)
        error = mean_error_ratio(equation.size(h) * weighed(method.error, slopes), *tolerances, y, places[-1])
        error = jnp.where(jnp.isfinite(error), error, jnp.inf)  # also of a step to where f has no value
        accepted = {
            "y": places[-1],
            "slope": slopes[-1],
            "s": jnp.where(h < 1 - s, s + h, 1),
            "taken": taken + 1,
            "shares": state["shares"].at[taken].set(h),
            "worst": jnp.maximum(state["worst"], error),
        }
        chosen = {name: jnp.where(error <= 1, value, state[name]) for name, value in accepted.items()}
        return chosen | {"tried": state["tried"] + 1, "h": optimal_step_size(h, error)}

    none = jnp.zeros((), np.int32)
    state = {
        "y": y0,
        "slope": slope,
        "s": start,
        "taken": none,
        "shares": jnp.zeros(count, start.dtype),
        "worst": start,
    }
    state |= {"tried": none, "h": jnp.where(h > 0, h, 1e-6)}
    end = jax.lax.while_loop(goes_on, step, state)
    arrived = (end["s"] >= 1) & jnp.all(jnp.isfinite(end["y"]))
    y = equation.form(jnp.where(arrived, end["y"], jnp.nan))
    return y, end["shares"], Report(arrived, end["tried"], jnp.where(arrived, end["worst"], jnp.inf))
