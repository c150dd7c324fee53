"""Unknowns that a loss does not use, and that nothing binds up with those that it uses, have no part in its derivative.

At b = 0 the slope of sqrt(b), on which the component v depends, is infinite, and times zero it is not a number.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import function
from tangents import argmin, custom, fixed_point, grad, hessian, jacobian, jvp, odeint, root

ONES = {"u": 1.0, "v": 1.0}
two = {"a": jnp.float32(2.0), "b": jnp.float32(0.0)}


def by_ode(a, b, **options):
    return odeint(lambda y, t: {"u": -a * y["u"], "v": jnp.sqrt(b)}, ONES, 0.0, 1.0, **options)


SOLVERS = {  # of a and b, with the derivative of u by a
    "root": (
        lambda a, b, **options: root(lambda x: {"u": x["u"] ** 2 - a, "v": x["v"] - jnp.sqrt(b)}, ONES, **options),
        lambda a: 0.5 / a**0.5,
    ),
    "fixed_point": (
        lambda a, b, **options: fixed_point(
            lambda x: {"u": 0.5 * (x["u"] + a / x["u"]), "v": 0.5 * x["v"] + jnp.sqrt(b)}, ONES, **options
        ),
        lambda a: 0.5 / a**0.5,
    ),
    "argmin": (
        lambda a, b, **options: argmin(lambda x: (x["u"] - a) ** 2 + (x["v"] - jnp.sqrt(b)) ** 2, ONES, **options),
        lambda a: 1.0,
    ),
    "equal steps": (by_ode, lambda a: -np.exp(-a)),
    "chosen steps": (lambda a, b, **options: by_ode(a, b, method="dopri", **options), lambda a: -np.exp(-a)),
}


@pytest.mark.parametrize("functions", ["environment", "list"])
@pytest.mark.parametrize("name", SOLVERS)
def test_what_is_not_used_has_the_derivative_zero_however_steep_it_is(name, functions):
    solve, slope = SOLVERS[name]
    found = grad(lambda p: solve(**p)["u"], functions=functions)(two)
    np.testing.assert_allclose(found["a"], slope(2.0), rtol=1e-4)
    assert found["b"] == 0.0


@pytest.mark.parametrize("name", SOLVERS)
def test_forward_mode_keeps_apart_what_is_not_bound_up(name):
    solve, slope = SOLVERS[name]
    found = jacobian(lambda p: solve(**p)["u"], mode="forward")(two)
    np.testing.assert_allclose(found["a"], slope(2.0), rtol=1e-4)
    assert found["b"] == 0.0
    _, t = jvp(lambda p: solve(**p), (two,), ({"a": jnp.float32(3.0), "b": jnp.float32(1.0)},))
    np.testing.assert_allclose(t["u"], 3.0 * slope(2.0), rtol=1e-4)
    assert not np.isfinite(t["v"])


@pytest.mark.parametrize("name", ["root", "chosen steps"])
def test_the_same_beside_a_report_and_by_jax(name):
    solve, slope = SOLVERS[name]
    for derivative in (grad, jax.grad):
        found = derivative(lambda p: solve(**p, report=True)[0]["u"])(two)
        np.testing.assert_allclose(found["a"], slope(2.0), rtol=1e-4)
        assert found["b"] == 0.0


def test_a_loss_that_uses_the_residual_alone_has_none():
    solve, _ = SOLVERS["root"]
    assert grad(lambda p: solve(**p, report=True)[1].residual)(two) == {"a": 0.0, "b": 0.0}


def test_the_start_of_what_is_not_used_has_none_either():
    y = lambda start: odeint(lambda y, t: {"u": y["v"] * y["u"], "v": 0.0 * y["v"], "w": y["w"]}, start, 0.0, 1.0)
    start = {"u": jnp.float32(1.0), "v": jnp.float32(0.5), "w": jnp.float32(0.0)}
    found = grad(lambda s: y({**s, "w": jnp.sqrt(s["w"])})["u"])(start)  # u at 1 is u0 exp(v0)
    np.testing.assert_allclose([found[k] for k in "uvw"], [np.exp(0.5), np.exp(0.5), 0.0], rtol=1e-4)


def test_a_slope_by_the_unknown_itself_may_be_infinite():
    x = lambda a: fixed_point(lambda x: {"u": 0.5 * (x["u"] + a / x["u"]), "v": jnp.sqrt(x["v"])}, {"u": 1.0, "v": 0.0})
    np.testing.assert_allclose(grad(lambda a: x(a)["u"])(4.0), 0.25, rtol=1e-4)


def test_what_is_bound_up_with_what_is_used_counts():
    """u = a sqrt(b), by way of v, which is sqrt(b) by way of w."""
    f = lambda p: (
        lambda x: {
            "u": x["u"] - p["a"] * x["v"],
            "v": x["v"] - x["w"],
            "w": x["w"] ** 2 - p["b"],
            "z": x["z"] - jnp.sqrt(p["c"]),
        }
    )
    u = lambda p: root(f(p), dict.fromkeys("uvwz", 1.0))["u"]
    p = {"a": 3.0, "b": 4.0, "c": 0.0}
    found = grad(u)(p)
    np.testing.assert_allclose([found[k] for k in "abc"], [2.0, 3.0 / 4.0, 0.0], rtol=1e-4)
    second = hessian(lambda b: u({**p, "b": b}))(4.0)
    np.testing.assert_allclose(second, -0.25 * 3.0 * 4.0**-1.5, rtol=1e-4)


real = C.Tensor()
both = lambda a, b: function(lambda x: {"u": a * x, "v": jnp.sqrt(b) * x}, real)


@pytest.mark.parametrize("functions", ["environment", "list"])
def test_a_rule_of_ones_own_sees_which_cotangents_arrive_and_states_zeros_by_none(functions):

    def pullback(primals, y, g, arrived):
        assert arrived == (True, False)
        return [(primals[1], {k: g[k] if a else None for k, a in zip(g, arrived, strict=True)})], None

    call = custom(lambda f, x: f(x), pullback)
    found = grad(lambda p: call(both(p["a"], p["b"]), 3.0)["u"] * 5.0, functions=functions)(two)
    assert found == {"a": 15.0, "b": 0.0}


def test_the_calls_that_come_out_have_their_zeros_written_out():
    call = custom(lambda f, x: f(x), lambda primals, y, g: ([(primals[1], {"u": g["u"], "v": None})], None))
    ((x, g),) = grad(lambda f: call(f, 3.0)["u"], functions="list")(both(2.0, 0.0))
    assert x == 3.0 and g == {"u": 1.0, "v": 0.0}


def test_a_part_of_an_argument_may_have_none():
    half = custom(lambda p: 2.0 * p["a"], lambda primals, y, g: ({"a": 2.0 * g, "b": None},))
    assert grad(lambda p: half({**p, "b": jnp.sqrt(p["b"])}))(two) == {"a": 2.0, "b": 0.0}
