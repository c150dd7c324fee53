"""Functions as arguments, as results and in frames of compiled recursion: values, and derivatives in both tangents."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import errors as E
from compile_ccc import black_box, ccc, fix, function
from tangents import grad, hvp, jvp, value_and_grad

I = C.Tensor((), jnp.int32)
SPACES = ["environment", "list"]
pytestmark = pytest.mark.usefixtures("x64")


def real():
    return C.Tensor()  # of the precision that is set


def arrow():
    return C.Function(real(), real())


def central(f, x, h=1e-5):
    return (f(x + h) - f(x - h)) / (2 * h)


def line(w):
    """λ x. sin (w x) + x, which has captured w"""
    return function(lambda x: jnp.sin(w * x) + x, real())


def line_by_hand(w):
    return lambda x: np.sin(w * x) + x


# Each by the function g that it gets and a number x, and the same by Python's own recursion.


def unchanged(g, x):
    """g is handed on as it is, in a call that others wait for: Σ of g i over i = x, ..., x + 3."""
    body = lambda self, n, y, g: lax.cond(n == 0, lambda: g(y), lambda: g(y) + self(n - 1, y + 1.0, g))
    return fix(body, I, real(), arrow())(np.int32(3), x, g)


def unchanged_by_hand(g, x):
    return sum(g(x + i) for i in range(4))


def in_the_last_place(g, x):
    """Iterates of g, whose calls are in the last place: a while."""
    body = lambda self, n, y, g: lax.cond(n == 0, lambda: y, lambda: self(n - 1, g(y), g))
    return fix(body, I, real(), arrow())(np.int32(3), x, g)


def in_the_last_place_by_hand(g, x):
    return g(g(g(x)))


def other_captures(g, x):
    """The code of k is one from the second call on, and what it captured is another number each time."""

    def body(self, n, k):
        c = k(x)
        scaled = function(lambda r: jnp.cos(c * r), real())
        return lax.cond(n == 0, lambda: k(1.0), lambda: self(n - 1, scaled) * k(3.0))

    return fix(body, I, arrow())(np.int32(3), g)


def other_captures_by_hand(g, x):
    def itself(n, k):
        c = k(x)
        return k(1.0) if n == 0 else itself(n - 1, lambda r: np.cos(c * r)) * k(3.0)

    return itself(3, g)


def exchanged(g, x):
    """Two functions that change places, so that each is one of two."""
    body = lambda self, n, y, f, g: lax.cond(n == 0, lambda: f(y), lambda: self(n - 1, g(y), g, f) * f(y))
    return fix(body, I, real(), arrow(), arrow())(np.int32(3), x, g, function(lambda y: x * y * y, real()))


def exchanged_by_hand(g, x):
    def itself(n, y, f, g):
        return f(y) if n == 0 else itself(n - 1, g(y), g, f) * f(y)

    return itself(3, x, g, lambda y: x * y * y)


def a_result(g, x):
    """The function that it gives is made in its end, of what a call of g gave; or it is g itself."""

    def body(self, n, y, g):
        scaled = function(lambda z: y * z, real())
        end = lambda: lax.cond(y > 100.0, lambda: scaled, lambda: g)
        return lax.cond(n == 0, end, lambda: self(n - 1, y * g(1.0), g))

    f = fix(body, I, real(), arrow())
    return f(np.int32(2), x, g)(0.5) + f(np.int32(2), 1000.0 * x, g)(0.5)


def a_result_by_hand(g, x):
    return g(0.5) + 1000.0 * x * g(1.0) ** 2 * 0.5


def composed(g, x):
    """A function that it gives is called, and is among the arguments of the next call."""

    def body(self, n, y, g):
        scaled = lambda c: function(lambda z: c * z, real())
        return lax.cond(n == 0, lambda: scaled(g(y)), lambda: scaled(self(n - 1, y + 1.0, g)(y)))

    return fix(body, I, real(), arrow())(np.int32(3), x, g)(2.0)


def composed_by_hand(g, x):
    def itself(n, y):
        c = g(y) if n == 0 else itself(n - 1, y + 1.0)(y)
        return lambda z: c * z

    return itself(3, x)(2.0)


def one_of_two(g, x):
    """One branch gives a function of its own, and the other one what a call of itself gives, which may be g."""
    ends = lambda n, y, g: lax.cond(n == 0, lambda: function(lambda z: y * z, real()), lambda: g)
    body = lambda self, n, y, g: lax.cond(n < 2, lambda: ends(n, y, g), lambda: self(n - 2, y * g(1.0), g))
    f = fix(body, I, real(), arrow())
    return f(np.int32(4), x, g)(0.5) * f(np.int32(3), x, g)(x)


def one_of_two_by_hand(g, x):
    return x * g(1.0) ** 2 * 0.5 * g(x)


def after_a_choice(g, x):
    """A branch gives a function of its own, another one that of a call of itself, which gives two more."""

    def body(self, n, y, g):
        own = function(lambda z: y * z, real())
        return lax.switch(n, [lambda: g, lambda: own, lambda: self(n - 1, y, g), lambda: self(n - 3, y, g)])

    f = fix(body, I, real(), arrow())
    return f(np.int32(2), x, g)(0.5) * f(np.int32(3), x, g)(x)


def after_a_choice_by_hand(g, x):
    return x * 0.5 * g(x)


PROGRAMS = {
    "one of two": (one_of_two, one_of_two_by_hand),
    "after a choice": (after_a_choice, after_a_choice_by_hand),
    "unchanged": (unchanged, unchanged_by_hand),
    "in the last place": (in_the_last_place, in_the_last_place_by_hand),
    "other captures": (other_captures, other_captures_by_hand),
    "exchanged": (exchanged, exchanged_by_hand),
    "a result": (a_result, a_result_by_hand),
    "composed": (composed, composed_by_hand),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("functions", SPACES)
def test_the_value_and_the_derivatives(name, functions):
    program, by_hand = PROGRAMS[name]
    w, x = 0.7, 0.9
    value, found = value_and_grad(lambda w, x: program(line(w), x), (0, 1), functions=functions)(w, x)
    np.testing.assert_allclose(value, by_hand(line_by_hand(w), x), rtol=1e-12)
    slopes = [central(lambda w: by_hand(line_by_hand(w), x), w), central(lambda x: by_hand(line_by_hand(w), x), x)]
    np.testing.assert_allclose(found, slopes, rtol=1e-7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_lanes_and_the_host(name):
    program, by_hand = PROGRAMS[name]
    w, x = 0.7, 0.9
    slope = central(lambda w: by_hand(line_by_hand(w), x), w)
    np.testing.assert_allclose(jvp(lambda w: program(line(w), x), (w,), (2.0,))[1], 2.0 * slope, rtol=1e-7)
    ws = np.array([0.7, 0.1, -0.4])
    each = [by_hand(line_by_hand(w), x) for w in ws]
    np.testing.assert_allclose(jax.vmap(ccc(lambda w: program(line(w), x)))(ws), each, rtol=1e-12)
    traced = ccc(lambda w: program(line(w), x)).trace(w)
    np.testing.assert_allclose(C.evaluate(traced.term, w), each[0], rtol=1e-12)


def test_the_gradient_by_a_function_that_is_an_argument():
    """It is what the function captured; its calls, of which nobody knows how many there are, have no list."""
    f = line(0.7)
    found = f.gradient(grad(unchanged)(f, 0.9))["w"]
    np.testing.assert_allclose(found, central(lambda w: unchanged_by_hand(line_by_hand(w), 0.9), 0.7), rtol=1e-7)
    with pytest.raises(E.UnsupportedError, match="a recursion") as caught:
        grad(unchanged, functions="list")(f, 0.9)
    assert "max_steps" not in str(caught.value)


def test_the_second_derivative():
    f = lambda w: in_the_last_place(line(w), 0.9)
    slope = lambda w: grad(f)(w)
    np.testing.assert_allclose(hvp(f, (0.7,), (1.0,)), central(slope, 0.7), rtol=1e-7)


def test_a_function_that_is_not_used_and_one_that_nobody_looks_into():
    body = lambda self, n, f, g: lax.cond(n == 0, lambda: f(1.0), lambda: 2.0 * self(n - 1, f, g))
    twice = fix(body, I, arrow(), arrow())
    halved = black_box(lambda x: x / 2, real(), real())
    assert twice(np.int32(3), halved, line(0.5)) == 4.0


def test_functions_of_functions():
    """A function of functions is handed on, and is called with one that captured what was there."""
    body = lambda self, n, y, h: lax.cond(
        n == 0, lambda: y, lambda: self(n - 1, h(function(lambda z: y * z, real())), h)
    )
    power = fix(body, I, real(), C.Function(arrow(), real()))
    at = lambda c: function(lambda f: f(c) + 1.0, arrow())
    value, slope = value_and_grad(lambda c: power(np.int32(3), 2.0, at(c)))(1.5)
    np.testing.assert_allclose((value, slope), (2 * 1.5**3 + 1.5**2 + 1.5 + 1, 6 * 1.5**2 + 2 * 1.5 + 1), rtol=1e-12)


def continued(n):
    """Paper 000's FUN: the continuation of a call that is not in the last place captures the one before it."""
    body = lambda self, n, k: lax.cond(
        n == 0, lambda: k(1.0), lambda: self(n - 1, function(lambda r: k(n.astype(float) * r), real()))
    )
    return fix(body, I, arrow())(n, function(lambda r: r, real()))


def test_a_continuation_that_grows_is_refused_by_name():
    with pytest.raises(E.UnsupportedError, match="grows with every call") as caught:
        continued(np.int32(5))
    assert "continuation" in caught.value.hint


def test_a_continuation_by_the_numbers_that_it_is_made_of():
    """The same without a function that grows: what the continuation does is one code, and its factor a number."""
    body = lambda self, n, c, k: lax.cond(n == 0, lambda: k(c), lambda: self(n - 1, c * n.astype(float), k))
    f = fix(body, I, real(), arrow())
    value, slope = value_and_grad(lambda w: f(np.int32(5), 1.0, function(lambda r: w * r, real())))(3.0)
    assert (value, slope) == (360.0, 120.0)
