"""What a rule of a derivative reads beside its arguments may change between two calls of one derivative."""

import types

import jax
import pytest
from jax import lax

from tangents import grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")
rate = 2.0
settings = types.ModuleType("settings_of_a_rule")
table = {"rate": 2.0}


def set_rate(value):
    global rate
    rate = value


class Rate:
    value = 2.0

    def read(self):
        return rate


class Derived(Rate):
    pass


class Computed:
    @property
    def value(self):
        return table["rate"]

    @staticmethod
    def read():
        return table["rate"]


class Slotted:
    __slots__ = ("value",)


slotted, a_rate, computed = Slotted(), Rate(), Computed()
PLACES = {  # how it is read, and set
    "a global": (lambda: rate, set_rate),
    "a class": (lambda: Rate.value, lambda v: setattr(Rate, "value", v)),
    "a base class": (lambda: Derived.value, lambda v: setattr(Rate, "value", v)),
    "a class, by an object": (lambda: a_rate.value, lambda v: setattr(Rate, "value", v)),
    "a module": (lambda: settings.rate, lambda v: setattr(settings, "rate", v)),
    "a slot": (lambda: slotted.value, lambda v: setattr(slotted, "value", v)),
    "a property": (lambda: computed.value, lambda v: table.update(rate=v)),
    "a static method": (lambda: Computed.read(), lambda v: table.update(rate=v)),
    "a method": (lambda: a_rate.read(), set_rate),
}


def with_pullback(read):
    f = jax.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, g: (read() * g,))
    return f


def with_residuals(read):
    f = jax.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, read() * (x / x)), lambda scale, g: (scale * g,))
    return f


def with_pushforward(read):
    f = jax.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (f(*p), read() * t[0]))
    return f


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("ruled", [with_pullback, with_residuals, with_pushforward], ids=lambda f: f.__name__)
@pytest.mark.parametrize("times", [1, 2])
def test_what_a_rule_reads_is_read_at_each_call(place, ruled, times):
    read, change = PLACES[place]
    change(2.0)
    f = ruled(read)
    once = lambda x: f(x)
    derivative = grad(once if times == 1 else lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])
    got = [(change(rate), float(derivative(1.0)))[1] for rate in (2.0, 5.0, 7.0, 7.0, 2.0)]
    assert got == [rate**times for rate in (2.0, 5.0, 7.0, 7.0, 2.0)]
