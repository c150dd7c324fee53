"""Normal forms: their text, what they keep, and what they cost."""

import sys
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import combinators as C
from combinators import Context
from combinators.meaning.infer import abstract
from combinators.normal.graph import Graph
from combinators.normal.semantics import Run
from combinators.types import Function, Tensor, children, same_type
from tangents.strategies import contexts, terms, types, values_of
from tests.counted import LONG

R, V = C.Tensor(), C.Tensor((3,))
F = C.Function(R, R)
SIN, COS, ADD, MUL = (C.primitive(name) for name in ("sin", "cos", "add", "mul"))
first, last = C.proj(0), C.proj(-1)
nothing = C.prod(Context())
TWICE = C.curry(C.curry(C.prod(first, C.prod(first, last) >> C.eval) >> C.eval))  # λf. λx. f (f x)


def call(f, x):
    return C.prod(f, x) >> C.eval


def lets(*values):
    return C.compose(*map(C.extend, values))


def doublings(n):
    """y = x + x, n times, as lets"""
    return lets(*[C.prod(last, last) >> ADD] * n) >> last


def twice_to_the(n):
    """Δ = f, x: twice (... (twice f)) x, n times"""
    return lets(first, *[call(nothing >> TWICE, last)] * n) >> call(last, C.proj(1))


# Text


@pytest.mark.parametrize(
    ("term", "domain", "text"),
    [
        (C.id, R, "Context(id) >> proj(0)"),
        (C.id, Context(R), "Context(proj(0))"),
        (C.id, (R, R), "Context(id) >> prod(proj(0) >> proj(0), proj(0) >> proj(1))"),
        (C.id, Context(R, (R, ())), "Context(proj(0), prod(proj(1) >> proj(0), prod()))"),
        (C.const(2.5), R, "Context(id) >> const(2.5)"),
        (C.const((1.0, 2.0)), (), "Context(id) >> prod(const(1.0), const(2.0))"),
        (SIN >> COS, R, "Context(id) >> extend(proj(0) >> sin) >> proj(1) >> cos"),
        (C.prod(SIN, SIN) >> ADD, R, "Context(id) >> extend(proj(0) >> sin) >> prod(proj(1), proj(1)) >> add"),
        (lets(first >> SIN, last >> COS) >> C.proj(1), Context(R), "proj(0) >> sin"),
        (lets(first >> COS, first >> SIN) >> C.prod(last, C.proj(1)), Context(R),
         "extend(proj(0) >> sin) >> extend(proj(0) >> cos) >> prod(proj(1), proj(2))"),
        (C.curry(first, V), R, "Context(id) >> Context(proj(0)) >> curry(proj(0))"),
        (C.curry(last, V), R, "Context(id) >> Context() >> curry(proj(0))"),
        (C.id, F, "Context(id) >> Context(proj(0)) >> curry(prod(proj(0), proj(1)) >> eval)"),
        (C.curry(C.prod(first >> SIN, last) >> ADD, R), Context(R),
         "extend(proj(0) >> sin) >> Context(proj(1)) >> curry(prod(proj(0), proj(1)) >> add)"),
        (C.inl, R, "Context(id) >> proj(0) >> inject(0, 2)"),
        (C.case(C.prod(first, last) >> ADD, last), Context(R, C.Sum(R, R)),
         "Context(proj(0), proj(1)) >> case(prod(proj(0), proj(1)) >> add, Context(proj(1)) >> proj(0))"),
    ],
)  # fmt: skip
def test_text(term, domain, text):
    assert repr(C.normalise(term, domain)) == text


def test_a_closure_captures_the_components_that_it_uses_and_no_more():
    body = C.prod(first >> first, last) >> ADD
    code = C.normalise(C.curry(body, R), Context((R, V), R)).steps[-1]
    assert repr(code) == "curry(prod(proj(0), proj(1)) >> add)"


def test_what_does_not_depend_on_a_variable_is_computed_outside_of_its_function():
    inner = C.curry(C.prod(first >> SIN, last) >> ADD, R)
    nested = C.normalise(C.curry(inner, R), Context(R))
    assert nested.steps[0] is C.extend(first >> SIN)


def test_a_normal_form_depends_on_values_of_the_domain_only_by_their_types():
    assert C.normalise(SIN, np.float32(1.0)) is C.normalise(SIN, R)
    closure = C.Closure(C.curry(last >> SIN, R), Context())
    assert C.normalise(C.id, closure) is C.normalise(C.id, F)


# What a normal form keeps


def agree(draw, left, right, type):
    """Two values of a type are equal, functions on a value."""
    if isinstance(type, Function):
        x = draw(values_of(type.dom))
        agree(draw, C.evaluate(C.eval, (left, x)), C.evaluate(C.eval, (right, x)), type.cod)
    elif isinstance(type, Tensor):
        assert (np.shape(left), jnp.result_type(left)) == (np.shape(right), jnp.result_type(right))
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-3)
    else:
        (lefts, form), (rights, other) = children(left), children(right)
        assert form == other
        for (_, a), (_, b), (_, t) in zip(lefts, rights, children(type)[0], strict=True):
            agree(draw, a, b, t)


@given(st.data())
def test_a_normal_form_has_the_type_and_the_meaning_of_its_term_and_is_its_own(data):
    domain = data.draw(contexts() | types())
    term = data.draw(terms(domain, size=12))
    try:
        normal = C.normalise(term, domain)
    except C.errors.UnsupportedError:
        reject()  # an open case that gives functions, which normal forms do not see through
    assert C.normalise(normal, domain) is normal
    codomain = abstract(C.infer(normal, domain))
    assert same_type(codomain, abstract(C.infer(term, domain)))
    at = data.draw(values_of(domain))
    agree(data.draw, C.evaluate(term, at), C.evaluate(normal, at), codomain)


