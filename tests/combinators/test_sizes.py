"""The size of what is shown: shared parts are named once, and what is long or deep is elided."""

import re

import jax.numpy as jnp
import pytest

import combinators as C
from compile_ccc import function

R = C.Tensor()
NAMES = {
    "id": C.id,
    "prod": C.prod,
    "proj": C.proj,
    "curry": C.curry,
    "extend": C.extend,
    "eval": C.eval,
    "case": C.case,
    "inject": C.inject,
    **{name: C.primitive(name) for name in ("add", "mul", "sin", "neg")},
}


def doubled(times):
    """x ↦ 2^times · x, of 2^times parts if they were written out."""
    term = C.id
    for _ in range(times):
        term = C.prod(term, term) >> NAMES["add"]
    return term


def deep(times):
    term = NAMES["sin"]
    for i in range(times):
        term = C.prod(C.proj(i), term) >> NAMES["mul"]
    return term


def read(text):
    """The term of a text, by Python itself."""
    first, *explained = re.split(r"\n  (?=f\d+ = )|\nwhere(?=\n)", text)
    names = dict(NAMES)
    for name, part in reversed([line.split(" = ", 1) for line in explained if line.strip()]):
        names[name] = eval(" ".join(part.split()), {}, names)
    return eval(" ".join(first.split()), {}, names)


@pytest.mark.parametrize(
    "term",
    [
        doubled(3),
        doubled(60),
        deep(150),
        C.compose(*[doubled(7), deep(30)] * 3),
        C.curry(C.prod(doubled(30), C.curry(doubled(30)), deep(100) >> NAMES["neg"])),
        C.case(doubled(20), doubled(20) >> NAMES["sin"]),
    ],
)
def test_a_text_is_that_of_its_term(term):
    assert read(C.show(term)) is term
    assert repr(term) == C.show(term)


def test_a_text_is_as_long_as_the_term_is_large():
    assert len(C.show(doubled(60))) < 4_000
    assert len(C.show(doubled(500))) < 40 * 500
    assert len(C.show(deep(150))) < 100 * 150  # lines are indented by their levels, which must not add up
    assert len(repr(doubled(500))) < 10_000
    assert "where" not in C.show(doubled(3))


def test_long_terms_are_shown_by_their_ends():
    term = C.compose(C.proj(0), *[NAMES["neg"], NAMES["sin"]] * 50_000, C.proj(1))
    assert C.show(term).count("neg") == 50_000
    text = repr(term)
    assert len(text) < 3_000 and text.startswith("proj(0)") and text.endswith("proj(1)") and "… 99,802 more …" in text


def test_errors_are_short():
    for wrong in (doubled(60) >> C.proj(1), C.prod(deep(300), C.proj(1)), C.prod(doubled(60), C.id) >> C.eval):
        with pytest.raises(C.errors.DiffcurryError) as caught:
            C.infer(wrong, R)
        assert len(str(caught.value)) < 3_000
    with pytest.raises(C.errors.ProjectionError) as caught:
        C.infer(C.proj("b"), {f"a{i}": R for i in range(10_000)})
    assert len(str(caught.value)) < 1_000 and "10000 keys" in str(caught.value)


def test_a_mark_within_what_is_deep():
    term = C.proj(5)
    for _ in range(300):
        term = C.prod(term, NAMES["sin"])
    with pytest.raises(C.errors.ProjectionError) as caught:
        C.infer(term, R)
    assert "… prod(" in str(caught.value) and "▶ proj(5) ◀" in str(caught.value) and len(str(caught.value)) < 1_000


def test_equality_of_what_is_shared():
    same = C.equal(doubled(40), C.id >> doubled(40), R)
    assert same and len(str(same)) < 10_000
    other = C.equal(doubled(40), doubled(40) >> NAMES["neg"], R)
    assert other.verdict is False and len(str(other)) < 10_000


def test_functions_are_shown_by_the_shapes_of_what_they_captured():
    w = jnp.zeros((1_000, 1_000))
    f = function(lambda x: w @ x, C.Tensor(1_000))
    assert repr(f).endswith("Context(f32[1000,1000]))") and len(repr(f)) < 500
    many = C.Closure(C.curry(C.proj(0)), tuple(range(1_000_000)))
    assert len(repr(many)) < 500 and "… 999,995 more" in repr(many)
    few = C.Closure(C.curry(C.proj(0)), (1.0, jnp.float32(2.0)))
    assert repr(few) == "Closure(curry(proj(0)), (1.0, 2.0:f32))"


def test_values_are_elided():
    assert repr(C.const(list(range(1_000)))) == "const([0, 1, 2, 3, 4, … 995 more])"
    assert len(repr(C.const({str(i): float(i) for i in range(1_000)}))) < 200
    assert "…" not in repr(C.const([[1, 2], {"a": 3.0}]))
