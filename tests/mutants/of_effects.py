"""Mutants of what functions change and read beside their arguments, and of what is left out or moved."""

import weakref
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import combinators as C
from combinators.identity import rules
from combinators.memo import clear_caches
from compile_ccc.asking import beside, standing
from compile_ccc.rules import last_run
from compile_ccc.tracing import arguments, keeping, stage
from compile_ccc.watching import before, handed, places, rebuilt, watch
from tangents import grad
from tests.mutants.breaking import Code
from tests.mutants.checking import comes_to, in_turn

LOOKUP = {1: 1.0, 2: 1.0}  # a number that is looked up is code, so that its function runs once more
LARGE = 2**14 + 1
SIN, EXP = C.primitive("sin"), C.primitive("exp")
p0, p1 = C.proj(0), C.proj(1)


def noted() -> Any:
    notes, table = [0], {"n": 0}

    def f(x, n):
        notes[0] += 1
        table["n"] += 1
        return x * notes[0] * table["n"] * LOOKUP[n]

    return in_turn(grad(f), (1.0, 1), (1.0, 2))


def counted_in_an_array() -> Any:
    numbers = np.zeros(2, int)
    helper = lambda: numbers

    def f(x, n):
        helper()[0] += 1
        return x * float(helper()[0]) * LOOKUP[n]

    return in_turn(grad(f), (1.0, 1), (1.0, 2))


def written_argument() -> Any:
    array = np.zeros(2)

    def f(x, a):
        a[0] += 1.0
        return x * a[0]

    return in_turn(grad(f), (1.0, array), (1.0, array)) + array.tolist()


def referred_to() -> Any:
    class Layer:
        pass

    layer = Layer()
    layer.w = 2.0
    reference = weakref.ref(layer)
    derivative = grad(lambda x: x * reference().w)
    first = [*in_turn(derivative, (1.0,), (1.0,))]
    layer.w = 5.0
    return first + in_turn(derivative, (1.0,))


def captured_and_given() -> Any:
    own = [1.0]

    def f(x, given):
        given[0] = 3.0
        return x * own[0]

    return in_turn(grad(f), (1.0, own))


def given_in_two_parts() -> Any:
    whole = np.ones(4)

    def f(x, part, whole):
        part[0] = 3.0
        return x * whole[0]

    return in_turn(grad(f), (1.0, whole[:2], whole))


def used_before() -> Any:
    array = np.ones(2, np.float32)

    def f(x):
        before = jnp.sum(x * array)
        array[0] = 3.0
        return before + jnp.sum(x * array)

    return in_turn(grad(f), (jnp.float32(1.0),))


def written_through_a_view() -> Any:
    whole = np.ones(4, np.float32)
    held = SimpleNamespace(part=whole[:2])

    def f(x):
        before = x * whole[0]
        held.part[0] = 3.0
        return before + x * whole[0]

    return in_turn(grad(f), (1.0,))


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w):
        self.w = w


jax.tree_util.register_pytree_node(Slotted, lambda s: ((s.w,), None), lambda _, parts: Slotted(*parts))


def in_slots() -> Any:
    own = Slotted(1.0)

    def f(x, s):
        s.w = 2.0 * s.w
        return x * s.w

    return in_turn(grad(f), (1.0, own), (1.0, own))


def delayed() -> Any:
    array, generator = np.zeros(LARGE), np.random.default_rng(0)
    helper = lambda: array

    def f(x, n):
        generator.random()
        if n > 2:
            helper()[0] += 1.0
        return sum(x * helper()[0] for _ in range(n))

    return grad(f)


def writeable() -> Any:
    array = np.ones(2)
    derivative = grad(lambda x: x * (2.0 if array.flags.writeable else 3.0))
    first = in_turn(derivative, (1.0,))
    array.flags.writeable = False
    return first + in_turn(derivative, (1.0,))


def ruled_by_a_class() -> Any:
    class Rate:
        value = 2.0

    scaled = jax.custom_vjp(lambda x: x)
    scaled.defvjp(lambda x: (x, None), lambda _, g: (Rate.value * g,))
    derivative = grad(lambda x: scaled(x))
    first = in_turn(derivative, (1.0,), (1.0,))
    Rate.value = 5.0
    return first + in_turn(derivative, (1.0,))


Kind = IntEnum("Kind", {"CUBE": 3})


def changed_by_a_part() -> Any:
    def f(x, a):
        part = a[1:]
        part += 1.0
        return jnp.sum(x * a)

    return in_turn(grad(f), (jnp.float32(1.0), np.zeros(3, np.float32)))


def changed_under_two_names() -> Any:
    def f(x, a):
        b = a * 2.0
        c = b
        b += 1.0
        return jnp.sum(x * c)

    return in_turn(grad(f), (jnp.float32(1.0), np.zeros(3, np.float32)))


def sorted_in_place() -> Any:
    def f(x, a):
        b = 2.0 * a
        b.sort()
        return x * b[0]

    return in_turn(grad(f), (jnp.float32(1.0), np.array([3.0, 1.0], np.float32)))


