"""Faults that random terms and programs found, each as the smallest example that shows it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.sums import Sum
from compile_ccc import function, trace
from tangents import represent, value_and_grad

S = C.Tensor()
v = np.array([0.5, -1.0, 2.0], np.float32)


@pytest.fixture(params=["environment", "list"])
def functions(request):
    return request.param


def test_a_scan_that_puts_out_a_literal(functions):
    """The output of each step was a Python number, which has no shape."""
    f = lambda x: jnp.sum(lax.scan(lambda s, e: (jnp.sin(s * e), -1.5), x, v)[1]) * x
    value, gradient = value_and_grad(f, functions=functions)(2.0)
    assert (float(value), float(gradient)) == (-9.0, -4.5)


@pytest.mark.usefixtures("x64")
def test_a_tag_that_is_traced_under_x64(functions):
    """The tag is int32, and what it was compared with followed the default integer."""
    term = C.case(C.primitive("sin"), C.primitive("neg"))
    x = Sum(jnp.float64(0.5), jnp.float64(2.0), tag=jnp.int32(1))
    assert float(C.evaluate(term, x)) == -2.0
    y, pullback = represent(term, functions=functions)(x)
    assert (float(y), float(pullback(1.0).alternatives[1])) == (-2.0, -1.0)


def test_three_branches_of_which_two_give_one_alternative(functions):
    """An alternative that two of three branches give, and the third does not, was taken for two types."""
    term = C.case(C.inl, C.primitive("sin") >> C.inl, C.inr) >> C.case(C.id, C.primitive("neg"))
    x = Sum(jnp.float32(0.5), jnp.float32(1.0), jnp.float32(2.0), tag=jnp.int32(1))
    assert C.infer(term, x) == S
    y, pullback = represent(term, functions=functions)(x)
    assert float(y) == pytest.approx(np.sin(1.0))
    assert [float(g) for g in pullback(1.0).alternatives] == pytest.approx([0.0, np.cos(1.0), 0.0])


def test_a_function_value_that_two_loops_of_jax_run(functions):
    """JAX's cache of traced loops compares their functions, and comparing a function value was an error."""

    def f(x):
        step = function(lambda s, e: (jnp.sin(s * e), s), S, S)
        return lax.scan(step, x, v)[0] + lax.scan(step, 2.0 * x, v)[0]

    step = lambda s, e: (jnp.sin(s * e), s)
    expected = jax.value_and_grad(lambda x: lax.scan(step, x, v)[0] + lax.scan(step, 2.0 * x, v)[0])(0.7)
    np.testing.assert_allclose(value_and_grad(f, functions=functions)(0.7), expected, rtol=1e-6)


@pytest.mark.parametrize("loop", ["fold", "map"])
def test_a_loop_without_jit(loop, functions):
    """The residuals of a loop's last step were taken for those of each step."""
    program = {
        "fold": lambda x, xs: C.fold(function(lambda s, e: jnp.sin(s) * e, S, S), x, xs),
        "map": lambda x, xs: jnp.sum(C.map(function(lambda e: jnp.sin(e * x), S), xs)),
    }[loop]
    term = trace(program, 0.7, v).term
    expected = represent(term, functions=functions)(0.7, v)[1](1.0)
    with jax.disable_jit():
        got = represent(term, functions=functions)(0.7, v)[1](1.0)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-6)


@pytest.mark.parametrize("arrow", [C.terms.Fold(), C.terms.Scan()], ids=str)
def test_a_loop_over_an_array_of_numpy_in_float64_where_jax_has_float32(arrow, functions):
    """Σ (s x) over three ones, from s: s, whose derivative by itself is 1; the array is cast as JAX casts it."""
    step = C.curry(C.proj(-1) >> C.primitive("mul"))
    if isinstance(arrow, C.terms.Scan):
        step = C.curry(C.proj(-1) >> C.primitive("mul") >> C.prod(C.id, C.id))
    y, pullback = represent(C.prod(step, C.id, C.const(np.ones(3))) >> arrow, functions=functions)(np.float32(2.0))
    state = y if isinstance(arrow, C.terms.Fold) else y[0]
    assert (state.dtype, state) == (jnp.float32, 2.0)
    zeros = jnp.zeros(3, jnp.float32)
    g = jnp.float32(1.0) if isinstance(arrow, C.terms.Fold) else (jnp.float32(1.0), zeros)
    assert pullback(g) == 1.0
