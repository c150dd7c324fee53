"""Auxiliary results, which Python has from where the function has them: what no program computes is what it was."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tangents import grad, hessian, jacobian, jvp, linearize, value_and_grad, vjp

RATE, TABLE, LEVELS = 0.1, np.arange(3.0), [1.5, 2.5]


def loss(x):
    return x * RATE * LEVELS[0], {"rate": RATE, "table": TABLE, "level": LEVELS[0], "computed": x * RATE}


DERIVATIVES = {
    "grad": lambda f, x: grad(f, has_aux=True)(x)[1],
    "value_and_grad": lambda f, x: value_and_grad(f, has_aux=True)(x)[0][1],
    "vjp": lambda f, x: vjp(f, x, has_aux=True)[2],
    "jvp": lambda f, x: jvp(f, (x,), (1.0,), has_aux=True)[2],
    "linearize": lambda f, x: linearize(f, x, has_aux=True)[2],
    "jacobian": lambda f, x: jacobian(f, has_aux=True)(x)[1],
    "hessian": lambda f, x: hessian(f, has_aux=True)(x)[1],
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_captured_values_are_the_objects_that_were_captured(name):
    aux = DERIVATIVES[name](loss, 2.0)
    assert type(aux["rate"]) is float and aux["rate"] == 0.1  # and not the next number of 32 bits
    assert aux["table"] is TABLE and type(aux["level"]) is float
    np.testing.assert_allclose(aux["computed"], 0.2, rtol=1e-6)


def test_captured_values_are_those_of_each_call():
    levels, kept = [1.5, 2.5], {"rate": 0.25}
    derivative = grad(lambda x: (x * levels[0] * kept["rate"], (levels[0], kept["rate"])), has_aux=True)
    for level, rate in ((1.5, 0.25), (0.1, 0.7), (1.5, 0.3)):
        levels[0], kept["rate"] = level, rate
        slope, aux = derivative(3.0)
        np.testing.assert_allclose(slope, level * rate, rtol=1e-6)
        assert aux == (level, rate)


def test_what_the_function_has_changed_by_then_is_what_it_was():
    levels = [1.5, 2.5]

    def turned(x):
        first = levels[0]
        levels[0] = levels[1]
        levels[1] = first
        return x * first, (first, levels[0])

    def raised(x):
        old = levels[0]
        levels[0] = old + 1.0
        return x * old, (old, levels[0])

    assert [tuple(map(float, grad(turned, has_aux=True)(2.0)[1])) for _ in range(2)] == [(1.5, 2.5), (2.5, 1.5)]
    assert levels == [1.5, 2.5]
    assert [tuple(map(float, grad(raised, has_aux=True)(2.0)[1])) for _ in range(2)] == [(1.5, 2.5), (2.5, 3.5)]


def test_captured_values_of_a_program_around_are_its_own():
    of = lambda c: grad(lambda x: (x * c, c), has_aux=True)(2.0)
    slopes, aux = jax.vmap(of)(jnp.arange(3.0))
    np.testing.assert_array_equal(slopes, [0, 1, 2])
    np.testing.assert_array_equal(aux, [0, 1, 2])
    assert grad(lambda c: of(c)[1] ** 2)(3.0) == 6.0
    assert jax.jit(of)(4.0) == (4.0, 4.0)


def test_arguments_by_name():
    def f(x, scale, mode="mean", *, words=()):
        return x * scale, {"scale": scale, "mode": mode, "words": words, "class": type(mode), "value": x * scale}

    derivative = grad(f, has_aux=True)
    for given, scale, mode, words in (
        ({"scale": 3.0}, 3.0, "mean", ()),
        ({"scale": 3, "mode": "sum"}, 3, "sum", ()),
        ({"scale": 0.1, "words": ("a", 0.7)}, 0.1, "mean", ("a", 0.7)),
    ):
        slope, aux = derivative(2.0, **given)
        np.testing.assert_allclose([slope, aux.pop("value")], [scale, 2.0 * scale], rtol=1e-6)
        assert type(aux["scale"]) is type(scale)
        assert aux == {"scale": scale, "mode": mode, "words": words, "class": str}
