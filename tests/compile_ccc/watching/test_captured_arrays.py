"""Arrays of NumPy that a function captured are its own: what it changes there is changed, as plain Python does it.

Every function here is linear in x, so its slope is its value at 1, which plain Python gives.
"""

import datetime
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators.errors import UnsupportedError
from compile_ccc import function
from tangents import grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")

LARGE = 2**14 + 1  # numbers of 8 bytes: more than 128 KiB
One = namedtuple("One", "a")
CONTENTS = [
    (np.int64, 7),
    (np.uint8, 7),
    (np.bool_, True),
    ("U3", "abc"),
    ("M8[D]", datetime.date(2020, 1, 2)),
    (object, "abc"),
    (object, 7),
    ([("a", float), ("b", int)], (2.0, 3)),
]
WAYS = {
    "itself": (lambda a: a, lambda w: w),
    "tuple": (lambda a: (a, 1.0), lambda w: w[0]),
    "list": (lambda a: [1.0, a], lambda w: w[1]),
    "dict": (lambda a: {"a": a}, lambda w: w["a"]),
    "named": (One, lambda w: w.a),
}


@pytest.mark.parametrize("dtype, value", CONTENTS, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_written_into_a_captured_array_is_there(way, dtype, value):
    put, get = WAYS[way]
    array = np.zeros(2, dtype)
    held, right = put(array), array.copy()
    right[1] = value

    def loss(x):
        get(held)[1] = value
        return 3.0 * x

    assert grad(loss)(1.0) == 3.0
    assert array.tolist() == right.tolist()


@pytest.mark.parametrize("dtype, value", CONTENTS, ids=str)
def test_what_is_written_into_an_argument_is_there(dtype, value):
    array = np.zeros(2, dtype)
    right = array.copy()
    right[1] = value

    def loss(x, a):
        a[1] = value
        return 3.0 * x

    assert grad(loss)(1.0, array) == 3.0
    assert array.tolist() == right.tolist()


@pytest.mark.parametrize("size", [3, LARGE])
@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.int32, np.float32, object], ids=str)
def test_counts_go_on_from_call_to_call(dtype, size):
    seen = np.zeros(size, dtype)

    def loss(x, i):
        seen[i] += 1
        return x * float(seen[i])

    assert [float(grad(loss)(1.0, i)) for i in (0, 0, 1, 0, 0)] == [1.0, 2.0, 1.0, 3.0, 4.0]
    assert seen[:3].tolist() == [4, 1, 0]


def test_two_variables_of_one_array_stay_one():
    a = np.zeros(2, int)
    b = a

    def loss(x):
        a[0] += 1
        return x * int(b[0])

    assert [float(grad(loss)(1.0)) for _ in range(3)] == [1.0, 2.0, 3.0]


def test_a_function_value_keeps_the_numbers_that_its_program_was_made_with():
    for dtype in (np.int32, np.uint8):
        a = np.array([1, 2, 3], dtype)
        f = function(lambda x, a=a: x * jnp.sum(jax.lax.add(a, a)).astype(float), C.Tensor())
        a[...] = 9
        assert f(1.0) == 12.0


def test_objects_in_an_array_are_watched():
    a = np.array([[1], 2.0], object)
    slope = grad(lambda x: x * len(a[0]) * a[1])
    assert slope(1.0) == slope(1.0) == 2.0
    a[0].append(1)
    assert slope(1.0) == 4.0
    a[1] = 3.0
    assert slope(1.0) == 6.0


@jax.custom_vjp
def asks(x):
    return x


asks.defvjp(lambda x: (x, x), lambda x, g: (g * (2.0 if x > 0 else 1.0),))


@pytest.mark.parametrize("size", [3, LARGE])
def test_objects_are_put_back_before_a_function_runs_once_more(size):
    a = np.zeros(size, object)

    def loss(x):
        a[0] += 1
        return asks(x) * a[0]

    assert [float(grad(loss)(1.0)) for _ in range(3)] == [2.0, 4.0, 6.0]
    assert a[0] == 3


def test_what_is_too_large_to_be_put_back_is_refused():
    a = np.zeros(LARGE, int)

    def loss(x):
        a[0] += 1
        return asks(x) * int(a[0])

    with pytest.raises(UnsupportedError) as caught:
        grad(loss)(1.0)
    assert "ndarray" in str(caught.value)
