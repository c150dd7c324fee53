"""Python asks for values that function values give: they are worked out for the functions of this call."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators.errors import TracedBranchError
from combinators.memo import caches
from compile_ccc import ccc, function
from tangents import grad, jvp

NUMBER = C.Tensor()


def line(w):
    return function(lambda x: w * x, NUMBER)


def shifted(w):
    return function(lambda x: x - w, NUMBER)


def squared_if_positive(f, x):
    return f(x) ** 2 if f(x) > 0 else 5.0 * f(x)


@pytest.mark.parametrize("functions", ["environment", "list"])
def test_by_a_function_value(functions):
    derivative = grad(squared_if_positive, functions=functions)
    for w, x, slope in [(3.0, 2.0, 2 * 3.0 * 2.0**2), (-3.0, 2.0, 5 * 2.0), (2.0, -1.0, -5.0), (4.0, 1.0, 8.0)]:
        g = derivative(line(w), x)
        by_w = g.environment[0] if functions == "environment" else sum(given * y for y, given in g)
        assert by_w == slope


def test_each_call_asks_its_own_function():
    derivative = grad(squared_if_positive, 1)
    calls = [(line(3.0), 2 * 9 * 2.0), (shifted(3.0), 5.0), (shifted(1.0), 2.0), (line(-1.0), -5.0)]
    for f, slope in [*calls, *calls]:
        assert derivative(f, 2.0) == slope
    before = caches()
    assert derivative(shifted(0.5), 2.0) == 3.0
    assert caches() == before
    assert ccc(squared_if_positive)(line(3.0), 2.0) == 36.0
    assert jvp(squared_if_positive, (line(3.0), 2.0), (line(0.0), 1.0))[1] == 36.0


def test_by_functions_that_are_captured_or_made_in_the_program():
    f = line(3.0)
    assert grad(lambda x: squared_if_positive(f, x))(2.0) == 36.0
    assert grad(lambda x: squared_if_positive(line(x), x))(2.0) == 4 * 2.0**3
    twice = lambda g: function(lambda y: g(g(y)), NUMBER)
    assert grad(lambda x: squared_if_positive(twice(line(x)), 3.0))(2.0) == 4 * 2.0**3 * 9
    apply = function(lambda g, y: g(y), C.Function(NUMBER, NUMBER), NUMBER)
    assert grad(lambda h, x: x * x if h(f, x) > 0 else x, 1)(apply, 2.0) == 4.0


def test_numbers_and_shapes_of_results():
    steps = lambda f, x: x * sum(range(int(f(x))))
    assert [grad(steps, 1)(line(w), 2.0) for w in (2.0, 1.0, 2.0)] == [6.0, 1.0, 6.0]
    pair = function(lambda x: {"a": x, "b": jnp.stack([x, -x])}, NUMBER)
    assert grad(lambda x: jnp.sum(pair(x)["b"][np.asarray(pair(x)["b"] > 0)]))(2.0) == 1.0


def test_where_functions_are_not_known_it_is_refused():
    for run in (
        lambda: jax.jit(grad(squared_if_positive, 1))(line(3.0), 2.0),
        lambda: jax.vmap(lambda x: grad(squared_if_positive, 1)(line(3.0), x))(jnp.ones(2)),
        lambda: ccc(squared_if_positive).trace(C.Function(NUMBER, NUMBER), NUMBER),
        lambda: grad(lambda f: jnp.sum(jax.vmap(lambda x: squared_if_positive(f, x))(jnp.ones(2))))(line(3.0)),
    ):
        with pytest.raises(TracedBranchError, match=r"f\(x\) > 0"):
            run()
