"""What is not differentiated has the numbers of Python: they do not wrap around, and have as many digits as there."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
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
    "one by one": (lambda n: sum(v % 1009 for v in n), LARGE),
    "in variables": (lambda n: (lambda a, b: a % 1009 + b % 7)(*n), LARGE),
    "the largest": (lambda n: max(n) % 1009, LARGE),
    "sorted": (lambda n: sorted(n)[-1] % 1009, LARGE),
    "in the order of size": (lambda n: n[n.argsort()][0] % 1009, LARGE),
    "NumPy's order": (lambda n: np.argsort(n)[0], LARGE),
    "the place of the largest": (lambda n: n.argmax(), LARGE),
    "quotient and remainder": (lambda n: divmod(n, 1009)[1][0], LARGE),
    "complex": (lambda n: (n * 1j).imag[0] % 1009, LARGE),
    "of less precision and of more": (lambda n: (n + np.array([1e-9, 0.0])).max() - 1.0, np.ones(2, np.float32)),
}


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_nor_what_numpy_computes_of_an_array(name):
    compute, wide = OF_ARRAYS[name]
    derivative = grad(lambda x, n: x * float(compute(n)))
    for n in (np.ones_like(wide), wide, np.ones_like(wide), wide):
        np.testing.assert_allclose(derivative(0.5, n), float(compute(n)), rtol=1e-5)


LATE = 1.7e9 + np.arange(3.0)  # seconds, as a clock gives them
OF_REALS = {  # of a float, or an array of them, two of each
    "a difference of large numbers": (lambda t: t - 1.7e9, 1.7e9 + 3.0, 2.0),
    "of arrays": (lambda t: float((t - t[0])[1]), LATE, np.arange(3.0)),
    "a small difference": (lambda p: 1.0 - p, 1.0 - 1e-6, 0.5),
    "a large square": (lambda n: n * n / n, 1e30, 2.0),
    "a small one": (lambda n: n * n / n, 1e-30, 2.0),
    "cut off": (lambda n: len(range(int(n * 100))), 0.29, 0.3),
    "cut off by math": (lambda n: math.floor(n * 100), 0.29, 0.3),
    "compared": (lambda n: 2.0 if n * 100 < 29 else 3.0, 0.29, 0.3),
    "equal": (lambda n: 2.0 if 0.1 + n == 0.3 else 3.0, 0.2, 0.3),
    "a key": (lambda n: {3 * 0.1: 5.0}.get(3 * n, 7.0), 0.1, 0.2),
    "a whole quotient": (lambda n: n // 0.1, 1.0, 2.05),
    "a text": (lambda n: float(f"{n * 3:.17f}"), 0.1, 0.2),
    "whole numbers of an array": (lambda n: float((n * 100).astype(int)[0]), np.array([0.29]), np.array([0.3])),
    "how far they vary": (lambda t: float(t.std()), LATE, np.arange(3.0)),
    "many steps": (lambda n: functools.reduce(lambda n, _: n + 0.5, range(2000), n) - 999.999, 0.0, 1e6),
}


@pytest.mark.parametrize("name", OF_REALS)
def test_digits_are_those_of_python(name):
    compute, *numbers = OF_REALS[name]
    derivative = grad(lambda x, n: x * compute(n))
    for n in (*numbers, *numbers):
        np.testing.assert_allclose(derivative(0.5, n), compute(n), rtol=2e-4)


def test_so_are_those_of_what_is_captured_and_in_programs_inside():
    start, now = 1.7e9, 1.7e9 + 3.0
    passed = lambda x: x * (now - start)
    within = grad(lambda x, t: grad(lambda y: y * x * (t - 1.7e9))(x))
    np.testing.assert_allclose([grad(passed)(1.0), ccc(passed)(1.0), within(1.0, now)], 3.0)
    start = 1.0
    np.testing.assert_allclose([grad(passed)(1.0), ccc(passed)(1.0), within(1.0, 2.0)], [now, now, -1.7e9], rtol=1e-6)


INSIDE = {  # 707 x, where what is computed of n is computed within another trace
    "a jitted function": lambda x, n: jax.jit(lambda x: x * ((n * n) % 1009))(x),
    "a checkpoint": lambda x, n: jax.checkpoint(lambda x: x * ((n * n) % 1009))(x),
    "a scan": lambda x, n: lax.scan(lambda s, _: (s + x * ((n * n) % 1009), ()), 0.0, None, 1)[0],
    "a branch": lambda x, n: lax.cond(x > 0, lambda: x * ((n * n) % 1009), lambda: x),
    "a mapped function": lambda x, n: jax.vmap(lambda y: x * y * ((n * n) % 1009))(jnp.ones(1)).sum(),
}


@pytest.mark.parametrize("name", INSIDE)
def test_python_computes_where_it_is_traced_within(name):
    derivative = grad(INSIDE[name])
    for n in (3, 10**9, 3, 10**9):
        np.testing.assert_allclose(derivative(1.5, n), (n * n) % 1009)


def test_what_cancels_is_computed_by_python():
    for derivative in (grad(lambda x, a: x * (a / 3 * 3 - a)), grad(lambda x, a: x * ((a + 0.1) * 3 - (a * 3 + 0.3)))):
        for a in (7.0, 7, 0.7):
            assert abs(derivative(1.5, a)) < 1e-14


def test_python_raises_what_it_raises_without_a_trace():
    derivative = grad(lambda x, n: x * (1.0 / n))
    assert derivative(1.0, 4.0) == 0.25
    with pytest.raises(ZeroDivisionError):
        derivative(1.0, 0.0)


def test_usual_numbers_are_in_one_program(compilations):
    derivative = grad(lambda x, p, data: jnp.sum(x * (1.0 - p) / p * jnp.asarray((data - data.mean()) / data.std())))
    data = np.random.default_rng(0).normal(3.0, 2.0, 4)
    derivative(jnp.ones(4), 0.1, data), derivative(jnp.ones(4), 0.2, data + 1.0)
    compilations.new()
    for p in (0.3, 0.5, 0.9):
        normal = (data - data.mean()) / data.std()
        np.testing.assert_allclose(derivative(jnp.ones(4), p, p * data), (1.0 - p) / p * normal, rtol=1e-4)
    assert compilations.new() == 0


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
