"""Tables forget without harm: emptied at any time, in any thread they change no answer; and they keep nothing alive."""

import ast
import gc
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import lax

import combinators as C
import diffcurry
from combinators import memo
from combinators.memo import ByObject, Facts, Table, clear_caches
from compile_ccc import ccc, function, trace
from tangents import grad, value_and_grad
from tangents.strategies import lambdas
from tests.project.test_structure import FILES, ROOT

x = jnp.float32(0.5)


# What a table is
def test_the_entry_that_was_used_longest_ago_goes_first():
    table = Table("three letters", 3)
    for i, letter in enumerate("abc"):
        table.put(letter, i)
    assert table.get("a") == 0 and table.put("a", 9) == 0
    table.put("d", 3)
    assert table.get("b") is None and {letter: table.get(letter) for letter in "acd"} == {"a": 0, "c": 2, "d": 3}
    assert diffcurry.caches()["three letters"] == 3
    memo._tables.remove(table)


def test_facts_go_with_their_term_even_if_they_hold_it():
    facts = Facts("about terms", 2)
    term = C.const(np.float64(0.123))
    for number in range(3):
        facts.put(term, (term, number), number)
    assert facts.get(term, 0) is None and facts.get(term, 2) == (term, 2) and len(facts) == 2
    gone = weakref.ref(term)
    del term
    gc.collect()
    assert gone() is None and len(facts) == 0
    memo._tables.remove(facts)


def test_what_is_known_of_an_object_goes_with_it():
    known, key = ByObject("about objects"), threading.Event()
    assert known.put(key, 1) == known.put(key, 2) == known.get(key) == 1
    del key
    gc.collect()
    assert len(known) == 0
    memo._tables.remove(known)


# One owner
KEPT = {  # what is no table: emptying it would change what terms are, what users said, and which rules JAX has seen
    "combinators/identity/identity.py": {"WeakValueDictionary"},
    "combinators/identity/kinds.py": {"WeakValueDictionary"},
    "compile_ccc/watching/redefined.py": {"WeakKeyDictionary"},
    "tangents/rows/table.py": {"WeakKeyDictionary"},
    # what users have
    "compile_ccc/watching/foreign.py": {"OrderedDict", "lru_cache"},
    "compile_ccc/watching/handed.py": {"OrderedDict"},
    "compile_ccc/watching/watch.py": {"OrderedDict"},
}
TABLES = {"lru_cache", "cache", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_there_are_no_tables_but_those_that_can_be_emptied(path):
    label, tree = str(path.relative_to(ROOT)), ast.parse(path.read_text())
    imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for a in node.names}
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} - {"cache"}
    found = (imported | named) & TABLES - KEPT.get(label, set())
    assert label == "combinators/memo.py" or found == set()


def test_no_module_switches_the_garbage_collector_off():
    assert [path for path in FILES if "gc.disable" in path.read_text()] == []


# Emptied at any time
@pytest.fixture
def forgetful(monkeypatch):
    """All tables are emptied again and again while something is worked out, before every 4th look at one of them."""
    count = 0

    def emptied(get):
        def method(self, *key):
            nonlocal count
            count += 1
            if count % 4 == 0:
                clear_caches()
            return get(self, *key)

        return method

    for kind in (Table, Facts, ByObject):
        monkeypatch.setattr(kind, "get", emptied(kind.get))
    yield
    assert count > 80


def training(rows, between=lambda: None):
    """Some steps of a small recurrent network, by JAX's notation and our derivative; the parameters after each step."""

    def loss(params, xs, target):
        cell = lambda s, x: jax.nn.relu(params["keep"] * s + params["read"] * x)
        step = function(cell, C.Tensor(), C.Tensor())
        return (C.fold(step, jnp.float32(0.0), xs) - target) ** 2

    params, path = {"keep": jnp.float32(0.5), "read": jnp.float32(0.8)}, []
    xs, target = jnp.array(rows, "float32"), jnp.float32(1.0)
    for _ in range(3):
        between()
        value, gradient = value_and_grad(loss)(params, xs, target)
        between()
        params = jax.tree.map(lambda p, g: p - np.float32(0.1) * g, params, gradient)
        path.append((float(value), float(params["keep"]), float(params["read"])))
    return path


