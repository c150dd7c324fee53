"""The fixtures and flags of conftest.py do what they say."""

import gc

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def test_an_identical_call_compiles_nothing(compilations):
    x = jnp.arange(3.0)
    double = jax.jit(lambda x: x + x)
    double(x)
    assert compilations.new() >= 1
    double(x)
    assert compilations.new() == 0


def test_a_new_function_and_a_new_shape_compile(compilations):
    x, longer = jnp.arange(3.0), jnp.arange(4.0)
    square = jax.jit(lambda x: x * x)
    compilations.new()
    square(x)
    assert compilations.new() == 1
    square(longer)
    assert compilations.new() == 1
    assert compilations.count >= 2


def test_the_counter_of_another_test_does_not_listen_any_more(compilations):
    assert compilations.count == 0


def test_x64_is_on_where_asked_for(x64):
    assert jnp.ones(2).dtype == jnp.float64


def test_x64_is_off_by_default():
    assert jnp.ones(2).dtype == jnp.float32


@given(st.floats(-1.0, 1.0))
def test_x64_holds_for_every_example(x64, number):
    assert float(jnp.asarray(number)) == number


def test_dtypes_are_not_promoted():
    with pytest.raises(ValueError, match="dtype_promotion"):
        jnp.ones(2, jnp.float32) + jnp.ones(2, jnp.int32)


def test_ranks_are_not_promoted():
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.ones((2, 2)) + jnp.ones(2)


def test_a_profile_without_time_limit_is_loaded():
    assert settings().deadline is None


def test_a_test_does_not_collect_what_others_left():
    class Cycle: ...

    own = Cycle()
    own.itself = own
    assert gc.get_freeze_count() > 10_000
    assert len(gc.get_objects()) < gc.get_freeze_count() / 2
    assert any(isinstance(object, Cycle) for object in gc.get_objects())
