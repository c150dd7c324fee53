"""Integers that are not differentiated are those of Python: what is computed of them does not wrap around."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import function
from tangents import grad, jacobian, value_and_grad

PROGRAMS = {  # of x and n, with the slope in x
    "a product": (lambda x, n: x * float(n * n), lambda n: n * n),
    "a power": (lambda x, n: x * float(n**3), lambda n: n**3),
    "a sum": (lambda x, n: x * float(n + n + n), lambda n: 3 * n),
    "a difference": (lambda x, n: x * float(1 - n * n), lambda n: 1 - n * n),
    "reversed": (lambda x, n: x * float(2 ** (n % 64)), lambda n: 2 ** (n % 64)),
    "a shift": (lambda x, n: x * float(1 << n % 64), lambda n: 1 << n % 64),
    "shrunk again": (lambda x, n: x * float(n * n // (n + 1)), lambda n: n * n // (n + 1)),
    "in a jitted function": (lambda x, n: jax.jit(lambda x, m: x * m)(x, float(n * n)), lambda n: n * n),
    "in a derivative inside": (lambda x, n: grad(lambda y, n: y * float(n * n))(x, n) * x, lambda n: n * n),
    "in a function value": (lambda x, n: function(lambda y: y * float(n * n), C.Tensor())(x), lambda n: n * n),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_python_computes_of_an_int_does_not_wrap(name):
    f, slope = PROGRAMS[name]
    derivative = grad(f)
    for n in (3, 5, 10**6, 7, 62, -(10**5), 4, 2**31 - 1):  # the small ones are in one program
        np.testing.assert_allclose(derivative(0.5, n), float(slope(n)), rtol=1e-5, err_msg=str(n))


def test_nor_where_a_trace_of_a_program_inside_is_used_outside():
    inner = grad(lambda x, n: x * jnp.float32(n * n))
    outer = grad(lambda x, n: inner(x, n) * x)
    for n in (3, 3, 10**6, 4, 10**5):
        np.testing.assert_allclose([outer(0.5, n), inner(0.5, n)], [n * n, n * n], rtol=1e-5)


def test_nor_in_the_other_derivatives_and_of_integers_of_numpy():
    f = lambda x, n: x * float(n * n)
    n = np.int64(10**6)
    np.testing.assert_allclose(grad(f)(0.5, n), 1e12)
    np.testing.assert_allclose(value_and_grad(f)(0.5, 10**6)[0], 0.5e12)
    np.testing.assert_allclose(jacobian(f)(0.5, 10**6), 1e12)


WIDE, MANY, LARGE = np.array([2**20, 5]), np.array([2**30] * 4), np.array([2**40, 2**33])
OF_ARRAYS = {  # of NumPy's integers, of 64 bits each if nothing else is said, which compute a number
    "a product": (lambda n: (n * n * n)[0], WIDE),
    "a sum": (lambda n: n.sum(), MANY),
    "NumPy's sum": (lambda n: np.sum(n), MANY),
    "a sum of fewer bits": (lambda n: n.sum(), MANY.astype(np.int32)),
    "a product of bytes": (lambda n: n.prod(), np.full(5, 200, np.uint8)),
    "bytes, which wrap in NumPy, too": (lambda n: (n * n)[0], np.full(5, 200, np.uint8)),
    "sums so far": (lambda n: n.cumsum()[-1], MANY),
    "an inner product": (lambda n: n @ n, WIDE),
    "an inner product, as a method": (lambda n: n.dot(n), WIDE),
    "an outer one": (lambda n: (n[:, None] @ n[None])[0, 0], WIDE),
    "other shapes": (lambda n: (n.T * n.reshape(2))[0], WIDE),
    "too large before": (lambda n: (n >> 20)[0], LARGE),
    "compared": (lambda n: (n > 5)[0], LARGE),
    "as real numbers": (lambda n: n.astype(float)[0] * 2.0, LARGE),
    "their mean": (lambda n: n.mean(), LARGE),
    "cut off": (lambda n: n.clip(0, 2**31)[0] * 2, LARGE),
    "a trace": (lambda n: n.trace(), np.full((2, 2), 2**30)),
    "without sign": (lambda n: (n - np.uint64(3))[0], np.array([2], np.uint64)),
}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_nor_what_numpy_computes_of_an_array(name):
    compute, wide = OF_ARRAYS[name]
    derivative = grad(lambda x, n: x * float(compute(n)))
    for n in (np.ones_like(wide), wide, np.ones_like(wide), wide):
        np.testing.assert_allclose(derivative(0.5, n), float(compute(n)), rtol=1e-5)


def test_labels_are_in_one_program(compilations):
    derivative = grad(lambda x, labels: jnp.sum(x * jnp.float32(2 * labels + 1)))
    derivative(jnp.ones(3), np.array([0, 1, 2])), derivative(jnp.ones(3), np.array([2, 1, 0]))
    compilations.new()
    for k in range(5):
        np.testing.assert_array_equal(derivative(jnp.ones(3), np.array([k, 1, 9])), [2 * k + 1, 3, 19])
    assert compilations.new() == 0


def test_many_steps_are_counted_in_one_program(compilations):
    derivative = grad(lambda x, step: x * ((step + 1) * (2 * step - 1)))
    derivative(1.0, 0), derivative(1.0, 1), derivative(1.0, 2)
    compilations.new()
    for step in range(3, 40):
        assert float(derivative(1.0, step)) == (step + 1) * (2 * step - 1)
    assert compilations.new() == 0


def test_a_long_sum_of_an_integer():
    def f(x, n):
        for _ in range(300):
            n = n + 1
        return x * float(n)

    assert [grad(f)(1.0, n) for n in (0, 5, 2**31 - 200)] == [300, 305, np.float32(2**31 + 100)]


def test_arrays_of_jax_wrap_as_those_of_jax_do():
    n = jnp.int32(2**16)
    assert grad(lambda x, n: x * (n * n).astype(float))(1.0, n) == 0.0
