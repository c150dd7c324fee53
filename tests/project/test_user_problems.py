"""What users asked of other libraries, as they would write it with ours; values and gradients are from mathematics.

Each program is a user's own with `grad` in the place of `jax.grad`, and with `function(f, domain)` where a function is
a value.  The letters are those of `test_functions.py` and `test_solvers.py`, which hold the problems A1, A2, F4 and F8.
"""

from collections import namedtuple
from functools import partial
from math import cos, sin

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from diffcurry import C, Calls, ccc, function, grad, hessian, jvp, trace, value_and_grad, vjp

R = C.Tensor()


@pytest.fixture(params=["environment", "list"])
def functions(request):
    return request.param


def close(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), got, expected)


# Functions as values


@pytest.mark.parametrize("compiled", [jax.jit, ccc, lambda f: jax.jit(ccc(f))], ids=["jit", "ccc", "jit of ccc"])
def test_a3_a_function_is_returned_from_compiled_code(compiled, functions):
    @compiled
    def make(a):
        return function(lambda x: jnp.sin(a * x), R)

    result = value_and_grad(lambda a, x: make(a)(x), (0, 1), functions=functions)(2.0, 3.0)
    close(result, (sin(6), (3 * cos(6), 2 * cos(6))))
    close(jax.value_and_grad(lambda a, x: make(a)(x), (0, 1))(2.0, 3.0), (sin(6), (3 * cos(6), 2 * cos(6))))


def test_a4_fresh_closures_of_one_code_are_compiled_once(compilations):
    traces = []

    @jax.jit
    def call(f, x):
        traces.append(f.code)
        return f(x)

    fresh = lambda a: function(lambda x: a * x, R)
    fresh(1.0)  # its own trace
    compilations.new()
    results = [call(fresh(a), 2.0) for a in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert (len(traces), compilations.new()) == (1, 1)
    close(results, [2.0, 4.0, 6.0, 8.0, 10.0])  # no captured value is an old one


def test_a4_the_gradient_through_five_closures(functions):
    traces = []

    @jax.jit
    def call(f, x):
        traces.append(f)
        return f(x)

    def loss(a):
        return sum(call(function(lambda x, k=k: a[k] * x, R), 2.0) for k in range(5))

    close(value_and_grad(loss, functions=functions)(jnp.arange(1.0, 6.0)), (30.0, np.full(5, 2.0)))
    assert len(traces) == 1


@pytest.mark.parametrize("compiled", [ccc, lambda f: jax.jit(ccc(f))], ids=["ccc", "jit of ccc"])
def test_a6_one_of_two_pullbacks_is_chosen(compiled):
    @compiled
    def g(x, use_sin):
        pb = lax.cond(use_sin, lambda: vjp(jnp.sin, x)[1], lambda: vjp(jnp.cos, x)[1])
        return pb(1.0)[0]

    close(value_and_grad(g)(0.8, True), (cos(0.8), -sin(0.8)))
    close(value_and_grad(g)(0.8, False), (-sin(0.8), -cos(0.8)))


def test_a9_the_gradient_with_respect_to_a_function():
    w, b = 1.5, -0.5
    f = function(lambda x: w * x + b, R)
    loss = lambda f: f(2.0) ** 2
    value, g = value_and_grad(loss)(f)
    close((value, f.gradient(g)), (6.25, {"w": 10.0, "b": 5.0}))
    value, calls = value_and_grad(loss, functions="list")(f)
    assert isinstance(calls, Calls)
    close((value, list(calls)), (6.25, [(2.0, 5.0)]))  # the call f(2), and 2 f(2)


def test_a11_a_record_of_functions_is_an_argument_of_compiled_code(functions):
    Opt = namedtuple("Opt", "init update")
    sgd = lambda lr: Opt(function(lambda w: w, R), function(lambda g, w: w - lr * g, R, R))
    traces = []

    @jax.jit
    def train(opt, w):
        traces.append(opt)
        w = opt.init(w)
        for _ in range(5):
            w = opt.update(grad(lambda w: (2 * w - 3) ** 2)(w), w)
        return w

    tune = lambda lr: train(sgd(lr), 1.0)
    close(value_and_grad(tune, functions=functions)(0.05), (1.5 - 0.5 * 0.6**5, 5 * 0.6**4 * 8 * 0.5))
    before = len(traces)
    close(train(sgd(0.1), 1.0), 1.5 - 0.5 * 0.2**5)
    close(train(sgd(0.2), 1.0), 1.5 + 0.5 * 0.6**5)
    assert len(traces) <= before + 1


# Branches


def test_e1_branches_with_results_of_different_types(functions):
    """A loss with an auxiliary value, or nothing: the branches give alternatives of a sum, one of which is ()."""
    some = ccc(lambda x: (x**2, {"aux": jnp.sin(x)})) >> C.inl
    loss = ccc(lambda r: r[0] + 3 * r[1]["aux"])
    x, late = C.proj(0), C.proj(1) >> C.tag(2)
    branches = C.case(C.prod() >> C.inr, C.proj(0) >> trace(some, R).term)
    r = C.prod(x, late) >> branches
    f = ccc(lambda x, counter: (x, counter >= 10)) >> r >> C.case(trace(loss, (R, {"aux": R})).term, C.const(7.0))
    close(value_and_grad(f, functions=functions)(2.0, 12), (4 + 3 * sin(2), 4 + 3 * cos(2)))
    close(value_and_grad(f, functions=functions)(2.0, 5), (7.0, 0.0))


@pytest.mark.parametrize("compiled", [lambda f: f, ccc, jax.jit], ids=["plain", "ccc", "jit"])
def test_e4_one_of_several_functions_by_an_index(compiled, functions):
    @ccc
    def f(a, x, i):
        fs = [function(lambda x, k=k: a[k] * jnp.sin(a[k] * x), R) for k in range(3)]
        return lax.switch(i, [lambda f=f: f for f in fs])(x)

    a = jnp.array([1.0, 2.0, 3.0])
    result = compiled(lambda a, x, i: value_and_grad(f, (0, 1), functions=functions)(a, x, i))(a, 0.7, 1)
    slope = np.array([0.0, sin(1.4) + 1.4 * cos(1.4), 0.0])  # zero for the functions that were not chosen
    close(result, (2 * sin(1.4), (slope, 4 * cos(1.4))))


def test_e2_no_nan_comes_from_the_branch_that_is_not_taken(functions):
    """A choice pulls back through one branch; `where` has computed both, and its gradient is JAX's."""
    x = jnp.array([4.0, -1.0, 9.0])
    branches = jax.vmap(lambda x: lax.cond(x > 0, jnp.sqrt, lambda _: 0.0, x))
    result = value_and_grad(lambda x: jnp.sum(branches(x)), functions=functions)(x)
    close(result, (5.0, np.array([0.25, 0.0, 1 / 6])))
    where = lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))
    np.testing.assert_array_equal(grad(where, functions=functions)(x), jax.grad(where)(x))


