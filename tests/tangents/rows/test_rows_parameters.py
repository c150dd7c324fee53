"""Rows say which parameters they cover: every one that JAX has is named, and at others the row does not hold."""

from functools import partial

import hypothesis.strategies as st
import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax import lax

from combinators.types import is_discrete, type_of
from tangents.rows.kinds import Constant, elementwise, knows
from tangents.rows.table import CONSTANT, NATIVE, row_for
from tests.tangents.rows.cases import CASES
from tests.tangents.rows.drawn import DRAWN
from tests.tangents.rows.examples import real, spd

STEPS = {
    "ceil": (lax.ceil, real(3)),
    "floor": (lax.floor, real(3)),
    "round": (partial(lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN), real(3)),
    "stop_gradient": (lambda x: jex.primitives.stop_gradient_p.bind(x), real(3)),
}


def equations(program):
    """All equations of a program, at any depth."""
    for eqn in program.eqns:
        yield eqn
        for inner in jex.jaxprs_in_params(eqn.params):
            yield from equations(inner)


def met(name, f, *arguments):
    """The equations of a primitive in the program of f."""
    return [e for e in equations(jax.make_jaxpr(f)(*arguments)) if e.primitive.name == name]


def fixed_case(name):
    f, *arguments = CASES[name][0]
    (eqn,) = met(name, f, *arguments)
    return tuple(map(jnp.asarray, arguments)), eqn.params


@pytest.mark.parametrize("name", CASES)
def test_a_row_names_every_parameter_of_its_primitive(name, x64):
    found = [e for case in CASES[name] for e in met(name, *case)]
    assert found
    for eqn in found:
        assert set(eqn.params) <= NATIVE[name].parameters.names
        assert row_for(name, tuple(v.aval for v in eqn.invars), eqn.params) is NATIVE[name]


@pytest.mark.parametrize("what", DRAWN)
@given(data=st.data())
def test_a_row_names_every_parameter_of_what_is_drawn(what, data, x64):
    f, *arguments = data.draw(DRAWN[what])
    for eqn in equations(jax.make_jaxpr(f)(*arguments)):
        if eqn.primitive.name in NATIVE:
            assert set(eqn.params) <= NATIVE[eqn.primitive.name].parameters.names


@pytest.mark.parametrize("name", STEPS)
def test_a_constant_row_names_every_parameter_of_its_primitive(name, x64):
    f, x = STEPS[name]
    (eqn,) = met(name, f, x)
    assert row_for(name, (x,), eqn.params) == ()
    assert row_for(name, (x,), {**eqn.params, "tomorrow": 1}) is None


def test_other_constant_rows_have_discrete_results(x64):
    """These are constant whatever their parameters are: nothing inexact comes out, or goes in."""
    x, n = np.float64(0.5), np.int64(5)
    key = jax.random.key(0)
    programs = [
        (lambda: lax.iota(np.float64, 3),),
        (lambda x: [x < 1, x <= 1, x > 1, x >= 1, x == 1, x != 1, lax.is_finite(x)], x),
        (lambda n: [n & 1, n | 1, n ^ 1, ~n, n << 1, n >> 1, lax.clz(n), lax.population_count(n)], n),
        (lambda n: lax.shift_right_logical(n, n), n),
        (lambda x: [lax.argmax(x, 0, np.int32), lax.argmin(x, 0, np.int32)], real(3)),
        (lambda n: [lax.reduce_and(n, (0,)), lax.reduce_or(n, (0,)), lax.reduce_xor(n, (0,))], np.arange(3)),
        (lambda k: [jax.random.bits(k), jax.random.split(k), jax.random.fold_in(k, 1), jax.random.key_data(k)], key),
        (lambda x: lax.sort((x, x), num_keys=2), real(3)),
        (lambda k: lax.rng_bit_generator(k, (3,)), np.zeros(4, np.uint32)),
        (lambda n: jax.random.wrap_key_data(n), np.zeros(2, np.uint32)),
    ]
    seen = set()
    for f, *arguments in programs:
        for eqn in equations(jax.make_jaxpr(f)(*arguments)):
            if isinstance(row := CONSTANT.get(eqn.primitive.name), Constant) and row.parameters is None:
                seen.add(eqn.primitive.name)
                discrete = lambda variables: all(is_discrete(type_of(v.aval)) for v in variables)
                assert discrete(eqn.outvars) or discrete(eqn.invars)
    rest = {name for name, row in CONSTANT.items() if row.parameters is None} - seen
    assert rest <= {"axis_index", "eq_to", "le_to", "lt_to", "random_seed", "random_unwrap", "threefry2x32"}


@pytest.mark.parametrize("name", CASES)
def test_a_row_does_not_hold_for_a_parameter_that_it_does_not_know(name, x64):
    arguments, params = fixed_case(name)
    assert row_for(name, arguments, params) is NATIVE[name]
    assert row_for(name, arguments, {**params, "tomorrow": None}) is None


FIXED = [(name, parameter) for name, rule in NATIVE.items() for parameter in rule.parameters.fixed]


@pytest.mark.parametrize(("name", "parameter"), FIXED)
def test_a_row_does_not_hold_at_another_value(name, parameter, x64):
    arguments, params = fixed_case(name)
    found = row_for(name, arguments, {**params, parameter: "another"})
    assert found is None or (found is not NATIVE[name] and found.parameters.cover({parameter: "another"}))


def test_a_row_is_left_to_jax_where_it_does_not_hold(x64):
    x, mode = jnp.ones(3), lax.GatherScatterMode.FILL_OR_DROP
    places = {"dimension_numbers": None, "indices_are_sorted": False, "unique_indices": False, "mode": mode}
    plain = {**places, "update_jaxpr": None, "update_consts": ()}
    at = lambda n: (x, jnp.zeros((n, 1), int), x[:n])
    assert row_for("fft", (x,), {"fft_type": lax.FftType.RFFT, "fft_lengths": (3,)}) is None
    assert row_for("abs", (lax.complex(x, x),), {}) is None
    assert row_for("scatter", at(2), plain) is None
    assert row_for("scatter", at(1), plain) is NATIVE["scatter"]
    applied = met("scatter", lambda x: x.at[0].apply(jnp.sin), x)[0].params
    assert row_for("scatter", at(1), applied) is None
    minus = jax.make_jaxpr(lambda a, b: a - b)(1.0, 1.0)
    assert row_for("scatter-add", at(1), {**plain, "update_jaxpr": minus}) is None
    by_product = {**places, "mode": lax.GatherScatterMode.ONE_HOT, "slice_sizes": (1,), "fill_value": None}
    assert row_for("gather", at(1)[:2], by_product) is None
    wide = {"dimension_numbers": None, "precision": None, "out_sharding": None}
    assert row_for("dot_general", (x, x), {**wide, "preferred_element_type": np.dtype(complex)}) is None
    some = {"lower": True, "sort_eigenvalues": True, "algorithm": None}
    assert row_for("eigh", (spd(3),), {**some, "subset_by_index": (0, 2)}) is None
    assert row_for("eigh", (spd(3),), {**some, "subset_by_index": (0, 3)}) is NATIVE["eigh"]


def test_a_row_of_nothing_covers_nothing():
    rule = elementwise(lambda v, y, x: v, keeps="nothing")
    assert rule.covers((1.0,), {}) and not rule.covers((1.0,), {"accuracy": None})
    assert (knows("a") | knows("b", c=1)).names == {"a", "b", "c"}
