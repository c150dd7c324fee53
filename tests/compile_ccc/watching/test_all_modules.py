"""A function that looks a module up in `sys.modules` may read any of them: they are not all looked through for it.

The functions are linear in x, so the slope is the value at 1.
"""

import sys
import types
from collections import namedtuple

import pytest

from compile_ccc.watching.before import Before
from tangents import grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")
LOOKUP = {1: 1.0}  # a number that is looked up has to be code, so f runs again
Pair = namedtuple("Pair", "first second")


@pytest.fixture
def counter(monkeypatch):
    """A module of the user's with the variables `calls` and `last`, under a name that is in no code."""
    module = types.ModuleType("a_counter")
    module.__file__, module.calls, module.last = __file__, 0, None
    monkeypatch.setitem(sys.modules, "a_counter", module)
    return module


def counted(x, n):
    module = sys.modules[f"a_{'counter'}"]
    module.calls = getattr(module, "calls") + 1  # noqa: B009  of a name that it may have made up
    return x * module.calls * LOOKUP[n]


def test_what_it_changes_there_is_changed_once_in_a_call(counter):
    assert [grad(counted)(1.0, 1) for _ in range(3)] == [1.0, 2.0, 3.0]
    assert counter.calls == 3


@pytest.mark.parametrize("pair", [lambda x: x, lambda x: (x, (1, x)), lambda x: Pair((1, x), x)])
def test_what_it_leaves_there_is_a_value(counter, pair):
    def f(x):
        sys.modules[f"a_{'counter'}"].last = pair(x)
        return 3.0 * x

    assert grad(f)(2.0) == 3.0
    assert counter.last == pair(2.0) and type(counter.last) is type(pair(2.0))


def test_modules_that_are_there_beside_it_are_not_looked_through(monkeypatch):
    looked_at = len(Before([counted]).seen)
    for i in range(50):
        other = types.ModuleType(f"another_{i}")
        other.__file__, other.calls = __file__, [[j] for j in range(100)]
        monkeypatch.setitem(sys.modules, other.__name__, other)
    assert len(Before([counted]).seen) <= looked_at + 2
