"""Arrows of terms and Python functions that are refused, and where the errors say that the fault is."""

import jax.numpy as jnp
import pytest

import combinators as C
from combinators.base import _kinds
from compile_ccc import Arrow, ccc

SIN = C.primitive("sin")
three = jnp.array([0.2, 0.5, 0.9])


REFUSED = {
    "a curry that nobody applies": (lambda: C.curry(lambda a, x: a * x)(1.0), C.errors.UntypedFunctionError,
                                    "C.curry(f, C.Tensor())"),
    "a curry that a function is given": (lambda: (C.curry(lambda a, x: a) >> (lambda f: f(1.0)))(1.0),
                                         C.errors.UntypedFunctionError, "curry(ccc(<lambda>)) >> ▶ ccc(<lambda>) ◀"),
    "a curry that is applied to two types": (
        lambda: (
            C.curry(lambda a, x: a * x) >> C.prod(*[C.prod(C.id, C.const(v)) >> C.eval for v in (1.0, three)])
        )(1.0),
        C.errors.ArgumentError, "got: f32[3]"),
    "another type than is stated": (lambda: (C.prod(C.curry(lambda a, x: x, C.Tensor(3)), C.id) >> C.eval)(1.0),
                                    C.errors.ArgumentError, "▶ eval ◀"),
    "a component that is not there": (lambda: (C.prod(jnp.sin) >> C.proj(3))(1.0), C.errors.ProjectionError,
                                      "prod(ccc(sin)) >> ▶ proj(3) ◀"),
    "too many arguments": (lambda: (C.id >> (lambda x, y: x))(1.0), C.errors.ArityError, "id >> ▶ ccc(<lambda>) ◀"),
    "a branch on what is not the argument": (lambda: (SIN >> (lambda x: x if x > 0 else -x))(1.0),
                                             C.errors.TracedBranchError, "sin >> ▶ ccc(<lambda>) ◀"),
    "a keyword for a product": (lambda: C.prod(lambda x: x)(x=1.0), C.errors.ArityError, "by position"),
    "a number among the parts": (lambda: C.prod(jnp.sin, 1.0), C.errors.ArgumentError, "argument 1 of prod"),
    "a number after a function": (lambda: ccc(jnp.sin) >> 1.0, C.errors.ArgumentError, "argument 1 of compose"),
    "a number as a function": (lambda: ccc(3), C.errors.ArgumentError, "expected: a Python function"),
    "a term with a hole": (lambda: (C.id >> jnp.sin).term(1.0), C.errors.ArgumentError, "ccc(sin)"),
    "a function where a value is needed": (lambda: C.id(jnp.sin), C.errors.UntypedFunctionError, "function(f, C.T"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    run, error, words = REFUSED[name]
    with pytest.raises(error) as caught:
        run()
    assert words in str(caught.value) and caught.value.line.startswith("test_mixed_refused.py:")


def test_an_error_of_a_function_says_where_it_stands():
    with pytest.raises(TypeError) as caught:
        (C.prod(C.id, C.id) >> jnp.sin)(1.0)
    assert any("ccc(sin)" in note and "(f32[], f32[])" in note for note in caught.value.__notes__)


def test_without_tracing_functions_are_refused(monkeypatch):
    monkeypatch.setattr("combinators.base._kinds", [])
    for run in (lambda: C.id >> jnp.sin, lambda: C.curry(jnp.sin), lambda: C.case(SIN, jnp.sin)):
        with pytest.raises(C.errors.ArgumentError, match="import compile_ccc"):
            run()
    assert _kinds == [Arrow] and isinstance(C.id >> SIN, C.Term)
