"""Auxiliary results that hide values of the program in objects: these would be lost, and are refused by name."""

import collections
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from combinators.errors import ArgumentError
from tangents import grad, jacobian, value_and_grad, vjp


class Report:
    def __init__(self, loss):
        self.loss = loss


@dataclasses.dataclass
class Row:
    loss: object
    step: int = 3


class Slotted:
    __slots__ = ("loss",)

    def __init__(self, loss):
        self.loss = loss


def steps(x):
    yield x


HIDING = {
    "Report": (Report, "aux['log'][0].loss"),
    "Row": (Row, "aux['log'][0].loss"),
    "Slotted": (Slotted, "aux['log'][0].loss"),
    "generator": (steps, "aux['log'][0]"),
    "zip": (lambda x: zip([x], [1], strict=True), "aux['log'][0]"),
    "map": (lambda x: map(abs, [x]), "aux['log'][0]"),
    "deque": (lambda x: collections.deque([x]), "aux['log'][0]"),
    "dict_values": (lambda x: {"a": x}.values(), "aux['log'][0]"),
    "partial": (lambda x: functools.partial(max, x), "aux['log'][0]"),
    "UserDict": (lambda x: collections.UserDict(a=x), "aux['log'][0]"),
    "slice": (lambda x: slice(x, None), "aux['log'][0]"),
    "ndarray": (lambda x: np.array([None, {"a": x}], dtype=object), "aux['log'][0]"),
}


@pytest.mark.filterwarnings("ignore:Python iterable type")
@pytest.mark.parametrize("kind", HIDING)
def test_an_object_that_hides_a_value_is_named(kind):
    hide, where = HIDING[kind]
    with pytest.raises(ArgumentError, match="hides a value of the program") as found:
        grad(lambda x: (x**2, {"log": [hide(2 * x)]}), has_aux=True)(3.0)
    assert f"class {kind}, aux['log'][0], " in found.value.got and where in found.value.got
    assert "has_aux=True" in found.value.line


def test_so_it_is_in_objects_in_objects_and_for_every_derivative():
    f = lambda x: (x**2, Report(Row([Report(2 * x)])))
    for derive in (value_and_grad(f, has_aux=True), jacobian(f, has_aux=True), lambda x: vjp(f, x, has_aux=True)):
        with pytest.raises(ArgumentError, match="an object of class Report, aux, which holds a float32"):
            derive(3.0)


def test_what_the_hint_says_works():
    registered = jax.tree_util.register_dataclass(
        dataclasses.make_dataclass("Registered", ["loss", "step"]), ["loss"], ["step"]
    )
    f = lambda x: (x**2, (registered(2 * x, 3), [2 * x]))
    for x in (3.0, 4.0):
        slope, (row, (loss,)) = grad(f, has_aux=True)(x)
        assert (slope, row.loss, row.step, loss) == (2 * x, 2 * x, 3, 2 * x)


def test_objects_that_hide_nothing_come_back():
    kept = Report(jnp.ones(2))
    for aux in (kept, Row("text"), collections.deque([1]), range(3)):
        assert grad(lambda x, aux=aux: (x**2, aux), has_aux=True)(3.0)[1] is aux
