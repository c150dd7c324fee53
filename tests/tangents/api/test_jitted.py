"""`jit` of `tangents.as_jax`: JAX's, of functions that take Python functions and give them."""

from collections import namedtuple
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from combinators.errors import UntypedFunctionError
from tangents import as_jax as jax
from tangents import grad

Optimiser = namedtuple("Optimiser", "start step")


def test_a_function_comes_out_of_compiled_code():
    make = jax.jit(lambda a: lambda x: jnp.sin(a * x))
    np.testing.assert_allclose(make(2.0)(3.0), np.sin(6), rtol=1e-6)
    slopes = jax.grad(lambda a, x: make(a)(x), (0, 1))(2.0, 3.0)
    np.testing.assert_allclose(slopes, (3 * np.cos(6), 2 * np.cos(6)), rtol=1e-5)


def test_a_record_of_functions_goes_into_compiled_code():
    @jax.jit
    def train(optimiser, w):
        w = optimiser.start(w)
        for _ in range(3):
            w = optimiser.step(jax.grad(lambda w: (2.0 * w - 3.0) ** 2)(w), w)
        return w

    descent = lambda rate: Optimiser(lambda w: w, lambda g, w: w - rate * g)
    trained = lambda rate: train(descent(rate), 1.0)
    left = 1 - 8 * 0.05  # of the distance from 3/2, in each step
    np.testing.assert_allclose(trained(0.05), 1.5 - 0.5 * left**3, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(trained)(0.05), 0.5 * 3 * left**2 * 8, rtol=1e-5)


def test_a_fresh_function_of_one_code_is_traced_once():
    traced = []

    @jax.jit
    def call(f, x):
        traced.append(f)
        return f(x)

    assert [float(call(lambda x, a=a: a * x, 2.0)) for a in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
    assert len(traced) == 1
    assert [float(call(lambda x, n=n: x**n, 2.0)) for n in (2, 3)] == [4.0, 8.0]  # an int is code
    assert len(traced) == 3


def test_static_arguments_are_static():
    seen = []

    def f(g, h, x, n=1):
        seen.append(g)
        return n * g(h(x))

    two, half = 2.0, 0.5
    double = lambda x: two * x
    halve = lambda x: half * x
    assert jax.jit(f, static_argnums=0, static_argnames="n")(double, halve, 3.0, n=4) == 12.0
    assert jax.jit(f, static_argnames=("g", "n"))(double, h=halve, x=3.0, n=4) == 12.0
    assert jax.jit(static_argnums=(-4,))(f)(double, halve, 3.0, 4) == 12.0
    assert seen == [double] * 3


def test_it_is_what_jit_is_for_all_else():
    class Model:
        @partial(jax.jit, static_argnums=0)
        def scaled(self, x):
            """x, doubled."""
            return 2.0 * x

    assert Model().scaled(3.0) == 6.0 and Model.scaled.__doc__ == "x, doubled."
    f = jax.jit(lambda x: x + 1.0)
    assert f.lower(1.0).compile()(1.0) == 2.0 and f.eval_shape(jnp.ones(2)).shape == (2,)
    with pytest.raises(TypeError, match="concatenate"):
        jax.jit(lambda f, x: f(x) + "a")(lambda x: [x], 1.0)
    with pytest.raises(TypeError, match="callable"):
        jax.jit(3)


def test_jaxs_own_jit_is_told_what_to_write():
    make = jax.checkpoint(lambda a: lambda x: a * x)
    with pytest.raises(UntypedFunctionError, match=r"function\(f, domain\)") as found:
        grad(lambda a: make(a)(3.0))(2.0)
    assert found.value.line.startswith("test_jitted.py:")
