"""Programs that are optimised keep their meaning and their pullbacks, and never cost more."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import Context
from compile_ccc import ccc, function, lower, optimise, trace
from compile_ccc.optimiser.optimise import Optimiser
from tangents import READINGS
from tangents.checking.laws import observation
from tests.compile_ccc.optimiser.test_optimise import ORIENTED, visible
from tests.executed import costs_no_more, counting

R = C.Tensor()
SIN, COS, ADD = (C.primitive(name) for name in ("sin", "cos", "add"))
p0, p1, p2, last = C.proj(0), C.proj(1), C.proj(2), C.proj(-1)
f = C.primitive("sin")


def lets(*values):
    return C.compose(*map(C.extend, values))


def applied(term):
    """The names of the laws that are applied to a term."""
    optimiser = Optimiser()
    optimiser.optimised(term, None)
    return set(optimiser.laws)


@pytest.fixture(scope="module")
def executed():
    with counting() as count:
        yield count


# Lets inside of lets, whose variables are counted from the outermost one

START = C.prod(Context(p0, p1))  # on a context of two or more
plus = lambda i, j: C.prod(C.proj(i), C.proj(j)) >> ADD
CALLED = C.curry(lets(plus(0, 3), plus(2, 4)) >> plus(5, 4))  # on three variables and its argument
INNER = {
    "a dead let before a part with lets": START
    >> lets(p0 >> SIN)
    >> C.prod(lets(plus(0, 1), plus(3, 0)) >> plus(4, 3), p1),
    "a dead let between": START >> lets(p0 >> SIN, p0 >> COS, lets(plus(2, 1)) >> plus(4, 2)) >> plus(4, 0),
    "a dead entry": START >> lets(lets(p1 >> SIN) >> plus(2, 1)) >> last,
    "from the end": START >> lets(p0 >> SIN, p1, lets(plus(-1, -2), p0) >> plus(-2, -1)) >> plus(-1, -3),
    "in a branch": START >> lets(p0 >> SIN, p1 >> C.inl) >> C.case(lets(plus(1, -1)) >> plus(-1, 0), p2),
    "in a function that is bound": START >> lets(p0 >> SIN, CALLED, p1 >> COS, C.prod(C.proj(3), p1) >> C.eval) >> last,
    "in a function that is bound and called twice": START
    >> lets(p0 >> SIN, CALLED, C.prod(C.proj(3), p1) >> C.eval, C.prod(C.proj(3), last) >> C.eval)
    >> plus(5, 4),
    "in a function of a bound variable": START
    >> lets(p0 >> SIN, p1, C.prod(Context(C.proj(3), p2, p0)) >> CALLED, C.prod(last, p1) >> C.eval)
    >> last,
    "a function of a function": START
    >> lets(p0 >> SIN)
    >> C.prod(C.prod(C.curry(C.prod(Context(last, p0, p1)) >> CALLED), p1) >> C.eval, p2)
    >> C.eval,
    "a component of a bound product": START
    >> lets(C.prod(p1, p0 >> SIN), lets(p2 >> p0, last) >> plus(3, 0))
    >> plus(3, 1),
    "contexts in a row": START >> C.prod(Context(plus(0, 1), p1, p0)) >> C.prod(Context(p2, p0)) >> plus(0, 1),
}


@pytest.mark.parametrize("name", INNER)
def test_lets_inside_of_lets(name, executed):
    term, domain = INNER[name], Context(R, R, R)
    optimised = optimise(term)
    assert optimise(optimised) is optimised is not term
    found = C.equal(term, optimised, domain)
    assert found.verdict, str(found)
    assert costs_no_more(executed, optimised, term, Context(0.1, 0.2, 0.3))


# Traced lambdas


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


TEXTS = {
    "application": [
        "Context(id)",
        ">> extend(proj(0) >> sin)",
        ">> Context(proj(0), proj(1))",
        ">> extend(prod(proj(0), proj(1)) >> mul)",
        ">> prod(proj(2), const(1.0:f32))",
        ">> add",
    ],
    "captured number": ["prod(const(3.0), id) >> mul"],
    "dead code": ["sin"],
    "unused argument": ["id"],
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_an_optimised_program(name):
    program, arguments = PROGRAMS[name]
    assert C.show(optimise(trace(program, *arguments).term), width=60).splitlines() == TEXTS[name]


def test_lowering_optimises_and_tracing_does_not():
    traced = trace(dead, R)
    assert "eval" in C.show(traced.term) and "exp" in C.show(ccc(dead).trace(R).term)
    assert "exp" in str(jax.make_jaxpr(ccc(dead))(0.5))
    assert "exp" not in str(jax.make_jaxpr(lower(traced.term))(0.5))


def test_every_rewrite_is_named_by_an_oriented_law(executed):
    """In all that this file optimises, and each of the laws that the module lists."""
    started = [
        C.prod(visible(law.domain)) >> law.sides(**{n: type(f)(n) for n in law.arrows}, **{n: n for n in law.values})[0]
        for law in ORIENTED.values()
    ]
    names = set().union(*map(applied, started), *(applied(trace(f, *x).term) for f, x in PROGRAMS.values()))
    families = {name.partition(" of ")[0] if "β of" in name or "tag of" in name else name for name in ORIENTED}
    assert names <= families
    listed = (sys.modules["compile_ccc.optimiser.optimise"].__doc__ or "").replace(
        "left identity, right identity", "left identity"
    )
    assert {name for name in names if name not in listed} <= {"category: right identity"}
