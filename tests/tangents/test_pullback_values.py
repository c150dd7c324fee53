"""Pullbacks are values: they leave compiled code with what they keep, are stored, batched, composed, differentiated."""

from collections import namedtuple
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from diffcurry import C, Pullback, ccc, function, grad, hessian, jvp, vjp

pytestmark = pytest.mark.usefixtures("x64")
v = np.array([0.5, -1.0, 2.0])
u = np.array([1.5, 0.25, -0.75])
c = np.array([1.0, -2.0, 0.5])


@pytest.fixture(params=["environment", "list"])
def functions(request):
    return request.param


def f(x, y):
    return jnp.sin(x) * y**2


def by_f(x, y, c):
    return jnp.cos(x) * y**2 * c, 2.0 * jnp.sin(x) * y * c


def close(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12), got, expected)


def compiled(functions):
    """x, y ↦ the pullback of f there, out of compiled code."""
    return jax.jit(lambda x, y: vjp(f, x, y, functions=functions)[1])


# What a pullback is


def test_its_leaves_are_its_residuals_and_its_code_is_static(functions):
    here, there = compiled(functions)(v, u), compiled(functions)(u, v)
    assert isinstance(here, Pullback) and "Pullback(f64[3], Closure" in repr(here)
    assert all(isinstance(leaf, jax.Array) and leaf.shape == (3,) for leaf in jax.tree.leaves(here))
    assert (
        jax.tree.structure(here)
        == jax.tree.structure(there)
        == jax.tree.structure(vjp(f, v, u, functions=functions)[1])
    )
    assert hash(jax.tree.structure(here)) == hash(jax.tree.structure(there))
    assert jax.tree.structure(here) != jax.tree.structure(vjp(lambda x, y: x * y, v, u)[1])
    close(jax.tree.map(lambda leaf: leaf, here)(c), by_f(v, u, c))


def test_it_is_compiled_once(functions, compilations):
    leave, traces = compiled(functions), []

    @jax.jit
    def apply(pullback, c):
        traces.append(pullback)
        return pullback(c)

    points = [tuple(map(jnp.asarray, p)) for p in ((v, u), (u, v), (c, u))]
    cotangent = jnp.asarray(c)
    apply(leave(*points[0]), cotangent), leave(*points[0])(cotangent), by_f(*points[0], c)
    compilations.new()
    for point in points:
        pullback = leave(*point)
        for _ in range(3):
            close(apply(pullback, cotangent), by_f(*point, c))
            close(pullback(cotangent), by_f(*point, c))
        close(apply(vjp(f, *point, functions=functions)[1], cotangent), by_f(*point, c))
    assert len(traces) == 1
    assert compilations.new() <= 1  # vjp itself, outside of the function that was jitted


# Where it goes


def test_it_is_stored(functions):
    Step = namedtuple("Step", "value pullback")
    run = jax.jit(lambda x: {"sin": Step(*vjp(jnp.sin, x, functions=functions)), "all": [vjp(jnp.exp, x)[1]]})
    out = run(v)
    close(out["sin"].pullback(c) + out["all"][0](c), (jnp.cos(v) * c, jnp.exp(v) * c))
    again = jax.jit(lambda out, c: out["sin"].pullback(c)[0] + out["sin"].value)(out, c)
    close(again, jnp.cos(v) * c + jnp.sin(v))


def test_it_is_batched(functions):
    square = lambda x: jnp.sin(x) ** 2
    pullbacks = jax.jit(jax.vmap(lambda x: vjp(square, x, functions=functions)[1]))(v)
    close(jax.vmap(lambda pb, c: pb(c))(pullbacks, c), (jnp.sin(2.0 * v) * c,))
    one = compiled(functions)(v, u)
    rows = jax.jit(jax.vmap(lambda pb, c: pb(c), (None, 0)))(one, jnp.eye(3))
    close(rows, jax.jacobian(f, (0, 1))(v, u))
    first = jax.tree.map(lambda leaf: leaf[0], pullbacks)
    close(first(1.0), (jnp.sin(2.0 * v[0]),))


