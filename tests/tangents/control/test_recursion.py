"""Derivatives of recursive functions: both tangents, forward mode, derivatives of derivatives, `vmap`, cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.memo import clear_caches
from compile_ccc import ccc, fix, function
from tangents import grad, jvp, represent, value_and_grad
from tangents.control import whiles
from tests.counted import equations

SPACES = ["environment", "list"]
I = C.Tensor((), jnp.int32)
pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture
def few(monkeypatch):
    """Two rows and two slots, so that short recursions drop states, and run steps again."""
    clear_caches()
    monkeypatch.setattr(whiles, "_LEAST", 2)
    monkeypatch.setattr(whiles, "_MOST", 2)
    yield
    clear_caches()


def falling(x, n):
    """x (x - 1) ... (x - n + 1)"""
    body = lambda self, x, n: lax.cond(n == 0, lambda: 1.0, lambda: x * self(x - 1.0, n - 1))
    return fix(body, C.Tensor(), I)(x, n)


def falling_by_hand(x, n):
    factors = x - np.arange(n)
    slope = sum(np.prod(np.delete(factors, i)) for i in range(n))
    curve = sum(np.prod(np.delete(factors, [i, j])) for i in range(n) for j in range(n) if i != j)
    return np.prod(factors), slope, curve


def series(w, n):
    """f n = w n for n < 2, else f (n - 1) + sin(w f (n - 2)), which calls itself twice"""
    body = lambda self, n: lax.cond(n < 2.0, lambda: w * n, lambda: self(n - 1.0) + jnp.sin(w * self(n - 2.0)))
    return fix(body, C.Tensor())(n)


def series_by_hand(w, n):
    return w * n if n < 2 else series_by_hand(w, n - 1) + np.sin(w * series_by_hand(w, n - 2))


def central(f, x, h=1e-5):
    return (f(x + h) - f(x - h)) / (2 * h)


@pytest.mark.parametrize("functions", SPACES)
def test_one_compilation_differentiates_all_depths(functions, few):
    traced = []

    def loss(x, n):
        traced.append(None)
        return falling(x, n)

    g = jax.jit(grad(loss, functions=functions))
    for n in (0, 1, 2, 3, 5, 8, 11):
        np.testing.assert_allclose(g(5.5, np.int32(n)), falling_by_hand(5.5, n)[1], rtol=1e-12)
    assert len(traced) == 1


@pytest.mark.parametrize("functions", SPACES)
def test_calls_of_itself_beside_each_other(functions):
    found = grad(series, (0, 1), functions=functions)(0.7, 6.25)
    np.testing.assert_allclose(found[0], central(lambda w: series_by_hand(w, 6.25), 0.7), rtol=1e-8)
    np.testing.assert_allclose(found[1], central(lambda n: series_by_hand(0.7, n), 6.25), rtol=1e-8)


def test_the_two_tangents_of_a_recursive_function_agree():
    """The environment's is that of what it captured, the list's are its outer calls, and not those of itself."""
    w = 0.7
    f = fix(lambda self, n: lax.cond(n < 2.0, lambda: w * n, lambda: self(n - 1.0) + jnp.sin(w * self(n - 2.0))), 6.25)
    twice = lambda f, x: f(x) * f(x + 1.0)
    by_w = f.gradient(grad(twice)(f, 5.25))["w"]
    (x, of_x), (y, of_y) = sorted(grad(twice, functions="list")(f, 5.25))
    assert (x, y) == (5.25, 6.25)
    np.testing.assert_allclose([of_x, of_y], [series_by_hand(w, 6.25), series_by_hand(w, 5.25)], rtol=1e-12)
    slope = lambda n: central(lambda w: series_by_hand(w, n), w)
    np.testing.assert_allclose(by_w, of_x * slope(x) + of_y * slope(y), rtol=1e-8)


def test_a_function_that_a_recursive_one_captured(few):
    def loss(w, x, functions=None):
        step = function(lambda y: jnp.sin(w * y), C.Tensor())
        return fix(lambda self, y, n: lax.cond(n == 0, lambda: y, lambda: y + step(self(y, n - 1))), C.Tensor(), I)(
            x, 3
        )

    def by_hand(w):
        y = 0.4
        for _ in range(3):
            y = 0.4 + np.sin(w * y)
        return y

    for functions in SPACES:
        np.testing.assert_allclose(grad(loss, functions=functions)(1.3, 0.4), central(by_hand, 1.3), rtol=1e-8)


def test_forward_mode_and_derivatives_of_derivatives():
    n = np.int32(4)
    value, slope, curve = falling_by_hand(5.5, 4)
    f = lambda x: falling(x, n)
    np.testing.assert_allclose(jvp(f, (5.5,), (2.0,)), (value, 2.0 * slope), rtol=1e-12)
    np.testing.assert_allclose(grad(grad(f))(5.5), curve, rtol=1e-12)
    np.testing.assert_allclose(jvp(grad(f), (5.5,), (1.0,)), (slope, curve), rtol=1e-12)
    np.testing.assert_allclose(grad(lambda x: jvp(f, (x,), (1.0,))[1])(5.5), curve, rtol=1e-12)


def test_each_lane_of_a_vmap_is_right():
    xs, ns = np.array([5.5, 0.5, 3.0, -1.5]), np.array([4, 0, 6, 1], np.int32)
    expected = np.array([falling_by_hand(x, n)[:2] for x, n in zip(xs, ns, strict=True)]).T
    np.testing.assert_allclose(jax.jit(jax.vmap(value_and_grad(falling)))(xs, ns), expected, rtol=1e-12)
    total = ccc(lambda xs: jnp.sum(jax.vmap(lambda x, n: falling(x, n))(xs, ns)))
    np.testing.assert_allclose(grad(total)(xs), expected[1], rtol=1e-12)


@pytest.mark.parametrize("in_another", [False, True])
def test_a_loop_in_a_lane_whose_turn_it_is_not(in_another):
    """The loop after the call would never end on the zero that is there before the call has given something."""
    loop = lambda x: lax.while_loop(lambda s: s < 10.0, lambda s: 2.0 * s, x)
    chosen = lambda x: jax.jit(lambda x: lax.cond(x < 1e9, loop, lambda x: x, x))(x)
    grown = (lambda x: lax.scan(lambda s, _: (chosen(s), None), x, None, 1)[0]) if in_another else loop
    f = lambda x, n: fix(lambda self, n: lax.cond(n == 0, lambda: x, lambda: grown(self(n - 1)) - 9.0), I)(n)

    def by_hand(x, n):
        value, slope = x, 1.0
        for _ in range(n):
            while value < 10.0:
                value, slope = 2.0 * value, 2.0 * slope
            value = value - 9.0
        return value, slope

    xs, ns = np.array([0.5, 3.0, 1.5, 12.0]), np.array([0, 1, 2, 3], np.int32)
    expected = np.array([by_hand(x, n) for x, n in zip(xs, ns, strict=True)]).T
    np.testing.assert_allclose(jax.vmap(value_and_grad(f))(xs, ns), expected, rtol=1e-12)


def test_a_branch_that_is_not_taken_gives_no_nan():
    """At its end it would divide by zero, in its value and in its derivative."""
    f = fix(lambda self, x: lax.cond(x <= 0.5, lambda: x, lambda: jnp.sqrt(x - 0.5) * self(x - 1.0)), C.Tensor())
    roots = lambda x: np.sqrt(x - 0.5) * np.sqrt(x - 1.5) * (x - 2.0)
    np.testing.assert_allclose(grad(f)(2.25), central(roots, 2.25), rtol=1e-8)
    np.testing.assert_allclose(jax.vmap(grad(f))(jnp.array([2.25, 0.5]))[1], 1.0)


def test_ten_thousand_calls_that_wait():
    """w (1 + w (1 + ...)), as deep as is stated; one level more is an error."""

    def series(w, n):
        body = lambda self, n: lax.cond(n == 0, lambda: 0.0, lambda: w * (1.0 + self(n - 1)))
        return fix(body, I, max_depth=10_000)(n)

    w, n = 0.9995, 10_000
    powers = w ** np.arange(1, n + 1)
    slope = np.sum(np.arange(1, n + 1) * powers / w)
    np.testing.assert_allclose(value_and_grad(series)(w, np.int32(n)), (np.sum(powers), slope), rtol=1e-10)
    with pytest.raises(C.errors.DepthError, match="at most 10000 calls"):
        grad(series)(w, np.int32(n + 1))


def simpson(f, low, high):
    return (high - low) / 6.0 * (f(low) + 4.0 * f(0.5 * (low + high)) + f(high))


def adaptive(a):
    """The integral of exp(a x) from 0 to 2, where values decide how finely it is divided."""
    f = lambda x: jnp.exp(a * x)

    def area(self, low, high, tolerance):
        middle, half = 0.5 * (low + high), 0.5 * tolerance
        whole, parts = simpson(f, low, high), simpson(f, low, middle) + simpson(f, middle, high)
        finer = lambda: self(low, middle, half) + self(middle, high, half)
        return lax.cond(jnp.abs(parts - whole) < 15.0 * tolerance, lambda: parts, finer)

    return fix(area, C.Tensor(), C.Tensor(), C.Tensor())(0.0, 2.0, 1e-9)


def test_adaptive_quadrature():
    a = 3.0
    exact = np.expm1(2 * a) / a, (2 * a * np.exp(2 * a) - np.expm1(2 * a)) / a**2
    np.testing.assert_allclose(value_and_grad(adaptive)(a), exact, rtol=1e-8)


def determinant(matrix):
    """By minors along the rows: the row, which columns are taken, the column, and its sign."""
    n = matrix.shape[0]

    def minors(self, row, taken, column, sign):
        here = lambda: (
            sign * matrix[row, column] * self(row + 1, taken.at[column].set(True), jnp.int32(0), jnp.float64(1))
        )
        free = lambda: here() + self(row, taken, column + 1, -sign)
        beside = lambda: lax.cond(taken[column], lambda: self(row, taken, column + 1, sign), free)
        return lax.cond(row == n, lambda: 1.0, lambda: lax.cond(column == n, lambda: 0.0, beside))

    f = fix(minors, I, C.Tensor(n, bool), I, C.Tensor(), codomain=C.Tensor(), max_depth=16)
    return f(np.int32(0), jnp.zeros(n, bool), np.int32(0), 1.0)


def laplace(matrix):
    """By minors, in a recursion of Python on the size, which every trace unrolls."""
    if len(matrix) == 1:
        return matrix[0, 0]
    minor = lambda column: jnp.delete(matrix[1:], column, axis=1)
    return sum((-1) ** column * matrix[0, column] * laplace(minor(column)) for column in range(len(matrix)))


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize("determinant", [determinant, laplace])
def test_the_determinant_as_its_definition_reads(determinant, functions):
    matrix = np.array([[2.0, -1.0, 0.5], [1.0, 3.0, -2.0], [0.25, 1.0, 1.5]])
    value, g = value_and_grad(determinant, functions=functions)(jnp.array(matrix))
    np.testing.assert_allclose(value, np.linalg.det(matrix), rtol=1e-12)
    np.testing.assert_allclose(g, np.linalg.det(matrix) * np.linalg.inv(matrix).T, rtol=1e-10)


def test_a_recursion_with_its_calls_in_the_last_place_has_the_derivative_of_a_while():
    root = lambda a: fix(
        lambda self, x: lax.cond(jnp.abs(x * x - a) < 1e-13 * a, lambda: x, lambda: self(0.5 * (x + a / x))), C.Tensor()
    )(a)
    np.testing.assert_allclose(value_and_grad(root)(7.0), (np.sqrt(7.0), 0.5 / np.sqrt(7.0)), rtol=1e-10)
    assert equations(grad(root), 7.0)["pure_callback"] == 0


def test_a_step_takes_the_time_of_its_frame():
    """No sum, and no copy, of a whole stack is in the programs: nothing takes longer where the bound is larger."""

    def of(depth):
        body = lambda self, n: lax.cond(n < 1.0, lambda: 0.5, lambda: jnp.sin(self(n - 1.0)) * n)
        f = fix(body, C.Tensor(), max_depth=depth)
        text = jax.jit(grad(f)).lower(1.0).as_text()
        lines = [line for line in text.splitlines() if f"tensor<{depth}xf64>" in line]
        return [line for line in lines if "stablehlo.add " in line or "stablehlo.select " in line]

    assert of(777) == []


def test_represent_of_a_term():
    minus = C.prod(C.proj(1), C.const(jnp.float64(1.0))) >> C.primitive("sub")
    ends = C.prod(C.proj(1), C.const(jnp.float64(1.0))) >> C.primitive("lt") >> C.tag(2)
    again = C.prod(C.proj(1), C.prod(C.proj(0), minus) >> C.eval) >> C.primitive("mul")
    body = C.prod(C.Context(C.proj(0), C.proj(1), ends)) >> C.case(again, C.const(jnp.float64(1.0)))
    f = C.prod(C.const(()) >> C.prod(C.Context()) >> C.fix(body, C.Tensor(), C.Tensor()), C.id) >> C.eval
    for functions in SPACES:
        y, pullback = represent(f, functions)(jnp.float64(4.5))
        np.testing.assert_allclose(
            (y, pullback(2.0)), (4.5 * 3.5 * 2.5 * 1.5, 2 * falling_by_hand(4.5, 4)[1]), rtol=1e-12
        )
