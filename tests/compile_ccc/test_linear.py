"""`C.solve`, and `lax.custom_linear_solve` read as it: derivatives of linear equations, whoever solves them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import NotDifferentiableError
from compile_ccc import ccc, function
from tangents import grad, hessian, hvp, jvp, vjp

both = pytest.mark.parametrize("functions", ["environment", "list"])
A = np.array([[3.0, 1.0, 0.0], [0.5, 2.0, -1.0], [0.0, 0.3, 4.0]])
B = np.array([1.0, -2.0, 0.5])
S = A @ A.T


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def differences(f, x, h=1e-6):
    """Central differences on NumPy."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        out[i] = (f(x + step) - f(x - step)) / (2 * h)
    return out


SOLVERS = {
    "lu": jnp.linalg.solve,
    "cg": lambda a, b: jax.scipy.sparse.linalg.cg(lambda x: jnp.dot(a, x), b, tol=1e-12)[0],
    "gmres": lambda a, b: jax.scipy.sparse.linalg.gmres(lambda x: jnp.dot(a, x), b, tol=1e-12)[0],
    "bicgstab": lambda a, b: jax.scipy.sparse.linalg.bicgstab(lambda x: jnp.dot(a, x), b, tol=1e-12)[0],
    "one's own": lambda a, b: lax.custom_linear_solve(
        lambda x: jnp.dot(a, x),
        b,
        lambda _, b: jnp.dot(jnp.linalg.inv(a), b),
        lambda _, b: jnp.dot(jnp.linalg.inv(a.T), b),
    ),
}


