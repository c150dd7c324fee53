"""Functions that nobody looks inside: values of every kind of program, whose gradient is the list of their calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import black_box, ccc, function
from tangents import grad, represent, vjp

NUMBER = C.Tensor()
xs = jnp.array([0.1, 0.2, 0.3])


def host(x):
    assert isinstance(x, np.ndarray)
    return np.sin(x)


sine = black_box(host, NUMBER, NUMBER)


def pairs(calls):
    return sorted((float(x), float(g)) for x, g in calls)


def test_a_black_box_is_a_function_value():
    assert sine.type == C.Function(NUMBER, NUMBER)
    assert black_box(host, NUMBER, NUMBER).code is sine.code
    for value in (sine(0.5), ccc(lambda f, x: f(x))(sine, 0.5), jax.jit(lambda f: f(0.5))(sine)):
        np.testing.assert_allclose(value, np.sin(0.5), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(sine)(xs), np.sin(xs), rtol=1e-6)
    np.testing.assert_allclose(ccc(lambda f, xs: C.map(f, xs))(sine, xs), np.sin(xs), rtol=1e-6)
    fold = ccc(lambda f, xs: C.fold(function(lambda s, x: s + f(x), NUMBER, NUMBER), 0.0, xs))
    np.testing.assert_allclose(fold(sine, xs), np.sin(xs).sum(), rtol=1e-6)


def test_results_are_converted_to_the_type_that_was_stated():
    cod = {"sum": C.Tensor(2), "n": C.Tensor((), int)}
    count = black_box(lambda x, y: {"sum": [x, y], "n": 2.0}, (NUMBER, NUMBER), cod)
    result = count(1.0, 2.0)
    assert result["sum"].tolist() == [1.0, 2.0] and result["n"].dtype == jnp.int32


def test_under_vmap_the_callable_may_take_all_rows_at_once():
    sizes = []
    rows = black_box(lambda x: sizes.append(x.shape) or np.exp(x), NUMBER, NUMBER, vmap_method="expand_dims")
    calls = grad(lambda f: jnp.sum(C.map(f, xs)), functions="list")(rows)
    np.testing.assert_allclose(pairs(calls), [(x, 1.0) for x in xs], rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(rows)(xs), np.exp(xs), rtol=1e-6)
    assert set(sizes) == {(3,)}


def test_a_result_of_another_shape_is_an_error():
    wrong = black_box(lambda x: np.ones(2), NUMBER, NUMBER)
    with pytest.raises(Exception, match="another type than it says"):
        jax.block_until_ready(wrong(0.5))


@pytest.mark.parametrize("mapped", [C.map, lambda f, xs: jax.vmap(f)(xs)], ids=["map", "vmap"])
def test_the_gradient_is_the_calls(mapped):
    calls = grad(lambda f: f(0.5) ** 2 + 3.0 * f(2.0), functions="list")(sine)
    np.testing.assert_allclose(pairs(calls), [(0.5, 2 * np.sin(0.5)), (2.0, 3.0)], rtol=1e-6)
    calls = grad(lambda f, xs: jnp.sum(mapped(f, xs) ** 2), functions="list")(sine, xs)
    np.testing.assert_allclose(pairs(calls), [(x, 2 * np.sin(x)) for x in xs], rtol=1e-6)


def test_what_stands_around_a_black_box_has_its_gradient():
    for functions in ("environment", "list"):
        by_w = grad(lambda w, f, x: (w * f(x)) ** 2, functions=functions)(2.0, sine, 0.5)
        np.testing.assert_allclose(by_w, 2 * 2.0 * np.sin(0.5) ** 2, rtol=1e-6)


@pytest.mark.parametrize("functions", ["environment", "list"])
def test_the_cotangent_of_its_argument_is_refused(functions):
    with pytest.raises(C.errors.NotDifferentiableError, match="custom"):
        grad(lambda x: sine(x) ** 2, functions=functions)(0.5)


def test_its_environment_is_refused():
    asked = {
        "grad": lambda: grad(lambda f: f(0.5))(sine),
        "in a tree": lambda: grad(lambda t: t["f"](0.5) * t["w"])({"f": sine, "w": 2.0}),
        "vjp": lambda: vjp(lambda f: f(0.5), sine),
        "represent": lambda: represent(C.prod(C.id, C.const(0.5)) >> C.eval)(sine),
    }
    for ask in asked.values():
        with pytest.raises(C.errors.NotDifferentiableError, match="list"):
            ask()


def test_what_is_no_black_box_is_refused():
    with pytest.raises(C.errors.ArgumentError, match="no black box"):
        black_box(3.0, NUMBER, NUMBER)
    with pytest.raises(C.errors.ArgumentError, match="no black box"):
        black_box(host, C.Function(NUMBER, NUMBER), NUMBER)
