"""What tells of nothing but its arguments is watched, or need not be: no program is traced anew because of it.

Of what Python itself keeps steady, a lock tells more: whether it is held.
"""

import functools
import json
import locale
import math
import os
import os.path
import pathlib
import sys
import threading
import types

import equinox as eqx
import jax
import numpy as np
import pytest

from compile_ccc.watching.ran import running
from compile_ccc.watching.reached import reached
from tangents import grad


def pure_functions(x):
    parts = pathlib.PurePath("a/b.txt").suffix, os.path.join("a", "b"), json.loads("[2.0]"), ["a", "b"]
    scale = functools.reduce(lambda a, b: a * b, [math.sqrt(4.0), len(parts[3])])
    return scale * x * x if sys.version_info >= (3, 12) and isinstance(x, jax.Array) else x


def with_a_cache(x):
    return table(2) * x * x


@functools.lru_cache
def table(n):
    return float(n)


def with_a_path(x):
    return len(FOLDER.name) * x * x


FOLDER = pathlib.Path("data")


class Scale(eqx.Module):
    by: float

    def __call__(self, x):
        return self.by * x * x


def with_a_module_of_equinox(x):
    return SCALES[0](x)


SCALES = [Scale(2.0)]


@pytest.mark.parametrize("f", [pure_functions, with_a_cache, with_a_path, with_a_module_of_equinox])
def test_what_is_not_state_is_not_traced_anew(f):
    table(2)
    with running() as ran:
        jax.make_jaxpr(f)(1.0)
    watch = reached(ran, [f])
    assert (watch.reason, watch.holds()) == ("", True)


@pytest.mark.parametrize("value", [np.ma.array([1, 2], mask=[False, True]), locale.localeconv, types.SimpleNamespace])
def test_what_is_watched_or_not(value):
    """Arrays that hold more than numbers are not watched, nor is the country; classes are."""
    assert bool(reached(None, [value]).reason) == (value is not types.SimpleNamespace)


RATE = [2.0]


def scaled(x):
    return RATE[0] * x


class Scaling:
    def __call__(self, x):
        return scaled(x)


def test_a_function_that_ran_thousands_of_times_is_seen_in_a_trace(monkeypatch):
    """Python stops reporting it then, until something is traced."""
    grad(lambda x: x * x)(1.0)
    for _ in range(5_000):
        scaled(1.0)
    f = Scaling()
    slope = grad(lambda x: f(x))
    assert [float(slope(1.0)) for _ in range(3)] == [2.0] * 3
    monkeypatch.setattr(sys.modules[__name__], "RATE", [5.0])
    assert float(slope(1.0)) == 5.0


def test_the_variables_of_the_process_are_watched(monkeypatch):
    """So no warning says that a program is traced anew at each call; it is when one of them changes."""
    monkeypatch.setenv("A_RATE", "2.0")
    slope = grad(lambda x: x * float(os.environ["A_RATE"]))
    assert [float(slope(1.0)) for _ in range(3)] == [2.0] * 3
    monkeypatch.setenv("A_RATE", "3.0")
    assert float(slope(1.0)) == 3.0


def test_whether_a_lock_is_held_is_asked_again():
    lock = threading.Lock()
    slope = grad(lambda x: x * (5.0 if lock.locked() else 2.0))
    assert slope(1.0) == 2.0
    with lock:
        assert [slope(1.0), slope(1.0)] == [5.0, 5.0]
    assert slope(1.0) == 2.0


def test_names_of_many_parameters_are_not_looked_at():
    """They are in the type of the argument, which a program is kept for."""
    runs = []

    def loss(params):
        runs.append(None)
        return sum(layer["norm"]["scale"] * layer["w"] for layer in params)

    params = [{"w": 2.0, "norm": {"scale": float(i)}} for i in range(300)]
    for _ in range(3):
        assert grad(lambda p: loss(p))(params)[7] == {"w": 7.0, "norm": {"scale": 2.0}}
    assert len(runs) == 1
