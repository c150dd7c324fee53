"""What users asked of other libraries about the structure of tangents, as in `test_user_problems.py`.

What is the tangent of an integer, what does a step of gradient descent make of one, and of what structure is a
cotangent?
"""

from collections import namedtuple
from functools import partial

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from diffcurry import C, custom, function, grad, jvp, value_and_grad, vjp
from tangents import add, inner

R = C.Tensor()


@pytest.fixture(params=["environment", "list"])
def functions(request):
    return request.param


@pytest.fixture
def standard():
    """Optimisers mix integers with real numbers, which JAX does not refuse unless it is told to."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def close(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), got, expected)


# Integers and functions among parameters


ZEROS = {"0": 0, "None": None, "float0": np.zeros((), jax.dtypes.float0), "an integer array": np.zeros((), int)}


@pytest.mark.parametrize("zero", ZEROS)
def test_h1_the_tangent_of_an_integer_is_nothing(zero):
    f = lambda x, n: n * x**n
    close(jvp(f, (1.2, 3), (1.0, ZEROS[zero])), (3 * 1.2**3, 9 * 1.2**2))
    in_a_tree = lambda p: p["n"] * p["x"] ** p["n"]
    close(jvp(in_a_tree, ({"n": 3, "x": 1.2},), ({"n": ZEROS[zero], "x": 1.0},)), (3 * 1.2**3, 9 * 1.2**2))


def parameters():
    return {"w": 2.0, "steps": 3, "act": function(lambda x: jax.nn.relu(x), R)}


def loss(p):
    return p["steps"] * p["act"](p["w"]) ** 2


def test_h2_a_step_on_parameters_that_hold_an_integer_and_a_function(standard):
    p = parameters()
    value, g = value_and_grad(loss, allow_int=True)(p)
    close((value, g["w"], g["steps"]), (12.0, 12.0, 0))
    new = jax.tree.map(lambda p, g: p - 0.1 * g, p, g)
    close((new["w"], new["steps"]), (0.8, 3.0))
    assert new["act"].code is p["act"].code
    close(grad(lambda p: loss(p), functions="list")(p)["w"], 12.0)


@pytest.mark.parametrize("optimiser", [optax.sgd(0.1), optax.adam(0.1)], ids=["sgd", "adam"])
def test_h2_the_step_by_optax_leaves_the_integer_and_the_function(optimiser, standard):
    p, floats = parameters(), {"w": 2.0}
    state, of_floats = optimiser.init(p), optimiser.init(floats)
    for _ in range(3):
        updates, state = optimiser.update(grad(loss)(p), state, p)
        p = optax.apply_updates(p, updates)
        g = jax.grad(lambda q: 3 * jax.nn.relu(q["w"]) ** 2)(floats)
        updates, of_floats = optimiser.update(g, of_floats, floats)
        floats = optax.apply_updates(floats, updates)
    close(p["w"], floats["w"])
    assert p["steps"] == 3 and p["steps"].dtype == jnp.int32 and p["act"](-1.0) == 0.0 and p["act"](2.0) == 2.0


def test_h2_an_argument_without_real_numbers():
    f = lambda x, n: x ** n["n"]
    close(grad(f, (0, 1), allow_int=True)(2.0, {"n": 3}), (12.0, {"n": 0}))
    assert grad(f, 1, allow_int=True)(2.0, {"n": 3})["n"].dtype == jnp.int32
    with pytest.raises(C.errors.NotDifferentiableError, match="allow_int"):
        grad(f, 1)(2.0, {"n": 3})


def outputs(program):
    """The shapes of the results of all equations in a program, those of the functions it differentiates excluded."""
    for eqn in program.eqns:
        if eqn.primitive.name == "custom_vjp_call":
            continue
        yield from (v.aval.shape for v in eqn.outvars)
        for part in jex.jaxprs_in_params(eqn.params):
            yield from outputs(part)


def backward(r, g):
    return g * jnp.sum(r[1]), g * r[0] * jnp.ones_like(r[1])


def of_jax():
    f = jax.custom_vjp(lambda x, A: x * jnp.sum(A))
    f.defvjp(lambda x, A: (f(x, A), (x, A)), backward)
    return f


RULES = {
    "jax.custom_vjp": of_jax,
    "custom": lambda: custom(lambda x, A: x * jnp.sum(A), lambda r, y, g: backward(r, g)),
    "no rule": lambda: lambda x, A: x * jnp.sum(A),
}


@pytest.mark.parametrize("rule", RULES)
def test_h4_cotangents_that_nobody_asked_for_are_not_computed(rule, functions):
    f, A = RULES[rule](), jnp.arange(3.0)
    close(value_and_grad(f, functions=functions)(2.0, A), (6.0, 3.0))
    shapes = lambda argnums: list(outputs(jax.make_jaxpr(grad(f, argnums, functions=functions))(2.0, A).jaxpr))
    assert (3,) in shapes((0, 1)) and (3,) not in shapes(0)
    captured = lambda x: grad(lambda x: f(x, A), functions=functions)(x)
    assert (3,) not in outputs(jax.make_jaxpr(captured)(2.0).jaxpr)


# Structured arguments


def structured(p, x):
    return x * jnp.sum(p["W"]) * p["opt"][0]


P = {"W": np.array([1.0, 2.0]), "opt": (0.5, 2.0)}


def test_i1_a_rule_for_structured_arguments(functions):
    def pullback(primals, y, g):
        p, x = primals
        o, total = p["opt"][0], jnp.sum(p["W"])
        return {"W": g * x * o * jnp.ones(2), "opt": (g * x * total, 0.0)}, g * total * o

    f = custom(structured, pullback)
    expected = ({"W": np.array([1.5, 1.5]), "opt": (9.0, 0.0)}, 1.5)
    close(value_and_grad(f, (0, 1), functions=functions)(P, 3.0), (4.5, expected))


WRONG = {
    "a number for a pair": (lambda g: g, "component opt of .* argument 0 has not the structure", "(f32[], f32[])"),
    "a triple for a pair": (
        lambda g: (g, g, g),
        "component opt of .* argument 0 has not the structure",
        "(f32[], f32[])",
    ),
    "another shape": (lambda g: (g, jnp.ones(2)), "component opt.1 of .* argument 0 has not the type", "f32[]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_i1_a_rule_of_another_structure_is_refused_by_the_name_of_the_component(name, functions):
    opt, what, expected = WRONG[name]

    def pullback(primals, y, g):
        return {"W": g * jnp.ones(2), "opt": opt(g)}, g

    with pytest.raises(C.errors.ArgumentError, match=what) as error:
        grad(custom(structured, pullback), functions=functions)(P, 3.0)
    assert expected in str(error.value.expected)


def test_i1_so_are_cotangents_and_tangents_of_another_structure():
    same = lambda p: p
    with pytest.raises(C.errors.ArgumentError, match=r"component opt\.0 of a cotangent"):
        vjp(same, P)[1]({"W": np.ones(2), "opt": ((1.0, 1.0), 1.0)})
    with pytest.raises(C.errors.ArgumentError, match="the component opt of a cotangent"):
        vjp(same, P)[1]({"W": np.ones(2), "opt": 1.0})
    with pytest.raises(C.errors.ArgumentError, match="the component opt of the tangent"):
        jvp(same, (P,), ({"W": np.ones(2), "opt": 1.0},))
    with pytest.raises(C.errors.ArgumentError, match=r"the component 1\.opt of the tangent"):
        jvp(lambda x, p: x, (1.0, P), (1.0, {"W": np.ones(2), "opt": 1.0}))


def test_i2_a_line_search_along_a_structured_gradient(functions):
    M = namedtuple("M", "w b")
    loss = lambda m: (m.w * 2 + m.b - 1) ** 2 + 0.1 * m.w**2
    m = M(1.0, -0.5)
    g = grad(loss, functions=functions)(m)
    close(g, M(2.2, 1.0))
    phi = lambda t: loss(jax.tree.map(lambda m, g: m - t * g, m, g))
    close(value_and_grad(phi, functions=functions)(0.0), (0.35, -(2.2**2 + 1.0)))
    close(inner(g, g), 2.2**2 + 1.0)
    close(add(g, g), M(4.4, 2.0))
