"""Depth: a thousand levels of each kind are right, work grows with them, and beyond the limits nothing is spoilt."""

import cProfile
import pstats
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators import memo
from combinators.depth import PROGRAMS, TERMS, VALUES
from combinators.errors import DepthError
from compile_ccc import ccc, function, lower, optimise, trace
from tangents import grad, hessian, jvp, represent, vjp

R = C.Tensor()
SIN, NEG, ADD = map(C.primitive, ("sin", "neg", "add"))
DEEP = 1_000
readings = pytest.mark.parametrize("functions", ["environment", "list"])


def after(f, g, c):
    """x ↦ g x + c, which has captured g and c."""
    return f(lambda x: g(x) + c)


def boosted(rounds):
    """x ↦ x + 1 + ... + 1: functions, each captured by the next, as boosting makes them."""
    f = function(lambda x: jnp.float32(1.0) * x, R)
    for _ in range(rounds):
        f = after(lambda f: function(f, R), f, 1.0)
    return f


def lambdas(count):
    f = lambda x: 3.0 * x
    for _ in range(count):
        f = after(lambda f: f, f, 1.0)
    return f


def wrapped(count, around):
    """sin, within so many levels of combinators."""
    term = SIN
    for _ in range(count):
        term = around(term)
    return term


def nested(count, leaf, around=lambda x: (x,)):
    for _ in range(count):
        leaf = around(leaf)
    return leaf


def only(x):
    (leaf,) = jax.tree.leaves(x)
    return leaf


@pytest.fixture
def eager():
    """Operation by operation: what is compiled here is long, and not what these tests are about."""
    with jax.disable_jit():
        yield


@pytest.fixture(autouse=True)
def nothing_is_spoilt():
    """Whatever was refused before, an ordinary gradient is right, and Python's stack has its limit again."""
    limit = sys.getrecursionlimit()
    yield
    assert sys.getrecursionlimit() == limit
    assert grad(lambda x: x * jnp.square(x))(2.0) == 12.0
    assert jax.tree.leaves(nested(VALUES, 1.0)) == [1.0]


# Functions, each captured by the next


def test_functions_that_captured_functions(eager):
    f = boosted(DEEP)
    assert f(2.0) == jvp(f, (2.0,), (3.0,))[0] == 2.0 + DEEP and vjp(f, 2.0)[1](3.0) == (3.0,)
    assert f.type == C.Function(R, R) and f.environment[0].type == f.type
    assert jax.tree.structure(f) == jax.tree.structure(boosted(DEEP))
    assert jax.tree.structure(f) != jax.tree.structure(boosted(DEEP - 1))
    assert len(repr(f)) < 1_000


@readings
def test_their_derivatives(functions, eager):
    by_f, by_x = grad(lambda f, x: jnp.square(f(x)), (0, 1), functions=functions)(boosted(DEEP), 2.0)
    assert by_x == 2.0 * (2.0 + DEEP)
    if functions == "list":
        assert [(float(x), float(g)) for x, g in by_f] == [(2.0, by_x)]
    else:
        np.testing.assert_array_equal(jax.tree.leaves(by_f), [by_x] * DEEP)


def test_they_are_mapped_over_and_normalised():
    f = boosted(DEEP)
    several = jax.tree.map(lambda c: np.asarray([c, 2.0 * c], np.float32), f)
    with jax.disable_jit():
        np.testing.assert_array_equal(jax.vmap(lambda f: f(2.0))(several), [2.0 + DEEP, 2.0 + 2.0 * DEEP])
    term = C.prod(C.const(f), C.id) >> C.eval
    assert C.normalise(term, R).depth < 10 and C.equal(term, C.id >> term, R)
    assert len(repr(term)) < 1_000 and optimise(term) is not None


def test_lambdas_that_captured_lambdas(eager):
    f = lambdas(900)
    translation = trace(f, R)
    assert translation.closure(1.0) == 903.0 and grad(translation.closure)(1.0) == 3.0


def calls(f):
    """How many functions of Python and of C were called."""
    profile = cProfile.Profile()
    profile.runcall(f)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "run",
    [
        boosted,
        lambda n: jax.make_jaxpr(lambda f: f(2.0))(boosted(n)),
        lambda n: jax.make_jaxpr(lambda f: grad(lambda x: f(x))(2.0))(boosted(n)),
        lambda n: jax.make_jaxpr(lambda f: grad(lambda x: f(x), functions="list")(2.0))(boosted(n)),
        lambda n: jax.make_jaxpr(lambda f: jvp(f, (2.0,), (1.0,)))(boosted(n)),
        lambda n: represent(wrapped(n, lambda t: C.prod(t, C.id)))(0.5),
        lambda n: C.normalise(wrapped(n, lambda t: C.prod(t, C.id)), R),
        lambda n: C.show(wrapped(n, lambda t: C.prod(t, t))),
    ],
)
def test_work_grows_with_the_length(run):
    def count(n):
        memo.clear_caches()  # or a chain would find what a shorter one has worked out
        return calls(lambda: run(n))

    run(3)
    few, some, many = map(count, (40, 80, 160))
    assert many - some < 2.3 * (some - few)


# Terms

AROUND = {
    "products": lambda f: C.prod(f, C.id) >> C.proj(0),
    "contexts": lambda f: C.prod(C.Context(C.id, f)) >> C.proj(1),
    "dicts": lambda f: C.prod({"a": f}) >> C.proj("a"),
    "lets": lambda f: C.extend(f) >> C.proj(1),
    "cases": lambda f: C.inject(0, 2) >> C.case(f, NEG),
    "functions": lambda f: C.prod(C.curry(C.proj(1) >> f, R), C.id) >> C.eval,
    "calls": lambda f: C.call(f, "inner"),
}


