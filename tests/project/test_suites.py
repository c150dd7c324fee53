"""The tests of other projects with our derivatives: what becomes of a test is counted as what it is."""

import sys

import jax
import pytest

from benchmarks.command import main
from benchmarks.suites.differences import GradTester
from benchmarks.suites.known import KNOWN, Reason
from benchmarks.suites.outcomes import Expired, latest, outcome
from benchmarks.suites.plugin import spread
from benchmarks.suites.stand_ins import Anything, stand_in
from benchmarks.suites.swap import NAMES, Swap
from combinators.errors import UnsupportedError
from tangents import as_jax

# With JAX's derivatives all of these pass but the last; with ours each does what its name says.
SUITE = """
import sys, time, unittest
import jax, numpy as np
from combinators.errors import UnsupportedError

ours = "--by=ours" in sys.argv
square = lambda x: x * x


class Tests(unittest.TestCase):
    def test_passes(self):
        np.testing.assert_allclose(jax.grad(square)(3.0), 6.0)

    def test_is_refused(self):
        jax.grad(square)
        if ours:
            raise UnsupportedError("not this")

    def test_is_raw(self):
        jax.grad(square)
        if ours:
            raise KeyError("axis")

    def test_is_wrong(self):
        np.testing.assert_allclose(jax.grad(square)(3.0), 7.0 if ours else 6.0)

    def test_expects_an_error(self):
        with self.assertRaisesRegex(ValueError, "axis"):
            jax.grad(square)
            raise UnsupportedError("not this") if ours else ValueError("axis")

    def test_takes_long(self):
        jax.grad(square)
        time.sleep(5 if ours else 0)

    def test_takes_no_derivative_but_mentions_grad(self):
        pass

    def test_fails_under_jax(self):
        assert jax.grad(square)(3.0) == 5.0
"""
UNDER_OURS = {
    "passes": "pass",
    "is_refused": "refusal",
    "is_raw": "raw error",
    "is_wrong": "wrong value",
    "expects_an_error": "other error",
    "takes_long": "time",
}


def test_a_suite_is_run_by_jax_and_by_us_and_goes_on_where_it_stopped(tmp_path, capsys, monkeypatch):
    file, results = tmp_path / "tests" / "small_test.py", tmp_path / "results.jsonl"
    file.parent.mkdir()
    file.write_text(SUITE)
    run = ["suites", "jax", str(tmp_path), "--files", "tests/small_test.py", "--results", str(results)]
    assert main([*run, "--seconds", "1"]) == 1
    kinds = {test.rpartition("::test_")[2]: row["kind"] for (by, test), row in latest(results).items() if by == "ours"}
    assert kinds == UNDER_OURS
    assert len([row for row in latest(results) if row[0] == "jax"]) == len(UNDER_OURS) + 2
    known = results.read_text()
    capsys.readouterr()
    assert main([*run, "--list"]) == 1
    assert results.read_text() == known
    printed = capsys.readouterr().out
    assert "UnsupportedError: not this" in printed and "KeyError: 'axis'" in printed
    kinds = tuple(kind for kind in UNDER_OURS.values() if kind != "raw error")
    monkeypatch.setitem(KNOWN, "jax", (Reason("it was made so", kinds, "test_*"),))
    assert main([*run, "--list"]) == 1
    printed = capsys.readouterr().out
    assert "4 it was made so" in printed and "1 do not pass for no known reason" in printed
    monkeypatch.setitem(KNOWN, "jax", (Reason("it was made so", (*kinds, "raw error"), "test_[it]* test_expects_*"),))
    assert main([*run, "--list"]) == 0
    first = known.splitlines()[:-1]  # the last test has begun, and has no result
    results.write_text("\n".join(first) + "\n")
    assert [row["kind"] for row in latest(results).values()].count("crash") == 1


@pytest.fixture
def swapped(monkeypatch):
    """`jax.grad` as a suite sees it, with a mark in the place of ours."""
    for place in (jax, sys.modules["jax._src.api"]):
        for name in NAMES:
            monkeypatch.setattr(place, name, getattr(place, name))
    monkeypatch.setattr(as_jax, "grad", lambda f: "ours")
    swap = Swap(ours=True)
    swap.install()
    return swap


def test_a_suite_gets_our_derivatives_and_jax_its_own(swapped):
    asked = "import jax\nfound = jax.grad(lambda x: x * x)"
    suite, inside = {"__name__": "api_test"}, {"__name__": "jax._src.custom_derivatives"}
    exec(asked, suite)
    exec(asked, inside)
    assert suite["found"] == "ours" and inside["found"](3.0) == 6.0
    assert swapped.taken == 1
    exec("found = given(1)", {"given": jax.grad, **inside}, given := dict[str, object]())
    assert given["found"] == "ours" and swapped.taken == 2  # a library runs what a suite gave it


def test_outcomes_tell_values_from_texts():
    kind = lambda error, test="": outcome(error, test)[0]
    assert kind(AssertionError("Not equal to tolerance rtol=1e-6")) == "wrong value"
    assert kind(AssertionError("ValueError not raised")) == "no error"
    assert kind(AssertionError("1 != 2")) == "assertion"
    assert kind(AssertionError("1 != 2"), "jax.make_jaxpr(f)") == "internals"
    assert kind(UnsupportedError("no")) == "refusal"
    assert kind(TypeError("no")) == "raw error"
    assert kind(Expired("more than 1 s")) == "time"


def test_a_gradient_is_held_against_differences():
    product = lambda p, y: (p["x"] * y, y)
    right = lambda p, y, out: ({"x": out[0] * y}, out[0] * p["x"] + out[1])
    wrong = lambda p, y, out: ({"x": out[0] * y}, out[0] * p["x"])
    at = ({"x": 2.0}, 3.0)
    with jax.enable_x64(True):
        GradTester(product, right, at, ["p", "y"], None).assert_match()
        with pytest.raises(AssertionError):
            GradTester(product, wrong, at, ["p", "y"], None).assert_match()


def test_variants_are_spread():
    assert spread(list(range(10)), 3) == [0, 4, 9]
    assert spread(list(range(10)), 0) == list(range(10))
    assert spread([1, 2], 3) == [1, 2]


def test_modules_stand_in_for_a_library(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    stand_in("no_such_library", {"": {"grad": 1}, "numpy": {"pi": 3}}, {"numpy": jax.numpy})
    import no_such_library.numpy as np
    from no_such_library import grad, nothing

    assert (grad, np.pi, np.sin) == (1, 3, jax.numpy.sin)
    assert isinstance(nothing(1).further[2], Anything) and list(nothing) == []
    for name in [name for name in sys.modules if name.startswith("no_such_library")]:
        monkeypatch.delitem(sys.modules, name)
