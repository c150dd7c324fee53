"""Paper 004's operator: values of every kind, and its laws."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import ccc, function
from tangents import J, J_inverse, add, zero

F32 = C.Tensor()
v = jnp.array([0.5, -1.0, 2.0])
u = jnp.array([1.5, 0.25, -0.75])
ONE = jnp.float32(1)


def same(got, expected, tolerance=1e-5):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (jnp.shape(a), jnp.result_type(a)) == (jnp.shape(b), jnp.result_type(b))
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def wave(w):
    """x ↦ w sin x, whose derivatives by w and x are sin x and w cos x."""
    return lambda x: w * jnp.sin(x)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Wave:
    """`wave` as a pytree."""

    w: object

    def __call__(self, x):
        return self.w * jnp.sin(x)


def gradient(f):
    """∇ f x = cdr ((cdr ((J f) (J x))) 1), the paper's definition."""
    return lambda x: J(f)(x)[1](ONE)[1]


# What it means


FUNCTIONS = {
    "a Python function": lambda: wave(3.0),
    "an arrow": lambda: ccc(wave(3.0)),
    "an arrow of a closure": lambda: ccc(function(wave(3.0), F32)),
    "a chain": lambda: ccc(wave(3.0)) >> C.primitive("neg") >> C.primitive("neg"),
    "a closure": lambda: function(wave(3.0), F32),
    "a callable pytree": lambda: Wave(3.0),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_backpropagator_gives_the_cotangents_of_the_function_and_of_the_argument(kind):
    y, backpropagator = J(FUNCTIONS[kind]())(2.0)
    of_f, of_x = backpropagator(jnp.float32(5))
    assert float(y) == pytest.approx(3 * np.sin(2))
    assert [float(leaf) for leaf in jax.tree.leaves(of_f)] == [pytest.approx(5 * np.sin(2))]
    assert float(of_x) == pytest.approx(5 * 3 * np.cos(2))


def test_the_cotangent_of_a_function_has_its_structure():
    f = function(wave(3.0), F32)
    of_f, _ = J(f)(2.0)[1](ONE)
    assert f.gradient(of_f) == {"w": pytest.approx(np.sin(2))}
    of_python, _ = J(wave(3.0))(2.0)[1](ONE)
    same(of_python, of_f)
    assert of_python.captured == of_f.captured


def test_captured_values_are_told_apart_by_their_names():
    a, b, p = jnp.float32(2), jnp.array([1.0, 2.0]), {"deep": (3.0, 4.0)}
    f = lambda x: a * jnp.sum(b * x) + p["deep"][0] * x
    captured = J(f)(5.0)[1](ONE)[0].captured
    assert float(captured["a"]) == 15.0  # (1 + 2) 5
    same(captured["b"], jnp.array([10.0, 10.0]))
    assert [float(g) for name, g in captured.items() if name not in "ab"] == [5.0]


def test_a_function_that_captured_a_function():
    f = function(wave(3.0), F32)
    g = function(lambda x: 2.0 * f(x) * f(x), F32)
    of_g, of_x = J(g)(0.5)[1](ONE)
    s, c = np.sin(0.5), np.cos(0.5)
    same(of_g, jax.tree.map(lambda _: jnp.float32(2 * 2 * 3 * s * s), g))
    assert float(of_x) == pytest.approx(2 * 9 * 2 * s * c)


def test_a_term_has_captured_nothing():
    y, backpropagator = J(C.primitive("sin"))(0.5)
    assert float(y) == pytest.approx(np.sin(0.5))
    of_f, of_x = backpropagator(ONE)
    assert of_f == zero(C.primitive("sin")) == ()
    assert float(of_x) == pytest.approx(np.cos(0.5))
    same(J(C.primitive("mul"))(2.0, 3.0)[1](ONE), ((), (jnp.float32(3), jnp.float32(2))))


def test_several_arguments_are_one_tuple():
    f = lambda p, n, x: p["w"] * x**n
    y, backpropagator = J(f)({"w": 2.0}, 3, v)
    same(y, 2 * v**3)
    of_arguments = ({"w": jnp.sum(u * v**3)}, jnp.int32(0), 6 * v**2 * u)
    same(backpropagator(u)[1], of_arguments, 1e-4)
    product = J(lambda x, y: x * y)
    same(product((2.0, 3.0))[1](ONE)[1], product(2.0, 3.0)[1](ONE)[1])


def test_functions_go_in_and_come_out_as_images():
    twice = lambda h, x: h(h(x))
    w = 3.0
    h = function(lambda x: w * x, F32)
    y, backpropagator = J(twice)(J(h), 2.0)
    of_h, of_x = backpropagator(ONE)[1]
    assert (float(y), float(of_h.captured["w"]), float(of_x)) == (18.0, 12.0, 9.0)  # w² x, 2 w x and w²
    scale = lambda w: function(lambda x: w * x, F32)
    f, backpropagator = J(scale)(3.0)
    y, of_f = f(2.0)
    assert (float(y), float(of_f(ONE)[1])) == (6.0, 3.0)
    cotangent = jax.tree.map(lambda _: jnp.float32(8), J_inverse(f))
    assert float(backpropagator(cotangent)[1]) == 8.0


def test_a_function_that_is_given_an_image_differentiates_it():
    """∂/∂h and ∂/∂x of h'(x), for h(x) = w sin x."""
    derivative = lambda h, x: gradient(h)(x)
    h = function(wave(3.0), F32)
    y, backpropagator = J(derivative)(J(h), 0.5)
    of_h, of_x = backpropagator(ONE)[1]
    assert float(y) == pytest.approx(3 * np.cos(0.5))
    assert h.gradient(of_h) == {"w": pytest.approx(np.cos(0.5))}
    assert float(of_x) == pytest.approx(-3 * np.sin(0.5))


def test_the_image_of_the_operator_itself():
    """J J = λ (J x). (J (J x), λ g. (0, J⁻¹ g)), as the paper defines it."""
    assert float(J(J)(2.0)[0]) == 2.0 and float(J(J)(2.0)[1](ONE)[1]) == 1.0
    h = function(wave(3.0), F32)
    image, backpropagator = J(J)(J(h))
    same(image, J(J(h)))
    g = jax.tree.map(lambda _: jnp.float32(7), h)
    same(backpropagator(J(g))[1], g)
    back, backpropagator = J(J_inverse)(J(J(h)))
    same(back, J(h))
    same(backpropagator(g)[1], J(g))


def test_the_images_of_zero_and_add():
    """Their backpropagators are λ g. 0 and λ g. (g, g), as the paper defines them."""
    same(J(zero)(v)[1](u)[1], jnp.zeros(3))
    same(J(add)(v, u)[1](v)[1], (v, v))


# Laws


def pullback():
    return J(wave(3.0))(2.0)[1]


VALUES = {
    "a number": lambda: 2.0,
    "an array": lambda: v,
    "an integer": lambda: jnp.int32(3),
    "a pair": lambda: (v, 2.0),
    "a list": lambda: [1.0, [u, ()], None],
    "a dict": lambda: {"a": v, "b": (u, jnp.arange(3))},
    "a closure": lambda: function(wave(3.0), F32),
    "a closure over a closure": lambda: (lambda f: function(lambda x: f(x) * 2.0, F32))(function(wave(3.0), F32)),
    "a closure in data": lambda: {"f": [function(wave(3.0), F32)], "x": v},
    "a pullback": pullback,
    "an image": lambda: J(function(wave(3.0), F32)),
    "an image of an image": lambda: J(J(function(wave(3.0), F32))),
    "an image of a pullback": lambda: J(pullback()),
    "a term": lambda: C.primitive("sin"),
    "a term in data": lambda: [C.primitive("sin"), 1.0],
    "an image of a term": lambda: J(C.primitive("sin")),
}
values = pytest.mark.parametrize("kind", VALUES)


def cotangent(x, seed):
    """A cotangent of x whose inexact leaves are whole numbers, so that sums are exact."""
    leaves, form = jax.tree.flatten(zero(x))
    fill = lambda i, leaf: leaf + (seed + i) * jnp.ones_like(leaf)
    inexact = lambda leaf: jnp.issubdtype(leaf.dtype, jnp.inexact)
    return form.unflatten([fill(i, leaf) if inexact(leaf) else leaf for i, leaf in enumerate(leaves)])


@values
def test_the_inverse_undoes_it(kind):
    x = VALUES[kind]()
    back = J_inverse(J(x))
    assert jax.tree.structure(back) == jax.tree.structure(x)
    assert all(a is b for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(x), strict=True))


