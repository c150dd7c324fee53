"""Functions as values: they leave compiled code, enter it again, pass through JAX, and are trained."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
from tangents import grad, value_and_grad

F32 = C.Tensor()
xs = np.array([0.5, -1.0, 2.0], np.float32)


@ccc
def make(a):
    return function(lambda x: jnp.sin(a * x), F32)


@ccc
def call(f, x):
    return f(x)


def line(w, b):
    return function(lambda x: w * x + b, F32)


@ccc
def fold(f, s, xs):
    return lax.scan(lambda s, x: (f(s, x), None), s, xs)[0]


# Leaving and entering compiled code


MAKERS = {"an arrow": make, "a jitted arrow": jax.jit(make), "a jitted function": jax.jit(lambda a: make(a))}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_function_leaves_compiled_code(maker):
    """sin (a x) at a = 2, x = 3, and both its derivatives: case A3 of the users' problems."""
    f = MAKERS[maker](2.0)
    assert float(f(3.0)) == pytest.approx(np.sin(6), rel=1e-6)
    for caller in (call, jax.jit(call), jax.jit(lambda f, x: f(x))):
        assert float(caller(f, 3.0)) == pytest.approx(np.sin(6), rel=1e-6)
    by_f, by_x = grad(call, (0, 1))(f, 3.0)
    assert [float(g) for g in jax.tree.leaves(by_f)] == [pytest.approx(3 * np.cos(6), rel=1e-5)]
    assert float(by_x) == pytest.approx(2 * np.cos(6), rel=1e-5)
    through = grad(lambda a, x: MAKERS[maker](a)(x), (0, 1))(2.0, 3.0)
    assert [float(g) for g in through] == [
        pytest.approx(3 * np.cos(6), rel=1e-5),
        pytest.approx(2 * np.cos(6), rel=1e-5),
    ]


def test_functions_in_data_leave_and_enter():
    Optimiser = namedtuple("Optimiser", "init update")
    sgd = ccc(lambda rate: Optimiser(function(lambda w: w, F32), function(lambda g, w: w - rate * g, F32, F32)))

    def train(optimiser, w):
        w = optimiser.init(w)
        for _ in range(5):
            w = optimiser.update(8.0 * w - 12.0, w)  # the gradient of (2 w - 3)²
        return w

    # w = 1.5 + (1 - 8 r)⁵ (w₀ - 1.5), so at r = 0.05, w₀ = 1 the derivative by r is 2.592: case A11
    assert float(ccc(train)(sgd(0.05), 1.0)) == pytest.approx(1.5 - 0.5 * 0.6**5)
    assert float(grad(lambda rate: train(sgd(rate), 1.0))(0.05)) == pytest.approx(2.592, rel=1e-4)


def test_a_curried_function_leaves_compiled_code():
    add3 = ccc(lambda a: function(lambda b: function(lambda c: a + b * c, F32), F32))
    assert float(add3(1.0)(2.0)(3.0)) == 7.0


def test_a_composition_leaves_compiled_code():
    compose = ccc(lambda f, g: function(lambda x: f(g(x)), F32))
    assert float(compose(line(2.0, 1.0), line(3.0, 0.0))(5.0)) == 31.0


def scaled(f, by):
    """f with what it captured, deep inside as well, multiplied by a number."""
    return jax.tree.map(lambda leaf: by * leaf, f)


INNER = (lambda w: function(lambda x: w * jnp.sin(x), F32))(3.0)
MADE_OF_ARRAYS = {  # functions whose value at x is proportional to the n-th power of what scales all that they captured
    "over numbers": (INNER, 1),
    "over a function": (function(lambda x: INNER(x) * 2.0 + INNER(x), F32), 1),
    "over a record": ((lambda p: function(lambda x: p["w"] * jnp.sin(x) + p["b"][0], F32))({"w": 3.0, "b": [2.0]}), 1),
    "over no context": (C.curry(C.primitive("mul"), F32)(3.0), 1),
    "over a pair of functions": (
        C.curry(C.prod(C.proj(0) >> C.proj(0), C.proj(1)) >> C.eval, F32)((INNER, INNER)),
        1,
    ),
    "over a function and a number": ((lambda w: function(lambda x: w * INNER(x), F32))(jnp.float32(0.5)), 2),
}


@pytest.mark.parametrize("name", MADE_OF_ARRAYS)
def test_a_closure_that_is_made_of_the_arrays_of_a_trace_leaves_it(name):
    """Its code is known, and it is no function of the program before it is returned."""
    f, power = MADE_OF_ARRAYS[name]
    leaves, form = jax.tree.flatten(f)
    make = lambda by: scaled(form.unflatten(leaves), by)
    made, by, x = ccc(make)(2.0), 2.0, 0.5
    assert isinstance(made, C.Closure) and made.type == f.type
    if isinstance(f.environment, C.Context) and len(leaves) == len(f.environment):
        assert made.code is f.code
    expected = float(f(x)) * by**power
    assert float(made(x)) == pytest.approx(expected)
    assert float(ccc(lambda by: {"f": ccc(make)(by)})(by)["f"](x)) == pytest.approx(expected)
    slope = grad(lambda by: ccc(make)(by)(x))
    assert float(slope(by)) == pytest.approx(float(f(x)) * power * by ** (power - 1))
    total = C.fold(function(lambda s, by: s + make(by)(x), F32, F32), 0.0, jnp.full(3, by))
    assert float(total) == pytest.approx(3 * expected)