def test_it_is_composed(functions):
    y, inner = jax.jit(lambda x: vjp(jnp.sin, x, functions=functions))(v)
    z, outer = vjp(jnp.exp, y, functions=functions)
    expected = jnp.exp(jnp.sin(v)) * jnp.cos(v) * c
    close(inner(*outer(c)), (expected,))
    close(jax.jit(lambda p, q, c: p(*q(c)))(inner, outer, c), (expected,))
    chain = jax.jit(lambda p, q: function(lambda c: p(*q(c)), C.Tensor(3)))(inner, outer)
    close(chain(c), (expected,))
    close(z, jnp.exp(jnp.sin(v)))


def test_it_goes_through_loops_and_choices(functions):
    at = lambda x: vjp(lambda x: jnp.sin(x) * x, x, functions=functions)[1]
    slope = lambda x: jnp.cos(x) * x + jnp.sin(x)

    def step(pullback, c):
        (g,) = pullback(c)
        return at(g), g

    _, carried = lax.scan(step, at(0.3), v)  # from a weakly typed point to a strongly typed one
    expected, x = [], 0.3
    for e in v:
        expected.append(x := slope(x) * e)
    close(carried, jnp.stack(expected))
    _, pullbacks = lax.scan(lambda s, x: (s, at(x)), 0.0, v)
    _, gradients = lax.scan(lambda s, pb: (s, pb(2.0)[0]), 0.0, pullbacks)
    close(gradients, 2.0 * slope(v))
    chosen = jax.jit(lambda flag: lax.cond(flag, lambda: at(0.5), lambda: at(2.0)))
    close((chosen(True)(1.0), chosen(False)(1.0)), ((slope(0.5),), (slope(2.0),)))


def test_it_leaves_and_enters_arrows(functions):
    value, pullback = ccc(lambda x, y: vjp(f, x, y, functions=functions))(v, u)
    close((value, pullback(c)), (f(v, u), by_f(v, u, c)))
    close(ccc(lambda pullback, c: pullback(c))(pullback, c), by_f(v, u, c))
    make = function(lambda x, y: vjp(f, x, y, functions=functions)[1], C.Tensor(3), C.Tensor(3))
    close(make(v, u)(c), by_f(v, u, c))
    entered = function(lambda c: jnp.sum(pullback(c)[0]), C.Tensor(3))
    close(grad(entered)(c), jnp.cos(v) * u**2)


CALLABLE = {
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "export": lambda pb: jax.export.export(jax.jit(pb))(c).call,
    "vmap": lambda pb: lambda c: jax.tree.map(lambda g: g[1], jax.vmap(pb)(np.stack([v, c]))),
    "linear": lambda pb: lambda c: jax.jvp(pb, (v,), (c,))[1],
    "transposed twice": lambda pb: jax.linear_transpose(lambda g: jax.linear_transpose(pb, v)(g)[0], pb(v)),
}


@pytest.mark.parametrize("name", CALLABLE)
def test_it_is_a_linear_function_of_jax(name, functions):
    got = CALLABLE[name](compiled(functions)(v, u))(c)
    close(tuple(got[0] if name == "transposed twice" else got), by_f(v, u, c))


def test_its_own_pullback_is_the_pushforward(functions):
    _, transposed = vjp(compiled(functions)(v, u), c, functions=functions)
    close(transposed((v, u))[0], jvp(f, (v, u), (v, u))[1])


# Its derivatives


