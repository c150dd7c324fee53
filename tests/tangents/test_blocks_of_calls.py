"""The calls of a loop, in the list tangent: what `curry` makes of them, and what it works out once for all of them."""

from __future__ import annotations

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import function
from tangents import grad


def draw(*shape):
    return np.random.default_rng([*shape]).normal(size=shape)


def applied(w, b, xs, h):
    f = function(lambda h: jnp.tanh(h @ w + b[None]), C.Tensor(h.shape, h.dtype))
    return jnp.sum(jnp.sin(lax.scan(lambda h, x: (x * f(h), None), h, xs)[0]))


def in_a_branch(w, b, xs, h):
    f = function(lambda h: jnp.sqrt(jnp.abs(h @ w)) + b[None], C.Tensor(h.shape, h.dtype))
    step = lambda h, x: (h + lax.cond(x > 0.0, lambda: f(x * h), lambda: x * h), None)
    return jnp.sum(lax.scan(step, h, xs)[0])


def of_a_function(w, b, xs, h):
    times = function(lambda h: h @ w, C.Tensor(h.shape, h.dtype))
    f = function(lambda h: jnp.sin(times(h) + b[None]) + times(jnp.cos(h)), C.Tensor(h.shape, h.dtype))
    return jnp.sum(lax.scan(lambda h, x: (h + x * f(h), None), h, xs)[0])


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("loss", [applied, in_a_branch, of_a_function])
def test_what_a_function_captured_gets_the_sum_over_its_calls(loss, rows):
    """Against central differences, in float64."""
    with jax.enable_x64(True):
        arguments = jax.tree.map(jnp.asarray, (0.3 * draw(12, 12), draw(12), draw(5), draw(rows, 12)))
        gradient = jax.jit(grad(loss, (0, 1, 2, 3), functions="list"))(*arguments)
        along = [draw(*x.shape) for x in arguments]
        ends = [loss(*(x + t * d for x, d in zip(arguments, along, strict=True))) for t in (1e-6, -1e-6)]
        rate = sum(np.sum(g * d) for g, d in zip(gradient, along, strict=True))
        np.testing.assert_allclose(rate, (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def products(rows):
    """The types of the products in each loop of the gradient by the matrix."""
    types = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((12, 12), (12,), (5,), (rows, 12)))
    found = []

    def visit(jaxpr, body):
        for e in jaxpr.eqns:
            inner = body
            if e.primitive.name == "scan":
                found.append(inner := [])
            elif e.primitive.name == "dot_general":
                body.append(e.outvars[0].aval.shape)
            for program in jex.jaxprs_in_params(e.params):
                visit(program, inner)

    visit(jax.make_jaxpr(grad(applied, functions="list"))(*types).jaxpr, outside := [])
    return outside, found


def test_calls_are_contracted_once():
    after, (forward, backward, _, of_calls) = products(5)  # the third loop has the calls of the step, which capture f
    assert (after, forward, backward, of_calls) == ([(12, 12)], [(5, 12)], [(5, 12)], [(5, 12)])


def test_products_of_few_rows_are_one_for_all_calls():
    outside, (forward, backward, _, of_calls) = products(1)
    assert (forward, backward, of_calls) == ([(1, 12)], [(1, 12)], [])
    assert sorted(outside) == [(5, 1, 12), (12, 12)]


def cubed_by_jvp():
    f = jax.custom_jvp(lambda x: x**3)
    f.defjvp(lambda x, t: (f(*x), 3 * x[0] ** 2 * t[0]))
    return f


def cubed_by_vjp():
    f = jax.custom_vjp(lambda x: x**3)
    f.defvjp(lambda x: (f(x), x), lambda x, g: (3 * x**2 * g,))
    return f


@pytest.mark.parametrize("cubed", [cubed_by_jvp, cubed_by_vjp])
def test_what_is_worked_out_once_may_have_a_rule_of_its_own(cubed):
    """The last step gives x + (2w)³·w³, whose derivative by w is 48·w⁵."""
    f = cubed()
    last = lambda w: C.fold(function(lambda s, x: x + f(2 * w) * f(w), C.Tensor(), C.Tensor()), 1.0, jnp.arange(3.0))
    np.testing.assert_allclose(grad(last, functions="list")(2.0), 48 * 2.0**5, rtol=1e-6)
    np.testing.assert_allclose(grad(grad(last, functions="list"))(2.0), 240 * 2.0**4, rtol=1e-6)
