"""The options that `jax.grad` and its family have, with JAX's meaning."""

import enum

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from combinators.errors import ArgumentError, ArityError, NotDifferentiableError
from tangents import (
    grad,
    grad_and_hvp,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    value_and_grad,
    value_and_jacobian,
    vjp,
)

Z = np.array([0.3 + 0.2j, -0.5 + 1.0j])
close = lambda got, right: np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)
square = lambda x: x**2


class Color(enum.Enum):
    RED = 1


class Config:
    """An object of the user's, which is no pytree."""

    def __init__(self, size):
        self.size = size


CONFIG = Config(3)


def test_a_holomorphic_gradient_is_the_complex_derivative():
    z = 0.3 - 0.2j
    close(grad(lambda z: jnp.exp(1j * z), holomorphic=True)(z), 1j * np.exp(1j * z))
    (value, note), slope = value_and_grad(lambda z, n: (z**n, "kept"), has_aux=True, holomorphic=True)(z, 3)
    close(value, z**3)
    close(slope, 3 * z**2)
    assert note == "kept"


def test_holomorphic_jacobians_and_hessians():
    turn = np.array([[1.0, 2.0j], [0.5, -1.0]], np.complex64)
    f = lambda z: jnp.sin(turn @ z)
    right = np.cos(turn @ Z)[:, None] * turn
    for mode in ("forward", "reverse", None):
        close(jacobian(f, mode=mode, holomorphic=True)(Z), right)
    close(hessian(lambda z: jnp.sum(z**3), holomorphic=True)(Z), np.diag(6 * Z))


@pytest.mark.parametrize("mode", ["reverse", None])
def test_the_jacobian_of_real_results_by_complex_numbers_is_that_of_jacrev(mode):
    got = jacobian(lambda z: jnp.stack([jnp.abs(z[0]) ** 2, jnp.real(z[1]), jnp.imag(z[1])]), mode=mode)(Z)
    close(got, [[2 * np.conj(Z[0]), 0], [0, 1], [0, -1j]])  # ∂/∂Re z - i ∂/∂Im z


@pytest.mark.parametrize("mode", ["forward", None])
def test_the_jacobian_of_complex_results_by_real_numbers_is_that_of_jacfwd(mode):
    x = np.array([0.5, -1.0, 2.0])
    close(jacobian(lambda x: jax.lax.complex(jnp.cos(x), jnp.sin(x)), mode=mode)(x), np.diag(1j * np.exp(1j * x)))