def energy(np_, solve):
    return lambda a, b: np_.sum(np_.sin(solve(a, b)) * np_.array([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("name", SOLVERS)
@both
def test_gradients_by_the_matrix_and_the_right_side(name, functions):
    f, f_np = energy(jnp, SOLVERS[name]), energy(np, np.linalg.solve)
    by_a, by_b = grad(f, argnums=(0, 1), functions=functions)(jnp.array(S), jnp.array(B))
    if name == "cg":  # which takes its matrix to be symmetric: the gradient is that of the symmetric part
        by_a = by_a + by_a.T
        right = differences(lambda a: f_np((a + a.T) / 2, B), S)
        right = right + right.T
    else:
        right = differences(lambda a: f_np(a, B), S)
    np.testing.assert_allclose(by_a, right, atol=1e-7)
    np.testing.assert_allclose(by_b, differences(lambda b: f_np(S, b), B), atol=1e-7)


@pytest.mark.parametrize("name", SOLVERS)
def test_forward_mode(name):
    f, f_np = energy(jnp, SOLVERS[name]), energy(np, np.linalg.solve)
    t, u, h = np.eye(3) + S / 10, np.array([1.0, 0.0, 2.0]), 1e-6
    right = (f_np(S + h * t, B + h * u) - f_np(S - h * t, B - h * u)) / (2 * h)
    np.testing.assert_allclose(jvp(f, (jnp.array(S), jnp.array(B)), (jnp.array(t), jnp.array(u)))[1], right, atol=1e-7)


def test_second_derivatives():
    """Of bᵀ A⁻¹ b with A = diag(a): b² / a, with the second derivative 2 b² / a³."""
    f = lambda a: jnp.dot(B, jnp.linalg.solve(jnp.diag(a), B))
    a = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(hessian(f)(jnp.array(a)), np.diag(2 * B**2 / a**3), atol=1e-12)
    np.testing.assert_allclose(hvp(f, (jnp.array(a),), (jnp.ones(3),)), 2 * B**2 / a**3, atol=1e-12)
    by_reverse = grad(lambda a: jnp.sum(grad(f)(a)))(jnp.array(a))
    np.testing.assert_allclose(by_reverse, 2 * B**2 / a**3, atol=1e-12)


def test_in_a_scan_and_under_vmap():
    looped = lambda b: jnp.sum(lax.scan(lambda x, _: (jnp.linalg.solve(A, x), None), b, None, length=3)[0])
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(grad(looped)(jnp.array(B)), np.ones(3) @ inverse @ inverse @ inverse, atol=1e-12)
    many = lambda b: jnp.sum(jax.vmap(lambda s: jnp.linalg.solve(s * A, b))(jnp.array([1.0, 2.0])))
    np.testing.assert_allclose(grad(many)(jnp.array(B)), 1.5 * np.ones(3) @ inverse, atol=1e-12)


def test_inverses_and_determinants():
    a = jnp.array(A)
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(grad(lambda a: jnp.linalg.slogdet(a)[1])(a), inverse.T, atol=1e-12)
    np.testing.assert_allclose(grad(lambda a: jnp.linalg.det(a))(a), np.linalg.det(A) * inverse.T, atol=1e-12)
    right = -np.outer(inverse.T @ np.ones(3), inverse @ np.ones(3))
    np.testing.assert_allclose(grad(lambda a: jnp.sum(jnp.linalg.inv(a)))(a), right, atol=1e-12)


def diagonal(d):
    """The functions of the equation d x = b."""
    vector = C.Tensor(3, float)
    scale, divide = function(lambda x: d * x, vector), function(lambda b: b / d, vector)
    return scale, scale, divide, divide


@both
def test_as_a_term(functions):
    f = ccc(lambda d, b: C.solve(*diagonal(d), b))
    d, b, g = np.array([1.0, 2.0, 4.0]), B, np.array([1.0, 1.0, 2.0])
    x, pullback = vjp(f, jnp.array(d), jnp.array(b), functions=functions)
    np.testing.assert_allclose(x, b / d)
    by_d, by_b = pullback(jnp.array(g))
    np.testing.assert_allclose(by_d, -g * b / d**2)
    np.testing.assert_allclose(by_b, g / d)


def test_the_map_gets_the_call_at_the_solution():
    d = np.array([1.0, 2.0, 4.0])
    matrix, _, divide, _ = diagonal(jnp.array(d))
    calls = grad(lambda m: jnp.sum(C.solve(m, m, divide, divide, jnp.array(B))), functions="list")(matrix)
    ((x, g),) = list(calls)
    np.testing.assert_allclose(x, B / d)
    np.testing.assert_allclose(g, -1 / d)


def test_the_solvers_have_no_derivative():
    """What solves the equation takes no part in it: here it is wrong by a factor, which is not seen in the slope."""
    solve = lambda t, b: lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda _, b: t * b, lambda _, b: 0.5 * b)
    np.testing.assert_allclose(grad(solve, argnums=(0, 1))(0.5, 3.0), (0.0, 0.5))


def test_what_is_not_used_of_a_solver_has_no_slope():
    """The auxiliary result of a solver has no derivative, and a solution that is not used asks for none."""

    def f(b):
        solver = lambda _, b: (b / 2.0, jnp.sqrt(b - b))
        x, aux = lax.custom_linear_solve(lambda x: 2.0 * x, b, solver, solver, has_aux=True)
        return x + aux

    np.testing.assert_allclose(grad(f)(3.0), 0.5)
    np.testing.assert_allclose(jvp(f, (3.0,), (1.0,))[1], 0.5)


def test_without_a_transposed_solver_there_is_forward_mode_only():
    f = lambda a, b: lax.custom_linear_solve(lambda x: a * x, b, lambda _, b: b / a)
    np.testing.assert_allclose(jvp(f, (2.0, 3.0), (1.0, 1.0))[1], 0.5 - 3.0 / 4.0)
    with pytest.raises(C.errors.NotDifferentiableError, match="transpose") as error:
        grad(f)(2.0, 3.0)
    assert "test_linear.py" in str(error.value)


def test_what_is_missing_is_said_at_the_line_of_the_solver():
    def solver(b):
        return lax.custom_linear_solve(
            lambda x: 2.0 * x,
            b,
            lambda _, b: b / 2.0,
        )

    for loss in (lambda b: solver(b), lambda b: jax.jit(solver)(b), lambda b: lax.map(solver, b[None])[0]):
        with pytest.raises(NotDifferentiableError, match="without a solver of the transposed") as found:
            grad(loss)(jnp.float32(1.0))
        first = solver.__code__.co_firstlineno + 1
        assert found.value.line.startswith(f"test_linear.py:{first}: return lax.custom_linear_solve")


def test_an_equation_between_different_types_is_refused():
    vector = C.Function(C.Tensor(3), C.Tensor(3))
    with pytest.raises(C.errors.CompositionError, match="values of one type"):
        C.infer(C.solve, (C.Function(C.Tensor(3), C.Tensor()), vector, vector, vector, C.Tensor(3)))
