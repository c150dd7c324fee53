"""Solvers say whether they converged, and refuse what is no equation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import ccc, function
from tangents import Report, argmin, fixed_point, grad, hessian, jvp, odeint, root, value_and_grad, vjp, zero

pytestmark = pytest.mark.usefixtures("x64")
both = pytest.mark.parametrize("functions", ["environment", "list"])

CONVERGES = {
    "root": (lambda: root(lambda x: x * x - 2.0, 1.0, report=True), np.sqrt(2.0)),
    "root where f is flat": (lambda: root(lambda x: x * x, 0.5, report=True), 0.0),
    "root of large numbers": (lambda: root(lambda x: 1e20 * (x * x - 2.0), 1.0, report=True), np.sqrt(2.0)),
    "fixed point": (lambda: fixed_point(lambda x: 0.5 * x + 1.0, 0.0, report=True), 2.0),
    "fixed point at the start": (lambda: fixed_point(lambda x: x, 3.0, report=True), 3.0),
    "argmin": (lambda: argmin(lambda x: jnp.cosh(x - 1.0), 0.5, report=True), 1.0),
    "argmin of a value": (lambda: argmin(function(lambda x: (x - 1.0) ** 2, C.Tensor()), 0.5, report=True), 1.0),
}
FAILS = {
    "a cycle": lambda: root(lambda x: x**3 - 2.0 * x + 2.0, 0.0, report=True),
    "no root": lambda: root(lambda x: x * x + 1.0, 0.5, report=True),
    "a root at infinity": lambda: root(lambda x: jnp.exp(-x), 0.5, report=True),
    "a singular system": lambda: root(lambda x: 0.0 * x + 1.0, 0.5, report=True),
    "too few steps": lambda: root(lambda x: x * x - 2.0, 100.0, steps=3, report=True),
    "a start that is no number": lambda: root(lambda x: x * x - 2.0, jnp.nan, report=True),
    "an expansion": lambda: fixed_point(lambda x: 2.0 * x + 1.0, 0.5, report=True),
    "an oscillation": lambda: fixed_point(lambda x: -x, 0.5, steps=99, report=True),
    "a slow iteration": lambda: fixed_point(lambda x: 0.999 * x + 1.0, 0.0, steps=50, report=True),
    "a maximum": lambda: argmin(lambda x: -((x - 1.0) ** 2), 0.5, report=True),
    "a saddle": lambda: argmin(lambda x: x[0] ** 2 - x[1] ** 2, jnp.ones(2), report=True),
    "no minimum": lambda: argmin(lambda x: jnp.exp(x), 0.5, report=True),
}


@pytest.mark.parametrize("name", CONVERGES)
def test_what_converges(name):
    solve, right = CONVERGES[name]
    x, report = solve()
    assert isinstance(report, Report) and report.converged
    assert report.converged.dtype == bool and report.steps.dtype == np.int32 and report.residual.dtype == float
    np.testing.assert_allclose(x, right, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", FAILS)
def test_what_does_not_converge(name):
    assert not FAILS[name]()[1].converged


def test_steps_and_residuals():
    _, report = root(lambda x: x * x - 2.0, 1.0, steps=2, report=True)  # 1, 3/2, 17/12
    assert report.steps == 2
    np.testing.assert_allclose(report.residual, (17 / 12) ** 2 - 2.0, rtol=1e-12)
    _, report = fixed_point(lambda x: 0.5 * x, jnp.array([8.0, -16.0]), steps=3, report=True)
    assert report.steps == 3 and report.residual == 1.0  # at (1, -2)
    _, report = argmin(lambda x: x**4, 3.0, steps=1, report=True)  # at 2
    np.testing.assert_allclose(report.residual, 32.0, rtol=1e-12)


def found(a):
    return root(lambda x: x * x - a, 1.0, report=True)


def test_reports_in_a_batch():
    x, report = jax.jit(jax.vmap(found))(jnp.array([4.0, -1.0, 9.0]))
    assert report.converged.tolist() == [True, False, True]
    np.testing.assert_allclose(x[jnp.array([0, 2])], [2.0, 3.0], rtol=1e-12)


@both
def test_a_report_has_no_derivative(functions):
    value = lambda a: found(a)[0] + 1e6 * found(a)[1].residual
    np.testing.assert_allclose(grad(value, functions=functions)(4.0), 0.25, rtol=1e-12)
    ((_, report), by_a) = value_and_grad(found, has_aux=True, functions=functions)(4.0)
    np.testing.assert_allclose(by_a, 0.25, rtol=1e-12)
    assert report.converged


def test_forward_mode_and_second_derivatives_of_a_reported_root():
    (x, _), (by_a, of_report) = jvp(found, (4.0,), (1.0,))
    np.testing.assert_allclose([x, by_a], [2.0, 0.25], rtol=1e-12)
    assert of_report.residual == 0.0
    np.testing.assert_allclose(hessian(lambda a: found(a)[0])(4.0), -1 / 32, rtol=1e-12)
    value, pullback = vjp(found, 4.0)
    assert pullback(zero(value)) == (0.0,)
    np.testing.assert_allclose(jax.grad(lambda a: ccc(found)(a)[0])(4.0), 0.25, rtol=1e-12)


@both
def test_reported_solvers_have_the_same_derivatives(functions):
    center = lambda a: argmin(lambda x: (x - a * a) ** 2, 0.0, report=True)
    settled = lambda a: fixed_point(lambda x: a * x / 2.0 + 1.0, 0.0, report=True)  # 2 / (2 - a)
    assert grad(center, has_aux=True, functions=functions)(3.0)[0] == pytest.approx(6.0, rel=1e-12)
    assert grad(settled, has_aux=True, functions=functions)(1.0)[0] == pytest.approx(2.0, rel=1e-10)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_other_precisions(dtype):
    x, report = root(lambda x: x * x - jnp.asarray(2.0, dtype), jnp.asarray(1.0, dtype), report=True)
    assert report.converged and x.dtype == report.residual.dtype == dtype
    assert float(x) == pytest.approx(np.sqrt(2.0), rel=float(2 * jnp.finfo(dtype).eps))


REFUSED = {
    "another shape": (lambda: root(lambda x: jnp.stack([x, x]), 1.0), r"f64\[2\]"),
    "another structure": (lambda: root(lambda x: (x,), 1.0), "another type"),
    "another dtype": (lambda: root(lambda x: x.astype(jnp.float32), 1.0), r"f32\[\]"),
    "another shape inside": (
        lambda: grad(lambda a: fixed_point(lambda x: x * a, 1.0))(jnp.ones(1)),
        "another type|rank",
    ),
    "nothing": (lambda: fixed_point(lambda x: None, 1.0), "another type"),
    "two dtypes": (lambda: root(lambda x: x, (jnp.ones(1), jnp.ones(1, np.float32))), "not one dtype"),
    "no unknowns": (lambda: root(lambda x: x, ()), "no number"),
    "whole numbers": (lambda: fixed_point(lambda x: x, jnp.arange(3)), "whole numbers"),
    "text": (lambda: root(lambda x: x, "1"), "not a value"),
    "no function": (lambda: root(None, 1.0), "no function"),
    "two arguments": (lambda: root(lambda x, y: x, 1.0), "wrong number"),
    "a function of others": (lambda: root(function(lambda x: x, C.Tensor(2)), 1.0), r"f64\[2\]"),
    "no scalar": (lambda: argmin(lambda x: x, jnp.ones(2)), "no real scalar"),
    "no scalar value": (lambda: argmin(function(lambda x: x, C.Tensor(2)), jnp.ones(2)), "no real scalar"),
    "negative steps": (lambda: root(lambda x: x, 1.0, -1), "no number that it can be"),
    "half a step": (lambda: fixed_point(lambda x: x, 1.0, 0.5), "no number that it can be"),
    "a traced number of steps": (lambda: jax.jit(lambda n: root(lambda x: x, 1.0, n))(3), "no number that it can be"),
    "another structure of y'": (lambda: odeint(lambda y, t: [y], 1.0, 0.0, 1.0), "another type"),
    "another shape of y'": (lambda: odeint(lambda y, t: y[:1], jnp.ones(2), 0.0, 1.0), r"f64\[1\]"),
    "whole y0": (lambda: odeint(lambda y, t: y, 1, 0.0, 1.0), "whole numbers"),
    "whole times": (lambda: odeint(lambda y, t: y, 1.0, 0, 1), "no real number"),
    "several times": (lambda: odeint(lambda y, t: y, 1.0, 0.0, jnp.ones(2)), "no real number"),
    "complex times": (lambda: odeint(lambda y, t: y, 1.0, 0.0, 1j), "no real number"),
    "no method": (lambda: odeint(lambda y, t: y, 1.0, 0.0, 1.0, method="euler"), "no such setting of method"),
    "no steps": (lambda: odeint(lambda y, t: y, 1.0, 0.0, 1.0, steps=0), "no number that it can be"),
    "chosen and given steps": (lambda: odeint(lambda y, t: y, 1.0, 0.0, 1.0, 9, "dopri"), "no option steps"),
    "most of equal steps": (lambda: odeint(lambda y, t: y, 1.0, 0.0, 1.0, max_steps=9), "no option max_steps"),
    "a negative tolerance": (lambda: odeint(lambda y, t: y, 1.0, 0.0, 1.0, rtol=-1.0), "rtol is no number"),
    "a tolerance that is no number": (lambda: odeint(lambda y, t: y, 1.0, 0.0, 1.0, atol=np.nan), "atol is no number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    solve, message = REFUSED[name]
    with pytest.raises(C.errors.DiffcurryError, match=message):
        solve()