def expected_training(rows):
    """The same by hand: s' = keep s + read x as long as nothing is negative."""
    keep, read, path = 0.5, 0.8, []
    for _ in range(3):
        s = ds_keep = ds_read = 0.0
        for x in rows:
            s, ds_keep, ds_read = keep * s + read * x, s + keep * ds_keep, x + keep * ds_read
        g = 2 * (s - 1.0)
        value, keep, read = (s - 1.0) ** 2, keep - 0.1 * g * ds_keep, read - 0.1 * g * ds_read
        path.append((value, keep, read))
    return path


def test_a_training_with_tables_that_are_emptied_between_its_steps():
    rows = (0.1, 0.7, 0.4)
    np.testing.assert_allclose(training(rows), expected_training(rows), rtol=1e-5)
    assert sum(diffcurry.caches().values()) > 0
    np.testing.assert_allclose(training(rows, clear_caches), expected_training(rows), rtol=1e-5)
    clear_caches()
    assert set(diffcurry.caches().values()) == {0}


def test_a_training_with_tables_that_are_emptied_while_it_works_something_out(forgetful):
    rows = (0.1, 0.7, 0.4, 0.2)  # which no other test traces
    np.testing.assert_allclose(training(rows), expected_training(rows), rtol=1e-5)


@given(lambdas(size=5))
@settings(max_examples=4)
def test_random_programs_mean_the_same_with_empty_tables(program):
    f, arguments = ccc(program.make()), program.arguments
    before = f(*arguments)
    term = trace(program.make(), *arguments).term
    clear_caches()
    again = trace(program.make(), *arguments).term
    assert again is term
    after = f(*arguments)
    np.testing.assert_allclose(after, program.meaning()(*arguments), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(before, after)


# Arrays
@pytest.mark.parametrize("size", [3, 3000])
def test_constants_are_one_term_if_their_content_is_equal(size):
    a, b = jnp.arange(size, dtype="float32"), jnp.arange(size, dtype="float32")
    term = C.const(a)
    assert C.const(b) is term and C.const(a) is term
    clear_caches()
    assert C.const(b) is term
    assert C.const(b.at[size - 1].set(0.0)) is not term
    assert C.const(b.astype("bfloat16")) is not term and C.const(b[:, None]) is not term


def test_an_array_of_numpy_may_change():
    a = np.zeros(3000)
    before = C.const(a)
    a[7] = 1.0
    assert C.const(a) is not before


# Small
def fresh(number):
    """x ↦ sin(n x) + n x: a function that no other one equals, as n is code; without jnp, whose parts JAX keeps."""
    names = {"jax": jax, "lax": lax, "function": function, "times": lambda t: lax.mul(t, lax.full_like(t, number))}
    exec("def f(x): return lax.add(function(lambda t: lax.sin(times(t)), x)(x), jax.jit(lambda t: times(t))(x))", names)
    return names["f"]


def test_small_tables_do(monkeypatch):
    """However little they hold, and they hold no more than they may."""
    small = [table for table in memo._tables if isinstance(table, Table | Facts)]
    for table in small:
        monkeypatch.setattr(table, "_most", 1)
    clear_caches()
    for i in range(4):
        assert np.isclose(grad(fresh(i + 0.5))(x), derivative(i + 0.5), rtol=1e-5)
        assert all(len(table) <= 1 for table in small if isinstance(table, Table))


def derivative(number):
    """That of `fresh(number)` at x."""
    return number * np.cos(number * 0.5) + number


def test_programs_that_calls_go_straight_to_are_listed_and_forgotten():
    name = "calls of functions again"
    clear_caches()
    slope = grad(lambda x: 2.5 * x)
    found = [(float(slope(1.0)), diffcurry.caches()[name]) for _ in range(3)]
    clear_caches()
    found.append((float(slope(1.0)), diffcurry.caches()[name]))
    assert found == [(2.5, 0), (2.5, 1), (2.5, 1), (2.5, 1)]
    del slope
    assert diffcurry.caches()[name] == 0
