"""What a function writes while it is differentiated: the state goes on as Python's does, call by call.

Every function here is linear, so its slope is its value at 1, which plain Python gives.
"""

from collections import defaultdict, deque
from types import ModuleType, SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_ccc import ccc
from tangents import grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")
MAKERS = {}


def maker(make):
    MAKERS[make.__name__] = make
    return make


@maker
def a_cell():
    n = 1.0

    def f(x):
        nonlocal n
        n = n * 2.0
        return n * x

    return f, lambda: n


@maker
def a_cell_that_a_helper_sets():
    n = 1.0

    def tick():
        nonlocal n
        n = n + 1.0

    def f(x):
        tick()
        return n * x

    return f, lambda: n


def written(source):
    m = ModuleType("written")
    m.__dict__.update(n=1.0)
    exec(source, m.__dict__)
    return m.f, lambda: m.n


@maker
def a_global():
    return written("def f(x):\n  global n\n  n = n * 2.0\n  return n * x")


@maker
def a_global_that_a_helper_sets():
    return written("def tick():\n  global n\n  n = n + 1.0\ndef f(x):\n  tick()\n  return n * x")


@maker
def a_global_that_is_new():
    return written("def f(x):\n  global m, n\n  m = n\n  n = m + 1.0\n  return m * x")


@maker
def an_entry_of_a_dict():
    state = {"v": 1.0}

    def f(x):
        state["v"] += 1.0
        return state["v"] * x

    return f, lambda: dict(state)


@maker
def a_list_that_grows():
    history = [1.0]

    def f(x):
        history.append(2.0)
        return sum(history) * x

    return f, lambda: list(history)


@maker
def a_list_that_a_helper_changes():
    queue = [1.0, 2.0, 3.0]

    def turn(queue):
        queue.append(queue.pop(0) + 0.5)

    def f(x):
        turn(queue)
        return queue[0] * x

    return f, lambda: list(queue)


@maker
def containers_in_containers():
    state = {"a": [1.0, 2.0], "b": {"c": 3.0}}

    def f(x):
        state["a"].reverse()
        state["b"]["c"] *= 2.0
        state["same"] = state["a"]
        return state["b"]["c"] * state["a"][0] * x

    return f, lambda: (str(state), state["same"] is state["a"])


@maker
def a_deque_and_a_dict_with_a_default():
    turns, counts = deque([1.0, 2.0]), defaultdict(float, a=1.0)

    def f(x):
        turns.rotate(1)
        turns.append(3.0)
        counts["b"] += 1.0
        return turns[0] * counts["b"] * x

    return f, lambda: (list(turns), dict(counts))


@maker
def an_attribute_of_the_function():
    def f(x):
        f.n = f.n + 1.0
        return f.n * x

    f.n = 0.0
    return f, lambda: f.n


@maker
def integers_and_text():
    n, log = 0, []

    def f(x):
        nonlocal n
        n += 1
        log.append(f"step {n}")
        return n * x

    return f, lambda: n


@maker
def an_array_on_an_object():
    net = SimpleNamespace(mean=jnp.zeros(()))

    def f(x):
        net.mean = 0.5 * net.mean + 1.0
        return net.mean * x

    return f, lambda: float(net.mean)


@maker
def arrays_in_a_dict():
    state, batch = {"mean": jnp.zeros(2), "t": 0}, jnp.array([1.0, 2.0])

    def f(x):
        state["mean"] = 0.5 * state["mean"] + 0.5 * batch
        state["t"] += 1
        return jnp.sum(state["mean"]) * x

    return f, lambda: (state["mean"].tolist(), state["t"])


@maker
def a_key_on_an_object():
    net = SimpleNamespace(key=jax.random.key(0))

    def f(x):
        net.key, now = jax.random.split(net.key)
        return jax.random.normal(now) * x

    return f, lambda: jax.random.key_data(net.key).tolist()


@maker
def a_key_in_a_cell():
    key = jax.random.key(0)

    def f(x):
        nonlocal key
        key, now = jax.random.split(key)
        return jax.random.normal(now) * x

    return f, lambda: jax.random.key_data(key).tolist()


@maker
def arrays_on_an_object_where_not_all_is_watched():
    dice, model = np.random.default_rng(0), SimpleNamespace(mean=np.zeros(2), many=[np.ones(2**15)], steps=0)

    def f(x):
        model.steps += 1
        if model.steps != 2:  # the second time it is evaluated
            model.mean = 0.5 * model.mean + 0.5 * jnp.ones(2)
        return x * int(dice.integers(1, 9)) * (model.mean.sum() + 1.0)

    return f, lambda: (model.steps, [float(v) for v in model.mean])


@pytest.mark.parametrize("of", [grad, ccc])
@pytest.mark.parametrize("name", MAKERS)
def test_the_state_goes_on_as_in_python(name, of):
    f, state = MAKERS[name]()
    plain, plain_state = MAKERS[name]()
    slope = of(f)
    for _ in range(3):
        np.testing.assert_allclose(slope(1.0), plain(1.0), rtol=1e-6)
        assert state() == plain_state()


def test_what_is_written_stays_a_number_of_python():
    f, state = MAKERS["an_entry_of_a_dict"]()
    grad(f)(1.0)
    assert type(state()["v"]) is float


def test_a_variable_that_is_deleted_is_gone():
    n = 3.0

    def f(x):
        nonlocal n
        m = n
        del n
        return m * x

    assert grad(f)(1.0) == 3.0
    with pytest.raises(NameError, match="n"):
        _ = n


def test_what_is_kept_on_an_object_inside_of_jit_is_a_value_of_that_program():
    state = SimpleNamespace(seen=None)

    def loss(x):
        state.seen = 3.0 * x
        return x * x

    for x in (2.0, 5.0, 7.0):  # each time another program
        step = jax.jit(lambda x: (grad(loss)(x), state.seen))
        assert step(x) == (2 * x, 3 * x)


def test_a_key_that_is_split_inside_of_jit_goes_on_in_that_program():
    state = SimpleNamespace(key=None)

    def draw():
        state.key, key = jax.random.split(state.key)
        return jax.random.normal(key)

    def steps(derivative, key, x):
        state.key = key
        return [derivative(lambda x: x * draw())(x) for _ in range(3)], jax.random.normal(state.key)

    def slopes(f):  # of a linear function, by plain Python
        return lambda x: f(1.0)

    key = jax.random.key(4)
    expected = steps(slopes, key, 2.0)
    for _ in range(3):
        got = jax.jit(lambda key, x: steps(grad, key, x))(key, 2.0)
        assert jax.tree.all(jax.tree.map(np.allclose, got, expected))