DERIVATIVES = {
    "grad": lambda p: grad(p, (0, 1))(v, c),
    "grad by calls": lambda p: grad(p, (0, 1), functions="list")(v, c),
    "jax.grad": lambda p: jax.jit(jax.grad(p, (0, 1)))(v, c),
    "jvp": lambda p: jvp(p, (v, c), (c, v)),
    "jax.jvp": lambda p: jax.jvp(p, (v, c), (c, v)),
    "hessian": lambda p: hessian(p, (0, 1))(v, c),
    "grad of grad": lambda p: grad(lambda x: jnp.sum(grad(p)(x, c) * v))(v),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_what_applies_a_pullback_is_differentiated_by_the_point_and_the_cotangent(name, functions):
    leave = compiled(functions)
    ours = lambda x, c: jnp.sum(leave(x, u)(c)[0] ** 2) + jnp.sum(leave(u, x)(c)[1])
    plain = lambda x, c: jnp.sum(by_f(x, u, c)[0] ** 2) + jnp.sum(by_f(u, x, c)[1])
    of_jax = {
        "hessian": lambda p: jax.jit(jax.hessian(p, (0, 1)))(v, c),
        "grad of grad": lambda p: jax.jit(jax.grad(lambda x: jnp.sum(jax.grad(p)(x, c) * v)))(v),
    }
    expected = of_jax.get(name, DERIVATIVES["jax.jvp" if "jvp" in name else "jax.grad"])(plain)
    close(DERIVATIVES[name](ours), expected)


def test_it_is_what_is_differentiated_by(functions):
    """The gradient by a pullback is a pullback over the gradients by its residuals."""
    leave, loss = compiled(functions), lambda pullback, c: jnp.sum(pullback(c)[0] ** 2)
    by_point = grad(lambda x: loss(leave(x, u), c), functions=functions)(v)
    by_pullback, by_c = grad(loss, (0, 1))(leave(v, u), c)
    assert jax.tree.structure(by_pullback) == jax.tree.structure(leave(v, u))
    _, back = jax.vjp(lambda x: leave(x, u), v)
    close(back(by_pullback)[0], by_point)
    close(by_pullback, jax.grad(loss)(leave(v, u), c))
    close(by_c, 2.0 * jnp.cos(v) ** 2 * u**4 * c)


# Of functions, loops and trees


def test_the_pullback_of_a_call_gives_the_cotangent_of_the_function(functions):
    w = 2.0
    h = function(lambda x: jnp.sin(w * x), C.Tensor())
    _, pullback = jax.jit(lambda h, x: vjp(lambda h, x: h(x), h, x, functions=functions))(h, 0.3)
    by_h, by_x = pullback(1.0)
    close(by_x, 2.0 * np.cos(0.6))
    if functions == "environment":
        close(h.gradient(by_h)["w"], 0.3 * np.cos(0.6))
    else:
        close(list(by_h), [(jnp.float64(0.3), jnp.float64(1.0))])


def test_the_pullback_of_what_makes_a_function():
    make = lambda w: function(lambda x: jnp.sin(w * x), C.Tensor())
    made, pullback = jax.jit(lambda w: vjp(make, w))(2.0)
    close(pullback(grad(lambda f: f(0.3))(made)), (0.3 * np.cos(0.6),))


def test_the_pullback_of_a_loop(functions):
    chain = lambda x: lax.scan(lambda s, e: (jnp.sin(s * e), s), x, v)[0]
    _, pullback = jax.jit(lambda x: vjp(chain, x, functions=functions))(0.3)
    close(pullback(1.0)[0], jax.grad(chain)(0.3))
    back = function(lambda g, x: vjp(jnp.sin, x, functions=functions)[1](g)[0], C.Tensor(), C.Tensor())
    close(C.fold(back, 1.0, v), jnp.prod(jnp.cos(v)))


def test_with_auxiliary_results(functions):
    g = lambda x: ({"y": jnp.sin(x), "n": 3}, {"doubled": 2.0 * x})
    value, pullback, aux = jax.jit(lambda x: vjp(g, x, has_aux=True, functions=functions))(v)
    expected, reference, expected_aux = jax.vjp(lambda x: (jnp.sin(x), {"doubled": 2.0 * x}), v, has_aux=True)
    close((value["y"], value["n"], aux), (expected, 3, expected_aux))
    close(pullback({"y": c, "n": 0}), reference(c))
    close(pullback({"y": 0.0 * c, "n": None}), (np.zeros(3),))
    with pytest.raises(C.errors.ArgumentError, match="no pair"):
        vjp(jnp.sin, v, has_aux=True, functions=functions)