x, y, v = np.float32(0.3), np.float32(-1.7), np.arange(3, dtype=np.float32)
SUMS = {  # a term, its domain, what is in the alternatives, and the value that holds the sum
    "a branch each": (C.case(C.id, C.const(v)), C.Sum(V, R), (v, y), lambda s: s),
    "captures": (
        lets(first >> COS) >> C.prod(Context(first, last, C.proj(1)))
        >> C.case(C.prod(C.proj(1), last) >> ADD, C.prod(first, C.proj(1)) >> MUL),
        Context(R, C.Sum(R, R)), (x, y), lambda s: Context(x, s),
    ),
    "sums in and out": (C.case(C.inr, C.inl), C.Sum(R, R), (x, y), lambda s: s),
    "a pair": (C.case(ADD, C.prod(first, last >> first) >> MUL), (R, C.Sum(R, (R, V))), (x, (y, v)), lambda s: (x, s)),
    "one that cannot be there": (C.case(SIN, C.proj(7), COS), C.Sum(R, None, R), (x, None, y), lambda s: s),
    "one sum in two cases": (
        C.prod(C.case(SIN, C.inl >> C.case(COS, C.id)), C.case(C.id, SIN)), C.Sum(R, R), (x, y), lambda s: s,
    ),
    "cases in a function": (
        C.prod(C.prod(first) >> C.curry(C.prod(last, first >> first) >> C.case(ADD, MUL), R), C.proj(1)) >> C.eval,
        (C.Sum(R, R), R), (x, y), lambda s: (s, x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("tag", [0, -1])
@pytest.mark.parametrize("traced", [False, True])
def test_normal_forms_of_cases_keep_their_meaning(name, tag, traced):
    term, domain, parts, holding = SUMS[name]
    normal = C.normalise(term, domain)
    assert C.normalise(normal, domain) is normal
    place = tag % len(parts)
    known = C.Sum(*(part if i == place else None for i, part in enumerate(parts)), tag=place)
    value = holding(C.Sum(*parts, tag=np.int32(place)) if traced else known)
    results = (jax.tree.leaves(C.evaluate(t, value)) for t in (term, normal))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


# Cost


def steps(term, domain):
    run = Run(Graph(), term, 10**6)
    run.start(domain)
    return run.steps, len(run.graph._nodes)


@pytest.mark.parametrize(
    "chain",
    [
        doublings,
        lambda n: lets(*(C.prod(C.proj(i), C.proj(i // 2)) >> MUL for i in range(n))) >> last,
        lambda n: first >> C.compose(*[C.prod(C.id, C.id) >> ADD] * n),
        lambda n: lets(*[nothing >> TWICE] * n, *[call(C.proj(1), C.curry(last >> SIN, R))] * n) >> last,
    ],
    ids=["doublings", "lets", "chain", "calls"],
)
def test_steps_and_nodes_grow_with_the_length_of_the_program(chain):
    counts = [steps(chain(n), Context(R)) for n in (100, 200, 400, 800)]
    growth = [[b - a for a, b in zip(*pair, strict=True)] for pair in pairwise(counts)]
    assert growth[1:] == [[2 * d for d in growth[0]], [4 * d for d in growth[0]]]


def test_forty_nested_doublings_are_forty_operations():
    nested = C.id
    for _ in range(40):
        nested = C.prod(nested, nested) >> ADD
    normal = C.normalise(nested, R)
    assert normal is C.normalise(C.prod(Context(C.id)) >> doublings(40), R)
    assert len(normal.steps) == 42  # the context, 39 lets, the last operands, the last operation
    assert C.evaluate(normal, np.float32(1.0)) == 2.0**40


def test_many_lets():
    n = LONG
    normal = C.normalise(doublings(n), Context(R))
    assert len(normal.steps) == n + 1


def test_a_function_of_many_lets_under_functions_that_do_not_matter():
    """The variable of the inner function is renamed throughout its long body."""
    n = 5_000
    body = C.curry(C.curry(C.curry(doublings(n), R), R), R)
    code = C.normalise(body, Context())
    assert code is C.normalise(C.curry(C.curry(nothing >> C.curry(doublings(n), R), R), R), Context())


@pytest.mark.parametrize("n", [0, 1, 5, 10])
def test_functional_doubling_within_the_budget(n):
    normal = C.normalise(twice_to_the(n), Context(F, R))
    assert len(normal.steps) == 2**n + 1
    code = C.Closure(C.curry(C.prod(last, C.const(np.float32(1.0))) >> ADD, R), Context())
    assert C.evaluate(normal, Context(code, np.float32(0.0))) == 2.0**n


@pytest.mark.parametrize("n", [14, 30, 60])
def test_functional_doubling_beyond_the_budget(n):
    with pytest.raises(C.errors.BudgetError, match="more than 20000 steps"):
        C.normalise(twice_to_the(n), Context(F, R), steps=20_000)


def test_a_larger_budget_is_enough():
    with pytest.raises(C.errors.BudgetError):
        C.normalise(twice_to_the(8), Context(F, R), steps=1_000)
    C.normalise(twice_to_the(8), Context(F, R), steps=10_000)


def test_calls_that_nest_too_deeply_are_beyond_the_budget(monkeypatch):
    n = sys.getrecursionlimit()
    monkeypatch.setattr("combinators.depth._ROOM", n)
    increments = [C.curry(C.prod(call(C.proj(-2), last), last) >> ADD, R)] * n  # each calls the one before
    program = lets(C.curry(last, R), *increments) >> call(last, first)
    with pytest.raises(C.errors.DepthError, match="Python's stack"):
        C.normalise(program, Context(R))
    monkeypatch.undo()
    assert len(C.normalise(program, Context(R)).steps) == n + 1
