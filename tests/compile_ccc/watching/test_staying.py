"""What is not differentiated stays what it is: its class, its attributes and its text, as in Python."""

import json
import random
import warnings
from numbers import Integral
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from combinators.errors import ManyProgramsWarning
from combinators.memo import caches
from compile_ccc import ccc
from compile_ccc.asking.often import MANY
from tangents import grad


def matched(x, n):
    match n:
        case bool():
            return 2.0 * x
        case int():
            return 3.0 * x
        case float():
            return 4.0 * x
        case np.ndarray():
            return 5.0 * x
        case _:
            return 6.0 * x


def checked(x, n):
    if isinstance(n, bool):
        return 2.0 * x
    if isinstance(n, Integral):
        return 3.0 * x
    return 4.0 * x if isinstance(n, float) else 5.0 * x if isinstance(n, np.ndarray) else 6.0 * x


def typed(x, n):
    slopes = {bool: 2.0, int: 3.0, float: 4.0, np.ndarray: 5.0}
    return slopes[type(n)] * x if type(n) in slopes else 6.0 * x


def of_jax(x, n):
    if isinstance(n, jax.Array):
        return 6.0 * x
    return (checked if isinstance(n, np.ndarray) else matched)(x, n)


def by_its_other_name(x, n):
    return 6.0 * x if isinstance(n, jnp.ndarray) else matched(x, n)


def by_attributes(x, n):
    if not hasattr(n, "dtype"):
        return matched(x, n) if getattr(n, "ndim", None) is None else 7.0 * x
    return checked(x, n) if hasattr(n, "__len__") else 7.0 * x


KINDS = [(True, 2.0), (4, 3.0), (4.0, 4.0), (np.ones(2), 5.0), (jnp.ones(2), 6.0), (7, 3.0)]


@pytest.mark.parametrize("f", [matched, checked, typed, of_jax, by_its_other_name, by_attributes])
def test_each_call_sees_the_classes_of_its_own_arguments(f):
    derivative = grad(f)
    for n, slope in [*KINDS, *KINDS]:
        assert derivative(1.0, n) == slope
    assert grad(lambda x, tree: f(x, tree["n"][0]))(1.0, {"n": [4]}) == 3.0


def test_another_number_of_the_same_class_compiles_nothing():
    derivative = grad(checked)
    derivative(1.0, 4), derivative(1.0, 6)
    before = caches()
    assert derivative(1.0, 5) == 3.0
    assert caches() == before


def test_what_is_differentiated_is_an_array():
    f = lambda x, y: (x if isinstance(x, float) else 2.0 * x) + (y if isinstance(y, float) else 3.0 * y)
    assert [grad(f, i)(1.0, 2.0) for i in (0, 1, 0)] == [2.0, 3.0, 2.0]
    assert grad(f, (0, 1))(1.0, 2.0) == (2.0, 3.0)
    assert ccc(f)(1.0, 2.0) == 3.0


scale = 4.0


def test_captured_numbers_are_numbers():
    global scale
    rows = np.array([1.0, 2.0])
    with_default = lambda x, by=0.5: checked(x, by)
    assert grad(lambda x: checked(x, scale) + checked(x, rows) + with_default(x))(1.0) == 4.0 + 5.0 + 4.0
    derivative = grad(lambda x: checked(x, scale))
    assert derivative(1.0) == 4.0
    scale = jnp.array(4.0)
    assert derivative(1.0) == 6.0
    scale = 4.0
    assert derivative(1.0) == 4.0


@pytest.mark.parametrize(
    "inner",
    [
        lambda x, n: jax.vmap(lambda y: checked(y, n))(x * jnp.ones(2))[0],
        lambda x, n: lax.scan(lambda s, _: (checked(s, n), None), x, None, length=1)[0],
        lambda x, n: jax.jit(lambda y: checked(y, n))(x),
        lambda x, n: grad(lambda y: checked(y, n))(x) * x,
        lambda x, n: grad(lambda y, m: checked(y, m))(x, n) * x,
        lambda x, n: grad(lambda y, m: (m if isinstance(m, float) else 4.0 * m) + y, 1)(x, n) * x,
    ],
)
def test_so_it_is_further_inside(inner):
    assert grad(inner)(1.0, 4.0) == 4.0


LAYERS = {"layer1": 2.0, "layer2": 3.0}


