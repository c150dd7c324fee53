"""Fresh functions, and a function at many shapes, leave nothing behind: objects are counted, by kind."""

import gc
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.memo import caches, clear_caches
from combinators.terms import Term
from compile_ccc import ccc, function, optimise, trace
from tangents import grad, jvp, represent

x = jnp.float32(0.5)
KINDS = ("term", "Jaxpr", "ClosedJaxpr", "PjitFunction", "Program", "Lam", "Table", "ArrayImpl")


def living():
    """How many objects there are of each kind that programs are made of, and executables of XLA."""
    gc.collect()
    found = Counter("term" if isinstance(o, Term) else type(o).__name__ for o in gc.get_objects())
    return {kind: found[kind] for kind in KINDS} | {"executables": len(jax.devices()[0].client.live_executables())}


def fresh(number):
    """x ↦ sin(n x) + n x: a function that no other one equals, as n is code; without jnp, whose parts JAX keeps."""
    names = {"jax": jax, "lax": lax, "function": function, "times": lambda t: lax.mul(t, lax.full_like(t, number))}
    exec("def f(x): return lax.add(function(lambda t: lax.sin(times(t)), x)(x), jax.jit(lambda t: times(t))(x))", names)
    return names["f"]


USES = {
    "trace": lambda f, x: trace(f, x),
    "evaluate": lambda f, x: C.evaluate(trace(f, x).term, x),
    "optimise": lambda f, x: optimise(trace(f, x).term),
    "represent": lambda f, x: jax.make_jaxpr(lambda x: represent(trace(f, x).term)(x)[1](x))(x),
    "jvp": lambda f, x: jax.make_jaxpr(lambda x: jvp(f, (x,), (x,)))(x),
    "grad": lambda f, x: jax.make_jaxpr(grad(lambda x: lax.reduce_sum(f(x), tuple(range(x.ndim)))))(x),
    "call": lambda f, x: ccc(f)(x),
}


@pytest.mark.parametrize("use", USES)
def test_fresh_functions_leave_nothing_behind(use):
    def forgotten(numbers):
        for i in numbers:
            USES[use](fresh(i + 0.25), x)
        clear_caches()
        return living()

    before, after = forgotten(range(3)), forgotten(range(3, 11))
    assert {kind: n for kind, n in after.items() if n > before[kind]} == {}  # what others left may go in between


def test_what_one_program_differentiates_is_kept_from_the_second_time_on():
    runs, kept = [], []

    def f(x):
        runs.append(1)
        return x * 7.5

    clear_caches()
    for _ in range(4):
        jax.jit(lambda x: grad(f)(x)).trace(x)
        kept.append((len(runs), caches()["traces"]))
    assert kept == [(1, 0), (2, 1), (2, 1), (2, 1)]


@pytest.mark.parametrize("use", ["represent", "jvp", "grad"])  # operations that run are kept by JAX, for each shape
def test_many_shapes_leave_nothing_behind(use):
    f = fresh(0.75)

    def forgotten(sizes):
        for size in sizes:
            USES[use](f, np.ones(size, "float32"))
        clear_caches()
        return living()

    before = forgotten(range(1, 4))
    assert forgotten(range(4, 12)) == before
