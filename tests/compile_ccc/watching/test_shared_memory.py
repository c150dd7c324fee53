"""What has two places, captured and among the arguments, and is changed; arrays that are changed after they were used.

Every function is linear in x, so its slope is its value at 1, which plain Python gives.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from combinators.errors import UnsupportedError
from tangents import grad, value_and_grad
from tests.mutants.of_effects import delayed

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")
LARGE = 2**14 + 1  # numbers of 8 bytes: more than 128 KiB


@pytest.fixture(autouse=True)
def numbers_of_all_kinds():
    with jax.numpy_dtype_promotion("standard"):
        yield


class Node:
    def __init__(self, w):
        self.w = w


jax.tree_util.register_pytree_node(Node, lambda n: ((n.w,), None), lambda _, parts: Node(*parts))


class Slotted:
    __slots__ = ("count", "w")

    def __init__(self, w, count):
        self.w, self.count = w, count


jax.tree_util.register_pytree_node(Slotted, lambda s: ((s.w,), s.count), lambda n, parts: Slotted(parts[0], n))


def put(container, value):
    if isinstance(container, Node):
        container.w = value
    else:
        container["w" if isinstance(container, dict) else 0] = value


def get(container):
    return container.w if isinstance(container, Node) else container["w" if isinstance(container, dict) else 0]


MAKERS = {
    "list": lambda: [1.0],
    "dict": lambda: {"w": 1.0},
    "object": lambda: Node(1.0),
    "array": lambda: np.ones(2),
    "integers": lambda: np.ones(2, int),
    "large": lambda: np.ones(LARGE),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("way", ["the argument is changed", "what is captured is changed"])
def test_what_is_captured_and_an_argument_is_not_changed_in_silence(kind, way):
    """JAX hands on the one object; here the function has two copies of what is in it, and that is refused."""
    own = MAKERS[kind]()

    def f(x, given):
        changed, read = (given, own) if way == "the argument is changed" else (own, given)
        put(changed, 3)
        return x * get(read)

    try:
        assert grad(f)(1.0, own) == 3.0
    except UnsupportedError as error:
        assert "captured" in str(error) and "f(x, given)" in str(error)
    assert grad(f)(1.0, MAKERS[kind]()) == (1.0 if way == "what is captured is changed" else get(own))


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_captured_and_an_argument_may_be_read(kind):
    own = MAKERS[kind]()
    assert grad(lambda x, given: x * get(given) * get(own))(2.0, own) == 1.0


@pytest.mark.parametrize("overlaps", [True, False])
def test_arguments_with_memory_in_common(overlaps):
    whole = np.arange(1.0, 5.0)

    def f(x, part, others):
        part[0] = 7.0
        return x * jnp.sum(others)

    if overlaps:
        with pytest.raises(UnsupportedError, match="two places"):
            grad(f)(1.0, whole[:2], whole)
    else:
        assert grad(f)(1.0, whole[::2], whole[1::2]) == 6.0 and whole[0] == 7.0


@pytest.mark.parametrize("dtype", [float, int, np.float32, np.float16])
@pytest.mark.parametrize("hold", [lambda part: [part], lambda part: SimpleNamespace(part=part)], ids=["list", "object"])
def test_a_view_of_a_captured_array_is_written_between_two_reads(hold, dtype):
    whole = np.ones(4, dtype)
    held = hold(whole[:2])

    def f(x):
        before = x * whole[0]
        (held[0] if isinstance(held, list) else held.part)[0] = 3
        return before + x * whole[0]

    assert grad(f)(1.0) == 1.0 + 3.0 and whole.tolist() == [3, 1, 1, 1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32, np.int64, np.bool_])
@pytest.mark.parametrize("way", ["captured", "argument", "made inside"])
@pytest.mark.parametrize("x64", [True, False])
def test_an_array_is_what_it_was_when_it_was_used(dtype, way, x64):
    """At 32 bits JAX itself holds the memory, and has the later numbers."""
    own = np.zeros(3, dtype)

    def f(x, given):
        a = {"captured": own, "argument": given, "made inside": np.zeros(3, dtype)}[way]
        before = jnp.sum(x * a)
        a[0] = 1
        between = jnp.sum(x * a)
        a[:] = 1
        return before + 2.0 * between

    with jax.enable_x64(x64):
        for slope in (2.0, 9.0) if way == "captured" else (2.0,):
            assert value_and_grad(f)(np.float32(1.0), np.zeros(3, dtype)) == (slope, slope)


def test_whether_an_array_may_be_written_is_asked_in_each_call():
    array = np.ones(2)
    derivative = grad(lambda x: x * (2.0 if array.flags.writeable else 3.0))
    assert derivative(1.0) == 2.0
    array.flags.writeable = False
    assert derivative(1.0) == 3.0


def test_an_argument_that_must_not_be_written_is_not():
    array = np.ones(2)
    array.flags.writeable = False

    def f(x, a):
        a[0] = 2.0
        return x * a[0]

    with pytest.raises(ValueError, match="read-only"):
        grad(f)(1.0, array)


def test_attributes_in_slots_are_changed():
    def f(x, s):
        s.w, s.count = 2.0 * s.w, s.count + 1
        return x * s.w * s.count

    given, captured = Slotted(1.0, 0), Slotted(1.0, 0)
    assert [grad(f)(1.0, given) for _ in range(2)] == [2.0, 8.0] and (given.w, given.count) == (4.0, 2)
    derivative = grad(lambda x: f(x, captured))
    assert [derivative(1.0) for _ in range(3)] == [2.0, 8.0, 24.0] and (captured.w, captured.count) == (8.0, 3)


def test_a_large_array_is_not_written_twice():
    """In the first calls f writes nothing, so what the array held is not kept; with another n it runs once more."""
    derivative = delayed()
    assert [derivative(1.0, n) for n in (1, 2)] == [0.0, 0.0]
    with pytest.raises(UnsupportedError, match="run once more"):
        derivative(1.0, 3)
