"""Work is counted, not timed: visits of combinators, equations of programs, and how both grow."""

import gc
import sys

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function, trace
from tangents import grad, value_and_grad, vjp
from tests.counted import LONG, all_equations, chain, equations, operations, size, value_and_pullback

F32 = C.Tensor()
SPACES = ["environment", "list"]
x = jnp.float32(0.5)


@pytest.fixture
def visits(monkeypatch):
    """Counts the calls of a recursive function, by module and name, while something runs."""

    def count(module, name, run):
        original, calls = getattr(sys.modules[module], name), 0

        def counting(*arguments):
            nonlocal calls
            calls += 1
            return original(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[module], name, counting)
            run()
        return calls

    return count


def grows_linearly(count):
    """Whether count(n) = a n + b exactly, with a > 0."""
    small, medium, large = map(count, (100, 300, 2_300))
    assert 10 * (medium - small) == large - medium > 0


# Chains


def test_tracing_visits_each_let_once(visits):
    for module, name in [("compile_ccc.reading.read", "sources"), ("compile_ccc.translate", "_expression")]:
        for n in (100, 1_000, 10_000):
            assert visits(module, name, lambda n=n, name=name: trace(chain(n, name), F32)) == n


def test_inference_visits_each_combinator_once(visits):
    for n in (100, 1_000, 10_000):
        term = trace(chain(n), F32).term
        assert visits("combinators.meaning.infer", "_infer", lambda t=term: C.infer(t, F32)) == size(term)


def test_evaluation_visits_each_combinator_once(visits):
    for n in (100, 1_000):
        term = trace(chain(n), F32).term
        run = lambda t=term: jax.make_jaxpr(lambda x: sys.modules["combinators.meaning.evaluate"].evaluate(t, x))(x)
        assert visits("combinators.meaning.evaluate", "evaluate", run) == size(term)


