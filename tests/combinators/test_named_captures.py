"""What a closure captured, and its cotangent, by the names of the variables."""

import jax
import jax.numpy as jnp
import pytest

import combinators as C
from compile_ccc import ccc, function
from tangents import grad

NUMBER = C.Tensor()


def line(slope, offset):
    return function(lambda x: slope * x + offset, NUMBER)


def test_captured_values_and_their_cotangents_have_the_names_of_the_variables():
    f = line(3.0, 1.0)
    assert f.captured == {"slope": 3.0, "offset": 1.0}
    assert f.gradient(grad(lambda f: f(2.0) ** 2)(f)) == {"slope": 28.0, "offset": 14.0}


def test_containers_give_the_names_of_their_parts():
    params = {"w": jnp.ones(2), "b": 2.0}
    f = function(lambda x: jnp.dot(params["w"], x) + params["b"], C.Tensor(2))
    assert set(f.captured) == {"w", "b"}
    assert f.gradient(grad(lambda f: f(jnp.arange(2.0)))(f))["w"].tolist() == [0.0, 1.0]


def test_two_variables_of_one_name_are_told_apart():
    first, second = {"w": 2.0}, {"w": 3.0}
    assert function(lambda x: first["w"] * x + second["w"], NUMBER).captured == {"w": 2.0, "w1": 3.0}


def test_functions_of_other_names_have_one_code_and_keep_their_names():
    def scaled(factor):
        return function(lambda x: factor * x, NUMBER)

    def weighted(weight):
        return function(lambda x: weight * x, NUMBER)

    f, g = scaled(2.0), weighted(3.0)
    assert f.code is g.code and jax.tree.structure(f) == jax.tree.structure(g)
    assert f.captured == {"factor": 2.0} and g.captured == {"weight": 3.0}
    doubled = jax.tree.map(lambda w: 2 * w, f)
    assert doubled.captured == {"factor": 4.0} and f.gradient(g) == {"factor": 3.0}


def test_names_compile_nothing_anew(compilations):
    def scaled(factor):
        return function(lambda x: factor * x, NUMBER)

    def weighted(weight):
        return function(lambda x: weight * x, NUMBER)

    at_ten = jax.jit(lambda f: f(10.0))
    at_ten(scaled(2.0))
    compilations.new()
    tripled = at_ten(weighted(3.0))
    assert compilations.new() == 0 and tripled == 30.0


def test_functions_that_a_program_makes_have_names():
    make = ccc(lambda w: function(lambda x: w * x, NUMBER))
    assert make(2.0).captured == {"w": 2.0}
    assert jax.jit(lambda w: make(w))(2.0).captured == {"w": 2.0}


def test_a_captured_function_is_one_entry():
    inner = line(3.0, 1.0)
    outer = function(lambda x: inner(inner(x)), NUMBER)
    assert set(outer.captured) == {"inner"} and outer.captured["inner"].captured == inner.captured
    g = outer.gradient(grad(lambda f: f(1.0))(outer))["inner"]
    assert inner.gradient(g) == {"slope": 7.0, "offset": 4.0}


def test_codes_without_names_go_by_position():
    code = C.curry(C.prod(C.proj(0), C.proj(2)) >> C.primitive("sub"))
    f = C.Closure(code, C.Context(5.0, 6.0))
    assert f.captured == {0: 5.0, 1: 6.0}


def test_a_cotangent_of_another_function_is_refused():
    f = line(3.0, 1.0)
    for other in (function(lambda x: x, NUMBER), grad(lambda f: f(2.0), functions="list")(f)):
        with pytest.raises(C.errors.ArgumentError, match="no cotangent"):
            f.gradient(other)
