"""Paper 004's operator: values of every kind, its laws, reverse over reverse, and what each application costs."""

from dataclasses import dataclass
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from benchmarks.equations import equations
from compile_ccc import black_box, ccc, function
from tangents import J, J_inverse, add, grad, zero

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
        patch.setitem(globals(), "ONE", one)
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


# What it costs


def iterated(x):
    for _ in range(20):
        x = lax.sin(lax.mul(x, x))
    return x


def horner(x):
    total = x
    for _ in range(20):
        total = lax.add(lax.mul(total, x), jnp.float32(1))
    return total


def products(x):
    a, b, c = x
    for _ in range(8):
        a, b, c = lax.mul(a, b), lax.add(b, c), lax.sub(lax.mul(c, a), b)
    return lax.mul(a, lax.mul(b, c))


def looped(x):
    return lax.scan(lambda s, _: (lax.sin(lax.mul(s, x)), None), x, None, length=5)[0]


def perceptron(p):
    w1, w2 = p
    return jnp.sum(jnp.tanh(w2 @ jnp.tanh(w1 @ jnp.ones(3))))


PROGRAMS = {
    "iterated": (iterated, jnp.float32(0.5)),
    "horner": (horner, jnp.float32(0.5)),
    "products": (products, (jnp.float32(0.5), jnp.float32(2), jnp.float32(3))),
    "looped": (looped, jnp.float32(0.5)),
    "perceptron": (perceptron, (jnp.ones((4, 3)), jnp.ones((2, 4)))),
}
programs = pytest.mark.parametrize("name", PROGRAMS)


def count(f, x):
    """The equations that are left of f when calls are inlined and dead code is removed."""
    return equations(jax.make_jaxpr(lambda x: f(x))(x).jaxpr)


def both_phases(f):
    """(x, g) ↦ (y, ḡ): J f at x, and its backpropagator at g."""

    def run(argument):
        x, g = argument
        y, backpropagator = J(f)(x)
        return y, backpropagator(g)[1]

    return run


@programs
def test_the_forward_phase_does_the_operations_of_the_function(name):
    """Paper 004, section 4: evaluating J f x takes the arithmetic of f x; so does J (J f) x, and so on."""
    f, x = PROGRAMS[name]
    expected, image = count(f, x), f
    for _ in range(3):
        image = J(image)
        assert count(image, x) == expected


# An operation runs once forward. On the way back each of its operands, at most two, costs one product with the partial
# derivative, and one sum if the operand has other uses: 1 + 2 · 2 for a product of two. An operation of one operand has
# a partial derivative to work out first, in at most two operations: 1 + 2 + 2. Five is the bound of Baur and Strassen,
# and of Griewank's cheap gradient principle; it holds at each level because what J gives is again such a program.
CHEAP = 5


@programs
def test_each_application_costs_a_constant_factor(name):
    f, x = PROGRAMS[name]
    counts = [count(f, x)]
    for _ in range(3):
        x = (x, jax.tree.map(lambda t: jnp.ones(t.shape, t.dtype), jax.eval_shape(f, x)))
        f = both_phases(f)
        counts.append(count(f, x))
    # The backward phase visits each operation at least once, so the factor is 2 at the least.
    assert all(2 * before <= after <= CHEAP * before for before, after in pairwise(counts)), counts


@pytest.mark.parametrize("images", [(), (1.0,), (1.0, 2.0, 3.0)])
def test_a_wrong_number_of_images_is_refused(images):
    product = lambda x, y: x * y
    for f in (product, function(product, F32, F32)):
        with pytest.raises(C.errors.DiffcurryError, match=r"x, y|f32\[\], f32\[\]|2") as caught:
            J(f)(*images)
        assert "J(f)(*images)" in str(caught.value)
