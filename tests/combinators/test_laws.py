"""Every law in every reading, the tangent spaces, and `check` for users; a few examples each, derandomised."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from hypothesis import strategies as st
from jax import lax

import combinators as C
from combinators.laws.law import page
from compile_ccc import black_box, ccc, function
from diffcurry.command import main
from tangents import READINGS, SPACES, Reading, Space, check, custom, define, represent, representation, zero
from tangents.checking import check as checker
from tangents.checking.laws import check_law
from tangents.checking.report import LawError
from tangents.cotangents.sparse import ZERO

EXAMPLES = 3
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
        "category", "products", "exponentials", "const", "coproducts", "map and fold", "trees", "recursion",
        "paper 003, figure 4",
    }  # fmt: skip
    assert len({str(law) for law in C.LAWS}) == len(C.LAWS) >= 50


@pytest.mark.parametrize("space", SPACES.values(), ids=lambda space: space.name)
def test_a_tangent_space_is_a_commutative_monoid_with_an_inner_product(space):
    assert check(space, examples=2).ok


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


RIGHT = {  # programs that a check has to accept: what they compute with, and what JAX makes of them
    "a constant in float32": (C.prod(C.id, C.const(jnp.float32(2.0))) >> C.primitive("mul"), R),
    "a function value": (function(lambda x: 0.5 * x, R), R),
    "a function of float32": (lambda x: function(lambda y: x * y, R)(x), R),
    "a cast": (lambda x: jnp.sin(x.astype(jnp.float32)), C.Tensor(3)),
    "a large offset": (lambda x: x + 2451545.0, R),
    "methods of JAX's arrays": (lambda x: x.at[0].set(1.0), C.Tensor(3)),
    "an index out of bounds": (lambda x, i: x[i], C.Tensor(3), C.Tensor((), int)),
    "steps at integers": (C.primitive("floor"), C.Tensor((2, 3))),
    "a step at 1": (lambda x: jnp.where(x >= 1.0, 3 * x, 3 * x * x), C.Tensor(60)),
    "a long sort": (jnp.sort, C.Tensor(200)),
    "random numbers": (lambda x, key: x * jax.random.normal(key), R, jax.random.key(0)),
    "complex numbers": (C.primitive("mul"), C.Tensor((), complex), C.Tensor((), complex)),
    "complex to real": (lambda z: jnp.real(z * z) + jnp.abs(z), C.Tensor((), complex)),
    "real to complex": (jnp.fft.rfft, C.Tensor(4)),
}


class TestCheckForUsers:
    def test_a_primitive(self):
        assert check(C.primitive("mul"), examples=1).ok

    def test_a_term_with_a_function_in_its_domain(self):
        assert check(C.eval, (C.Function(R, R), R), examples=1).ok

    def test_a_lambda(self):
        weight = 1.5
        twice = lambda x: function(lambda y: weight * jnp.sin(y), x)(x) * 2  # of the type of x: checks are in float64
        assert check(twice, R, examples=2).ok

    def test_an_arrow_with_a_loop(self):
        assert check(
            ccc(lambda s, xs: lax.scan(lambda s, x: (jnp.tanh(s * x), None), s, xs)[0]), R, C.Tensor(3), examples=2
        ).ok

    def test_a_wrong_pullback_is_found_with_its_point(self, monkeypatch):
        from tangents.rows.table import ROWS

        monkeypatch.setitem(ROWS, "sin", (lambda g, y, x, **_: g * lax.sin(x),))
        with pytest.raises(LawError, match="central differences") as caught:
            check(C.primitive("sin"), R, examples=10)
        assert "term = sin" in str(caught.value) and caught.value.report.failures

    def test_a_wrong_pullback_is_found_however_small_the_function_is(self):
        small = define("small", lambda x: 1e-9 * x, lambda g, y, x: -1e-9 * g)
        with pytest.raises(LawError, match="central differences"):
            check(small, R, examples=5)

    def test_what_holds_in_float64_alone_is_found(self):
        """The rule is that of x in half precision, whose pullback at 3 has to give 6."""
        half = define("half", lambda x: x * x, lambda g, y, x: g if x.dtype == jnp.float16 else 2 * x * g)
        with pytest.raises(LawError, match="in float64 the pullback gives another"):
            check(half, C.Tensor(3, jnp.float16), examples=5)
        right = define("right", lambda x: x * x, lambda g, y, x: 2 * x * g)
        for dtype in (jnp.float16, jnp.bfloat16, jnp.float32):
            assert "precision" in [row.property for row in check(right, C.Tensor(3, dtype), examples=5).rows]

    @pytest.mark.parametrize("name", RIGHT)
    def test_a_right_program_is_not_blamed(self, name):
        f, *domain = RIGHT[name]
        assert check(f, *domain, examples=2).ok

    def test_points_are_the_only_ones(self):
        positive = st.floats(0.5, 2.0)

        def root(x):
            seen.append(float(x))
            return math.sqrt(x)

        seen = []
        arrow = custom(lambda x: black_box(root, R, R)(x), lambda primals, y, g: (g / (2 * y),))
        assert check(arrow, R, examples=5, points=positive).ok
        assert min(seen) > 0.4
        assert check(lambda x: x * x, R, examples=2, points=st.just(2)).ok
        for wrong in (st.just("a"), st.just((1.0, 2.0)), 2.0):
            with pytest.raises(C.errors.ArgumentError, match="`points`"):
                check(jnp.sin, R, points=wrong)
        with pytest.raises(C.errors.ArgumentError, match="beside a domain"):
            check(C.primitive("log"), points=positive)

    def test_all_of_a_space_and_of_a_reading_is_looked_at(self, monkeypatch):
        listed, meaning = SPACES["list"], READINGS["meaning"]
        beta = next(law for law in C.LAWS if str(law) == "exponentials: β")
        monkeypatch.setattr(checker, "LAWS", (beta,))  # the others are seen to hold above
        assert check(replace(listed, name="mine"), examples=1).ok
        with pytest.raises(LawError, match="exponentials"):
            check(replace(listed, curry=lambda rep, f, t: (C.Closure(f, t), lambda g: ZERO)), examples=5)
        doubled = Reading("pairs", lambda t: (t, t), lambda term, x: tuple(map(term, x)), meaning.compare)
        law = next(law for law in C.LAWS if str(law) == "category: left identity")
        assert all(row.counterexample is None for row in check_law(law, [meaning, doubled], 5, 0))

    @pytest.mark.parametrize("law", ["map and fold: while is unrolled", "trees: schedules"])
    def test_loops_list_calls_in_a_space_of_ones_own_that_lists_them(self, law):
        mine = replace(SPACES["list"], name="mine", is_leaf=lambda v: isinstance(v, C.Closure))
        (law,) = (known for known in C.LAWS if str(known) == law)
        assert [row.counterexample for row in check_law(law, [representation(mine)], 3, 0)] == [None]
        weight = 2.0
        f = function(lambda x: weight * x, R)
        assert zero((f, 1.0), mine)[0].blocks == () and zero(f, SPACES["environment"]).environment[0] == 0.0

    def test_what_cannot_be_checked(self):
        for examples in (0, "10", 1.5):
            with pytest.raises(C.errors.ArgumentError, match="examples"):
                check(C.primitive("sin"), examples=examples)

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
