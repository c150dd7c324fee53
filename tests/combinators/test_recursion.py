"""`C.fix`: the plain meaning of recursion, its types, its laws, and what is not decided of it."""

import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators import errors as E

I = C.Tensor((), jnp.int32)
minus = C.prod(C.proj(-1), C.const(np.int32(1))) >> C.primitive("sub")
choice = lambda *branches: C.prod(C.Context(C.proj(0), C.proj(1), C.proj(1) >> C.tag(2))) >> C.case(*branches)
again = C.prod(C.proj(0), C.prod(C.proj(1), C.const(np.int32(1))) >> C.primitive("sub")) >> C.eval
countdown = choice(C.const(np.int32(7)), again)  # Context(self, n, 1) ⇝ int: 7, after n calls
triangle = choice(C.const(np.int32(0)), C.prod(again, C.proj(1)) >> C.primitive("add"))


choice2 = lambda *branches: (
    C.prod(C.Context(C.proj(0), C.proj(1), C.proj(2), C.proj(2) >> C.tag(2))) >> C.case(*branches)
)
call2 = C.prod(C.proj(1), C.prod(C.proj(2), C.const(np.int32(1))) >> C.primitive("sub")) >> C.eval


def applied(body, argument=I, result=I):
    """x ↦ fix(body) x, in the empty context"""
    return C.prod(C.const(()) >> C.prod(C.Context()) >> C.fix(body, argument, result), C.id) >> C.eval


def test_a_recursive_function_is_a_function_value():
    f = C.evaluate(C.fix(triangle, I, I), C.Context())
    assert f.type == C.Function(I, I) and f.environment == C.Context()
    assert str(C.fix(C.proj(2), I, I)) == "curry(fix(proj(2)))"
    assert C.evaluate(applied(triangle), jnp.int32(10)) == 55


def test_ten_thousand_levels_on_the_host():
    assert C.evaluate(applied(countdown), jnp.int32(10_000)) == 7


def test_what_it_captured_is_its_environment():
    scaled = choice2(C.proj(0), C.prod(C.proj(0), call2) >> C.primitive("mul"))
    f = C.evaluate(C.fix(scaled, I, C.Tensor()), C.Context(jnp.float32(0.5)))
    assert f.environment[0] == 0.5 and C.evaluate(C.prod(C.const(f), C.id) >> C.eval, jnp.int32(3)) == 0.5**4


REFUSED = {
    "another argument": (applied(triangle), C.Tensor(), "argument of another type"),
    "another result": (applied(countdown, I, C.Tensor()), I, "branches of a case give different types"),
    "another result, in all branches": (
        applied(C.const(np.int32(7)), I, C.Tensor()),
        I,
        "gives another type than is stated",
    ),
    "no argument": (C.fix(triangle, I, I).body, I, "finds no argument"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    term, domain, words = REFUSED[name]
    with pytest.raises(E.DiffcurryError, match=words):
        C.infer(term, domain)


def test_what_is_no_recursion():
    with pytest.raises(E.ArgumentError, match="not a term"):
        C.fix(lambda self, x: x, I, I)
    with pytest.raises(E.ArgumentError, match="no type"):
        C.fix(triangle, 3, I)
    with pytest.raises(E.ArgumentError, match="max_depth"):
        C.fix(triangle, I, I, max_depth=0)


def test_the_equality_of_recursions_may_be_undecided():
    f, g = applied(triangle), applied(countdown)
    assert C.equal(f, f, I)
    found = C.equal(f, g, I)
    assert found.verdict is None and "recursion" in found.reason
