"""The cotangent that a `jax.custom_vjp` states has the dtype of its primal afterwards, whatever dtype the rule gave."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import NotDifferentiableError
from compile_ccc import function
from tangents import grad, vjp

x = np.array([1.0, 2.0, 3.0], "float32")


def doubling(dtype):
    """The identity, whose rule gives twice the cotangent, in this dtype."""
    f = jax.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (x * 1.0, None), lambda _, g: ((2.0 * g).astype(dtype),))
    return f


number, three = C.Tensor((), "float32"), C.Tensor(3, "float32")
PROGRAMS = {  # with the gradients that they have if f's rule doubles
    "alone": (lambda f: lambda x: jnp.sum(f(x)), 0 * x + 2),
    "square": (lambda f: lambda x: jnp.sum(f(x * x)), 4 * x),
    "used twice": (lambda f: lambda x: jnp.sum(f(x) + x), 0 * x + 3),
    "transposed": (lambda f: lambda x: jnp.sum(f(x.reshape(3, 1).T)), 0 * x + 2),
    "gather": (lambda f: lambda x: jnp.sum(f(x[np.array([1, 2, 1])])), np.array([0.0, 4.0, 2.0])),
    "scan": (lambda f: lambda x: lax.scan(lambda c, row: (f(c) + row, None), x[0], x)[0], np.array([12.0, 2.0, 1.0])),
    "jit": (lambda f: lambda x: jnp.sum(jax.jit(lambda x: f(x) * x)(x)), 3 * x),
    "vmap": (lambda f: lambda x: jnp.sum(jax.vmap(lambda x: f(x) * x)(x)), 3 * x),
    "function": (lambda f: lambda x: jnp.sum(function(lambda t: f(t) * x[0], three)(x)), np.array([8.0, 2.0, 2.0])),
    "fold": (
        lambda f: lambda x: C.fold(function(lambda s, t: f(s) + t * x[0], number, number), x[0], x),
        np.array([23.0, 2.0, 1.0]),
    ),
}


@pytest.mark.parametrize("functions", ["environment", "list"])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "int32"])
def test_a_cotangent_of_another_dtype_is_cast(dtype, program, functions, x64):
    make, right = PROGRAMS[program]
    gradient = grad(make(doubling(dtype)), functions=functions)(x)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, right)


def test_reverse_over_reverse(x64):
    cube = jax.custom_vjp(lambda x: x**3)
    cube.defvjp(lambda x: (x**3, x), lambda x, g: ((3.0 * x**2 * g).astype("float64"),))
    second = grad(lambda x: jnp.sum(grad(lambda x: jnp.sum(cube(x)))(x)))(x)
    assert second.dtype == np.float32
    np.testing.assert_allclose(second, 6 * x)


def test_half_precision_that_a_rule_adds_up_in_single():
    total = jax.custom_vjp(lambda x: jnp.sum(x.astype("float32")))
    total.defvjp(lambda x: (total(x), x.shape), lambda shape, g: (jnp.full(shape, g, "float32"),))
    gradient = grad(lambda x: total(x * 2))(jnp.ones((2, 3), "bfloat16"))
    assert gradient.dtype == jnp.bfloat16
    np.testing.assert_allclose(gradient.astype("float32"), np.full((2, 3), 2.0))


def test_a_real_cotangent_of_complex_numbers_is_cast():
    f = jax.custom_vjp(lambda z: z * 1.0)
    f.defvjp(lambda z: (z * 1.0, None), lambda _, g: (jnp.real(g) * 2.0,))
    gradient = grad(lambda z: jnp.sum(jnp.real(f(z))))(jnp.array([1.0 + 2.0j, 3.0]))
    assert gradient.dtype == np.complex64
    np.testing.assert_allclose(gradient, [2.0, 2.0])


WRONG = {
    "a complex one of real numbers": lambda _, g: (lax.complex(g, g),),
    "another shape": lambda _, g: (jnp.ones(4),),
    "a number": lambda _, g: (1.0,),
    "no tuple": lambda _, g: g,
    "two": lambda _, g: (g, g),
    "another structure": lambda _, g: ({"a": g},),
    "nothing": lambda _, g: None,
    "text": lambda _, g: ("a",),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_refused_by_name(wrong):
    f = jax.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (x * 1.0, None), WRONG[wrong])
    programs = [f, lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]]
    for program in programs:
        with pytest.raises(NotDifferentiableError, match="custom_vjp_call"):
            vjp(program, x)[1](x)


def test_an_exception_of_the_rule_is_the_users():
    f = jax.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (x * 1.0, None), lambda _, g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        grad(lambda x: jnp.sum(f(x)))(x)


@pytest.mark.parametrize("number", [3.0, 3, np.float64(3.0), True])
def test_a_number_of_python_is_a_cotangent(number):
    f = jax.custom_vjp(lambda x, n: 2.0 * x)
    f.defvjp(lambda x, n: (2.0 * x, n), lambda n, g: (number, None))
    assert float(grad(lambda x: f(x, 4) * 1.0)(jnp.float32(1.0))) == float(number)
