"""Zeros that stay symbolic: what the loss does not use has no slope that a zero could be multiplied by, and no cost.

Every program here has a part whose slope is infinite at the point, or nowhere finite; the right value is that of the
part which is used.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from benchmarks.equations import equations
from compile_ccc import function
from tangents import compare, custom, grad, hessian, jacobian, jvp, value_and_grad, vjp

both = pytest.mark.parametrize("functions", ["environment", "list"])


def still(x):
    """0, with an infinite slope."""
    return jnp.sqrt(0.0 * x)


def angles(x):
    """Two results, of which the second has an infinite slope at 1."""
    return jnp.sin(x), jnp.arccos(x)


angles_with_rule = jax.custom_jvp(angles)
angles_with_rule.defjvp(
    lambda p, t: (angles(*p), (jnp.cos(p[0]) * t[0], -t[0] / jnp.sqrt(1.0 - p[0] * p[0]))),
)


def in_a_map(x):
    return jnp.sum(lax.map(lambda y: angles(y)[0], x * jnp.ones(2)))


def beside_a_map(x):
    return jnp.sum(lax.map(angles, x * jnp.ones(2))[0])


def state_of_a_fold(x):
    step = lambda s, e: (s[0] * e, still(s[1]), s[2] + s[0])
    body = function(step, (C.Tensor(),) * 3, C.Tensor())
    return C.fold(body, (x, x, x), jnp.array([2.0, 3.0]))[2]


def state_that_moves_on(x):
    """What is used at the end of four steps was in the third place two steps before; the fourth is never used."""
    step = lambda s, _: ((s[1], s[2], 2.0 * s[0], still(s[3])), None)
    return lax.scan(step, (x, x, x, x), None, length=4)[0][0]


def rows_of_a_scan(x):
    _, (sines, corners) = lax.scan(lambda s, _: (s, angles(s)), x, None, length=3)
    return sines[1] + 0.0 * lax.stop_gradient(corners[0])


def branch_with_more(x):
    y, z = lax.switch(1, [lambda x: (x, x), angles, lambda x: (x, still(x))], x)
    return y + 0.0 * lax.stop_gradient(z)


def traced_branch(x):
    return lax.switch(jnp.int32(x), [lambda x: (x, x), angles], x)[0]


def under_jit(x):
    return jax.jit(angles)(x)[0]


def rule_of_its_own(x):
    return angles_with_rule(x)[0]


def layer_again(x):
    return jax.checkpoint(angles)(x)[0]


def layers_in_layers(x):
    return jax.checkpoint(lambda x: jax.checkpoint(angles_with_rule)(x))(x)[0]


def loop_in_a_branch_in_a_loop(x):
    inner = lambda s: lax.fori_loop(0, 2, lambda _, s: (s[0], jnp.arccos(s[1])), s)
    step = lambda s, _: (lax.cond(s[0] > 0, inner, lambda s: s, s), None)
    return jnp.sin(lax.scan(step, (x, x), None, length=2)[0][0])


def over_rows(x):
    return jax.vmap(angles)(x * jnp.ones(3))[0][0]


# A program, and its derivative at 1.
PROGRAMS = {
    "in a map": (in_a_map, 2 * np.cos(1.0)),
    "beside a map": (beside_a_map, 2 * np.cos(1.0)),
    "rows of a scan": (rows_of_a_scan, np.cos(1.0)),
    "a branch": (branch_with_more, np.cos(1.0)),
    "a branch by a number": (traced_branch, np.cos(1.0)),
    "under jit": (under_jit, np.cos(1.0)),
    "a rule of its own": (rule_of_its_own, np.cos(1.0)),
    "checkpoint": (layer_again, np.cos(1.0)),
    "checkpoint in checkpoint": (layers_in_layers, np.cos(1.0)),
    "loop in a branch in a loop": (loop_in_a_branch_in_a_loop, np.cos(1.0)),
    "vmap": (over_rows, np.cos(1.0)),
    "a state that moves on": (state_that_moves_on, 2.0),
    "the state of a fold": (state_of_a_fold, 1.0 + 1.0 + 2.0),
}
programs = pytest.mark.parametrize("name", PROGRAMS)


@programs
@both
def test_what_is_not_used_has_no_slope(name, functions):
    f, right = PROGRAMS[name]
    np.testing.assert_allclose(grad(f, functions=functions)(1.0), right, rtol=1e-5)


@programs
def test_the_value_comes_with_it(name):
    f, right = PROGRAMS[name]
    value, slope = value_and_grad(f)(1.0)
    np.testing.assert_allclose((value, slope), (f(1.0), right), rtol=1e-5)


@pytest.mark.parametrize("name", ["under jit", "checkpoint", "a branch by a number", "a rule of its own"])
def test_in_second_derivatives_too(name):
    f, _ = PROGRAMS[name]
    np.testing.assert_allclose(hessian(f)(1.0), -np.sin(1.0), rtol=1e-5)


def test_an_auxiliary_result_has_no_slope():
    for f in (angles, jax.jit(angles), jax.checkpoint(angles), angles_with_rule):
        np.testing.assert_allclose(grad(f, has_aux=True)(1.0)[0], np.cos(1.0), rtol=1e-5)


def test_a_pullback_of_a_part_of_the_result():
    f = lambda x: lax.scan(lambda s, e: ((s[0] * e, still(s[1])), s[0]), (x, x), jnp.array([2.0, 3.0]))
    (_, rows), _ = vjp(f, 1.0)
    np.testing.assert_allclose(rows, [1.0, 2.0])
    first_row = lambda x: f(x)[1][0]
    np.testing.assert_allclose(grad(first_row)(1.0), 1.0)


# Forward: a result that is one constant has no tangent.


def constant_of_a_branch(x):
    zero, y = lax.cond(x > 0, lambda x: (0.0, x * x), lambda x: (0.0, x), x)
    return y + jnp.sqrt(zero)


def constant_of_a_layer(x):
    zero, y = jax.checkpoint(lambda x: (jnp.zeros(()), x * x))(x)
    return y + jnp.sqrt(zero)


def constant_of_a_call(x):
    zero, y = jax.jit(lambda x: (jnp.zeros(()), x * x))(x)
    return y + jnp.sqrt(zero)


def constant_of_a_loop(x):
    zero, y = lax.fori_loop(0, 3, lambda _, s: (0.5 * s[0], s[1]), (0.0, x * x))
    return y + jnp.sqrt(zero)


def constant_of_a_rule(x):
    zero_and_square = jax.custom_jvp(lambda x: (0.0 * x, x * x))
    zero_and_square.defjvp(lambda p, t: ((jnp.zeros(()), p[0] * p[0]), (jnp.zeros(()), 2.0 * p[0] * t[0])))
    zero, y = zero_and_square(x)
    return y + jnp.sqrt(zero)


CONSTANTS = (constant_of_a_branch, constant_of_a_layer, constant_of_a_call, constant_of_a_loop, constant_of_a_rule)


@pytest.mark.parametrize("f", CONSTANTS)
def test_a_constant_result_has_no_tangent(f):
    np.testing.assert_allclose(jvp(f, (1.5,), (1.0,))[1], 3.0)
    np.testing.assert_allclose(jacobian(f, mode="forward")(1.5), 3.0)


@pytest.mark.parametrize("f", CONSTANTS)
def test_nor_a_cotangent(f):
    np.testing.assert_allclose(grad(f)(1.5), 3.0)


def test_all_ways_agree():
    assert compare(layer_again, 0.5).ok


# What is not used is not computed.


def expensive(x):
    for _ in range(10):
        x = jnp.tanh(jnp.dot(x, x) * x)
    return x


def with_and_without(control):
    """The number of equations of the gradient of a program with an unused result, and of the one without that."""
    sizes = []
    for f in (lambda x: (jnp.sin(x), expensive(x))[:1], lambda x: (jnp.sin(x), expensive(x))):
        loss = lambda x, f=f: jnp.sum(control(f)(x)[0])
        sizes.append(equations(jax.make_jaxpr(jax.jit(grad(loss)))(jnp.ones(3)).jaxpr))
    return sizes[::-1]


def looped(f):
    """A loop that collects what f gives."""
    return lambda x: lax.scan(lambda s, _: (s + f(s)[0], f(s)), x, None, length=3)[1]


CONTROL = {
    "straight": lambda f: f,
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "cond": lambda f: lambda x: lax.cond(x[0] > 0, f, f, x),
    "scan": looped,
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x])),
}


@pytest.mark.parametrize("name", CONTROL)
def test_an_unused_result_costs_no_equation(name):
    with_it, without = with_and_without(CONTROL[name])
    assert with_it <= without


def test_a_rule_gets_a_zero_where_something_else_is_used():
    given = []

    def pullback(primals, y, g):
        given.append(g)
        return (3.0 * g[0] + g[1],)

    pair = custom(lambda x: (x, still(x)), pullback)
    assert grad(lambda x: pair(x)[0])(1.0) == 3.0
    assert jnp.shape(given[0][1]) == ()
