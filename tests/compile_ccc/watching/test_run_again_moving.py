"""What a function takes from an iterator or a generator of random numbers is taken once in a call, or it is told.

Every function is linear in x, so its slope is what it has taken, which plain Python gives.
"""

import array
import io
import itertools
import random
from functools import partial

import jax
import numpy as np
import pytest

from combinators.errors import UnsupportedError
from combinators.memo import clear_caches
from tangents import grad, value_and_grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")
NUMBERS = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0]
iterator = iter(NUMBERS)


def in_the_module():
    global iterator
    iterator = iter(NUMBERS)
    return lambda: next(iterator)


def nested():
    draw = iter(NUMBERS)
    doubled = map(float.__neg__, filter(lambda v: v != 3.0, draw))
    return lambda: next(doubled)


def held_by_an_object():
    class Data:
        batches = zip(iter(NUMBERS), reversed(NUMBERS), strict=True)

    return lambda: next(Data.batches)[1]


def by_a_generator_that_keeps_nothing():
    rng = np.random.default_rng(5)

    def draws():
        while True:
            yield rng.normal()

    started = draws()
    next(started)
    return partial(next, started)


def beside_a_counter():
    stream, counted, lock = iter(NUMBERS), [0], memoryview(b"")

    def take():
        counted[0] += len(lock) + 1
        return next(stream) * counted[0]

    return take


def of_a_file():
    file = io.BytesIO(bytes(range(2, 20)))
    return lambda: file.read(1)[0]


def numbered():
    pairs = enumerate(NUMBERS)
    return lambda: next(pairs)[1]


def to_the_end():
    single = iter(NUMBERS[:1])
    return lambda: next(single) + next(single, 4.0)


def part_of(iterator, place=0):
    return lambda: next(iterator)[place]


MOVING = {
    "an iterator in a module": in_the_module,
    "iterators within others": nested,
    "of two at once": held_by_an_object,
    "through a generator": by_a_generator_that_keeps_nothing,
    "after what cannot be watched": beside_a_counter,
    "a tuple": lambda: partial(next, iter((*NUMBERS,))),
    "NumPy's generator": lambda: np.random.default_rng(3).normal,
    "NumPy's older one": lambda: np.random.RandomState(3).rand,
    "Python's": lambda: random.Random(3).random,
    "bytes of a file": of_a_file,
    "an array of Python": lambda: array.array("d", NUMBERS).pop,
    "an array of bytes": lambda: bytearray(range(2, 20)).pop,
}
LOST = {
    "a generator": lambda: partial(next, (v for v in NUMBERS)),
    "numbers": lambda: partial(next, itertools.count(2)),
    "numbered": numbered,
    "one after the other": lambda: partial(next, itertools.chain(NUMBERS, NUMBERS)),
    "a dictionary": lambda: partial(next, iter(dict.fromkeys(NUMBERS))),
    "a slice": lambda: partial(next, itertools.islice(NUMBERS, 6)),
    "at its end": to_the_end,
    "a range": lambda: partial(next, iter(range(2, 9))),
    "a range of large numbers": lambda: partial(next, iter(range(2, 2**70, 3))),
    "an array, flat": lambda: partial(next, np.array(NUMBERS).flat),
    "NumPy's pairs": lambda: part_of(np.broadcast(NUMBERS, 1.0)),
    "NumPy's entries": lambda: part_of(np.ndenumerate(NUMBERS), 1),
    "NumPy's indices": lambda: part_of(np.ndindex(2, 3), 1),
    "NumPy's iterator": lambda: partial(next, np.nditer(np.array(NUMBERS))),
}
STANDING = ["a generator", "numbers", "numbered", "a range", "a range of large numbers", "an array, flat"]
STANDING += ["NumPy's pairs", "NumPy's entries"]  # which tell where they stand


@jax.custom_jvp
def asks(x):
    return x


asks.defjvp(lambda x, t: (x[0], t[0] if x[0] > 0 else 0.0 * t[0]))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def knows(x, n):
    return x * n


knows.defvjp(lambda x, n: (x * n, None), lambda n, _, g: (g * n,))
AGAIN = {  # why a function runs once more; each is x at n = 1
    "a number is looked up": lambda x, n: x * {1: 1.0}[n],
    "the class of a number is asked for": lambda x, n: x if type(n) is int else 0.0 * x,
    "a rule asks": lambda x, n: asks(x),
    "a rule has to know a number": lambda x, n: knows(x, n),
}


def taken(take, operation, why):
    return [float(operation(lambda x, n: x * take() * why(x / x, n))(2.0, 1)), float(take())]


@pytest.mark.parametrize("why", AGAIN.values(), ids=AGAIN)
@pytest.mark.parametrize("name", MOVING)
def test_it_is_taken_once(name, why):
    right = MOVING[name]()
    right, take = [float(right()) for _ in range(4)], MOVING[name]()
    ours = [*taken(take, grad, why), *taken(take, lambda f: lambda *a: value_and_grad(f)(*a)[1], why)]
    np.testing.assert_allclose(ours, right, rtol=1e-6)


@pytest.mark.parametrize("why", AGAIN.values(), ids=AGAIN)
@pytest.mark.parametrize("name", LOST)
def test_what_cannot_be_put_back_is_told(name, why):
    """Of a function that nobody has seen: of one at the same place in memory, it may be known what is code."""
    clear_caches()
    with pytest.raises(UnsupportedError, match="has to run once more"):
        taken(LOST[name](), grad, why)


@pytest.mark.parametrize("name", sorted(LOST.keys() - {"at its end"}))
def test_each_call_takes_the_next(name):
    take, right = LOST[name](), LOST[name]()
    derivative = grad(lambda x: x * float(take()))
    np.testing.assert_allclose([derivative(2.0) for _ in range(3)], [float(right()) for _ in range(3)], rtol=1e-6)


@pytest.mark.parametrize("name", LOST)
def test_it_is_no_loss_where_nothing_is_taken_or_asked(name):
    take, right = LOST[name](), LOST[name]()
    assert grad(lambda x: x * take())(2.0) == right()
    held = [LOST[name]() for name in STANDING]
    assert grad(lambda x, n: x * {1: 3.0, 2: len(held)}[n])(2.0, 1) == 3.0
