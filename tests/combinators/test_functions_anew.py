"""Functions made anew: one code compiles once, and what a function reaches is read at each call."""

import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import ccc, function
from tangents import grad, value_and_grad
from tests.combinators.test_functions import call, fold, line

F32 = C.Tensor()
xs = np.array([0.5, -1.0, 2.0], np.float32)


def module(source):
    """The names of a module with this source."""
    names = {"jnp": jnp}
    exec(source, names)
    return names


# Compiled once


def test_an_equal_function_made_anew_compiles_nothing(compilations):
    """Sum of a x at x = 2 for five functions: case A4 of the users' problems."""
    numbers = [jnp.float32(a) for a in (1, 2, 3, 4, 5)]
    fresh = lambda a: function(lambda x: a * x, F32)
    two = jnp.float32(2)
    for a in numbers[:2]:
        call(function(lambda x, a=a: x - a, F32), two)  # other code: JAX compiles its own conversion once in a process
    results = [call(fresh(numbers[0]), two)]
    compilations.new()
    results += [call(fresh(a), two) for a in numbers[1:]]
    assert compilations.new() == 0
    assert [float(r) for r in results] == [2.0, 4.0, 6.0, 8.0, 10.0]


def test_the_gradient_by_each_of_five_functions():
    a = np.arange(1.0, 6.0, dtype=np.float32)
    loss = lambda a: sum(call(function(lambda x, k=k: a[k] * x, F32), 2.0) for k in range(5))
    value, g = value_and_grad(loss)(a)
    assert float(value) == 30.0
    np.testing.assert_array_equal(np.asarray(g), np.full(5, 2.0))


WAYS = {
    "as an arrow": lambda f, x: ccc(f)(x),
    "as a function value": lambda f, x: function(f, F32)(x),
    "as an argument": lambda f, x: call(function(f, F32), x),
    "under grad": lambda f, x: grad(f)(x) * x,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_old_capture_is_used_and_nothing_compiles(way, compilations):
    run, x = WAYS[way], jnp.float32(2)
    closure = lambda w: lambda x: w * x
    assert float(run(closure(jnp.float32(3)), x)) == 6.0
    w = jnp.float32(5)
    compilations.new()
    again = run(closure(w), x)
    assert compilations.new() == 0
    assert float(again) == 10.0


@pytest.mark.parametrize("way", WAYS)
def test_globals_are_read_anew(way, compilations):
    run, x = WAYS[way], jnp.float32(2)
    names = module("w = 3.0\ndef f(x):\n    return w * x")
    assert float(run(names["f"], x)) == 6.0
    compilations.new()
    names["w"] = 5.0
    again = run(names["f"], x)
    assert compilations.new() == 0
    assert float(again) == 10.0
    other = module("w = 7.0\ndef f(x):\n    return w * x")
    assert float(run(other["f"], x)) == 14.0


def test_another_code_or_type_compiles(compilations):
    call(line(1.0, 2.0), 3.0)
    compilations.new()
    call(function(lambda x: x * x, F32), 3.0)
    assert compilations.new() > 0
    call(function(lambda x: x * x, C.Tensor((3,))), jnp.ones(3))
    assert compilations.new() > 0


def test_a_fresh_closure_in_a_loop_is_traced_once():
    """scan of c, x ↦ c + k over five elements for each k: case D5 of the users' problems."""
    traced = 0

    def run(k):
        def body(c, x):
            nonlocal traced
            traced += 1
            return c + k

        return fold(function(body, F32, F32), 0.0, jnp.arange(5.0))

    assert [float(run(k)) for k in (0.1, 0.2, 0.3)] == [pytest.approx(5 * k) for k in (0.1, 0.2, 0.3)]
    assert traced == 1
    g = grad(lambda ks: sum(run(ks[i]) for i in range(3)))(xs)
    np.testing.assert_allclose(np.asarray(g), np.full(3, 5.0))


# What a program reaches is read anew at each call


class Scaled:
    def __init__(self, scale):
        self.scale = scale

    def loss(self, x):
        return self.scale * x * x


def test_the_attributes_of_an_object_are_read_anew():
    net = Scaled(2.0)
    assert grad(net.loss)(1.0) == 4.0
    net.scale = 10.0
    assert grad(net.loss)(1.0) == 20.0


def test_the_items_of_a_global_container_are_read_anew():
    namespace = {"table": {"rate": 2.0}}
    exec("scaled = lambda x: table['rate'] * x", namespace)
    arrow = ccc(namespace["scaled"])
    assert arrow(1.0) == 2.0
    namespace["table"]["rate"] = 3.0
    assert arrow(1.0) == 3.0


def test_a_captured_array_of_numpy_counts_as_it_was_when_the_function_was_made():
    weighted = lambda b: function(lambda x: jnp.sum(jnp.asarray(b, jnp.float32) * x), C.Tensor())
    for dtype in (np.float32, np.int32):
        array = np.array([1, 2, 3], dtype)
        first = weighted(array)
        array[:] = 10
        assert first(1.0) == 6.0
        assert weighted(np.array([1, 2, 3], dtype))(1.0) == 6.0


def test_a_constant_counts_as_it_was_when_it_was_made():
    array = np.ones(2, np.float32)
    term = C.const({"w": array})
    array[:] = 7
    assert C.const({"w": np.ones(2, np.float32)}) is term
    assert term(0.0)["w"].tolist() == [1.0, 1.0]
