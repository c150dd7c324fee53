"""Structured operations are terms: a broken row breaks the derivative through each of them, so none is JAX's own.

What is left to JAX's rule is one operation each; the few that hold a program are on a list, which `tests/conftest.py`
holds every test to.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import function
from tangents import grad, vjp
from tangents.rows import table as rows
from tangents.rows.page import PROGRAMS
from tests.mutants.breaking import Pullbacks, broken
from tests.tangents.rows.cases import CASES
from tests.tangents.rows.examples import real


class Broken(Exception):
    pass


def total(results):
    """A number that depends on all real results."""
    inexact = [y for y in jax.tree.leaves(results) if jnp.issubdtype(y.dtype, np.inexact)]
    return sum((jnp.sum(jnp.real(y)) for y in inexact), start=0.0)


def solved(f):
    """The solution of c·x = p, where c depends on what f gives."""

    def of(p, *xs):
        c = 10.0 + total(f(*xs)).astype(p.dtype)
        return lax.custom_linear_solve(lambda x: c * x, p, lambda _, b: b / c, symmetric=True)

    return of


# What is made of a function f: a program of a number p, which is positive, and the arguments of f.
STRUCTURES = {
    "alone": lambda f: lambda p, *xs: f(*xs),
    "cond": lambda f: lambda p, *xs: lax.cond(p > 0.0, f, f, *xs),
    "switch": lambda f: lambda p, *xs: lax.switch(p.astype(np.int32), [f, f, f], *xs),
    "checkpoint": lambda f: lambda p, *xs: jax.checkpoint(f)(*xs),
    "jit": lambda f: lambda p, *xs: jax.jit(lambda *xs: total(f(*xs)))(*xs),
    "scan": lambda f: lambda p, *xs: lax.scan(lambda s, _: (s, f(*xs)), p, None, length=2)[1],
    "scan of a state": lambda f: lambda p, *xs: lax.fori_loop(0, 2, lambda _, s: s + total(f(*xs)), p.astype(float)),
    "map": lambda f: lambda p, *xs: C.map(function(lambda e: f(*xs), C.Tensor((), p.dtype)), jnp.stack([p, p])),
    "solve": solved,
    "a function value": lambda f: lambda p, *xs: function(lambda e: f(*xs), C.Tensor((), p.dtype))(p),
}
structures = pytest.mark.parametrize("structure", STRUCTURES)


def examples():
    """For each row, a function of one equation and its arguments, which are not empty."""
    for name in sorted(rows.NATIVE):
        f, *arguments = next(case for case in CASES[name] if all(np.size(x) for x in case[1:]))
        with jax.enable_x64(True):
            (eqn,) = jax.make_jaxpr(f)(*arguments).eqns
        operation = lambda *xs, eqn=eqn: eqn.primitive.bind(*xs, **eqn.params)
        yield name, operation, tuple(map(np.asarray, arguments))


ROWS = {name: (f, arguments) for name, f, arguments in examples()}
OF_EACH_KIND = ["sin", "mul", "dot_general", "gather", "scatter", "reduce_max", "top_k", "cholesky"]


@pytest.mark.parametrize(
    ("structure", "name"),
    [("alone", name) for name in ROWS] + [(s, name) for s in STRUCTURES if s != "alone" for name in OF_EACH_KIND],
)
def test_a_row_is_used_through_every_structure(structure, name):
    """Where the pullback of the row fails, so does the derivative of every program that the function is put into.

    How a row is found does not depend on what is around its operation, so that a row of each kind is tried inside.
    """

    def fails(*_, **__):
        raise Broken

    f, arguments = ROWS[name]
    change = Pullbacks(name, replace(rows.NATIVE[name], pull=fails))
    program = STRUCTURES[structure](f)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), broken(change), pytest.raises(Broken):
        jax.eval_shape(lambda *xs: vjp(program, *xs)[0], np.float64(1.0), *arguments)


@structures
def test_a_derivative_is_what_the_rows_say(structure):
    """Twice the pullback of sin makes twice the derivative, or what the structure makes of it."""
    loss = lambda p, x: total(STRUCTURES[structure](jnp.sin)(p, x))
    x = real(3)
    with jax.enable_x64(True):
        whole = grad(loss, 1)(jnp.float64(1.0), jnp.array(x))
        row = rows.NATIVE["sin"]
        twice = replace(row, pull=lambda *given, **params: [2.0 * g for g in row.pull(*given, **params)])
        with broken(Pullbacks("sin", twice)):
            doubled = grad(loss, 1)(jnp.float64(1.0), jnp.array(x))
        again = grad(loss, 1)(jnp.float64(1.0), jnp.array(x))
    times = {"scan": 2.0, "scan of a state": 2.0, "map": 2.0, "solve": -1.0 / (10.0 + np.sum(np.sin(x))) ** 2}
    right = times.get(structure, 1.0) * np.cos(x)
    np.testing.assert_allclose(whole, right, rtol=1e-12)
    np.testing.assert_allclose(doubled, 2.0 * right, rtol=1e-12)
    np.testing.assert_allclose(again, right, rtol=1e-12)


def test_a_program_that_is_left_to_jax_is_on_the_list():
    assert all(PROGRAMS.values())
    assert {"cond", "scan", "remat2", "custom_linear_solve", "jit"}.isdisjoint(PROGRAMS)
