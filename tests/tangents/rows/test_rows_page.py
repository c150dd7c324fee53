"""Every primitive of the installed JAX has its way to be differentiated, or is refused; and the page says which."""

import inspect

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.extend.core import Primitive, primitives
from jax.interpreters import ad

import combinators as C
from diffcurry.command import main
from tangents import grad
from tangents.rows.kinds import Constant
from tangents.rows.page import DELEGATED, PROGRAMS, REFUSED, STRUCTURAL, page
from tangents.rows.table import CONSTANT, NATIVE, ROWS

INSTALLED = {p.name: p for p in vars(primitives).values() if isinstance(p, Primitive)}
BY_JAX = {name for names in DELEGATED.values() for name in names}
WAYS = [set(NATIVE), set(CONSTANT), BY_JAX, set(STRUCTURAL), set(PROGRAMS), set(REFUSED)]
WITHOUT_A_RULE = {"nextafter"} if "nextafter" not in {p.name for p in ad.primitive_jvps} else set()  # before 0.12


def test_no_primitive_of_jax_is_missing_and_each_is_in_one_class():
    assert len(INSTALLED) > 170
    ways = {name: sum(name in way for way in WAYS) for name in INSTALLED}
    assert {name: n for name, n in ways.items() if n != 1} == {}


def test_what_is_delegated_has_a_rule_and_what_is_refused_has_none():
    has = {p.name for p in ad.primitive_jvps}
    assert {name for name in BY_JAX & set(INSTALLED) if name not in has} == WITHOUT_A_RULE
    assert {name for name in REFUSED if name in has} <= {"get", "swap"}  # rules for references of their own


def test_what_is_constant_is_constant_for_jax():
    """It has no inexact result, or JAX's derivative is zero."""
    for f in (lax.floor, lax.ceil, lax.round, lax.sign, lax.stop_gradient):
        assert float(jax.grad(f)(0.3)) == float(grad(f)(0.3)) == 0.0
    assert set(CONSTANT) <= {name for name, row in ROWS.items() if isinstance(row, Constant)}


square = jnp.array([[2.0, 1.0], [1.0, 3.0]])

REFUSALS = {
    "zeta": (lambda x: lax.zeta(x, 2.0), 3.0),
    "igamma_grad_a": (lambda x: lax.igamma_grad_a(x, 2.0), 1.5),
    "householder_product": (lambda x: jnp.sum(lax.linalg.householder_product(x, x[0])), square),
    "hessenberg": (lambda x: jnp.sum(lax.linalg.hessenberg(x)[0]), square),
    "schur": (lambda x: jnp.sum(lax.linalg.schur(x)[0]), square),
    "tridiagonal": (lambda x: jnp.sum(lax.linalg.tridiagonal(x)[0]), square),
    "rng_uniform": (lambda x: lax.rng_uniform(x, 2.0, ()), 1.5),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_gradient_through_what_is_refused_says_so(name):
    f, x = REFUSALS[name]
    with pytest.raises(C.errors.NotDifferentiableError) as caught:
        grad(f)(x)
    line = inspect.getsourcelines(f)[1]
    assert name in str(caught.value) and f"test_rows_page.py:{line}" in str(caught.value)
    assert caught.value.hint


def test_the_page_of_primitives_is_printed_from_the_table(pytestconfig, capsys):
    assert (pytestconfig.rootpath / "docs" / "primitives.md").read_text() == page()
    assert main(["primitives", "--page"]) == 0
    assert capsys.readouterr().out == page()


def test_the_table_of_primitives(capsys):
    assert main(["primitives"]) == 0
    printed = capsys.readouterr().out
    assert "dot_general" in printed and "zeta" in printed
