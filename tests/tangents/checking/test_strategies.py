"""What the strategies draw: types, values and well-typed terms.

Under `HYPOTHESIS_PROFILE=nightly` many random examples are checked instead of the same few.
"""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import find, given
from hypothesis import strategies as st

import combinators as C
from combinators import Context
from combinators.terms import Compose, Curry, Extend
from combinators.values import accepts
from tangents import represent
from tangents.strategies import Pair, contexts, tensors, terms, types, values_of
from tests.random_programs import (
    Staged,
    close,
    drawn,
    functions_in,
    inner,
    inside,
    is_calls,
    is_closure,
    is_slope,
    many,
    moved,
    reads,
    some_direction,
)

R = C.Tensor()


# Types and values


@many(50)
@given(st.data())
def test_values_have_their_type(data):
    type = data.draw(types() | contexts())
    assert accepts(type, C.type_of(data.draw(values_of(type))))


def reals_of(value):
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(value)]
    return [float(x) for leaf in leaves if np.issubdtype(leaf.dtype, np.floating) for x in leaf.flat]


@given(st.data())
def test_reals_are_moderate_and_distinct(data):
    type = data.draw(types(functions=False, sums=False))
    magnitudes = [abs(x) for x in reals_of(data.draw(values_of(type)))]
    assert all(0.3 <= x <= 2.5 for x in magnitudes)
    assert len(set(magnitudes)) == len(magnitudes)


@given(tensors(discrete=False))
def test_tensors_can_be_real(type):
    assert jnp.issubdtype(type.dtype, np.floating)


def test_the_precision_that_is_on_is_drawn(x64):
    assert find(types(), lambda t: t == C.Tensor()).dtype == np.float64


@given(types(functions=False))
def test_types_can_be_first_order(type):
    assert functions_in(type) == []


# Terms


@many(60)
@given(st.data())
def test_terms_have_their_type_and_a_value(data):
    domain, codomain = data.draw(contexts() | types()), data.draw(types())
    term = data.draw(terms(domain, codomain, kinks=data.draw(st.booleans())))
    assert accepts(codomain, C.infer(term, domain))
    x = data.draw(values_of(domain))
    assert accepts(codomain, C.type_of(Staged(lambda x: C.evaluate(term, x), x)(x)))


@given(st.data())
def test_a_codomain_that_is_not_given_is_drawn(data):
    C.infer(data.draw(terms(Context(R))), Context(R))


@pytest.mark.usefixtures("x64")
@many(25)
@given(st.data())
def test_terms_are_smooth_and_both_tangent_spaces_agree(data):
    domain = data.draw(contexts(depth=1, max_size=3))
    codomain = data.draw(types(functions=False, depth=1))
    term, x = data.draw(terms(domain, codomain, size=12)), data.draw(values_of(domain))
    check_pullbacks(term, x)


def check_pullbacks(term, x):
    """Central differences against the environment tangent, by what functions captured too, and the list tangent."""
    value = Staged(lambda x: C.evaluate(term, x), x)
    y = value(x)
    assert all(abs(number) < 1e4 for number in reals_of(y))
    weights, direction = some_direction(y), some_direction(x)
    phi = lambda h: inner(value(moved(x, direction, h)), weights)
    g = pulled_back(term, x, weights, "environment")
    assert is_slope(inner(g, direction), phi)
    listed = pulled_back(term, x, weights, "list")
    for a, b in zip(jax.tree.leaves(g, is_leaf=is_closure), listed, strict=True):
        if not is_closure(a):
            close(a, b)


def pulled_back(term, x, weights, space):
    pull = lambda x, w: represent(term, functions=space)(x)[1](w)
    if space == "environment":
        return Staged(pull, x, weights)(x, weights)
    # Lists of calls differ in structure from x: only the cotangents of arrays are compared.
    leaves = lambda x, w: jax.tree.leaves(pull(x, w), is_leaf=is_calls)
    arrays = lambda x, w: [jnp.zeros(()) if is_calls(g) else g for g in leaves(x, w)]
    return Staged(arrays, x, weights)(x, weights)


def lets(term):
    """The number of lets in front of a term."""
    steps = term.steps if isinstance(term, Compose) else (term,)
    return next((i for i, step in enumerate(steps) if not isinstance(step, Extend)), len(steps))


def test_terms_are_of_every_kind():
    domain = Context(R, C.Function(R, R), {"w": C.Tensor((3,))}, Pair(R, R))
    examples = drawn(terms(domain, size=12), 180)
    kinds = {k for k in vars(C.terms).values() if isinstance(k, type) and issubclass(k, C.Term) and k is not C.Term}
    missing = kinds - {type(t) for term in examples for t, _ in inside(term)}
    of_their_own = {C.terms.Operator, C.terms.Solve, C.terms.Cata, C.terms.Inherit, C.terms.Fix}
    assert missing == of_their_own, "no derivatives of calls, solutions, trees and recursions"
    uses = [[reads(term, len(domain))[len(domain) + i] for i in range(lets(term))] for term in examples]
    assert sum(max(u, default=0) > 1 for u in uses) > 5, "sharing"
    assert sum(min(u, default=1) == 0 for u in uses) > 5, "dead variables"
    nested = [t for term in examples for t, depth in inside(term) if depth and isinstance(t, Curry)]
    assert len(nested) > 30
    assert sum(bool(functions_in(C.infer(term, domain))) or is_closure(C.infer(term, domain)) for term in examples) > 10
    assert sum(any(type(t) is C.terms.Eval for t, _ in inside(term)) for term in examples) > 50


def test_an_import_needs_no_hypothesis_and_leaves_jax_to_be_configured():
    number = "jax.config.update('jax_num_cpu_devices', 2)"  # is refused as soon as JAX has a backend
    code = f"import sys, jax, tangents, diffcurry; {number}; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
