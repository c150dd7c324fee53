"""Initial value problems with error control, and stiff ones, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import ccc, function
from tangents import grad, hessian, jvp, odeint, value_and_grad

pytestmark = pytest.mark.usefixtures("x64")
both = pytest.mark.parametrize("functions", ["environment", "list"])
methods = pytest.mark.parametrize("method", ["rk4", "dopri"])


def decay(k, y0=1.0, t0=0.0, t1=1.0, **options):
    return odeint(lambda y, t: -k * y, y0, t0, t1, **options)


def follower(k, **options):
    """y' = -k (y - cos t) from 0: it returns to near the cosine with the rate k."""
    return odeint(lambda y, t: -k * (y - jnp.cos(t)), 0.0, 0.0, 1.0, **options)


def followed(k):
    return (k * k * np.cos(1.0) + k * np.sin(1.0) - k * k * np.exp(-k)) / (1.0 + k * k)


def slope(f, x, h=1e-3):
    return (f(x + h) - f(x - h)) / (2 * h)


def test_equal_steps_that_are_too_long_are_reported():
    y, report = decay(300.0, report=True)
    assert abs(y) > 1e13 and not report.converged and report.steps == 100 and report.residual > 1e3
    assert decay(0.5, report=True)[1].converged


def test_error_control_masters_a_stiff_equation():
    y, report = decay(300.0, method="dopri", report=True)
    assert report.converged and 100 < report.steps < 400 and 0.0 < report.residual <= 1.0
    np.testing.assert_allclose(y, 0.0, atol=1e-7)
    y, report = follower(300.0, method="dopri", report=True)
    assert report.converged
    np.testing.assert_allclose(y, followed(300.0), atol=1e-8)


@both
def test_the_derivative_of_a_stiff_solution(functions):
    """Solved backwards, y itself would grow by exp(300)."""
    by_k = grad(lambda k: follower(k, method="dopri"), functions=functions)(300.0)
    np.testing.assert_allclose(by_k, slope(followed, 300.0), rtol=1e-4)
    by_k = grad(lambda k: follower(k, steps=2000), functions=functions)(300.0)
    np.testing.assert_allclose(by_k, slope(followed, 300.0), rtol=1e-4)


def test_what_takes_too_many_steps_is_no_number():
    y, report = decay(3e5, method="dopri", report=True)
    assert np.isnan(y) and not report.converged and report.steps == 1000 and np.isinf(report.residual)
    assert np.isnan(grad(lambda k: decay(k, method="dopri", max_steps=3))(0.5))
    y, report = decay(3e3, method="dopri", max_steps=2000, report=True)
    assert report.converged and 1000 < report.steps < 2000


@methods
def test_a_solution_that_ends_before(method):
    """y' = y², which is infinite at 1; and a slope that is not defined at once."""
    assert not odeint(lambda y, t: y * y, 1.0, 0.0, 2.0, method=method, report=True)[1].converged
    assert not odeint(lambda y, t: jnp.log(y), -1.0, 0.0, 1.0, method=method, report=True)[1].converged


def test_a_step_to_where_the_slope_is_not_defined_is_taken_back():
    """y' = -√y from 1 is (1 - t / 2)²: the first steps that are tried pass 0."""
    y, report = odeint(lambda y, t: -jnp.sqrt(y), 1.0, 0.0, 1.9, method="dopri", report=True)
    assert report.converged
    np.testing.assert_allclose(y, 0.05**2, atol=1e-7)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-10])
def test_the_error_follows_the_tolerances(tolerance):
    """Half a turn, back and forth in time."""
    turn = lambda y, t: jnp.stack([y[1], -y[0]])
    for t1 in (np.pi, -np.pi):
        y, report = odeint(
            turn, jnp.array([1.0, 0.0]), 0.0, t1, method="dopri", rtol=tolerance, atol=tolerance, report=True
        )
        assert report.converged
        np.testing.assert_allclose(y, [-1.0, 0.0], atol=20 * tolerance)


@methods
@both
def test_all_arguments(functions, method):
    of = lambda k, y0, t0, t1: decay(k, y0, t0, t1, method=method)
    value, gradient = value_and_grad(of, (0, 1, 2, 3), functions=functions)(0.5, 1.0, 0.0, 1.0)
    y = np.exp(-0.5)
    np.testing.assert_allclose([value, *gradient], [y, -y, y, 0.5 * y, -0.5 * y], rtol=1e-7)


