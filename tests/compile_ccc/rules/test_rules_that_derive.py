"""Functions with rules, and rules, that take derivatives of ours: of x sin x, and of the cube root as a root."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from combinators.errors import UnsupportedError
from combinators.identity.rules import walked
from tangents import grad, hessian, jacobian, jvp, linearize, value_and_grad, vjp

X = 0.3
FIRST, SECOND = np.sin(X) + X * np.cos(X), 2 * np.cos(X) - X * np.sin(X)  # derivatives of x sin x at X


def wave(x):
    return jnp.sin(x) * x


def by_vjp(x):
    return vjp(wave, x)[1](jnp.ones_like(x))[0]


def by_linearize(x):
    return linearize(wave, x)[1](jnp.ones_like(x))


def with_jvp(slope):
    """The function `slope`, the first derivative of x sin x, whose rule says ten times the second."""
    f = jax.custom_jvp(lambda x: slope(x))
    f.defjvp(lambda p, t: (f(*p), 10.0 * jvp(slope, p, t)[1]))
    return f


def with_vjp(slope):
    f = jax.custom_vjp(lambda x: slope(x))
    f.defvjp(lambda x: (f(x), x), lambda x, g: (10.0 * vjp(slope, x)[1](g)[0],))
    return f


PLACES = {
    "called": lambda f, x: f(x),
    "under jit": lambda f, x: jax.jit(f)(x),
    "mapped": lambda f, x: jnp.sum(jax.vmap(f)(jnp.stack([x, x]))) / 2,
    "in a scan": lambda f, x: lax.scan(lambda s, a: (s + f(a), None), 0.0, jnp.stack([x, x]))[0] / 2,
    "in a branch": lambda f, x: lax.cond(x > 0, f, lambda x: 0.0 * x, x),
    "in a while": lambda f, x: lax.while_loop(lambda s: s[1] < 1, lambda s: (f(x), s[1] + 1), (x, 0))[0],
    "in a checkpoint": lambda f, x: jax.checkpoint(f)(x),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("slope", [by_vjp, by_linearize])
@pytest.mark.parametrize("rule", [with_jvp, with_vjp])
def test_a_function_with_a_rule_makes_functions_and_its_rule_counts(rule, slope, place):
    value, slope_of_it = value_and_grad(lambda x: PLACES[place](rule(slope), x))(X)
    np.testing.assert_allclose(value, FIRST, rtol=1e-5)
    np.testing.assert_allclose(slope_of_it, 10 * SECOND, rtol=1e-5)


@pytest.mark.parametrize("functions", ["environment", "list"])
def test_in_both_tangents_forward_and_compiled(functions):
    f = with_jvp(by_vjp)
    np.testing.assert_allclose(jax.jit(grad(f, functions=functions))(X), 10 * SECOND, rtol=1e-5)
    np.testing.assert_allclose(jacobian(f, mode="forward")(X), 10 * SECOND, rtol=1e-5)


def square(y, a):
    return (y**3 - a) ** 2


def cube_root(stationary):
    """a ↦ ∛a by 40 steps of Newton, with the derivative of what is implicit in `stationary`."""

    @jax.custom_vjp
    def root(a):
        return lax.fori_loop(0, 40, lambda _, y: y - (y**3 - a) / (3 * y**2), 1.0 + 0.0 * a)

    def backward(kept, g):
        a, y = kept
        by_y = vjp(lambda y: stationary(y, a), y)[1]
        by_a = vjp(lambda a: stationary(y, a), a)[1]
        return by_a(-g / by_y(1.0)[0])

    root.defvjp(lambda a: (root(a), (a, root(a))), backward)
    return root


@pytest.mark.parametrize("stationary", [lambda y, a: y**3 - a, grad(square)])
def test_implicit_derivatives_again_and_again(stationary):
    """The derivative that the rule captured remembers its programs, in which the rule is."""
    root = cube_root(stationary)
    for a in (2.0, 3.0):
        np.testing.assert_allclose(grad(root)(a), a ** (-2 / 3) / 3, rtol=1e-3)
        np.testing.assert_allclose(jax.jit(grad(root))(a), a ** (-2 / 3) / 3, rtol=1e-3)
    np.testing.assert_allclose(hessian(root)(2.0), -2 / 9 * 2 ** (-5 / 3), rtol=1e-2)


def test_what_a_derivative_remembers_is_not_what_it_is():
    one, other, by_a = grad(square), grad(square), grad(square, argnums=1)
    before = walked(one)[0]
    one(2.0, 3.0)
    assert walked(one)[0] == before == walked(other)[0]
    assert before != walked(by_a)[0]
    assert before != walked(value_and_grad(square))[0]


def test_an_operation_that_hides_its_program_is_refused_by_name():
    def root(a):
        newton = lambda f, y: lax.fori_loop(0, 9, lambda _, y: y - f(y) / vjp(f, y)[1](1.0)[0], y)
        return lax.custom_root(lambda y: y**3 - a, 1.0, newton, lambda g, y: y / g(1.0))

    with pytest.raises(UnsupportedError, match=r"inside of an operation of JAX that hides its program(.|\n)*grad"):
        grad(root)(2.0)
    by_grad = lambda f, y: lax.fori_loop(0, 40, lambda _, y: y - f(y) / grad(f)(y), y)
    implicit = lambda a: lax.custom_root(lambda y: y**3 - a, 1.0, by_grad, lambda g, y: y / g(1.0))
    np.testing.assert_allclose(grad(implicit)(2.0), 2 ** (-2 / 3) / 3, rtol=1e-5)