def test_a_function_of_arrays_keeps_its_type():
    f = function(lambda p, x: p["W"] @ x, {"W": C.Tensor((2, 3))}, C.Tensor((3,)))
    assert f.type == C.Function(({"W": C.Tensor((2, 3))}, C.Tensor((3,))), C.Tensor((2,)))
    assert make(2.0).type == C.Function(F32, F32)


# Through JAX


THROUGH_JAX = {
    "jit": lambda f: jax.jit(lambda f: f)(f),
    "tree.map": lambda f: jax.tree.map(lambda leaf: leaf, f),
    "flatten": lambda f: jax.tree.unflatten(jax.tree.structure(f), jax.tree.leaves(f)),
    "checkpoint": lambda f: jax.checkpoint(lambda f: f)(f),
    "scan carry": lambda f: lax.scan(lambda f, _: (f, None), f, None, length=3)[0],
    "while carry": lambda f: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1]), (0, f))[1],
    "cond": lambda f: lax.cond(True, lambda f: f, lambda f: f, f),
    "an arrow": lambda f: ccc(lambda f: f)(f),
    "an arrow, in data": lambda f: ccc(lambda d: {"g": d["f"]})({"f": f})["g"],
}


@pytest.mark.parametrize("name", THROUGH_JAX)
def test_a_function_passes_through(name):
    f = line(jnp.float32(2), jnp.float32(1))
    through = THROUGH_JAX[name](f)
    assert float(through(3.0)) == float(call(through, 3.0)) == 7.0


def test_an_array_of_functions_is_a_function_with_arrays():
    fs = jax.vmap(lambda w: line(w, 1.0))(xs)
    np.testing.assert_allclose(np.asarray(jax.vmap(lambda f: f(3.0))(fs)), 3 * xs + 1)
    np.testing.assert_allclose(np.asarray(jax.vmap(call, (0, None))(fs, 3.0)), 3 * xs + 1)
    np.testing.assert_allclose(np.asarray(jax.vmap(call, (None, 0))(line(2.0, 1.0), xs)), 2 * xs + 1)


def test_functions_are_elements_and_state_of_a_scan():
    """tanh (w x + b) for each of three layers in turn: case D3; and a function as state: case D1."""
    layers = jax.vmap(lambda w, b: function(lambda x: jnp.tanh(w * x + b), F32))(xs, xs + 1)
    through = lambda layers, x: lax.scan(lambda x, f: (f(x), None), x, layers)[0]
    expected = 0.9
    for w, b in zip(xs, xs + 1, strict=True):
        expected = np.tanh(w * expected + b)
    assert float(through(layers, 0.9)) == pytest.approx(float(expected), rel=1e-5)

    def train(w):
        def step(f, _):
            by_w = jax.grad(lambda f: (f(2.0) - 3.0) ** 2)(f)
            return jax.tree.map(lambda p, g: p - 0.05 * g, f, by_w), None

        return lax.scan(step, function(lambda x: w * x, F32), None, length=5)[0](1.0)

    assert float(jax.jit(train)(1.0)) == pytest.approx(1.5 - 0.5 * 0.6**5, rel=1e-5)
    assert float(jax.grad(train)(1.0)) == pytest.approx(0.6**5, rel=1e-4)


# Training functions


def test_the_gradient_by_a_function_is_a_function():
    """(w 2 + b)² by {w, b} at w = 1.5, b = -0.5 is {10, 5}: case A9 of the users' problems."""
    w, b = 1.5, -0.5
    value, g = value_and_grad(lambda f: f(2.0) ** 2)(function(lambda x: w * x + b, F32))
    assert float(value) == 6.25
    assert [float(leaf) for leaf in jax.tree.leaves(g)] == [10.0, 5.0]


def test_optax_trains_a_function(compilations):
    f, target = line(jnp.float32(0), jnp.float32(0)), 3 * xs - 1
    loss = lambda f, xs, ys: jnp.mean((jax.vmap(f)(xs) - ys) ** 2)
    optimiser = optax.adam(0.3)

    @jax.jit
    def step(f, state):
        value, g = value_and_grad(loss)(f, xs, target)
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps by an int32
            updates, state = optimiser.update(g, state, f)
        return optax.apply_updates(f, updates), state, value

    state = optimiser.init(f)
    f, state, first = step(f, state)
    compilations.new()
    for _ in range(200):
        f, state, value = step(f, state)
    assert compilations.new() == 0
    assert float(value) < 1e-4 < float(first)
    np.testing.assert_allclose([float(f(0.0)), float(f(1.0))], [-1.0, 2.0], atol=0.05)
