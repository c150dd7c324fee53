"""Random programs keep their meaning, and have the gradients that differences show.

Under `HYPOTHESIS_PROFILE=nightly` many random programs are checked instead of the same few.
"""

import zlib

import jax.numpy as jnp
import pytest
from hypothesis import event, given, reject

import combinators as C
from combinators.terms import Curry
from combinators.types import pack
from compile_ccc import ccc, lower, trace
from tangents import represent, value_and_grad
from tangents.strategies import lambdas
from tests.random_programs import (
    Staged,
    close,
    drawn,
    inner,
    inside,
    is_slope,
    is_smooth,
    loops_in_loops,
    many,
    moved,
    some_direction,
)

SPACES = ["environment", "list"]


@pytest.mark.usefixtures("x64")
@many(45)
@given(lambdas())
def test_programs_keep_their_meaning(program):
    expected, f, arguments = program.meaning()(*program.arguments), program.make(), program.arguments
    translation = trace(f, *arguments)
    assert translation.codomain == C.Tensor()
    assert C.infer(translation.term, translation.domain) == C.Tensor()
    normal = normalised(translation)
    for term in (translation.term, normal):
        close(Staged(lambda *x, term=term: C.evaluate(term, pack(x)), *arguments)(*arguments), expected)
    compiled = zlib.crc32(program.source.encode()) % 20 == 0
    if compiled:
        close(C.evaluate(translation.term, pack(arguments)), expected)
        close(lower(translation.term)(*arguments), expected)
        close(ccc(f)(*arguments), expected)
        close(ccc(program.make())(*arguments), expected)
    check_gradients(program, f, normal, expected, compiled)


def normalised(translation):
    """The normal form, or the term itself where that is too large: applying functions twice, again and again, is."""
    try:
        return C.normalise(translation.term, translation.domain, steps=20_000)
    except C.errors.BudgetError:
        event("a normal form beyond its budget")
        return translation.term


def check_gradients(program, f, normal, expected, compiled):
    arguments = program.arguments
    staged = Staged(lambda *x: C.evaluate(normal, pack(x)), *arguments)
    direction = some_direction(arguments)
    phi = lambda h: float(program.meaning()(*moved(arguments, direction, h)))
    pulled_back = lambda *x: represent(normal)(*x)[1](jnp.ones(()))
    found = [Staged(pulled_back, *arguments)(*arguments)]
    found[0] = found[0] if len(arguments) > 1 else (found[0],)
    spaces = SPACES if loops_in_loops(staged.program) <= 4 else ("environment",)
    if len(spaces) < len(SPACES):
        event("loops in loops too deep for the list space, which runs functions again at each level")
    for space in spaces:
        derivative = value_and_grad(f, tuple(range(len(arguments))), functions=space)
        value, gradient = (derivative if compiled else Staged(derivative, *arguments))(*arguments)
        close(value, expected)
        found.append(gradient)
        close(gradient, found[0])
    slope = inner(found[0], direction)
    if not is_slope(slope, phi):
        if not is_smooth(phi):
            event("at a kink")
            reject()
        raise AssertionError(f"the slope is {slope}, and by differences {(phi(1e-5) - phi(-1e-5)) / 2e-5}")


def test_programs_are_of_every_kind():
    programs = drawn(lambdas(), 60)
    words = ["function(lambda", "def ", "C.fold", "C.map", "lax.scan", "lax.fori_loop", "jax.vmap", "jax.jit", "made()"]
    words += ["lax.while_loop", "functools.partial", "'a'", "jnp.where", "jnp.maximum", "C.Function(S, S)", "*, d="]
    assert [word for word in words if not any(word in program.source for program in programs)] == []
    terms_ = [trace(program.make(), *program.arguments).term for program in programs]
    nested = [max((depth for t, depth in inside(term) if isinstance(t, Curry)), default=-1) for term in terms_]
    assert sum(depth >= 1 for depth in nested) > 15 and sum(depth >= 2 for depth in nested) > 3
    assert sum(any(type(t) is C.terms.Eval for t, _ in inside(term)) for term in terms_) > 20
