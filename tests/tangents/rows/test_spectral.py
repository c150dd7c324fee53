"""Eigenvalues and singular values, of real and complex matrices, against central differences in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from combinators.errors import NotDifferentiableError
from compile_ccc import ccc
from tangents import grad, hessian, jvp, value_and_grad
from tangents.rows.table import NATIVE, row_for

RANDOM = np.random.default_rng(3)
C = np.cos(np.arange(1.0, 5.0))


def matrix(m, n, complex):
    return RANDOM.normal(size=(m, n)) + (1j * RANDOM.normal(size=(m, n)) if complex else 0)


def adjoint(x):
    return x.conj().T


def follows(f, reference, a, tolerance=1e-6):
    """Both modes are those of the reference, along a direction, in JAX's pairing Re(g·t)."""
    all_follow([f], [reference], a, tolerance)


def all_follow(fs, references, a, tolerance=1e-6):
    """Several functions, compiled together."""
    t = matrix(*a.shape, np.iscomplexobj(a))
    both = jax.jit(lambda a, t: [(*value_and_grad(f)(a), jvp(f, (a,), (t,))[1]) for f in fs])
    found = both(jnp.asarray(a), jnp.asarray(t))
    for (value, g, pushed), reference in zip(found, references, strict=True):
        right = (reference(a + 1e-6 * t) - reference(a - 1e-6 * t)) / 2e-6
        np.testing.assert_allclose(value, reference(a), 1e-9)
        np.testing.assert_allclose(np.real(np.sum(np.asarray(g) * t)), right, tolerance, tolerance)
        np.testing.assert_allclose(pushed, right, tolerance, tolerance)


def scaled(np_, u, c):
    """The columns of u times the entries of c."""
    return u @ np_.diag(c.astype(u.dtype))


# What of a decomposition does not depend on the phases of vectors.
EIGEN = {
    "values": lambda np_, w, v, c, x: np_.sum(np_.cos(w) * c),
    "vectors": lambda np_, w, v, c, x: np_.sum(np_.real((scaled(np_, v, c) @ adjoint(v)) * x)),
    "both": lambda np_, w, v, c, x: (
        np_.sum(np_.real((scaled(np_, v, np_.sin(w)) @ adjoint(v)) * x)) + np_.sum(w * w * c)
    ),
}


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("name", EIGEN)
def test_eigenvalues_and_vectors(name, lower, complex, x64):
    """One triangle is read, and has the whole derivative."""
    a, x, loss = matrix(3, 3, complex), matrix(3, 3, complex), EIGEN[name]

    def ours(a):
        v, w = lax.linalg.eigh(a, lower=lower, symmetrize_input=False)
        return loss(jnp, w, v, C[:3], x)

    def reference(a):
        w, v = np.linalg.eigh(a, "L" if lower else "U")
        return loss(np, w, v, C[:3], x)

    follows(ours, reference, a)


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (4, 2), (2, 4)])
def test_singular_values_and_vectors(shape, complex, x64):
    a, x, c = matrix(*shape, complex), matrix(*shape, complex), C[: min(shape)]
    left, right = matrix(shape[0], shape[0], complex), matrix(shape[1], shape[1], complex)

    def losses(np_):
        svd = lambda a: np_.linalg.svd(a, full_matrices=False)
        of_all = lambda u, s, v: np_.sum(np_.cos(s) * c) + np_.sum(np_.real((scaled(np_, u, c) @ v) * x))
        of_u = lambda u, s, v: np_.sum(np_.real((scaled(np_, u, c) @ adjoint(u)) * left))
        of_v = lambda u, s, v: np_.sum(np_.real((scaled(np_, adjoint(v), c) @ v) * right))
        of_s = lambda u, s, v: np_.sum(np_.cos(s) * c)
        decomposed = [lambda a, f=f: f(*svd(a)) for f in (of_all, of_u, of_v, of_s)]
        return [*decomposed, lambda a: np_.sum(np_.cos(np_.linalg.svd(a, compute_uv=False)) * c)]

    all_follow(losses(jnp), losses(np), a)


def test_second_derivatives(x64):
    """Of √det(AᵀA), log|λ| and a vector, by the Hessian's action on a direction."""
    a, t = matrix(3, 3, False), matrix(3, 3, False)
    for f in (
        lambda a: jnp.sum(jnp.log(jnp.abs(jnp.linalg.eigh(a)[0])) * C[:3]),
        lambda a: jnp.linalg.eigh(a)[1][0, 1] ** 2,
        lambda a: jnp.sum(jnp.sin(jnp.linalg.svd(a, full_matrices=False)[1]) * C[:3]),
        lambda a: (lambda u, s, v: (u[0, 0] * v[0, 1]) ** 2)(*jnp.linalg.svd(a, full_matrices=False)),
    ):
        along = lambda s, f=f: np.asarray(grad(f)(jnp.asarray(a + s * t)))
        found = np.tensordot(hessian(f)(jnp.asarray(a)), t, 2)
        np.testing.assert_allclose(found, (along(1e-5) - along(-1e-5)) / 2e-5, 1e-5, 1e-6)