@pytest.mark.parametrize("functions", SPACES)
def test_representation_visits_each_combinator_once(functions, visits):
    """But for the two projections in the product of each second let: a product of variables is one rule."""
    for n in (100, 1_000):
        term = trace(chain(n), F32).term
        run = lambda t=term: jax.make_jaxpr(value_and_pullback(t, functions))(x)
        assert visits("tangents.represent", "rep", run) == size(term) - 2 * (n // 2)


@pytest.mark.parametrize("functions", SPACES)
def test_equations_grow_with_the_chain(functions):
    grows_linearly(lambda n: operations(value_and_pullback(trace(chain(n), F32).term, functions), x))


@pytest.mark.parametrize("functions", SPACES)
def test_a_pullback_adds_no_more_than_the_program_forks(functions):
    """x has two uses in each pair of lets: one addition for each."""
    found = equations(value_and_pullback(trace(chain(1_000), F32).term, functions), x)
    assert found["add"] + found["add_any"] == 500


def test_work_is_no_more_than_jaxs():
    assert operations(grad(chain(1_000)), x) <= operations(jax.grad(chain(1_000)), x)


@pytest.fixture
def no_collection():
    """The garbage collector, which looks at all of a large program again and again, is off."""
    gc.disable()
    yield
    gc.enable()


def test_many_lets(no_collection):
    """No pass recurses on the length of a program."""
    term = trace(chain(LONG), F32).term
    assert len(term.steps) == LONG + 2
    assert C.infer(term, F32) == F32
    program = jax.make_jaxpr(value_and_pullback(term, "environment"))(x)
    assert 2 * LONG < len(program.eqns) < 5 * LONG


def test_a_chain_of_100_000_terms():
    term = C.compose(*[C.primitive("neg"), C.primitive("neg")] * 50_000)
    assert C.infer(term, F32) == F32
    assert C.show(term).count("neg") == 100_000
    assert float(C.evaluate(C.compose(*term.steps[:1_001]), 0.5)) == -0.5
    with pytest.raises(C.errors.ProjectionError) as caught:
        C.infer(C.compose(*term.steps[:70_000], C.proj(3), term), F32)
    assert "▶ proj(3) ◀" in str(caught.value) and len(str(caught.value)) < 1_000


# Sharing


def doubled(n):
    def f(x):
        for _ in range(n):
            x = x + x
        return x

    return f


@pytest.mark.parametrize("functions", SPACES)
def test_forty_doublings(functions):
    assert float(grad(doubled(40), functions=functions)(1.5)) == 2.0**40
    none, twenty, forty = (operations(grad(doubled(n), functions=functions), 1.5) for n in (0, 20, 40))
    assert forty - twenty == twenty - none <= 2 * 20


def twice(g):
    return function(lambda y: g(g(y)), F32)


def nested(n):
    """twice (twice (... f)), each a function value that captures the one before."""

    def f(x, k):
        g = function(lambda y: y + k * y * y, F32)
        for _ in range(n):
            g = twice(g)
        return g(x)

    return f


def test_twice_of_twice_is_a_small_term():
    four, eight, sixteen = (size(trace(nested(n), F32, F32).term) for n in (4, 8, 16))
    assert sixteen - eight == 2 * (eight - four) > 0


def test_twice_of_twice_is_inferred_without_unfolding(visits):
    terms = [trace(nested(n), F32, F32).term for n in (4, 8)]
    four, eight = (visits("combinators.meaning.infer", "_infer", lambda t=t: C.infer(t, (F32, F32))) for t in terms)
    assert eight < 2.5 * four


# On demand


def loss(x, w, v):
    return jnp.sum(jnp.tanh(x @ w) @ v)


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize(
    ("argnums", "products"),
    [((), 2), (2, 3), (1, 4), (0, 4), ((1, 2), 5), ((0, 1, 2), 6)],
)
def test_a_cotangent_that_nobody_asks_for_is_not_computed(argnums, products, functions):
    """Forward x @ w and h @ v; backward one product for each asked-for argument, and one on the way to x and w."""
    arguments = jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones((4, 5))
    way = value_and_grad(loss, argnums, functions=functions) if argnums != () else ccc(loss)
    assert equations(way, *arguments)["dot_general"] == products


@pytest.mark.parametrize("functions", SPACES)
def test_nor_that_of_a_capture(functions):
    w, v = jnp.ones((3, 4)), jnp.ones((4, 5))
    way = value_and_grad(lambda x: loss(x, w, v), functions=functions)
    assert equations(way, jnp.ones((2, 3)))["dot_general"] == 4


def test_nothing_is_pulled_back_through_what_is_constant():
    f = lambda x, y: jnp.sum(jnp.exp(jnp.sin(y)) * x)
    found = equations(grad(f), jnp.ones(3), jnp.ones(3))
    assert (found["exp"], found["sin"], found["cos"]) == (1, 1, 0)


# What the two tangents of functions cost


def applied(w, x):
    return function(lambda y: jnp.tanh(w * y), F32)(x)


@pytest.mark.parametrize(("functions", "runs"), [("environment", 1), ("list", 2)])
def test_the_list_tangent_runs_the_function_again(functions, runs):
    assert equations(value_and_grad(applied, functions=functions), x, x)["tanh"] == runs


@pytest.mark.parametrize(("functions", "runs"), [("environment", 2), ("list", 4)])
def test_once_again_for_each_call(functions, runs):
    twice = lambda w, x: (lambda g: g(x) * g(2.0 * x))(function(lambda y: jnp.tanh(w * y), F32))
    assert equations(value_and_grad(twice, functions=functions), x, x)["tanh"] == runs


def folded(w, xs):
    return lax.scan(lambda s, x: (jnp.tanh(w * s + x), None), jnp.float32(0), xs)[0]


def fold_of_argument(f, xs):
    return lax.scan(lambda s, x: (f(s, x), None), jnp.float32(0), xs)[0]


@pytest.mark.parametrize("functions", SPACES)
def test_a_fold_is_one_loop_of_any_length(functions):
    short, long = (equations(grad(folded, (0, 1), functions=functions), x, jnp.ones(n)) for n in (3, 3_000))
    assert short == long
    # Forward and backward; the list tangent runs the cell again over the recorded calls.
    assert long["scan"] == (2 if functions == "environment" else 3)
    assert long["tanh"] == (1 if functions == "environment" else 2)


@pytest.mark.parametrize("functions", SPACES)
def test_a_fold_of_a_function_value_is_one_loop(functions):
    f = function(lambda s, x: jnp.tanh(0.5 * s + x), F32, F32)
    found = equations(grad(fold_of_argument, (0, 1), functions=functions), f, jnp.ones(1_000))
    # The list tangent would run the step, λ(s, x). f(s, x), again; but the calls of f need no result of it.
    assert (found["scan"], found["tanh"]) == (2, 1)


def test_a_fold_keeps_only_what_its_pullback_needs():
    """The residuals of 1,000 steps of tanh(w s + x): no array of the size of w for each step."""
    f = lambda w, s, xs: jnp.sum(lax.scan(lambda s, x: (jnp.tanh(w @ s + x), None), s, xs)[0])
    _, pullback = vjp(f, jnp.ones((64, 64)), jnp.ones(64), jnp.ones((1_000, 64)))
    kept = sum(leaf.size for leaf in jax.tree.leaves(pullback))
    assert kept <= 64 * 64 + 3 * 64 * 1_000


def test_a_capture_shared_by_a_batch_is_not_copied():
    f = function(lambda w, x: jnp.tanh(w @ x), C.Tensor((8, 8)), C.Tensor((8,)))
    mapped = lambda f, w, xs: jax.vmap(lambda x: f(w, x))(xs)
    shapes = {
        v.aval.shape for eqn in all_equations(ccc(mapped), f, jnp.ones((8, 8)), jnp.ones((5, 8))) for v in eqn.outvars
    }
    assert (5, 8) in shapes and (5, 8, 8) not in shapes