REFUSED = {
    "a real argument": (lambda: grad(lambda z: z * (1.0 + 0j), holomorphic=True)(1.0), "by what is not complex"),
    "a real result": (lambda: grad(jnp.abs, holomorphic=True)(1j), "no complex scalar"),
    "a complex result": (lambda: grad(square)(1j), "set holomorphic"),
    "a real argument of a Jacobian": (lambda: jacfwd(square, holomorphic=True)(1.0), "by what is not complex"),
    "a real result of a Jacobian": (lambda: jacrev(jnp.abs, holomorphic=True)(1j), "real results of a holomorphic"),
    "forward by complex numbers": (lambda: jacfwd(jnp.abs)(1j), "complex arguments in forward mode"),
    "reverse of complex numbers": (lambda: jacrev(lambda x: x * 1j)(1.0), "complex results in reverse mode"),
    "complex to complex": (lambda: jacobian(jnp.conj)(1j), "set holomorphic"),
    "a Hessian by complex numbers": (lambda: hessian(lambda z: jnp.abs(z) ** 2)(1j), "complex arguments in forward"),
    "a Jacobian by an integer": (lambda: jacrev(square)(2), "allow_int"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_complex_numbers_that_have_no_such_derivative_are_refused(name):
    call, words = REFUSED[name]
    with pytest.raises(NotDifferentiableError, match=words):
        call()


def test_auxiliary_results_of_every_derivative():
    x = np.array([1.0, 2.0])
    f = lambda x: (x**3, {"sum": jnp.sum(x), "name": "cube"})
    cubes, slopes = x**3, np.diag(3 * x**2)
    for mode in ("forward", "reverse"):
        got, aux = jacobian(f, mode=mode, has_aux=True)(x)
        close(got, slopes)
        (value, again), slope = value_and_jacobian(f, mode=mode, has_aux=True)(x)
        close(value, cubes)
        close(slope, slopes)
        assert aux["sum"] == again["sum"] == 3.0 and aux["name"] == again["name"] == "cube"
        value, slope = value_and_jacobian(lambda x: f(x)[0], mode=mode)(x)
        close(value, cubes)
        close(slope, slopes)
    second, aux = hessian(lambda x: (jnp.sum(x**3), (x[0], "cube")), has_aux=True)(x)
    close(second, np.diag(6 * x))
    assert aux == (1.0, "cube")
    value, along, aux = jvp(f, (x,), (np.array([1.0, 0.0]),), has_aux=True)
    close(value, cubes)
    close(along, [3.0, 0.0])
    assert aux["sum"] == 3.0 and aux["name"] == "cube"
    value, pullback, aux = vjp(f, x, has_aux=True)
    close(pullback(np.array([0.0, 1.0], np.float32))[0], [0.0, 12.0])
    assert aux["name"] == "cube"
    assert jacobian(lambda x: (2.0 * x, "int"), has_aux=True, allow_int=True)(3)[1] == "int"
    with pytest.raises(ArgumentError, match="the result is no pair"):
        jacobian(square, has_aux=True)(x)


def test_what_is_no_array_in_an_auxiliary_result_stays_what_it_is():
    table = np.array([2**40, 1])

    def f(x, n, words):
        aux = {"int": 3, "bool": True, "float": 0.5, "text": "a", "none": None, "numpy": table, "scalar": np.int64(7)}
        return x**2, {**aux, "enum": Color.RED, "class": Config, "given": (n, words), "x": 2.0 * x}

    derivative = value_and_grad(f, has_aux=True)
    for x in (2.0, 3.0, 5.0):  # by the third call, it goes straight to what was compiled
        (value, aux), slope = derivative(x, 4, np.array([1, 2]))
        assert (value, slope, aux.pop("x")) == (x * x, 2 * x, 2 * x)
        n, words = aux.pop("given")
        assert type(n) is int and n == 4 and type(words) is np.ndarray and words.dtype == np.int64
        assert aux["numpy"].dtype == np.int64 and aux.pop("numpy")[0] == 2**40
        right = {"int": 3, "bool": True, "float": 0.5, "text": "a", "none": None, "scalar": np.int64(7)}
        assert aux == {**right, "enum": Color.RED, "class": Config}
        assert {name: type(aux[name]) for name in right} == {name: type(v) for name, v in right.items()}
    _, aux = grad(lambda x, *, k: (x * k, k), has_aux=True)(1.0, k=4)
    assert aux == 4
    inside = jax.jit(lambda x: grad(lambda x: (x**2, {"n": 3}), has_aux=True)(x))(2.0)
    assert inside[0] == 4.0 and inside[1]["n"].dtype == jnp.int32  # `jax.jit` makes an array of it


@pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")
def test_an_object_that_the_function_makes_is_new_in_each_call():
    derivative = grad(lambda x: (x**2, Config(1)), has_aux=True)
    for _ in range(4):
        slope, made = derivative(2.0)
        assert slope == 4.0 and made.size == 1
        made.size += 1  # what the user does to one of them, the others do not see
    assert grad(lambda x: (x**2, CONFIG), has_aux=True)(2.0)[1] is CONFIG


def test_arrays_of_numpy_in_an_auxiliary_result_are_copies():
    derivative = grad(lambda x: (x**2, np.arange(3)), has_aux=True)
    for _ in range(3):
        _, aux = derivative(2.0)
        assert aux.tolist() == [0, 1, 2]
        aux += 1


def test_a_function_with_a_traced_value_in_it_does_not_get_out():
    with pytest.raises(TypeError, match="its domain is not known"):
        grad(lambda x: (x, lambda y: x * y), has_aux=True)(1.0)


def weak(tree):
    return [jax.typeof(leaf).weak_type for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize("around", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_results_have_weak_types_where_they_have_them_in_jax(around):
    f = lambda x, v: jnp.sum(x * v) + x
    for x, expected in ((2.0, True), (jnp.float32(2.0), False)):
        run = lambda d, x=x: around(d(square))(x)
        assert weak([run(d) for d in (grad, value_and_grad, jacfwd, jacrev, hessian)]) == [expected] * 6
        assert weak(around(lambda x: jvp(square, (x,), (x,)))(x)) == [expected] * 2
        assert weak(around(lambda x: vjp(square, x)[1](x))(x)) == [expected]
        assert weak(around(lambda x: grad(grad(lambda x: x**3))(x))(x)) == [expected]
    assert weak(grad(f, (0, 1))(2.0, np.ones(2, np.float32))) == [True, False]


def test_argnums_may_be_any_sequence_of_integers():
    f = lambda x, y: x * y**2
    assert grad(f, np.int64(1))(2.0, 3.0) == 12.0
    assert grad(f, range(2))(2.0, 3.0) == (9.0, 12.0) == grad(f, [0, -1])(2.0, 3.0)


def test_whatever_counts_as_an_index_is_a_position():
    f = lambda x, y: x * y**2
    for first, second in ((False, True), (np.array(0), np.array(1)), (jnp.array(0), jnp.array(1))):
        assert [grad(f, first)(2.0, 3.0), jacrev(f, second)(2.0, 3.0)] == [9.0, 12.0]
        assert grad(f, (second, first))(2.0, 3.0) == (12.0, 9.0)
    for wrong in (1.0, "1", np.array([0, 1]), {0: 1}, None):
        with pytest.raises(ArgumentError, match="argnums is not an int, or a tuple of ints"):
            grad(f, wrong)(2.0, 3.0)


def test_argnums_below_zero_count_the_arguments_by_position():
    scaled = lambda x, y, scale=1.0: scale * x * y**2
    close(grad(scaled, -1)(2.0, 3.0, scale=5.0), 5 * 2 * 2 * 3)
    close(grad(scaled, (-1, 0))(2.0, 3.0, scale=5.0), (5 * 2 * 2 * 3, 5 * 3**2))
    close(hessian(scaled, -2)(2.0, 3.0, scale=5.0), 0.0)
    with pytest.raises(ArityError, match="argnums names an argument that is not there"):
        grad(scaled, -3)(2.0, 3.0, scale=5.0)


def test_a_keyword_is_not_the_last_argument_by_position():
    power = lambda x, y, n=2: x * y**n
    close(grad(power, -1)(2.0, 3.0, n=3), 2 * 3 * 3**2)
    close(grad(lambda x, y, scale: x * y, -1)(2.0, 3.0, scale="whole"), 2.0)
    with pytest.raises(NotDifferentiableError, match="discrete"):
        grad(lambda x, n, k: x * n * k, -1)(2.0, 3, k=5.0)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_blocks_stand_in_the_order_in_which_they_are_asked_for(mode):
    """∂(x² y) = (2 x y, x²), and ∂ by y comes first here; so do the rows of the second derivatives."""
    f = lambda x, y: x**2 * y
    close(jacobian(f, (1, 0), mode=mode)(2.0, 3.0), (4.0, 12.0))
    close(jacobian(lambda *a: a[0] * a[1] ** 2 * a[2] ** 3, (2, 0, 1), mode=mode)(2.0, 3.0, 1.0), (54.0, 9.0, 12.0))
    close(jacobian(f, (-1, -2), mode=mode)(2.0, 3.0), (4.0, 12.0))
    close(hessian(f, (1, 0))(2.0, 3.0), ((0.0, 4.0), (4.0, 6.0)))
    by_b, by_a = jacobian(jnp.outer, (1, 0), mode=mode)(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0, 5.0]))
    close(by_b, np.einsum("i,jk->ijk", [1.0, 2.0], np.eye(3)))
    close(by_a, np.einsum("ik,j->ijk", np.eye(2), [3.0, 4.0, 5.0]))


def test_a_whole_number_has_rows_of_zeros_of_its_own_dtype():
    of_x, of_n = jacobian(lambda x, n: x * n, (0, 1), allow_int=True, mode="reverse")(jnp.ones(2), 3)
    close(of_x, 3 * np.eye(2))
    assert of_n.dtype == jnp.int32 and of_n.tolist() == [0, 0]


def test_an_argument_without_numbers_has_the_gradient_without_numbers():
    loss = lambda layers, x: sum(layers) + x**2
    assert grad(loss)([], 3.0) == []
    assert value_and_grad(lambda x, rest: x**2, (1, 0))(3.0, {"a": None}) == (9.0, ({"a": None}, 6.0))


def test_the_gradient_comes_with_its_derivative_along_a_vector():
    x, t = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    gradient, along = grad_and_hvp(lambda x: x[0] ** 2 * x[1], (x,), (t,))
    close(gradient, [4.0, 1.0])
    close(along, [2 * 2.0 * 0.5 + 2 * 1.0 * -1.0, 2 * 1.0 * 0.5])
