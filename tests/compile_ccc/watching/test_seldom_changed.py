"""What seldom changes, and is read all the same: private attributes, shapes, settings of JAX, what is about to go.

Every function here is linear, so its slope is its value at 1, which plain Python gives.
"""

import gc
import warnings
import weakref
from collections import OrderedDict, defaultdict
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tangents import grad

pytestmark = pytest.mark.filterwarnings("ignore::combinators.errors.TracedAnewWarning")


def after(changes, f):
    """Whether the slope is right before any change, and after each of them."""
    derivative = grad(f)
    for change in (lambda: None, lambda: None, lambda: None, *changes):
        change()
        assert float(derivative(1.0)) == f(1.0)


def test_a_private_attribute_of_a_class():
    class Model:
        _settings: ClassVar = {"w": 1.0}

        @property
        def w(self):
            return self._settings["w"]

    model = Model()
    after([lambda: Model._settings.update(w=2.0), lambda: Model._settings.update(w=5.0)], lambda x: model.w * x)


def test_the_shape_of_a_captured_array_whose_numbers_nobody_uses():
    w = np.ones(4)

    def put(array):
        nonlocal w
        w = array

    arrays = (np.ones(6), np.ones((2, 3)), jnp.ones(6), jnp.ones((2, 3)))
    after([partial(put, array) for array in arrays], lambda x: w.shape[0] * x)


def test_a_setting_of_jax_that_holds_for_some_calls():
    derivative = grad(lambda x: x * jnp.ones(2).dtype.itemsize)
    for wide in (False, True, True, False, False, True):
        with jax.enable_x64(wide):
            assert derivative(np.float32(1.0)) == (8 if wide else 4)


class Weight:
    def __init__(self, w):
        self.w = w


def test_what_a_weak_reference_refers_to_may_go():
    held = [Weight(2.0)]
    reference = weakref.ref(held[0])
    slope_of = lambda x: (3.0 if reference() is None else reference().w) * x
    after([lambda: setattr(held[0], "w", 5.0), held.clear], slope_of)
    assert reference() is None


def test_members_of_a_weak_set_may_go():
    held = [Weight(2.0), Weight(5.0)]
    members = weakref.WeakSet(held)
    after([held.pop, gc.collect, held.pop], lambda x: len(members) * x)


def test_containers_that_hold_themselves():
    def of_lists():
        c = [2.0]
        c.append((c, {"c": c}))
        after([lambda: c.__setitem__(0, 5.0)], lambda x: c[1][1]["c"][1][0][0] * x)

    def of_dicts():
        d = {"w": 2.0}
        d["d"] = d
        after([lambda: d.update(w=5.0)], lambda x: d["d"]["d"]["w"] * x)

    of_lists()
    of_dicts()


def test_dictionaries_of_other_classes_are_other_arguments():
    f = lambda x, d: d["w"] * x
    for d in ({"w": 2.0}, defaultdict(float, w=3.0), defaultdict(int, w=4.0), OrderedDict(w=5.0), {"w": 6.0}):
        assert grad(f)(1.0, d) == d["w"]


def test_what_is_behind_a_weak_reference_is_watched():
    """And kept: the function is not traced anew as long as it stays."""
    held = [Weight({"w": 2.0}), Weight({"w": 7.0})]
    reference = weakref.ref(held[0])
    after(
        [lambda: held[0].w.update(w=5.0), lambda: setattr(held[0], "w", {"w": 3.0})], lambda x: reference().w["w"] * x
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert grad(lambda x: reference().w["w"] * x)(1.0) == 3.0


def test_what_a_function_changes_behind_a_weak_reference_is_changed_once():
    """Also where it has to run again, since a number that is looked up is code."""
    held, table = Weight(0.0), {1: 2.0}
    reference = weakref.ref(held)

    def f(x, n):
        reference().w += 1.0
        return x * table[n] * reference().w

    derivative = grad(f)
    assert [float(derivative(1.0, 1)) for _ in range(3)] == [2.0, 4.0, 6.0] and held.w == 3.0


def test_a_random_key_that_a_function_replaces():
    key = jax.random.key(0)

    def f(x):
        nonlocal key
        key, now = jax.random.split(key)
        return x * jax.random.uniform(now)

    def expected():
        at = jax.random.key(0)
        for _ in range(3):
            at, now = jax.random.split(at)
            yield float(jax.random.uniform(now))

    derivative = grad(f)
    assert [float(derivative(1.0)) for _ in range(3)] == list(expected())