def said_by_numpy() -> Any:
    clear_caches()
    return in_turn(grad(lambda x, a: x * a.itemsize), (1.0, np.ones(2)), (1.0, np.ones(2, np.float32)))


def kept_by_a_rule() -> Any:
    f = jax.custom_vjp(lambda x, y: x * y)
    kept = lambda x, y: (x.value * y.value, (y.value if x.perturbed else None, x.value if y.perturbed else None))
    f.defvjp(kept, lambda r, g: tuple(None if v is None else g * v for v in r), symbolic_zeros=True)
    return in_turn(grad(lambda y: f(2.0, y) + f(y, y)), (5.0,))


def member() -> Any:
    return in_turn(grad(lambda x, kind: x**3 if kind is Kind.CUBE else x), (1.0, Kind.CUBE))


CHECKS = {
    "what is changed, run once more": comes_to([1.0, 4.0], noted),
    "an array that is changed, run once more": comes_to([1.0, 2.0], counted_in_an_array),
    "an argument that is written": comes_to([1.0, 2.0, 2.0, 0.0], written_argument),
    "a weak reference": comes_to([2.0, 2.0, 5.0], referred_to),
    "what is captured and an argument": comes_to("refused", captured_and_given),
    "arguments with memory in common": comes_to("refused", given_in_two_parts),
    "an array that is used, then written": comes_to([2.0 + 4.0], used_before),
    "an array that is written through a view": comes_to([1.0 + 3.0], written_through_a_view),
    "attributes in slots": comes_to([2.0, 4.0], in_slots),
    "a large array that is written late": comes_to("refused", lambda: in_turn(delayed(), (1.0, 1), (1.0, 2), (1.0, 3))),
    "whether an array may be written": comes_to([2.0, 3.0], writeable),
    "a part of an array, changed in place": comes_to([2.0], changed_by_a_part),
    "what is computed, changed under two names": comes_to([3.0], changed_under_two_names),
    "an array, sorted in place": comes_to([2.0], sorted_in_place),
    "a class that a rule reads": comes_to([2.0, 2.0, 5.0], ruled_by_a_class),
    "a member of an enumeration": comes_to([3.0], member),
    "what NumPy says of its numbers": comes_to([8.0, 4.0], said_by_numpy),
    "what a rule keeps": comes_to([2.0 + 10.0], kept_by_a_rule),
}

MUTANTS = {
    "the program says it for NumPy": (
        "what NumPy says of its numbers",
        Code(standing._answer, "own := read(number.pair[0])", "own := read(tracer.aval.dtype)"),
    ),
    "another run's is kept": ("what a rule keeps", Code(last_run.LastRun.keep, "if store", "if not store")),
    "a list is not put back": (
        "what is changed, run once more",
        Code(watch.Watch.restore, "and not _same(container, parts)", "and False"),
    ),
    "an array is not put back": (
        "an array that is changed, run once more",
        Code(watch.Watch.restore, "array[...] = copy", "pass"),
    ),
    "an argument is not written": ("an argument that is written", Code(handed.Handed.written, " + arrays", "")),
    "attributes behind weak references may change": (
        "a weak reference",
        Code(places.Places.weak, "self.watch.answers.append((partial(", "(lambda _: None)((partial("),
    ),
    "nobody asks whether an argument is captured": (
        "what is captured and an argument",
        Code(handed.Handed.__init__, "if reaches(original):", "if False:"),
    ),
    "arrays are one by identity alone": (
        "arguments with memory in common",
        Code(before.is_shared, "np.may_share_memory(left, right) and", "False and"),
    ),
    "a program holds the memory of an array": (
        "an array that is used, then written",
        Code(beside.Beside.constant, "array.copy()", "array"),
    ),
    "views are not told": (
        "an array that is written through a view",
        Code(stage._Runs._stale, "is_shared(values[i], other)", "False"),
    ),
    "slots are not read": ("attributes in slots", Code(rebuilt._attributes, "if part is not MISSING", "if False")),
    "an array that was not looked at may change": (
        "a large array that is written late",
        Code(before.Before.check, "if not (self._looks", "if not (True or self._looks"),
    ),
    "flags are not in the key": ("whether an array may be written", Code(keeping._key, "v.flags.writeable", "True")),
    "parts of arrays are arrays by themselves": (
        "a part of an array, changed in place",
        Code(standing._change, "array.base is not None or", ""),
    ),
    "nobody counts names": (
        "what is computed, changed under two names",
        Code(standing._change, "not 0 < references <= _ALONE", "not references"),
    ),
    "arrays are sorted as JAX does": (
        "an array, sorted in place",
        Code(standing._change, "not 0 < references <=", "not references <="),
    ),
    "rules read nothing of classes": (
        "a class that a rule reads",
        Code(rules._Walk.kind, "for n, v in read]", "for n, v in []]"),
    ),
    "members are numbers": (
        "a member of an enumeration",
        Code(arguments._is_value, " or issubclass(type(leaf), Enum)", ""),
    ),
}
