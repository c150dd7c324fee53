"""A call that is traced anew, since it reads more than can be watched: today's value, by a bounded number of calls."""

import dataclasses
import sys
import types
from collections import OrderedDict, deque

import jax
import numpy as np
import pytest

from tangents import grad

COUNT, BOUND = 100_000, 1900


def floats():
    return [2.0] * COUNT


class Plain:
    def __init__(self, items):
        self.items = items

    def read(self, i):
        return self.items[i]

    @property
    def first(self):
        return self.items[0]

    def __call__(self, x):
        return self.items[0] * x


class Slotted:
    __slots__ = ("items",)

    def __init__(self, items):
        self.items = items


@dataclasses.dataclass
class Record:
    items: list


@dataclasses.dataclass(frozen=True)
class Frozen:
    items: list


table, queue, nested = floats(), deque(floats()), [[2.0] * 10 for _ in range(COUNT // 10)]
by_number, ordered, by_name = dict(enumerate(floats())), OrderedDict(enumerate(floats())), {"table": floats()}
plain, slotted, record, frozen = Plain(floats()), Slotted(floats()), Record(floats()), Frozen(floats())
inner, space, arrays = Plain(Plain(floats())), types.SimpleNamespace(items=floats()), Plain(np.full(COUNT, 2.0))
other = types.ModuleType("a_module_of_the_user")
other.table = floats()


def helper(i):
    return table[i]


def first_of(holder):
    """A function that captured a large list in a cell, which it reads, and one that has it for a default."""
    return (lambda x: holder[0] * x), (lambda x, holder=holder: holder[0] * x)


of_cell, of_default = first_of(table)

READS = {
    "a list": (lambda x: table[0] * x, table),
    "a part of a list": (lambda x: sum(table[:1]) * x, table),
    "a dict": (lambda x: by_number[0] * x, by_number),
    "an ordered dict": (lambda x: ordered[0] * x, ordered),
    "a list in a dict": (lambda x: by_name["table"][0] * x, by_name["table"]),
    "a deque": (lambda x: queue[0] * x, queue),
    "lists in a list": (lambda x: nested[0][0] * x, nested[0]),
    "an attribute": (lambda x: plain.items[0] * x, plain.items),
    "an attribute of an attribute": (lambda x: inner.items.items[0] * x, inner.items.items),
    "a namespace": (lambda x: space.items[0] * x, space.items),
    "a slot": (lambda x: slotted.items[0] * x, slotted.items),
    "a dataclass": (lambda x: record.items[0] * x, record.items),
    "a frozen dataclass": (lambda x: frozen.items[0] * x, frozen.items),
    "an array in an attribute": (lambda x: arrays.items[0] * x, arrays.items),
    "a method": (lambda x: plain.read(0) * x, plain.items),
    "a property": (lambda x: plain.first * x, plain.items),
    "a bound method": (plain.__call__, plain.items),
    "an object that is called": (plain, plain.items),
    "another module": (lambda x: other.table[0] * x, other.table),
    "another function": (lambda x: helper(0) * x, table),
    "a cell": (of_cell, table),
    "a default": (of_default, table),
}


def events(f, *arguments):
    """How many calls and returns, of Python and of C, one run of f has."""
    count, before = 0, sys.getprofile()

    def one_more(*_):
        nonlocal count
        count += 1

    sys.setprofile(one_more)
    try:
        f(*arguments)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("name", READS)
@pytest.mark.filterwarnings("ignore")
def test_what_is_too_large_to_be_watched_is_read_at_each_call(name):
    f, holder = READS[name]
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        derivative = grad(f)
        for value in (2.0, 5.0):
            holder[0] = value
            assert derivative(1.0) == value
        assert events(derivative, 1.0) < BOUND
