"""Every law in every reading, the tangent spaces, and `check` for users; a few examples each, derandomised."""

import jax.numpy as jnp
import pytest
from jax import lax

import combinators as C
from combinators.law import page
from compile_ccc import ccc, function
from diffcurry.command import main
from tangents import READINGS, SPACES, Reading, Space, check, represent, representation
from tangents.check_laws import check_law
from tangents.report import LawError
from tangents.sparse import ZERO

EXAMPLES = 4
R = C.Tensor(())


@pytest.mark.parametrize("law", C.LAWS, ids=str)
def test_a_law_holds_in_every_reading(law):
    rows = check_law(law, READINGS.values(), EXAMPLES, seed=0)
    assert [row.reading for row in rows] == list(READINGS)
    assert [row.counterexample for row in rows] == [None] * len(READINGS)
    assert all(row.examples >= EXAMPLES for row in rows)


def test_the_laws_are_about_all_that_they_should_be():
    groups = {law.group for law in C.LAWS}
    assert groups == {
        "category", "products", "exponentials", "const", "coproducts", "map and fold", "paper 003, figure 4",
    }  # fmt: skip
    assert len({str(law) for law in C.LAWS}) == len(C.LAWS) >= 50


@pytest.mark.parametrize("space", SPACES.values(), ids=lambda space: space.name)
def test_a_tangent_space_is_a_commutative_monoid_with_an_inner_product(space):
    assert check(space, examples=8).ok


def test_the_page_of_laws_is_up_to_date(pytestconfig):
    assert (pytestconfig.rootpath / "docs" / "laws.md").read_text() == page(C.LAWS)


def test_the_table_of_laws(capsys):
    assert main(["laws", "--examples", "3", "--only", "identity"]) == 0
    assert "every law holds in every reading" in capsys.readouterr().out


def test_a_failing_law_gives_exit_code_1_and_a_counterexample(capsys, monkeypatch):
    false = C.Law("false", "products", ("a", "a"), "a", lambda: (C.proj(0), C.proj(1)))
    monkeypatch.setattr(C, "LAWS", (false,))
    assert main(["laws", "--examples", "20"]) == 1
    shown = capsys.readouterr().out
    assert "proj(0)" in shown and "x = " in shown and "1 fail" not in shown


class TestCheckForUsers:
    def test_a_primitive(self):
        assert check(C.primitive("tanh"), examples=4).ok
        assert check(C.primitive("mul"), examples=3).ok

    def test_a_term_with_a_function_in_its_domain(self):
        assert check(C.eval, (C.Function(R, R), R), examples=3).ok

    def test_a_lambda(self):
        weight = 1.5
        twice = lambda x: function(lambda y: weight * jnp.sin(y), x)(x) * 2  # of the type of x: checks are in float64
        assert check(twice, R, examples=5).ok

    def test_an_arrow_with_a_loop(self):
        assert check(
            ccc(lambda s, xs: lax.scan(lambda s, x: (jnp.tanh(s * x), None), s, xs)[0]), R, C.Tensor(3), examples=3
        ).ok

    def test_a_wrong_pullback_is_found_with_its_point(self, monkeypatch):
        from tangents.rows import ROWS

        monkeypatch.setitem(ROWS, "sin", (lambda g, y, x, **_: g * lax.sin(x),))
        with pytest.raises(LawError, match="central differences") as caught:
            check(C.primitive("sin"), R, examples=10)
        assert "term = sin" in str(caught.value) and caught.value.report.failures

    def test_what_cannot_be_checked(self):
        with pytest.raises(C.errors.ArgumentError, match="cannot be checked"):
            check(3)
        with pytest.raises(C.errors.ArgumentError, match="domain"):
            check(lambda x: x)

    def test_a_reading_of_ones_own_that_breaks_a_law(self):
        right = READINGS["environment"]
        broken = Space("forgetful", lambda rep, f, t: (C.Closure(f, t), lambda g: ZERO), SPACES["environment"].eval,
                       SPACES["environment"].is_leaf)  # fmt: skip
        beta = next(law for law in C.LAWS if str(law) == "exponentials: β")
        failing = [row for row in check_law(beta, [right, representation(broken)], 20, 0) if row.counterexample]
        assert [row.reading for row in failing] == ["forgetful"]

    def test_a_reading_of_ones_own_that_obeys_them(self):
        def operations(term, x):
            y, _ = represent(term)(x)
            return y

        values = Reading("values of representations", lambda t: t, operations, READINGS["meaning"].compare)
        law = next(law for law in C.LAWS if str(law) == "exponentials: fusion")
        assert all(row.counterexample is None for row in check_law(law, [values], 10, 0))