@pytest.mark.parametrize(
    ("f", "n", "slope"),
    [
        (lambda x, n: x * LAYERS["layer" + str(n)], 2, 3.0),
        (lambda x, n: x * LAYERS["layer" + str(n + 1)], 1, 3.0),
        (lambda x, n: x * len(repr(n)), 1.25, 4.0),
        (lambda x, n: x * len(str(n)), np.array([1.0, 2.0]), 7.0),
        (lambda x, n: x * n.bit_length(), 5, 3.0),
        (lambda x, n: x * (2.0 if n.is_integer() else 3.0), 2.5, 3.0),
        (lambda x, n: x * (2.0 if hasattr(n, "is_integer") else 3.0), 2.5, 2.0),
        (lambda x, n: x * n.strides[0], np.ones(2, "int8"), 1.0),
        (lambda x, n: x * len([0.0] * n), 3, 3.0),
        (lambda x, n: x * len(json.dumps({"n": n})), 3, 8.0),
        (lambda x, n: x * (2.0 if n is True else 3.0), True, 2.0),
        (lambda x, n: x * random.Random(n).random(), 3, np.float32(random.Random(3).random())),
        (lambda x, n: x * np.random.default_rng(n).normal(), 3, np.float32(np.random.default_rng(3).normal())),
        (lambda x, n: x * int(np.datetime64(n, "D").astype(int)), 3, 3.0),
    ],
)
def test_what_only_a_value_can_do(f, n, slope):
    derivative = grad(f)
    assert derivative(1.0, n) == slope
    assert derivative(1.0, n) == slope


def test_an_error_of_the_user_is_raised_as_it_is():
    def f(x, n):
        raise LookupError(f"no {n}")

    with pytest.raises(LookupError, match="no 3"):
        grad(f)(1.0, 3)


def test_what_was_left_before_the_function_is_traced_again_is_no_tracer():
    state = SimpleNamespace(mean=jnp.zeros(2))

    def f(x, n):
        state.mean = jnp.maximum(state.mean, 1.0)
        step = lambda s, _: (s * x if n > 2 else s + x, None)
        return lax.scan(step, x, None, length=2)[0] * state.mean.sum()

    assert [grad(f)(2.0, n) for n in (3, 1)] == [2 * 3 * 2.0**2, 2 * 3.0]
    np.testing.assert_array_equal(state.mean, [1.0, 1.0])


def test_what_takes_many_values_as_code_is_said_once():
    table = {n: float(n) for n in range(40)}

    def looked_up(x, given):
        return x * table[given["n"]]

    derivative = grad(looked_up)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [derivative(1.0, {"n": n}) for n in range(MANY)] == list(range(MANY))
        assert derivative(1.0, {"n": 3}) == 3.0
    with pytest.warns(ManyProgramsWarning, match=r"^looked_up needs the value of given\['n'\] .* 24 values") as found:
        assert [derivative(1.0, {"n": n}) for n in range(MANY, 40)] == list(range(MANY, 40))
    assert len(found) == 1 and "test_staying.py" in str(found[0].message)


def test_of_what_is_captured_the_name_is_said():
    radius = 0.0
    derivative = grad(lambda x: x * {radius: 2.0}[radius])
    with pytest.warns(ManyProgramsWarning, match="needs the value of radius"):
        for step in range(MANY + 1):
            radius = float(step)
            assert derivative(1.0) == 2.0


def test_a_type_that_is_asked_for_inside_of_jit_is_that_of_the_value():
    by_type = jax.jit(lambda x: grad(lambda x, n: x * 3 if type(n) is int else x)(x, 2))
    by_array = jax.jit(lambda x: grad(lambda x, n: x * 3 if isinstance(n, jax.Array) else x)(x, 2.0))
    assert (by_type(1.0), by_array(1.0)) == (3.0, 1.0)


@pytest.mark.parametrize("call", [lambda f: grad(f)(2.0), lambda f: jax.jit(lambda x: grad(f)(x))(2.0)])
def test_an_attribute_that_is_not_there_is_missed_as_in_python(call):
    def tried(x):
        try:
            return x.values
        except AttributeError:
            return x * x

    assert call(tried) == 4.0
    assert call(lambda x: x * x if getattr(x, "values", None) is None else x) == 4.0


def test_truth_values_of_numpy_are_the_two_objects_that_they_are():
    derivative = grad(lambda x, yes: x * (2.0 if yes is np.True_ else 3.0 if yes is np.False_ else 4.0))
    for yes, slope in [(np.True_, 2.0), (np.False_, 3.0), (True, 4.0), (np.True_, 2.0)]:
        assert derivative(1.0, yes) == slope
        assert jax.jit(lambda x, yes=yes: derivative(x, yes))(1.0) == slope


def test_the_exception_of_a_user_holds_values():
    def checked_shape(x, n):
        if n != 2:
            raise LookupError(x.shape, n)
        return x * n

    assert grad(checked_shape)(1.0, 2) == 2.0
    with pytest.raises(LookupError) as found:
        grad(checked_shape)(1.0, 3)
    assert found.value.args == ((), 3) and "Tracer" not in str(found.value)
