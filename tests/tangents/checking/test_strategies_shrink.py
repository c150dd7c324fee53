"""How types, terms and programs shrink to small ones of the same fault."""

import importlib
from random import Random

import pytest
from hypothesis import HealthCheck, find, settings

import combinators as C
from combinators import Context
from combinators.memo import clear_caches
from combinators.terms import Curry, Extend, Primitive, Proj
from combinators.types import pack
from compile_ccc import trace
from tangents.strategies import lambdas, terms, types
from tests.random_programs import SAME, Staged, functions_in, inside, reads

R = C.Tensor()


def size_of(term):
    return sum(1 for _ in inside(term))


def smallest(strategy, condition):
    settings_ = settings(max_examples=3000, database=None, suppress_health_check=list(HealthCheck), deadline=None)
    return find(strategy, condition, settings=settings_, random=Random(0))


FAULTS = {
    "a primitive": lambda t, depth: isinstance(t, Primitive) and t.name == "tanh",
    "an application": lambda t, depth: isinstance(t, C.terms.Eval),
    "a fold": lambda t, depth: isinstance(t, C.terms.Fold),
    "a case": lambda t, depth: isinstance(t, C.terms.Case),
    "a curry in a curry": lambda t, depth: isinstance(t, Curry) and depth > 0,
    "a let of a function": lambda t, depth: isinstance(t, Extend) and isinstance(t.value, Curry),
    "a variable used twice": lambda t, depth: depth == 0 and reads(t, 1)[0] > 1,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_terms_shrinks(fault):
    found = smallest(terms(Context(R), R), lambda term: any(FAULTS[fault](t, depth) for t, depth in inside(term)))
    assert size_of(found) <= 16


def test_a_type_shrinks():
    assert smallest(types(), functions_in) == C.Function(R, R)
    assert smallest(types(), lambda t: isinstance(t, dict)) == {"b": R, "w": R}


@pytest.mark.parametrize("word", ["C.fold(", "def f(", *["functools.partial("] * (not SAME)])
def test_a_word_in_programs_shrinks(word):
    found = smallest(lambdas(), lambda program: word in program.source)
    assert len(found.source.splitlines()) <= 7 and len(found.source) <= 220, found


def test_a_fault_in_the_translation_shrinks(monkeypatch):
    """Closures that hold what they captured in the wrong order: found, and shown by a short program."""

    def reversed_captures(scope, lam):
        return (C.prod(Context(*(Proj(scope[x]) for x in reversed(lam.free)))),)

    def is_wrong(program):
        clear_caches()
        f, arguments = program.make(), program.arguments
        try:
            term = trace(f, *arguments).term
            value = Staged(lambda *x: C.evaluate(term, pack(x)), *arguments)(*arguments)
        except Exception:  # whatever the swapped captures break
            return True
        return abs(value - program.meaning()(*arguments)) > 1e-2

    monkeypatch.setattr(importlib.import_module("compile_ccc.translate"), "_restriction", reversed_captures)
    try:
        found = smallest(lambdas(size=12), is_wrong)
    finally:
        clear_caches()
    assert len(found.source.splitlines()) <= 7 and len(found.source) <= 400, found