def test_a_value_that_is_simple_among_repeated_ones(x64):
    """A = diag(3, 1, 1): the largest value is smooth there."""
    a = np.diag([3.0, 1.0, 1.0])
    first = np.zeros((3, 3))
    first[0, 0] = 1.0
    for largest in (
        lambda a: jnp.linalg.eigh(a)[0][-1],
        lambda a: jnp.linalg.eigvalsh(a)[-1],
        lambda a: jnp.linalg.svd(a, full_matrices=False)[1][0],
        lambda a: jnp.linalg.svd(a, compute_uv=False)[0],
        lambda a: jnp.linalg.norm(a, 2),
    ):
        np.testing.assert_allclose(grad(largest)(jnp.asarray(a)), first, atol=1e-12)
        np.testing.assert_allclose(jax.jit(grad(largest))(a), first, atol=1e-12)
    t = np.array([[0.3, 0.5, -0.2], [0.1, 0.4, 0.7], [0.6, -0.1, 0.2]])
    top = lambda a: jnp.linalg.eigh(a)[0][-1]
    np.testing.assert_allclose(jvp(top, (jnp.asarray(a),), (jnp.asarray(t),))[1], 0.3, 1e-12)


def test_the_sum_of_repeated_values_is_smooth(x64):
    """Functions of the matrix as a whole need no vectors: log det of 2·I, and the nuclear norm of 2·I."""
    a = 2.0 * np.eye(3)
    logdet = lambda a: jnp.sum(jnp.log(jnp.linalg.eigh(a)[0]))
    np.testing.assert_allclose(grad(logdet)(jnp.asarray(a)), np.eye(3) / 2, atol=1e-12)
    nuclear = lambda a: jnp.sum(jnp.linalg.svd(a, full_matrices=False)[1])
    np.testing.assert_allclose(grad(nuclear)(jnp.asarray(a)), np.eye(3), atol=1e-12)


def test_a_vector_among_repeated_ones_has_no_derivative(x64):
    """What asks for it gets no number, as with JAX, rather than a wrong one, in second derivatives too."""
    f = lambda a: jnp.linalg.eigh(a)[1][0, 0] * jnp.linalg.eigh(a)[1][1, 1]
    assert not np.isfinite(grad(f)(jnp.eye(2))).all()
    squares = lambda a: jnp.sum((jnp.linalg.eigh(a)[0] - 2.0) ** 2)  # whose Hessian at 2·I is that of Σ a² all the same
    second = hessian(squares)(2.0 * jnp.eye(2))
    assert np.isnan(second[0, 1, 0, 1]) or abs(second[0, 1, 0, 1] - 1.0) < 1e-9


def test_batches_under_vmap(x64):
    a = np.stack([np.diag([1.0, 5.0, 5.0]), np.diag([2.0, 2.0, 1.0])])
    lowest = lambda s: jnp.sum(jax.vmap(lambda s, a: jnp.linalg.eigvalsh(s * a)[0])(s, a) ** 2)
    np.testing.assert_allclose(grad(lowest)(jnp.array([1.0, 3.0])), [2.0, 6.0], 1e-12)


def test_which_decompositions_are_left_to_jax(x64):
    a = jnp.ones((4, 2))
    how = {"full_matrices": False, "compute_uv": True, "subset_by_index": None, "algorithm": None}
    assert row_for("svd", (a,), how) is row_for("svd", (a[:2],), {**how, "full_matrices": True}) is NATIVE["svd"]
    for other in ({"full_matrices": True}, {"compute_uv": False}, {"subset_by_index": (0, 1)}):
        assert row_for("svd", (a,), {**how, **other}) is None


def test_eigenvalues_that_are_found_by_halving_intervals_have_no_derivative():
    """Those steps would give that of the interval's ends; of the whole matrix ∂λ/∂d is v²."""
    d, e = np.array([1.0, 2.0, 4.0, 7.0]), np.array([0.5, 0.3, 0.2])
    second = lambda d: jax.scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=True)[1]
    whole = lambda d: jnp.linalg.eigvalsh(jnp.diag(d) + jnp.diag(e, 1) + jnp.diag(e, -1))[1]
    values, vectors = np.linalg.eigh(np.diag(d) + np.diag(e, 1) + np.diag(e, -1))
    np.testing.assert_allclose(ccc(second)(d), values[1], rtol=1e-5)
    np.testing.assert_allclose(grad(whole)(d), vectors[:, 1] ** 2, rtol=1e-4)
    for derivative in (grad(second), lambda d: jvp(second, (d,), (d,)), grad(lambda d: jax.jit(second)(d) ** 2)):
        with pytest.raises(NotDifferentiableError, match="eigh_tridiagonal has no derivative") as caught:
            derivative(d)
        assert "jnp.linalg.eigh" in caught.value.hint
    assert not grad(lambda d: second(jax.lax.stop_gradient(d)) + d[0])(d)[1:].any()


def test_a_function_of_the_users_may_have_the_name_of_such_a_search():
    @jax.jit
    def eigh_tridiagonal(d):
        return d * d

    assert grad(lambda d: eigh_tridiagonal(d))(3.0) == 6.0 and jvp(eigh_tridiagonal, (3.0,), (1.0,))[1] == 6.0
