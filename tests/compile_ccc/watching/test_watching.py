"""A derivative that is called again gives what `jax.grad` gives, whatever was changed in between.

`jax.grad` without `jit` traces anew at each call and remembers nothing of the function, so it is as good as a fresh
process.
"""

import functools
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import combinators as C
import tangents as T
from compile_ccc import ccc, function
from tests import places

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")


def alike(ours, theirs):
    """Whether two results agree to the last digits, in their dtypes too."""
    same = jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-6) and jnp.asarray(a).dtype == b.dtype, ours, theirs)
    return all(jax.tree.leaves(same))


@pytest.mark.parametrize("way", ["captured", "in an object"])
@pytest.mark.parametrize("name", places.PLACES)
def test_what_a_place_holds_now_counts(name, way):
    read, put = places.PLACES[name](2)
    if way == "in an object":
        read = places.Holder([read]).first
    derivative = T.grad(lambda x: read() * x * x)
    found = []
    for value in (None, 5, 2):
        if value is not None:
            put(value)
        found += [derivative(1.5) for _ in range(3)]
    assert found == [6.0] * 3 + [15.0] * 3 + [6.0] * 3


class Program:
    """A polynomial whose coefficients stand at the ends of chains of places, each of which leads to the next."""

    def __init__(self, chains, shape):
        self.puts = []
        self.heads = [self._chain(chain, value) for value, chain in enumerate(chains, 2)]
        self.f = getattr(self, f"_{shape}")()

    def _chain(self, chain, value):
        thing = float(value) if value % 2 else np.array(value, np.float32)
        for name in chain:
            read, put = places.PLACES[name](thing)
            self.puts.append((put, thing))
            thing = [read]
        return thing

    def value(self, x):
        total = x * 0
        for power, thing in enumerate(self.heads, 2):
            while isinstance(thing, list):
                thing = thing[0]()
            total = total + jnp.asarray(thing, "float32") * x**power
        return total

    def _method(self):
        return self.value

    def _lambda(self):
        return lambda x: self.value(x)

    def _partial(self):
        return functools.partial(type(self).value, self)

    def _decorated(self):
        @functools.wraps(self.value)
        def f(*arguments):
            return self.value(*arguments)

        return f

    def _object(self):
        class Loss:
            def __call__(_, x):
                return self.value(x)

        return Loss()

    def change(self, number, value, how):
        """Changes one place: to another value, to another place, or in an array; gives what undoes it."""
        put, before = self.puts[number % len(self.puts)]
        if how == "array" and isinstance(before, np.ndarray):
            old = before.copy()
            before[...] = value
            return lambda: before.__setitem__(..., old)
        put([places.PLACES["an_attribute"](value)[0]] if how == "place" else value)
        return lambda: put(before)


def _of(package):
    """The derivatives that are compared, each of a function and a number."""
    return {
        "grad": lambda f: package.grad(f),
        "value_and_grad": lambda f: package.value_and_grad(f),
        "hessian": lambda f: package.hessian(f),
        "jvp": lambda f: lambda x: package.jvp(f, (x,), (2 * x,)),
        "vjp": lambda f: lambda x: package.vjp(f, x)[1](2 * x),
        "grad of grad": lambda f: package.grad(lambda x: package.grad(f)(x) * x),
    }


OURS, THEIRS = _of(T), _of(jax)
OURS |= {"jacobian": lambda f: T.jacobian(f), "value": lambda f: ccc(f)}
THEIRS |= {"jacobian": lambda f: jax.jacobian(f), "value": lambda f: f}
changes = st.tuples(st.integers(0, 9), st.sampled_from([3.0, 7.0]), st.sampled_from(["value", "place", "array"]))


@given(
    chains=st.lists(st.lists(st.sampled_from(list(places.PLACES)), min_size=1, max_size=3), min_size=1, max_size=2),
    shape=st.sampled_from(["method", "lambda", "partial", "decorated", "object"]),
    asked=st.sampled_from(sorted(OURS)),
    once=st.booleans(),
    changed=st.lists(changes, min_size=1, max_size=3),
    undone=st.booleans(),
)
def test_a_random_change_of_a_random_program_is_seen(chains, shape, asked, once, changed, undone):
    program, x = Program(chains, shape), jnp.float32(1.5)
    made = OURS[asked](program.f)
    ours = lambda: (made if once else OURS[asked](lambda x: program.f(x)))(x)
    compared = lambda: [alike(ours(), THEIRS[asked](program.f)(x)) for _ in range(2)]
    assert all(compared())
    for change in changed:
        undo = program.change(*change)
        assert all(compared())
    if undone:
        undo()
        assert all(compared())


def counting():
    n = 0

    def loss(x):
        nonlocal n
        n += 1
        return n * x * x

    return loss