# Derivatives inside of derivatives


D = {"reverse": grad, "forward": lambda f: lambda x: jvp(f, (x,), (1.0,))[1], "JAX": jax.grad}


@pytest.mark.parametrize("inner_derivative", D)
def test_f1_perturbations_are_not_confused(inner_derivative, functions):
    d = D[inner_derivative]
    f = lambda x: x * d(lambda y: x * y)(1.0) + x * d(lambda y: x + y)(1.0)
    close(value_and_grad(f, functions=functions)(4.0), (20.0, 9.0))


def test_f2_from_a_lagrangian_to_its_hamiltonian(functions):
    lagrangian = lambda q, v: jnp.dot(v, v) / 2 - 9.8 * q[1]

    def legendre(f, w):
        z = jnp.zeros_like(w)
        v = jnp.linalg.solve(hessian(f)(z), w - grad(f)(z))
        return w @ v - f(v)

    energy = lambda q: legendre(lambda v: lagrangian(q, v), jnp.array([5.0, 6.0]))
    q = jnp.array([1.0, 2.0])
    close(value_and_grad(energy, functions=functions)(q), (61 / 2 + 19.6, np.array([0.0, 9.8])))
    as_a_value = lambda q: legendre(function(lambda v: lagrangian(q, v), C.Tensor(2)), jnp.array([5.0, 6.0]))
    close(value_and_grad(as_a_value)(q), (61 / 2 + 19.6, np.array([0.0, 9.8])))  # a cotangent of its environment
    mixed = jax.jacobian(lambda q: grad(lagrangian, 1)(q, jnp.ones(2)))(q)
    close(mixed, np.zeros((2, 2)))