@pytest.mark.parametrize("name", AROUND)
def test_terms_within_terms(name, eager):
    term, x = wrapped(DEEP, AROUND[name]), jnp.float32(0.5)
    assert C.infer(term, R) == R
    assert C.evaluate(term, x) == optimise(term)(x) == jnp.sin(x)
    assert C.equal(term, SIN, R)
    y, pullback = represent(term)(x)
    assert (y, pullback(jnp.float32(1.0))) == (jnp.sin(x), jnp.cos(x))
    assert jvp(term, (x,), (jnp.float32(1.0),))[1] == jnp.cos(x)


def test_terms_within_terms_by_calls_and_compiled():
    term, x = wrapped(DEEP, AROUND["lets"]), jnp.float32(0.5)
    assert represent(term, "list")(x)[1](jnp.float32(1.0)) == grad(term)(x) == jnp.cos(x)
    np.testing.assert_allclose(jax.vmap(lower(term))(x[None]), jnp.sin(x)[None])


def test_products_within_products(eager):
    term = wrapped(DEEP, lambda f: C.prod(f, C.id))
    assert len(jax.tree.leaves(C.infer(term, R))) == DEEP + 1
    y, pullback = represent(term)(0.5)
    np.testing.assert_allclose(jax.tree.leaves(y), [np.sin(0.5)] + [0.5] * DEEP, rtol=1e-6)
    np.testing.assert_allclose(pullback(jax.tree.map(jnp.ones_like, y)), np.cos(0.5) + DEEP, rtol=1e-6)
    assert C.equal(term, term >> C.id, R)


def test_curry_of_curry_and_sums_of_sums(eager):
    many = wrapped(DEEP, lambda f: C.curry(C.proj(0) >> f, R))
    for _ in range(DEEP):
        many = C.prod(many, C.const(1.0)) >> C.eval
    assert C.evaluate(many, jnp.float32(0.5)) == jnp.sin(jnp.float32(0.5))
    into, out = C.compose(*[C.inject(0, 2)] * DEEP), C.compose(*[C.case(C.id, C.id)] * DEEP)
    assert C.evaluate(into >> out, 0.5) == 0.5 and C.equal(into >> out, C.id, R)
    assert len(repr(into(0.5))) < 1_000
    union = nested(DEEP, R, lambda t: C.Sum(t, R))
    assert C.infer(C.id, union) == union


# Values and types


@pytest.mark.parametrize("around", [lambda x: (x,), lambda x: {"a": x}, lambda x: C.Context(x)])
def test_values_within_values(around, eager):
    x = nested(DEEP, 1.5, around)
    square = lambda t: only(t) * only(t)
    assert only(grad(square)(x)) == 3.0 == jvp(square, (x,), (nested(DEEP, 1.0, around),))[1]
    assert only(vjp(lambda t: nested(DEEP, t, around), 1.5)[1](x)) == 1.5
    assert function(square, C.type_of(x))(x) == 2.25
    assert C.const(x) is C.const(nested(DEEP, 1.5, around)) and len(repr(C.const(x))) < 500


def test_types_of_functions_within_types():
    of = lambda depth: nested(depth, R, lambda t: C.Function(t, R))
    type = of(DEEP)
    assert type == of(DEEP) and hash(type) == hash(of(DEEP)) and type != of(DEEP - 1)
    assert len(repr(type)) < 500
    assert C.infer(C.proj(1), (R, type)) == type
    assert C.curry(C.id, type) is C.curry(C.id, of(DEEP))


# Beyond the limits

BEYOND = {
    "a term": lambda: wrapped(TERMS + 1, C.extend),
    "a value": lambda: ccc(only)(nested(VALUES + 1, 1.0)),
    "what is differentiated": lambda: grad(only)(nested(2 * VALUES, 1.0)),
    "a tangent": lambda: jvp(lambda x: x, (1.0,), (nested(2 * VALUES, 1.0),)),
    "a result": lambda: grad(lambda x: nested(2 * VALUES, x))(1.0),
    "a domain": lambda: C.infer(C.id, nested(2 * VALUES, R)),
    "a constant": lambda: C.const(nested(2 * VALUES, 1.0)),
    "a type": lambda: C.Function(nested(2 * VALUES, R), R),
    "the Hessian": lambda: hessian(lambda x: only(x) * only(x))(nested(VALUES - 1, 1.0)),
    "a value of a term": lambda: wrapped(2 * VALUES, lambda f: C.prod(f, C.id))(0.5),
    "functions": lambda: boosted(2 * VALUES)(0.5),
    "checkpoints": lambda: grad(wrapped(PROGRAMS + 1, C.checkpoint))(0.5),
    "choices": lambda: wrapped(PROGRAMS + 1, lambda f: C.prod(C.id, C.const(0) >> C.tag(1)) >> C.case(C.proj(0) >> f))(
        0.5
    ),
}


@pytest.mark.parametrize("what", BEYOND)
def test_what_nests_too_deeply_is_refused(what):
    for _ in range(2):
        with pytest.raises(DepthError) as caught:
            BEYOND[what]()
    assert "most" in str(caught.value.expected) and len(str(caught.value)) < 2_000


def test_threads_have_room_at_the_same_time(eager):
    results, ready = [], threading.Barrier(2)

    def work(depth):
        ready.wait()
        results.extend(float(only(wrapped(depth, AROUND["lets"])(0.5))) for _ in range(2))

    threads = [threading.Thread(target=work, args=(depth,)) for depth in (DEEP, DEEP // 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [pytest.approx(np.sin(0.5))] * 4