@methods
def test_forward_mode_second_derivatives_and_jax(method):
    of = lambda k: decay(k, method=method)
    y = np.exp(-0.5)
    np.testing.assert_allclose(jvp(of, (0.5,), (2.0,)), (y, -2.0 * y), rtol=1e-7)
    np.testing.assert_allclose([hessian(of)(0.5), grad(grad(of))(0.5)], [y, y], rtol=1e-6)
    np.testing.assert_allclose(jax.grad(ccc(of))(0.5), -y, rtol=1e-7)


@methods
def test_batches(method):
    of = lambda k: decay(k, method=method)
    ks = jnp.array([0.5, 5.0])
    y, report = jax.vmap(lambda k: decay(k, method=method, report=True))(ks)
    assert report.converged.all()
    np.testing.assert_allclose(y, np.exp(-ks), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(grad(of)))(ks), -np.exp(-ks), rtol=1e-5)
    np.testing.assert_allclose(grad(lambda ks: jnp.sum(jax.vmap(of)(ks)))(ks), -np.exp(-ks), rtol=1e-5)


def test_one_failure_in_a_batch_leaves_the_others():
    ks = jnp.array([0.5, 3e5])
    y, report = jax.vmap(lambda k: decay(k, method="dopri", report=True))(ks)
    assert report.converged.tolist() == [True, False] and np.isnan(y[1])
    by_k = jax.vmap(grad(lambda k: decay(k, method="dopri")))(ks)
    np.testing.assert_allclose(by_k[0], -np.exp(-0.5), rtol=1e-7)
    assert np.isnan(by_k[1])


def test_the_calls_of_chosen_steps():
    f = function(lambda y, t: -0.5 * y, C.Tensor(), C.Tensor())
    _, report = odeint(f, 1.0, 0.0, 1.0, method="dopri", report=True)
    calls = list(grad(lambda f: odeint(f, 1.0, 0.0, 1.0, method="dopri", max_steps=20), functions="list")(f))
    assert len(calls) == 6 * report.steps
    along = sum(g * jnp.cos(t) for (_, t), g in calls)  # along f + h cos t: ∫ exp(-(1 - t) / 2) cos t dt
    np.testing.assert_allclose(along, (np.sin(1.0) + 0.5 * np.cos(1.0) - 0.5 * np.exp(-0.5)) / 1.25, rtol=1e-8)


@methods
def test_a_report_of_an_ode_has_no_derivative(method):
    value = lambda k: sum(jax.tree.leaves(decay(k, method=method, report=True)[0])) + decay(k, report=True)[1].residual
    np.testing.assert_allclose(grad(value)(0.5), -np.exp(-0.5), rtol=1e-7)
    _, (by_k, of_report) = jvp(lambda k: decay(k, method=method, report=True), (0.5,), (1.0,))
    np.testing.assert_allclose(by_k, -np.exp(-0.5), rtol=1e-7)
    assert of_report.residual == 0.0


@methods
def test_trees_times_and_precisions(method):
    """p' = 2 t q, q' = -2 t p turns by t²; times may be of another precision than the unknowns."""
    start = {"p": jnp.ones(2, np.float32), "q": jnp.zeros(2, np.float32)}

    def turn(y, t):
        rate = jnp.asarray(2.0 * t, np.float32)
        return {"p": rate * y["q"], "q": -rate * y["p"]}

    for t1 in (1.2, jnp.array(1.2), np.float32(1.2)):
        y, report = odeint(turn, start, 0.0, t1, method=method, rtol=1e-4, atol=1e-4, report=True)
        assert report.converged and y["p"].dtype == report.residual.dtype == np.float32
        np.testing.assert_allclose(y["p"], np.cos(1.44), atol=1e-3)
        np.testing.assert_allclose(y["q"], -np.sin(1.44), atol=1e-3)


@methods
def test_complex_unknowns(method):
    real = lambda w: jnp.real(odeint(lambda y, t: 1j * w * y, 1.0 + 0j, 0.0, 1.0, method=method))
    np.testing.assert_allclose(value_and_grad(real)(2.0), (np.cos(2.0), -np.sin(2.0)), rtol=1e-7)
    until = lambda t: jnp.real(odeint(lambda y, t: 2j * y, 1.0 + 0j, 0.0, t, method=method))
    np.testing.assert_allclose(grad(until)(1.0), -2.0 * np.sin(2.0), rtol=1e-7)


@methods
def test_over_no_time(method):
    y, report = decay(0.5, 2.0, 1.0, 1.0, method=method, report=True)
    assert y == 2.0 and report.converged
    assert grad(lambda k: decay(k, 2.0, 1.0, 1.0, method=method))(0.5) == 0.0
