"""First-class functions cost nothing at run time: gradients have no more equations than where they are inlined by hand.

Each program passes functions around; beside it stands what it does, without functions, differentiated by JAX and by us.
Equations are counted with calls inlined and without dead code.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from benchmarks.equations import equations
from compile_ccc import ccc, function
from tangents import grad, value_and_grad

S, V = C.Tensor(), C.Tensor(3)
w, x, xs = np.float32(1.3), np.float32(0.7), np.array([0.5, -1.0, 2.0], np.float32)


def composed(*fs):
    def run(x):
        for f in fs:
            x = f(x)
        return x

    return function(run, S)


def curried(w, x):
    """A function that returns functions, applied twice, stored in a list and composed."""
    line = lambda a: function(lambda b: function(lambda x: jnp.tanh(a * x + b), S), S)
    layers = [line(w)(b) for b in (x, 0.5, w * x)]
    return composed(*layers)(x)


def curried_by_hand(w, x):
    y = jnp.tanh(w * x + x)
    y = jnp.tanh(w * y + 0.5)
    return jnp.tanh(w * y + w * x)


def fold_of_a_function_that_captures(w, xs):
    step = function(lambda s, x: jnp.tanh(w * s + x), S, S)
    return C.fold(step, 0.0, xs)


def fold_by_hand(w, xs):
    return lax.scan(lambda s, x: (jnp.tanh(w * s + x), None), 0.0, xs)[0]


def twice_of_an_argument(w, x):
    twice = function(lambda f: function(lambda x: f(f(x)), S), C.Function(S, S))
    return twice(twice(function(lambda x: jnp.sin(w * x), S)))(x)


def four_times_by_hand(w, x):
    for _ in range(4):
        x = jnp.sin(w * x)
    return x


def map_and_reduce(w, xs):
    weigh = lambda f, g: function(lambda x: f(x) * g(x), S)
    f, g = function(lambda x: jnp.exp(w * x), S), function(lambda x: w + x, S)
    return jnp.sum(C.map(weigh(f, g), xs))


def map_by_hand(w, xs):
    return jnp.sum(jnp.exp(w * xs) * (w + xs))


def a_gradient_of_an_argument(w, x):
    descend = lambda f, x: x - 0.1 * grad(f)(x)
    return ccc(descend)(function(lambda x: jnp.sin(w * x) * x, S), x)


def gradient_by_hand(w, x):
    return x - 0.1 * (jnp.sin(w * x) + jnp.cos(w * x) * w * x)


PROGRAMS = [
    (curried, curried_by_hand, x),
    (fold_of_a_function_that_captures, fold_by_hand, xs),
    (twice_of_an_argument, four_times_by_hand, x),
    (map_and_reduce, map_by_hand, xs),
    (a_gradient_of_an_argument, gradient_by_hand, x),
]


@pytest.mark.parametrize(("program", "by_hand", "argument"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_a_gradient_has_no_more_equations_than_that_of_the_inlined_program(program, by_hand, argument):
    found, expected = value_and_grad(program, (0, 1)), jax.value_and_grad(by_hand, (0, 1))
    with jax.numpy_dtype_promotion("standard"):
        np.testing.assert_allclose(found(w, argument)[0], expected(w, argument)[0], rtol=1e-6)
        for g, h in zip(found(w, argument)[1], expected(w, argument)[1], strict=True):
            np.testing.assert_allclose(g, h, rtol=1e-5)
        count = lambda f: equations(jax.make_jaxpr(f)(w, argument).jaxpr)
        ours, hand, ours_by_hand = map(count, (found, expected, value_and_grad(by_hand, (0, 1))))
    assert ours <= hand, (ours, hand, ours_by_hand)
    assert ours <= ours_by_hand, (ours, hand, ours_by_hand)
