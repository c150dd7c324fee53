"""Paper 004's operator: reverse over reverse, images inside of other programs, and what is refused."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import black_box, ccc, function
from tangents import J, J_inverse, grad, zero
from tests.tangents.api.test_operator import F32, FUNCTIONS, ONE, gradient, same, u, v, wave

# Reverse over reverse


def cubic(x):
    return jnp.sum(x**3) * jnp.prod(x) + jnp.dot(x, jnp.flip(x))


def network(p):
    return jnp.sum(jnp.tanh(jnp.reshape(p[:6], (2, 3)) @ jnp.sin(p[6:])))


SCALARS = {
    "a polynomial": (cubic, v, u),
    "a network": (network, jnp.linspace(-1.0, 1.0, 9), jnp.linspace(0.5, -2.0, 9)),
    "a loop": (lambda x: jnp.sum(lax.scan(lambda s, _: (jnp.sin(s) * x, None), x, None, length=4)[0]), v, u),
    "an application": (lambda x: jnp.sum(function(lambda y: x * y * jnp.exp(x), C.Tensor(3))(x)), v, u),
}


@pytest.mark.parametrize("name", SCALARS)
def test_double_reverse_is_the_hessian(name, x64):
    f, x, direction = SCALARS[name]
    x, direction = jnp.asarray(x, float), jnp.asarray(direction, float)
    slope, expected = jax.jit(lambda x: (jax.grad(f)(x), jax.hessian(f)(x) @ direction))(x)
    one = jnp.ones(())
    derivative = lambda f: lambda x: J(f)(x)[1](one)[1]
    same(derivative(lambda x: jnp.dot(derivative(f)(x), direction))(x), expected, 1e-9)
    (_, inner), outer = J(J(f))(x)
    (of_f, of_x), from_sensitivities = inner(one)
    same(of_x, slope, 1e-9)
    of_inner, of_one = from_sensitivities((zero(J_inverse(of_f)), direction))
    same(of_one, jnp.dot(of_x, direction), 1e-9)  # the inner backpropagator is linear
    same(outer((0 * one, of_inner))[1], expected, 1e-9)


def test_the_papers_product_of_a_hessian_and_a_vector():
    f = lambda x: 2 * x[0] ** 2 + 3 * x[0] * x[1] + 4 * x[1] ** 2
    x, direction = jnp.array([3.0, 4.0]), jnp.array([7.0, 8.0])
    same(gradient(lambda x: jnp.dot(gradient(f)(x), direction))(x), jnp.array([52.0, 85.0]))


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_reverse_over_reverse_by_what_a_function_captured(kind):
    """∂/∂w of the derivative w cos x is cos x, and ∂/∂x of it is -w sin x."""
    f = FUNCTIONS[kind]()
    (_, inner), outer = J(J(f))(2.0)
    (of_f, _), from_sensitivities = inner(ONE)
    of_inner, _ = from_sensitivities((zero(J_inverse(of_f)), ONE))
    of_image, of_x = outer((0 * ONE, of_inner))
    assert [float(g) for g in jax.tree.leaves(of_image)] == [pytest.approx(np.cos(2))]
    assert float(of_x) == pytest.approx(-3 * np.sin(2))


def test_derivatives_of_higher_order():
    f, x = lambda x: x**5, 2.0
    for expected in (80.0, 160.0, 240.0, 240.0, 120.0, 0.0):
        f = gradient(f)
        assert float(f(x)) == pytest.approx(expected)


def test_perturbations_are_not_confused():
    """D (x ↦ x · D (y ↦ x + y) 1) 1 = 1."""
    assert float(gradient(lambda x: x * gradient(lambda y: x + y)(1.0))(1.0)) == 1.0


# Inside other programs


def slope(image, x):
    return image(x)[1](ONE)[1]


USES = {
    "in an arrow": lambda image: ccc(lambda x: slope(image, x)),
    "in a function value": lambda image: function(lambda x: slope(image, x), F32),
    "in jit": lambda image: jax.jit(lambda x: slope(image, x)),
    "in vmap": lambda image: lambda x: jax.vmap(lambda x: slope(image, x))(jnp.stack([x, x]))[1],
    "in a loop": lambda image: lambda x: lax.scan(lambda s, _: (s + slope(image, x), None), 0.0 * x, None, length=1)[0],
    "in a map": lambda image: lambda x: C.map(function(lambda x: slope(image, x), F32), jnp.reshape(x, 1))[0],
    "as an argument of an arrow": lambda image: lambda x: ccc(slope)(image, x),
    "as an argument of jit": lambda image: lambda x: jax.jit(slope)(image, x),
}
ARGUMENTS = ("a closure", "a callable pytree")  # a Python function is no argument of compiled code
CASES = [(kind, use) for kind, use in product(FUNCTIONS, USES) if kind in ARGUMENTS or not use.startswith("as an arg")]


@pytest.mark.parametrize(("kind", "use"), CASES)
def test_an_image_is_a_function_like_any_other(kind, use):
    """Its derivative is a program: w cos x, whose derivative by x is -w sin x by J, by `grad` and by JAX."""
    program, x = USES[use](J(FUNCTIONS[kind]())), jnp.float32(2)
    assert float(program(x)) == pytest.approx(3 * np.cos(2))
    for derivative in (gradient, grad, jax.grad):
        assert float(derivative(program)(x)) == pytest.approx(-3 * np.sin(2))


UNKNOWN = {  # programs of a function h and a number x, their values for h(x) = w sin x, and these differentiated
    "the value": (lambda h, x: J(h)(x)[0], lambda w, x: w * jnp.sin(x)),
    "by the argument": (lambda h, x: slope(J(h), x), lambda w, x: w * jnp.cos(x)),
    "twice": (lambda h, x: gradient(gradient(h))(x), lambda w, x: -w * jnp.sin(x)),
    "by the function, called": (lambda h, x: J(h)(x)[1](x)[0](0.5), lambda w, x: x * jnp.sin(x) * jnp.sin(0.5)),
    "captured": (lambda h, x: gradient(lambda y: x * h(y))(2.0), lambda w, x: x * w * jnp.cos(2.0)),
    "made inside": (
        lambda h, x: slope(J(function(lambda y: h(x * y), F32)), 2.0),
        lambda w, x: w * x * jnp.cos(2.0 * x),
    ),
    "in a loop": (
        lambda h, x: lax.fori_loop(0, 2, lambda _, y: y - 0.1 * gradient(h)(y), x),
        lambda w, x: lax.fori_loop(0, 2, lambda _, y: y - 0.1 * w * jnp.cos(y), x),
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_function_that_is_not_known_yet(name, x64):
    """Its backpropagator gives its cotangent too, as a function: the closure over cotangents that it will be."""
    program, expected = UNKNOWN[name]
    h, x = function(wave(3.0), C.Tensor((), float)), 0.7
    one = jnp.ones(())
    with pytest.MonkeyPatch.context() as patch:
        for names in (globals(), gradient.__globals__):
            patch.setitem(names, "ONE", one)
        patch.setitem(globals(), "F32", C.Tensor((), float))
        np.testing.assert_allclose(ccc(program)(h, x), expected(3.0, x), rtol=1e-9)
        of_h, of_x = grad(program, (0, 1))(h, x)
    of_w, slope_x = jax.grad(expected, (0, 1))(3.0, x)
    np.testing.assert_allclose((h.gradient(of_h)["w"], of_x), (of_w, slope_x), rtol=1e-9)


def test_what_an_inner_function_captured_has_its_cotangent():
    inner = lambda x: J(lambda y: x * y * y)(2.0)[1](ONE)[0].captured["x"]
    assert float(ccc(inner)(5.0)) == 4.0
    sensitivity = lambda x: J(lambda y: x * x * y)(3.0)[1](ONE)[0].captured["x"]  # 2 x y
    assert float(grad(sensitivity)(5.0)) == 6.0


def test_a_backpropagator_leaves_an_arrow():
    y, backpropagator = ccc(lambda x: J(wave(3.0))(x))(2.0)
    assert float(y) == pytest.approx(3 * np.sin(2))
    assert float(backpropagator(ONE)[1]) == pytest.approx(3 * np.cos(2))
    assert float(grad(lambda x: ccc(lambda x: J(wave(3.0))(x))(x)[1](ONE)[1])(2.0)) == pytest.approx(-3 * np.sin(2))


def test_an_equal_function_made_anew_compiles_nothing(compilations):
    f = lambda w: J(wave(w))(2.0)[1](ONE)
    f(3.0)
    compilations.new()
    assert float(f(4.0)[1]) == pytest.approx(4 * np.cos(2))
    assert compilations.new() == 0


# What is refused


def test_images_of_images_need_functions_that_are_known():
    h = function(wave(3.0), F32)
    twice = lambda h, x: J(J(h))(x)[0][0]
    with pytest.raises(C.errors.UnsupportedError, match="not known yet") as caught:
        ccc(twice)(h, 2.0)
    assert "J(f) in place of f" in caught.value.hint and "J(J(h))(x)" in caught.value.line
    assert float(ccc(lambda image, x: J(image)(x)[0][0])(J(h), 2.0)) == pytest.approx(3 * np.sin(2))
    made = lambda h, x: J(lambda g: h(g(x)))(J(function(lambda t: t * t, F32)))[0]
    with pytest.raises(C.errors.UnsupportedError, match="not known yet"):
        ccc(made)(h, 2.0)


def test_the_image_of_a_function_takes_images():
    h = function(wave(3.0), F32)
    with pytest.raises(C.errors.ArgumentError, match="not an image of J") as caught:
        J(lambda h, x: h(x))(h, 2.0)
    assert "J(f)(J(g))" in caught.value.hint and "J(lambda h, x" in caught.value.line


def test_a_function_without_a_domain_is_no_argument():
    with pytest.raises(C.errors.UntypedFunctionError):
        J(lambda h: h(1.0))(J(wave(3.0)))
    with pytest.raises(C.errors.BareFunctionError):
        zero(wave(3.0))


def test_the_environment_of_a_black_box_is_not_known():
    with pytest.raises(C.errors.NotDifferentiableError, match="black box"):
        J(black_box(np.sin, F32, F32))(2.0)


def test_a_cotangent_of_another_type_is_refused():
    _, backpropagator = J(wave(3.0))(2.0)
    with pytest.raises(C.errors.ArgumentError, match="cotangent"):
        backpropagator(v)
