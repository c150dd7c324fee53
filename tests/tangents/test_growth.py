"""Chains and random graphs of 100 to 20,000 operations: visits, calls and equations are counted, and grow linearly.

A graph draws operands among all earlier values, half of the time among the last ten: most values have several uses, and
some lie far back.
"""

import sys
from functools import cache

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun

import combinators as C
from benchmarks.models import chains
from benchmarks.models.chains import lax_chain, random_graph
from benchmarks.peers import OURS
from combinators.meaning.infer import _infer
from compile_ccc import optimise, trace
from compile_ccc.jaxprs.recording import record
from tangents import grad, jvp
from tangents.control import loops
from tangents.forward import control as forward_loops
from tangents.represent import rep
from tests.counted import LONG, size, value_and_pullback

F32 = C.Tensor()
x = jnp.float32(0.5)
PROGRAMS = {"chain": lax_chain, "graph": random_graph}
LENGTHS = (100, 500, 2_500)
programs = pytest.mark.parametrize("name", PROGRAMS)


@cache
def term(name, n):
    return trace(PROGRAMS[name](n).loss, F32).term


def derivative(term):
    """The equations of value and pullback."""
    return record(value_and_pullback(term, "environment"), x).equations


def calls(run, *functions):
    """How often some Python functions are called while something runs; without them, how often any is."""
    codes, count, before = {f.__code__ for f in functions}, 0, sys.getprofile()

    def counting(frame, event, argument):
        nonlocal count
        count += event == "call" and (not codes or frame.f_code in codes)

    sys.setprofile(counting)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


def grows_linearly(count):
    """Whether count(n) / n is the same for all n, but for which operations a short graph happens to draw."""
    small, medium, large = (count(n) / n for n in LENGTHS)
    assert 0 < large < 1.25 * medium < 1.8 * small, (small, medium, large)  # tables of operations have an end


@programs
def test_terms_and_derivatives_grow_linearly(name):
    grows_linearly(lambda n: size(term(name, n)))
    grows_linearly(lambda n: len(derivative(term(name, n))))


@programs
def test_no_combinator_is_visited_twice(name):
    for n in LENGTHS:
        t = term(name, n)
        assert n <= calls(lambda t=t: C.infer(t, F32), _infer) <= size(t)
        assert n <= calls(lambda t=t: derivative(t), rep) <= size(t)


PASSES = {
    "trace": lambda name, n: OURS.forget() or trace(PROGRAMS[name](n).loss, F32),  # which other tests have traced
    "infer": lambda name, n: C.infer(term(name, n), F32),
    "optimise": lambda name, n: optimise(term(name, n)),
    "represent": lambda name, n: derivative(term(name, n)),
}


@pytest.mark.parametrize("stage", PASSES)
@programs
def test_the_work_of_each_pass_grows_linearly(name, stage):
    """Work is counted in calls of Python functions, ours and JAX's."""
    PASSES[stage](name, 50)  # what is worked out once
    grows_linearly(lambda n: calls(lambda: PASSES[stage](name, n)))


def test_many_operations_of_a_graph(monkeypatch):
    """Primitives alone, read from a program: so many functions of jnp, or in a list, take long to trace."""
    monkeypatch.setattr(chains, "UNARY", [lax.sin, lax.tanh, lax.cos, lax.atan, lax.neg])
    monkeypatch.setattr(chains, "BINARY", [lax.add, lax.mul, lax.sub, lax.max])
    n = LONG
    program = jaxpr_as_fun(jax.make_jaxpr(random_graph(n).loss)(x))
    t = trace(lambda x: program(x)[0], F32).term
    assert n < size(t) < 5.5 * n
    assert C.infer(t, F32) == F32
    assert n < len(derivative(t)) < 5 * n


def test_loops_in_loops_are_represented_once(monkeypatch):
    """The state of each loop starts as a constant, so that a second look is taken: d² / 2 of them at a depth of d."""

    def nested(depth, x):
        if depth == 0:
            return jnp.sin(x)
        body = lambda _, s: (s[0] + nested(depth - 1, x * 1.5 + s[1]), s[0])
        return lax.fori_loop(0, 2, body, (0.0, 0.0))[0]

    counted = []
    for module in (loops, forward_loops):
        write = module.record
        monkeypatch.setattr(module, "record", lambda *a, write=write, **k: counted.append(0) or write(*a, **k))
    for derivative in (lambda f: grad(f), lambda f: lambda x: jvp(f, (x,), (1.0,))):
        sizes = []
        for depth in (2, 4, 8):
            counted.clear()
            derivative(lambda x, depth=depth: nested(depth, x))(jnp.float32(0.3))
            sizes.append(len(counted))
        assert sizes[2] <= 4 * sizes[1] <= 16 * sizes[0]