@pytest.mark.parametrize("kind", ["a number", "an array", "an integer", "a pair", "a list", "a dict"])
def test_what_holds_no_function_is_its_own_image(kind):
    x = VALUES[kind]()
    same(J(x), x, 0)


def test_an_image_is_written_as_one():
    assert repr(J(J([C.primitive("sin"), 1.0]))) == "[J(J(sin)), 1.0]"


@values
def test_zero_is_neutral(kind):
    x = VALUES[kind]()
    g = cotangent(x, 3)
    same(add(zero(x), g), g, 0)
    same(add(g, zero(x)), g, 0)


@values
def test_plus_is_commutative_and_adds(kind):
    x = VALUES[kind]()
    g, h = cotangent(x, 3), cotangent(x, 10)
    same(add(g, h), add(h, g), 0)
    for a, b, c in zip(*map(jax.tree.leaves, (g, h, add(g, h))), strict=True):
        np.testing.assert_array_equal(np.asarray(a) + np.asarray(b), np.asarray(c))


FUNCTION_VALUES = ["a closure", "a closure over a closure", "a pullback", "an image", "an image of a term"]


@pytest.mark.parametrize("kind", FUNCTION_VALUES)
def test_the_zero_of_a_function_is_of_the_type_of_its_cotangent(kind):
    f = VALUES[kind]()
    x = 2.0 if kind != "a pullback" else ONE
    y, backpropagator = J(f)(x)
    of_f, _ = backpropagator(zero(J_inverse(y)))
    same(of_f, zero(f), 0)


def test_it_preserves_composition():
    """J (f >> g) = J f >> J g, and the backpropagator runs g's first: (of f, of g) is what f and g captured."""
    f, g = function(wave(3.0), F32), function(lambda y: 2.0 * y * y, F32)
    composed, x = ccc(f) >> ccc(g), 0.5
    y, backpropagator = J(composed)(x)
    of_both, of_x = backpropagator(ONE)
    middle, back_f = J(f)(x)
    last, back_g = J(g)(middle)
    of_g, of_middle = back_g(ONE)
    of_f, expected = back_f(of_middle)
    same(y, last)
    same(of_x, expected)
    same(jax.tree.leaves(of_both), jax.tree.leaves((of_f, of_g)))
    same(J(lambda x: g(f(x)))(x)[1](ONE)[1], expected)
