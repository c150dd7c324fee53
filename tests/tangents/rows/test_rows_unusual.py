"""Rows at parameters that are not the usual ones, and what looks like a step and is none, by central differences."""

import inspect
from functools import partial

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax import lax

from tangents import grad, jvp
from tangents.rows.table import NATIVE
from tests.tangents.rows.drawing import arrays
from tests.tangents.rows.examples import along, complex_, inside, positive, real, spd

ACCURACIES = (lax.AccuracyMode.HIGHEST, lax.AccuracyMode.DEFAULT)
ACCURATE = [
    name
    for name, rule in NATIVE.items()
    if "accuracy" in rule.parameters.names and "accuracy" in inspect.signature(getattr(lax, name, len)).parameters
]
PRECISIONS = ("highest", "high", ("highest", "default"), lax.DotAlgorithmPreset.F64_F64_F64)
MODES = ("clip", "fill", "promise_in_bounds")


def smooth(name):
    return inside if name in {"tan", "tanh"} else positive


@st.composite
def accurate(draw):
    name, how = draw(st.sampled_from(ACCURATE)), draw(st.sampled_from(ACCURACIES))
    return lambda x: getattr(lax, name)(x, accuracy=how), smooth(name)(draw(st.integers(1, 4)))


@st.composite
def products(draw):
    how, wider = draw(st.sampled_from(PRECISIONS)), draw(st.sampled_from([None, np.float64]))
    b = draw(arrays((3, 2)))
    run = partial(lax.dot_general, precision=how, preferred_element_type=wider)
    return lambda a: run(a, b, (((1,), (0,)), ((), ()))), draw(arrays((2, 3)))


@st.composite
def convolved(draw):
    how, wider = draw(st.sampled_from(PRECISIONS[:3])), draw(st.sampled_from([None, np.float64]))
    kernel = draw(arrays((2, 1, 2)))
    run = partial(lax.conv_general_dilated, window_strides=(1,), padding="SAME", precision=how)
    return lambda x: run(x, kernel, preferred_element_type=wider), draw(arrays((1, 1, 5)))


@st.composite
def wide_products(draw):
    wide, b = draw(st.sampled_from([np.float64, np.complex128])), draw(arrays((1, 3)))
    return lambda a: lax.mul(a, b, out_dtype=wide), draw(arrays((2, 3)))


@st.composite
def placed(draw):
    """Reading and adding at indices that are sorted, or all different, as is said of them."""
    mode, apart = draw(st.sampled_from(MODES)), draw(st.booleans())
    index = np.array([[0], [2], [3]] if apart else [[1], [1], [3]], np.int32)
    how = {"mode": mode, "indices_are_sorted": True, "unique_indices": apart}
    read, write = along(0, 2), lax.ScatterDimensionNumbers((1,), (0,), (0,))
    if draw(st.booleans()):
        return lambda x: lax.gather(x, index, read, (1, 2), fill_value=draw_fill(mode), **how), draw(arrays((4, 2)))
    return lambda x: lax.scatter_add(jnp.sin(x), index, jnp.cos(x[:3]), write, **how), draw(arrays((4, 2)))


def draw_fill(mode):
    return 0.5 if mode == "fill" else None


@st.composite
def solved(draw):
    b, conj = draw(arrays((3, 2))), draw(st.booleans())
    run = partial(lax.linalg.triangular_solve, left_side=True, lower=True, conjugate_a=conj, transpose_a=conj)
    return lambda a: run(a, b), spd(3)


@st.composite
def reordered(draw):
    return lambda x: lax.reshape(x, (6,), dimensions=(1, 0)), draw(arrays((2, 3)))


@st.composite
def ranked_values(draw):
    stable = draw(st.booleans())
    return lambda x: lax.top_k(x, 2, axis=0, is_stable=stable)[0], draw(arrays((4, 2)))


UNUSUAL = {
    "accuracy": accurate(),
    "precision and type of sums": products(),
    "precision of convolutions": convolved(),
    "the type of a product": wide_products(),
    "indices": placed(),
    "conjugate_a": solved(),
    "dimensions": reordered(),
    "is_stable": ranked_values(),
}


@pytest.mark.parametrize("what", UNUSUAL)
@given(data=st.data())
def test_unusual_values_have_the_derivative_of_central_differences(what, data, x64):
    f, x = data.draw(UNUSUAL[what])
    weights = lambda y: jnp.sum(jnp.real(y) * np.cos(np.arange(y.size)).reshape(y.shape))
    loss, t = lambda x: weights(f(x)), np.sin(1.0 + np.arange(x.size)).reshape(x.shape)
    right = float((loss(x + 1e-6 * t) - loss(x - 1e-6 * t)) / 2e-6)
    np.testing.assert_allclose(np.sum(grad(loss)(jnp.asarray(x)) * t), right, 1e-6, 1e-7)
    tangent = jvp(f, (jnp.asarray(x),), (jnp.asarray(t),))[1]
    assert tangent.dtype == f(x).dtype
    np.testing.assert_allclose(weights(tangent), right, 1e-6, 1e-7)


def test_the_type_of_a_product_is_that_of_its_tangent(x64):
    narrow = lambda x: lax.mul(x, x, out_dtype=np.float32)
    y, t = jvp(narrow, (jnp.array([0.3, 0.7]),), (jnp.ones(2),))
    assert y.dtype == t.dtype == np.float32
    np.testing.assert_allclose(t, [0.6, 1.4], 1e-6)
    g = grad(lambda x: jnp.sum(narrow(x)))(jnp.array([0.3, 0.7]))
    assert g.dtype == np.float64
    np.testing.assert_allclose(g, [0.6, 1.4], 1e-6)


def test_what_is_no_step(x64):
    """Complex numbers have phases, and the same bits are the same number."""
    z, t = complex_(3), np.array([0.2 - 0.1j, 0.3j, -0.4])
    _, turned = jvp(lax.sign, (jnp.asarray(z),), (jnp.asarray(t),))
    right = ((z + 1e-6 * t) / abs(z + 1e-6 * t) - (z - 1e-6 * t) / abs(z - 1e-6 * t)) / 2e-6
    np.testing.assert_allclose(turned, right, 1e-7, 1e-8)
    same = lambda x: jnp.sum(jnp.sin(lax.bitcast_convert_type(x * x, x.dtype)))
    np.testing.assert_allclose(grad(same)(jnp.asarray(real(3))), 2 * real(3) * np.cos(real(3) ** 2), 1e-12)
    assert not grad(lambda x: jnp.sum(lax.bitcast_convert_type(x, np.float32)))(jnp.asarray(real(3))).any()
    assert not grad(lambda x: jnp.sum(lax.sign(x)))(jnp.asarray(real(3))).any()


@pytest.mark.parametrize("z", [0.0 + 0.0j, 1.0 + 0.0j, -2.0 - 1.0j])
def test_the_sign_of_a_complex_number_at_0_and_elsewhere(z, x64):
    g = grad(lambda z: jnp.real(lax.sign(z)))(jnp.asarray(z))
    if z == 0:
        assert g == 0
        return
    f = lambda z: (z / abs(z)).real
    right = (f(z + 1e-6) - f(z - 1e-6)) / 2e-6 - 1j * (f(z + 1e-6j) - f(z - 1e-6j)) / 2e-6
    np.testing.assert_allclose(g, right, 1e-7, 1e-8)
