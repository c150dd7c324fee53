"""Names that `jax.named_scope` gives to parts of a program: they are in what XLA compiles, and change nothing else."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
from tangents import grad, hessian


@jax.named_scope("layer")
def layer(x, w):
    with jax.named_scope("inside"):
        y = jnp.sin(w * x)
    return y * x


def two_results(x):
    with jax.named_scope("pair"):
        a, b = jnp.sin(x), jnp.cos(x)
    return a * b


def with_functions(x):
    with jax.named_scope("making"):
        f = function(lambda y: x * y, C.Tensor())
    with jax.named_scope("applying"):
        return f(f(x))


def noted(x):
    with jax.named_scope("noting"):
        jax.debug.callback(lambda v: None, x)
        return x * x


def in_a_loop(x):
    return lax.scan(lambda s, _: (layer(s, x), ()), x, None, length=2)[0]


@jax.custom_jvp
def cube(x):
    with jax.named_scope("with a rule"):
        return x * x * x


cube.defjvps(lambda t, y, x: 3.0 * x * x * t)

DERIVATIVES = {  # at 0.5
    "two names": (lambda x: layer(x, 2.0), np.sin(1.0) + np.cos(1.0)),
    "two results": (two_results, np.cos(1.0)),
    "functions": (with_functions, 0.75),
    "an effect": (noted, 1.0),
    "a rule": (cube, 0.75),
    "mapped": (lambda x: jax.vmap(layer)(x * jnp.ones(2), jnp.ones(2)).sum(), 2.0 * (np.sin(0.5) + 0.5 * np.cos(0.5))),
    "nothing used": (lambda x: (layer(x, x), 2.0 * x)[1], 2.0),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_a_name_changes_no_derivative(name):
    f, expected = DERIVATIVES[name]
    for functions in ("environment", "list"):
        np.testing.assert_allclose(grad(f, functions=functions)(0.5), expected, rtol=1e-5)


def test_nor_in_loops_and_second_derivatives():
    s = lambda x: np.sin(x * x) * x  # the first step at x; the second one is layer(s, x)
    f = lambda x: np.sin(x * s(x)) * s(x)
    h = 1e-3
    np.testing.assert_allclose(grad(in_a_loop)(0.5), (f(0.5 + h) - f(0.5 - h)) / (2 * h), rtol=1e-4)
    np.testing.assert_allclose(hessian(lambda x: layer(x, 2.0))(0.5), 4.0 * np.cos(1.0) - 2.0 * np.sin(1.0), rtol=1e-5)


def names_in(f, *arguments):
    """The names in the paths of operations that XLA compiles."""
    text = jax.jit(f).lower(*arguments).compile().as_text()
    return {name for path in re.findall(r'op_name="([^"]*)"', text) for name in re.findall(r"\w+", path)}


def test_the_names_are_in_what_xla_compiles_forward_and_backward():
    f = lambda x: layer(x, 2.0)
    assert {"layer", "inside"} <= names_in(ccc(f), 0.5)
    assert {"layer", "inside", "layer_pullback", "inside_pullback"} <= names_in(grad(f), 0.5)
    assert "layer" in names_in(grad(in_a_loop), 0.5)


def test_an_einsum_which_jax_itself_names_is_no_call():
    f = lambda x: jnp.einsum("i,i->", x, x)
    assert "call" not in C.show(ccc(f).trace(jnp.ones(2)).term)
    assert "call(" in C.show(ccc(layer).trace(0.5, 2.0).term)
