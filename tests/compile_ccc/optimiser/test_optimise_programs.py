"""Programs that are optimised keep their meaning and their pullbacks, and never cost more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function, lower, optimise, trace
from tangents import READINGS
from tangents.checking.laws import observation
from tests.executed import costs_no_more, counting

R = C.Tensor()


@pytest.fixture(scope="module")
def executed():
    with counting() as count:
        yield count


def twice(f):
    return function(lambda y: f(f(y)), R)


def nested(x, k):
    step = function(lambda y: y + k * y * y, R)
    return twice(twice(step))(x)


def curried(x, y):
    area = function(lambda a: function(lambda b: jnp.sin(a) * b + x, R), R)
    return area(x)(y) + area(y)(x)


def captured_twice(x):
    inner = function(lambda t: t * x, R)
    outer = function(lambda t: inner(t) + inner(x), R)
    return outer(x) * inner(2.0)


def dead(x):
    unused, _ = jnp.exp(x) * 2.0, function(lambda t: jnp.log(t), R)(x)
    jnp.cos(unused)
    return jnp.sin(x)


def recurrent(params, xs):
    cell = function(lambda s, x: jnp.tanh(params["keep"] * s + params["read"] * x), R, R)
    return C.fold(cell, 0.0, xs)


def running(x, xs):
    return lax.scan(lambda s, y: (s * x + y, jnp.sin(s)), x, xs)


def loops(x, xs):
    return lax.scan(lambda s, row: (s + jnp.sum(jax.vmap(function(lambda y: y * s, R))(row)), None), x, xs)[0]


def rows(x, xs):
    return jax.vmap(lambda y: function(lambda t: t * y * x, R)(y))(xs)


three = 3.0
xs = np.array([0.3, -0.7, 1.1], np.float32)
two = np.float32(1.3), np.float32(-0.4)
by_three = function(lambda t: three * t, R)
PROGRAMS = {
    "application": (lambda x: function(lambda t: x * t + 1.0, R)(jnp.sin(x)), two[:1]),
    "nested": (nested, two),
    "curried": (curried, two),
    "captured twice": (captured_twice, two[:1]),
    "dead code": (dead, two[:1]),
    "captured number": (lambda x: three * x, two[:1]),
    "data": (lambda p, x: {"s": p["a"] * x, "t": (p["b"], x)}, ({"a": two[0], "b": xs, "c": xs}, two[1])),
    "function argument": (lambda f, x: f(f(x)) + f(x), (by_three, two[0])),
    "function result": (lambda x: function(lambda t: t * x, R), two[:1]),
    "unused argument": (lambda x: function(lambda t: x, R)(jnp.exp(x)), two[:1]),
    "recurrent": (recurrent, ({"keep": two[0], "read": two[1]}, xs)),
    "scan": (running, (two[0], xs)),
    "scan without its outputs": (lambda x, xs: running(x, xs)[0], (two[0], xs)),
    "vmap of a function": (lambda f, xs: jax.vmap(f)(xs), (by_three, xs)),
    "vmap of nested functions": (rows, (two[0], xs)),
    "vmap in a scan": (loops, (two[0], np.stack([xs, xs]))),
    "vmap of the identity": (lambda xs: jax.vmap(function(lambda x: x, R))(xs), (xs,)),
}  # fmt: skip
HAVE_LOOPS = {name for name in PROGRAMS if any(word in name for word in ("scan", "vmap", "recurrent"))}


def one(arguments):
    return arguments[0] if len(arguments) == 1 else arguments


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, executed):
    program, arguments = PROGRAMS[name]
    traced, x = trace(program, *arguments), one(arguments)
    optimised = optimise(traced.term)
    assert optimise(optimised) is optimised
    assert costs_no_more(executed, optimised, traced.term, x)
    found = C.equal(traced.term, optimised, traced.domain)
    assert found.verdict is True or (name in HAVE_LOOPS and found.verdict is None)
    observed = observation(traced.codomain, ones)
    for reading in READINGS.values():
        sides = (reading.cases(C.compose(term, observed), x) for term in (traced.term, optimised))
        assert reading.compare(*sides, C.infer(observed, traced.codomain), ones) is None
    got, expected = lower(traced.term)(*arguments), ccc(program)(*arguments)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), got, expected)


def ones(type):
    return jax.tree.map(lambda t: jnp.ones(t.shape, t.dtype), type)
