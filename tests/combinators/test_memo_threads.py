"""Tables under threads: nothing is lost, nothing is mixed, and the lock makes one step of looking and putting."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
import diffcurry
from combinators import memo
from combinators.memo import Facts, Table, clear_caches
from tangents import grad, jvp

x = jnp.float32(0.5)


@pytest.fixture
def eager():
    """Threads take turns so often that they meet in the middle of things."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(run, count=8):
    """What run(number) gives in so many threads, which start together."""
    start = threading.Barrier(count)

    def together(number):
        start.wait()
        return run(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(together, range(count)))


def test_what_many_threads_make_at_once_is_one_term(eager):
    sine = C.primitive("sin")

    def build(number):
        return [C.prod(C.const(i + 0.123), sine) >> C.proj(0) for i in range(200)]

    for round in zip(*in_threads(build), strict=True):
        assert len(set(map(id, round))) == 1


def test_a_table_under_threads_has_one_entry_for_a_key(eager):
    table, facts, term = Table("of threads", 64), Facts("of threads and terms", 64), C.const(0.321)

    def put(number):
        given = [(table.put(i, object()), facts.put(term, object(), i)) for i in range(60)]
        if number == 0:
            len(table), len(facts), diffcurry.caches()
        return given

    for round in zip(*in_threads(put), strict=True):
        assert len(set(round)) == 1
    assert len(table) == len(facts) == 60

    def forget(number):
        for i in range(3000):
            if number == 0:
                table.clear(), facts.clear()
            assert table.get(i % 5) in (None, i % 5) and facts.get(term, i % 5) in (None, -(i % 5))
            table.put(i % 5, i % 5), facts.put(term, -(i % 5), i % 5)

    table.clear(), facts.clear()
    in_threads(forget)
    memo._tables.remove(table)
    memo._tables.remove(facts)


class Slow:
    """A key, or a term, that lets other threads run in the middle of what a table does with it."""

    def __hash__(self):
        time.sleep(0.002)
        return id(self) // 16


@pytest.mark.parametrize("kind", [Table, Facts])
def test_the_lock_makes_one_step_of_looking_and_putting(kind):
    """Without the lock every thread finds nothing, and puts its own value in the place of those of the others."""
    table = kind("of slow keys", 4)
    for key in (Slow(), Slow(), Slow()):
        values = in_threads(lambda number, key=key: table.put(key, object()), 4)
        assert len(set(map(id, values))) == 1 and table.get(key) is values[0]
    memo._tables.remove(table)


def test_threads_make_and_call_and_clear_at_once(eager):
    def work(number):
        found = []
        for i in range(3):
            shape, w = (1 + i,), np.float32(number)
            xs = jnp.ones(shape, "float32")
            found.append(grad(lambda x, w=w: jnp.sum(w * jnp.sin(x * x)))(xs)[0])
            found.append(jvp(lambda x, w=w: w * jnp.cos(x[0]), (xs,), (xs,))[1])
            found.append(C.evaluate(C.prod(C.const(w), C.id) >> C.proj(0), xs))
            if (number + i) % 3 == 0:
                clear_caches()
        return found

    for number, found in enumerate(in_threads(work)):
        one = (number * 2 * np.cos(1.0), -number * np.sin(1.0), number)
        np.testing.assert_allclose(found, one * 3, rtol=1e-5)