def counting_in_a_helper():
    m = places.module("n = 0\ndef tick():\n    global n\n    n += 1\ndef loss(x):\n    tick()\n    return n * x * x")
    return m.loss


def counting_beside_what_is_not_watched():
    source = "import random\ndef other(): return random.random() + len(table)\ndef loss(x, unused=other):\n"
    source += "    global n\n    n += 1\n    return n * x * x"
    return places.module(source, n=0, table=[0.0] * 5000).loss


def counting_in_an_attribute():
    state = types.SimpleNamespace(step=0)

    def loss(x):
        state.step += 1
        return (2.0 if state.step > 4 else 1.0) * x * x

    return loss


def counting_in_a_list_with_two_names():
    log = []
    names = {"log": log}

    def loss(x):
        log.append(1)
        return len(names["log"]) * x * x

    return loss


def working_out_once():
    class Model:
        @functools.cached_property
        def scale(self):
            return 3.0

    model = Model()
    return lambda x: model.scale * x * x


CHANGING = [
    counting,
    counting_in_a_helper,
    counting_beside_what_is_not_watched,
    counting_in_an_attribute,
    counting_in_a_list_with_two_names,
    working_out_once,
]


@pytest.mark.parametrize("build", CHANGING)
def test_programs_that_change_what_they_read(build):
    ours, theirs = T.grad(build()), jax.grad(build())
    assert [float(ours(1.5)) for _ in range(8)] == [float(theirs(1.5)) for _ in range(8)]


@pytest.mark.parametrize("absent", ["builtin", "variable", "variable of a module", "slot"])
def test_names_that_come_to_be(absent):
    class Slots:
        __slots__ = ("rate",)

    config, slots = types.ModuleType("config"), Slots()
    sources = {
        "builtin": "def rate(): return sum([2.0])",
        "variable": "def rate():\n    try: return kept\n    except NameError: return 2.0",
        "variable of a module": "def rate():\n    try: return config.rate\n    except AttributeError: return 2.0",
        "slot": "def rate(): return slots.rate if hasattr(slots, 'rate') else 2.0",
    }
    m = places.module(sources[absent], config=config, slots=slots)
    put = {
        "builtin": lambda: setattr(m, "sum", lambda _: 5.0),
        "variable": lambda: setattr(m, "kept", 5.0),
        "variable of a module": lambda: setattr(config, "rate", 5.0),
        "slot": lambda: setattr(slots, "rate", 5.0),
    }
    derivative = T.grad(lambda x: m.rate() * x * x)
    assert [derivative(1.5) for _ in range(3)] == [6.0] * 3
    put[absent]()
    assert [derivative(1.5) for _ in range(3)] == [15.0] * 3


def test_a_method_whose_name_is_that_of_a_note():
    """`bank.add(x)` takes no note if bank is no list or set."""
    bank = types.SimpleNamespace(add=lambda x: 2.0 * x * x)
    derivative = T.grad(lambda x: bank.add(x))
    assert [derivative(1.5) for _ in range(3)] == [6.0] * 3
    bank.add = lambda x: 5.0 * x * x
    assert derivative(1.5) == 15.0


def test_a_function_value_of_another_code_is_called():
    rate = 2.0
    layer = function(lambda x: rate * x, C.Tensor())
    derivative = T.grad(lambda x: layer(x) * x)
    assert [derivative(1.5) for _ in range(3)] == [6.0] * 3
    layer = function(lambda x: rate * x * x, C.Tensor())
    assert [derivative(1.5) for _ in range(3)] == [13.5] * 3


@pytest.mark.parametrize("held", ["argument", "cell"])
def test_static_fields_of_pytrees_are_looked_into(held):
    class Layer(eqx.Module):
        weight: jax.Array
        config: types.SimpleNamespace = eqx.field(static=True)

        def __call__(self, x):
            return self.config.rate * self.weight * x

    config = places.Holder(None)
    config.rate = 2.0
    layer = Layer(jnp.float32(3.0), config)
    derivative = T.grad(lambda layer: layer(1.5)) if held == "argument" else T.grad(lambda x: layer(x) * 1.5 / 3)
    asked = layer if held == "argument" else 1.0
    for rate in (2.0, 5.0, 2.0):
        config.rate = rate
        for _ in range(3):
            assert jax.tree.leaves(derivative(asked)) == [1.5 * rate]


class Grid:
    cells = np.zeros(4)


def test_the_shape_of_an_array_that_is_changed_in_place_counts():
    slope, arrow = T.grad(lambda x: x * Grid.cells.shape[0]), ccc(lambda x: x * Grid.cells.shape[0])
    for shape in ((4,), (2, 2), (1, 4)):
        Grid.cells.resize(shape, refcheck=False)
        assert (slope(2.0), arrow(2.0)) == (shape[0], 2.0 * shape[0])
