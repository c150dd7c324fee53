"""A rule that asks is made a program more than once; what it takes and changes, it takes and changes once in a call.

Every rule gives the slope that it takes, and plain Python says what is taken: one after the other, call by call.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import SymbolicZero

from combinators.errors import UnsupportedError
from tangents import grad, hessian, jvp, value_and_grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")
NUMBERS = [2.0, 3.0, 5.0, 7.0, 11.0]


def counted():
    count = [0]

    def take():
        count[0] += 1
        return float(count[0])

    return take


def appended():
    seen = []

    def take():
        seen.append(2.0)
        return sum(seen)

    return take


def variable():
    count = 0.0

    def take():
        nonlocal count
        count += 1.0
        return count

    return take


def of_bytes():
    stream = iter(bytes(range(2, 7)))
    return lambda: float(next(stream))


def two_at_once():
    pairs = zip(NUMBERS, iter(NUMBERS), strict=True)
    return lambda: next(pairs)[0]


TAKEN = {
    "a counter": counted,
    "a list": appended,
    "a variable": variable,
    "an iterator": lambda: partial(next, iter(NUMBERS)),
    "bytes": of_bytes,
    "backwards": lambda: partial(next, reversed(NUMBERS)),
    "two at once": two_at_once,
    "mapped": lambda: partial(next, map(float.__neg__, iter(NUMBERS))),
    "random numbers": lambda: np.random.default_rng(4).normal,
}


def above(x, taken):
    """What was taken, asked for after it was."""
    return taken if x > 0 else 0.0


def forward(take):
    f = jax.custom_jvp(lambda x: x * x)
    f.defjvp(lambda x, t: (x[0] ** 2, t[0] * above(x[0], take())))
    return f


def forward_and_told_of_zeros(take):
    f = jax.custom_jvp(lambda x, y: x * y)

    def rule(x, t):
        return x[0] * x[1], t[0] * above(x[0], take())

    f.defjvp(rule, symbolic_zeros=True)
    return lambda x: f(x, 3.0)


def with_a_number(take):
    f = jax.custom_jvp(lambda n, x: n * x, nondiff_argnums=(0,))
    f.defjvp(lambda n, x, t: (n * x[0], n * t[0] * above(x[0], take())))
    return lambda x: f(1.0, x)


def backward(keeps):
    def made(take):
        f = jax.custom_vjp(lambda x: x * x)
        f.defvjp(lambda x: (x * x, keeps(x)), lambda kept, g: (g * above(kept, take()),))
        return f

    return made


def when_it_is_kept(take):
    f = jax.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, above(x, take())), lambda kept, g: (g * kept,))
    return f


def both_ways(take):
    f = jax.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, (jnp.sin(x), 10.0 * take())), lambda kept, g: (g * (kept[1] + above(kept[0], take())),))
    return f


RULES = {
    "a forward rule": forward,
    "a forward rule that is told of zeros": forward_and_told_of_zeros,
    "a forward rule with a number": with_a_number,
    "a reverse rule that asks of its operand": backward(lambda x: x),
    "a reverse rule that asks of what was computed": backward(jnp.sin),
    "a reverse rule that asks in its forward part": when_it_is_kept,
}


@pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_takes_once_in_a_call(rule, take):
    right, f = take(), rule(take())
    derivative, other = grad(f), value_and_grad(lambda x: f(x))
    found = [derivative(1.0), derivative(2.0), other(2.0)[1], other(1.0)[1], derivative(1.0)]
    np.testing.assert_allclose(found, [right() for _ in found], rtol=1e-6)


@pytest.mark.parametrize("rule", [forward, forward_and_told_of_zeros, with_a_number])
def test_so_it_does_going_forward(rule):
    f = rule(counted())
    assert [float(jvp(f, (1.0,), (1.0,))[1]) for _ in range(3)] == [1.0, 2.0, 3.0]


def test_what_is_taken_going_forward_is_not_put_back_for_the_way_back():
    derivative, right = grad(both_ways(counted())), counted()
    assert [float(derivative(1.0)) for _ in range(3)] == [10 * right() + right() for _ in range(3)]


def test_what_a_rule_takes_is_that_of_the_path_it_went():
    take, right = counted(), counted()
    f = jax.custom_jvp(lambda x, y: x * y)

    def rule(x, t):
        taken = take() if isinstance(t[1], SymbolicZero) else take() + take()
        return x[0] * x[1], t[0] * above(x[0], taken)

    f.defjvp(rule, symbolic_zeros=True)
    derivative = grad(lambda x: f(x, 3.0))
    assert [float(derivative(1.0)) for _ in range(3)] == [right() for _ in range(3)]


def test_of_two_rules_each_takes_once():
    take, right = counted(), counted()
    one, two = forward(take), backward(jnp.sin)(take)
    derivative = grad(lambda x: one(x) + 10.0 * two(x))
    for _ in range(3):
        found, taken = float(derivative(1.0)), {right(), right()}
        assert found in {a + 10.0 * b for a in taken for b in taken - {a}}


def test_a_rule_that_begins_to_ask_in_a_later_call():
    count = [0]
    f = jax.custom_jvp(lambda x: x * x)

    @f.defjvp
    def rule(x, t):
        count[0] += 1
        return x[0] ** 2, t[0] * (count[0] if count[0] < 2 or x[0] > 0 else 0.0)

    derivative = grad(lambda x: f(x))
    assert [float(derivative(1.0)) for _ in range(3)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("rule", "taken"), [(forward, 1.0), (both_ways, 11.0), (when_it_is_kept, 1.0)])
@pytest.mark.parametrize("state", [[0], {0: 0}, np.zeros(1, np.float32)], ids=lambda state: type(state).__name__)
def test_an_argument_is_changed_once_where_a_rule_asks(state, rule, taken, nested):
    """The slope is how often the loss has run, times what the rule takes: 1 each time."""
    f, state = rule(lambda: 1.0), state.copy()

    def loss(x, q):
        q[0] += 1
        return f(x) * q[0]

    slope = grad(loss)(2.0, state) if not nested else grad(lambda x: x * grad(loss)(2.0, state))(1.0)
    assert slope == taken and state[0] == 1
    for times in (2, 3):
        assert grad(loss)(2.0, state) == times * taken and state[0] == times


def test_an_argument_is_changed_once_where_a_rule_of_a_rule_asks():
    """The slope of the slope is 3 above 1, once for each time that the loss has run."""
    slope = jax.custom_jvp(lambda x: 3.0 * x)
    slope.defjvp(lambda x, t: (3.0 * x[0], t[0] * (3.0 if x[0] > 1 else 2.0)))
    f = jax.custom_jvp(lambda x: 1.5 * x * x)
    f.defjvp(lambda x, t: (f(x[0]), t[0] * (slope(x[0]) if x[0] > 1 else 0.0)))

    def loss(x, q):
        q[0] += 1
        return f(x) * q[0]

    state = [0]
    for times in (1, 2, 3):
        assert hessian(loss)(2.0, state) == 3.0 * times and state == [times]


def test_an_argument_grows_and_shrinks_once_where_a_rule_asks():
    f, grown, left = forward(lambda: 1.0), [], [1, 2, 3]

    def grows(x, q):
        q.append(1.0)
        return f(x) * len(q)

    def takes(x, q):
        q.pop()
        return f(x) * len(q)

    assert [float(grad(grows)(2.0, grown)) for _ in range(3)] == [1.0, 2.0, 3.0] and grown == [1.0, 1.0, 1.0]
    assert [float(grad(takes)(2.0, left)) for _ in range(3)] == [2.0, 1.0, 0.0] and left == []


def test_what_a_rule_takes_and_cannot_give_back_is_told():
    with pytest.raises(UnsupportedError, match="has to run once more"):
        grad(backward(jnp.sin)(partial(next, (v for v in NUMBERS))))(1.0)
