"""Arguments that are not differentiated are the caller's own: their order, and what a function changes in them.

Every function here is linear in x, so its slope is its value at 1, which plain Python gives.
"""

from collections import OrderedDict, defaultdict
from copy import deepcopy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tangents import grad, hessian, jacobian, jvp, value_and_grad, vjp

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")


def counted(x, c):
    c[0] = c[0] + 1.0
    return x * c[0]


def added(x, c):
    c += 1.0
    return x * c[0]


def noted(x, c):
    c.append(float(len(c)))
    return x * c[-1]


def popped(x, c):
    return x * c.pop()


def sorted_now(x, c):
    c.sort()
    return x * c[0]


def emptied(x, c):
    total = sum(c)
    c.clear()
    return x * total


def nested(x, c):
    c["a"]["b"][0] += 1
    c["a"]["b"].append(7)
    return x * sum(c["a"]["b"])


def entered(x, c):
    c["n"] = c.get("n", 0) + 1
    c["array"] = np.arange(c["n"])
    return x * c["n"]


def averaged(x, c):
    c["mean"] = 0.5 * c["mean"] + jnp.ones(2)
    c["steps"] += 1
    return x * jnp.sum(c["mean"]) * c["steps"]


def chosen(x, c):
    if x > 0:
        c.append(2.0)
    return x * (len(c) + 1)


CASES = [
    (counted, np.zeros(2)),
    (counted, [0.0, 1.0]),
    (added, np.zeros(2)),
    (noted, []),
    (popped, [1.0, 2.0, 3.0, 4.0]),
    (sorted_now, [3.0, 1.0, 2.0]),
    (emptied, [1.0, 2.0]),
    (nested, {"a": {"b": [0]}}),
    (entered, {}),
    (averaged, {"steps": 0, "mean": np.zeros(2)}),
    (chosen, []),
]


@pytest.mark.parametrize(("f", "c"), CASES)
def test_what_a_function_changes_in_an_argument_is_changed(f, c):
    of_python = deepcopy(c)
    right = [f(1.0, of_python) for _ in range(3)]
    for derivative in (grad(f), lambda x, c: value_and_grad(f)(x, c)[1], jacobian(f)):
        own = deepcopy(c)
        assert [float(derivative(1.0, own)) for _ in range(3)] == [float(v) for v in right]
        assert jax.tree.all(jax.tree.map(np.array_equal, own, of_python))


def test_a_value_that_is_put_into_an_argument_is_a_number():
    seen = []

    def f(x, seen):
        seen.append(x * 2.0)
        return x * seen[-1]

    assert [grad(f)(x, seen) for x in (1.0, 2.0)] == [4.0, 8.0]
    assert seen == [2.0, 4.0] and not any(isinstance(v, jax.core.Tracer) for v in seen)


def test_a_partial_application_of_jax_is_an_argument_whose_own_attributes_do_not_change():
    scaled = jax.tree_util.Partial(lambda w, x: w * x**2, 3.0)
    assert grad(lambda x, f: f(x))(2.0, scaled) == 12.0
    assert grad(lambda f, x: f(x))(scaled, 2.0).args == (4.0,)
    assert scaled.args == (3.0,) and not vars(scaled)


def test_an_object_of_a_registered_class_is_changed():
    class Counter:
        def __init__(self, w, n):
            self.w, self.n = w, n

    jax.tree_util.register_pytree_node(Counter, lambda c: ((c.w,), c.n), lambda n, parts: Counter(parts[0], n))

    def f(x, c):
        c.n += 1
        return x * c.w * c.n

    counter = Counter(2.0, 0)
    assert [grad(f)(1.0, counter) for _ in range(3)] == [2.0, 4.0, 6.0] and counter.n == 3


def weighted(x, entries):
    """The k-th entry counts as its k-th power."""
    return x * sum(v ** (k + 1) for k, v in enumerate(entries.values()))


ORDERS = [
    {"b": 3.0, "a": 2.0},
    {"a": 2.0, "b": 3.0},
    {2: 3.0, 1: 2.0},
    {"b": 3.0, 1: 2.0},
    OrderedDict(b=3.0, a=2.0),
    defaultdict(float, b=3.0, a=2.0),
]


@pytest.mark.parametrize("entries", ORDERS)
def test_the_entries_of_an_argument_have_their_order(entries):
    assert grad(weighted)(1.0, entries) == weighted(1.0, entries)
    assert jacobian(lambda x, e: weighted(x * x, e))(1.0, entries) == 2 * weighted(1.0, entries)
    assert hessian(lambda x, e: weighted(x * x, e))(1.0, entries) == 2 * weighted(1.0, entries)


def test_the_order_of_each_call_counts():
    derivative = grad(lambda x, nested: weighted(x, nested[0]["inner"]))
    for entries in 3 * [*ORDERS[:2]] + 3 * [ORDERS[0]] + 3 * [ORDERS[1]]:
        assert derivative(1.0, [{"inner": entries}]) == weighted(1.0, entries)


def test_keywords_have_the_order_in_which_they_are_written():
    derivative = grad(lambda x, **entries: weighted(x, entries))
    assert [derivative(1.0, b=3.0, a=2.0), derivative(1.0, a=2.0, b=3.0)] == [7.0, 11.0]


def test_what_is_differentiated_has_sorted_keys_as_in_jax():
    for entries in ORDERS[:3]:
        place = {k: i for i, k in enumerate(sorted(entries))}
        right = {k: (place[k] + 1) * v ** place[k] for k, v in entries.items()}
        assert grad(lambda e: weighted(1.0, e))(entries) == right
        assert vjp(lambda e: weighted(1.0, e), entries)[1](1.0)[0] == right
        assert jvp(lambda e: weighted(1.0, e), (entries,), (entries,))[1] == sum(
            right[k] * v for k, v in entries.items()
        )


LOOP: list = [2.0]
LOOP.append(LOOP)
ROWS = np.array([(1, 2.0), (3, 4.0)], dtype=[("n", int), ("w", float)])
ANYTHING = {
    "a structured array": (lambda x, rows: x * float((rows["n"] * rows["w"]).sum()), ROWS, 14.0),
    "a shape": (lambda x, s: jnp.sum(jnp.zeros(s.shape, s.dtype) + x), jax.ShapeDtypeStruct((2, 3), np.float32), 6.0),
    "keys without an order": (lambda x, d: x * d["a"] * d[1], {"a": 2.0, 1: 3.0}, 6.0),
    "a list that holds itself": (lambda x, c: x * c[1][1][0], LOOP, 2.0),
    "a masked array": (lambda x, m: x * float(m.sum()), np.ma.array([1.0, 2.0, 4.0], mask=[0, 1, 0]), 5.0),
}


@pytest.mark.parametrize("name", ANYTHING)
def test_what_is_not_differentiated_may_be_anything(name):
    f, argument, slope = ANYTHING[name]
    assert [grad(f)(1.0, argument) for _ in range(3)] == [slope] * 3


def test_the_gradient_by_what_holds_nothing():
    assert grad(lambda parameters, x: x * 2.0)({}, 3.0) == {}
    assert grad(lambda x, parameters: x * 2.0, argnums=(0, 1))(3.0, ((), None)) == (2.0, ((), None))
