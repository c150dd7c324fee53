"""What a function changes in objects, in arguments that have two places, and before it raises."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from combinators.errors import UnsupportedError
from tangents import grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")


@jax.tree_util.register_dataclass
@dataclass
class State:
    a: Any
    b: Any = 5.0


@jax.tree_util.register_pytree_node_class
class Partly:
    """Its class makes no `note` in a copy."""

    def __init__(self, a):
        self.a = a

    def tree_flatten(self):
        return (self.a,), None

    @classmethod
    def tree_unflatten(cls, form, parts):
        return cls(*parts)


@pytest.mark.parametrize("put, get", [(lambda s: s, lambda w: w), (lambda s: [s], lambda w: w[0])])
def test_a_captured_object_is_changed(put, get):
    s = State(1.0)
    held = put(s)

    def loss(x):
        get(held).a += 1
        return x * get(held).a

    assert [float(grad(loss)(1.0)) for _ in range(3)] == [2.0, 3.0, 4.0]
    assert (s.a, s.b) == (4.0, 5.0)


def test_attributes_that_no_copy_has_stay():
    s = Partly(1.0)
    s.note = "mine"

    def loss(x):
        s.a = s.a * 2.0
        s.new = 3.0
        return x * s.a

    assert [float(grad(loss)(1.0)) for _ in range(2)] == [2.0, 4.0]
    assert vars(s) == {"a": 4.0, "note": "mine", "new": 3.0}
    assert grad(lambda x, s: (setattr(s, "a", 1.0), x)[1])(1.0, s) == 1.0
    assert vars(s) == {"a": 1.0, "note": "mine", "new": 3.0}


def test_what_was_changed_before_an_error_stays_changed():
    argument, array, captured, numbers, state = [], np.zeros(2), [], [1.0], State(1.0)

    def loss(x, argument, array):
        for notes in (argument, captured, numbers):
            notes.append(2.0)
        array[0] = 3.0
        state.a += 1.0
        raise KeyError("mine")

    with pytest.raises(KeyError):
        grad(loss)(1.0, argument, array)
    assert (argument, captured, numbers, array.tolist(), state.a) == ([2.0], [2.0], [1.0, 2.0], [3.0, 0.0], 2.0)


def test_what_was_changed_before_an_error_is_changed_once_where_the_function_has_to_run_again():
    argument, numbers = [], [1.0]

    def loss(x, argument, n):
        argument.append(2.0)
        numbers.append(2.0)
        raise KeyError(np.zeros(n).size)

    with pytest.raises(KeyError):
        grad(loss)(1.0, argument, 3)
    assert (argument, numbers) == ([2.0], [1.0, 2.0])


def appended(x, a, b):
    a.append(1.0)
    return x * len(b)


def counted(x, a, b):
    a[0] += 1
    return x * b[0]


@pytest.mark.parametrize(
    "f, value",
    [(appended, []), (counted, [1.0]), (counted, np.ones(2)), (counted, np.ones(2, int))],
    ids=["a list that grows", "a list", "an array", "an array of ints"],
)
def test_what_is_changed_and_has_two_places_is_refused(f, value):
    for run in (
        lambda: grad(f)(1.0, value, value),
        lambda: grad(lambda x, d: f(x, d["a"], d["b"]))(1.0, {"a": value, "b": value}),
        lambda: grad(lambda x, d, e: f(x, d[0], e))(1.0, (value,), value),
    ):
        with pytest.raises(UnsupportedError, match="two places"):
            run()


def test_what_has_two_places_and_is_not_changed_is_fine():
    a = [1.0, 2.0]
    assert grad(lambda x, a, b: x * a[0] * b[1])(1.0, a, a) == 2.0
