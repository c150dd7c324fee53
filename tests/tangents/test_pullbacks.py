"""The derivative functions as values: signatures as in JAX, pullbacks that leave compiled code, nesting."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
from tangents import grad, represent, value_and_grad, vjp

SPACES = ["environment", "list"]
v = np.array([0.5, -1.0, 2.0], np.float32)
u = np.array([1.5, 0.25, -0.75], np.float32)
p = {"w": jnp.float32(2.0), "n": 3, "flag": np.array([True]), "u": jnp.arange(3, dtype=jnp.uint8)}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layer:
    W: object
    b: object


def same(got, expected, tolerance=1e-5):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (jnp.shape(a), jnp.result_type(a)) == (jnp.shape(b), jnp.result_type(b))
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


@pytest.fixture(params=SPACES)
def functions(request):
    return request.param


# Signatures


def loss(x, y, *, scale=1.0):
    return jnp.sum(x * jnp.sin(y)) * scale


@pytest.mark.parametrize(
    ("argnums", "arguments", "keywords"),
    [
        (0, (v, u), {}),
        (1, (v, u), {}),
        (-1, (v, u), {}),
        ((0,), (v, u), {}),
        ((1, 0), (v, u), {}),
        (0, (v,), {"y": u}),
        ((0, 1), (v, u), {"scale": 3.0}),
        (1, (v, u), {"scale": jnp.float32(3.0)}),
    ],
)
def test_arguments_are_named_as_in_jax(argnums, arguments, keywords, functions):
    same(
        value_and_grad(loss, argnums, functions=functions)(*arguments, **keywords),
        jax.value_and_grad(loss, argnums)(*arguments, **keywords),
    )
    same(
        grad(loss, argnums, functions=functions)(*arguments, **keywords),
        jax.grad(loss, argnums)(*arguments, **keywords),
    )


def test_auxiliary_results(functions):
    with_aux = lambda x: (jnp.sum(x * x), {"x": x, "n": jnp.int32(3)})
    same(value_and_grad(with_aux, has_aux=True, functions=functions)(v), jax.value_and_grad(with_aux, has_aux=True)(v))
    same(grad(with_aux, has_aux=True, functions=functions)(v), jax.grad(with_aux, has_aux=True)(v))


def test_a_function_as_auxiliary_result(functions):
    (value, f), g = value_and_grad(lambda x: (x * x, function(lambda y: x * y, C.Tensor())), has_aux=True)(3.0)
    assert (float(value), float(f(2.0)), float(g)) == (9.0, 6.0, 6.0)


def test_integers_have_zeros_of_their_own_dtype(functions):
    g = grad(lambda p: p["w"] ** 2 * p["n"], functions=functions)(p)
    same(g, {"w": jnp.float32(12), "n": jnp.int32(0), "flag": jnp.array([False]), "u": jnp.zeros(3, jnp.uint8)})


def test_a_random_key_has_the_empty_tangent(functions):
    g = grad(lambda p: p["w"] * jax.random.normal(p["key"]), functions=functions)({"w": 2.0, "key": jax.random.key(1)})
    assert float(g["w"]) == pytest.approx(float(jax.random.normal(jax.random.key(1))))
    assert g["key"].dtype == jax.dtypes.float0


def test_gradients_have_the_dtype_of_their_argument(functions):
    h = jnp.ones(2, jnp.bfloat16)
    same(grad(lambda h, x: jnp.sum(h).astype(jnp.float32) * x, (0, 1), functions=functions)(h, 3.0)[0], 3 * h)


def test_a_dataclass_keeps_its_class(functions):
    g = grad(lambda layer, x: jnp.sum(x * layer.W) + layer.b, functions=functions)(Layer(u, np.float32(1)), v)
    same(g, Layer(v, np.float32(1)))


ARROWS = {
    "a function": lambda x: jnp.sum(jnp.sin(x)),
    "an arrow": ccc(lambda x: jnp.sum(jnp.sin(x))),
    "a chain": ccc(jnp.sin) >> C.primitive("reduce_sum", axes=(0,)),
    "a term": C.primitive("sin") >> C.primitive("reduce_sum", axes=(0,)),
    "a function value": function(lambda x: jnp.sum(jnp.sin(x)), C.Tensor((3,))),
    "a jitted function": jax.jit(lambda x: jnp.sum(jnp.sin(x))),
}


@pytest.mark.parametrize("kind", ARROWS)
def test_whatever_is_an_arrow_has_a_gradient(kind, functions):
    same(grad(ARROWS[kind], functions=functions)(v), jnp.cos(v))
    same(vjp(ARROWS[kind], v, functions=functions)[1](jnp.float32(2)), (2 * jnp.cos(v),))


# Under and over JAX's own transformations


CUBE = {
    "jit": (lambda d: jax.jit(d)(3.0), 27.0),
    "vmap": (lambda d: jax.vmap(d)(jnp.array([1.0, 2.0])), [3.0, 12.0]),
    "grad": (lambda d: jax.grad(d)(3.0), 18.0),
    "grad of grad": (lambda d: jax.grad(jax.grad(d))(3.0), 6.0),
    "jvp": (lambda d: jax.jvp(d, (3.0,), (1.0,))[1], 18.0),
    "jacobian": (lambda d: jax.jacfwd(d)(3.0), 18.0),
    "vmap of jit of grad": (lambda d: jax.vmap(jax.jit(jax.grad(d)))(jnp.array([1.0, 2.0])), [6.0, 12.0]),
    "jit of vmap of grad": (lambda d: jax.jit(jax.vmap(jax.grad(d)))(jnp.array([1.0, 2.0])), [6.0, 12.0]),
    "scan": (lambda d: lax.scan(lambda s, x: (s + d(x), None), 0.0, jnp.array([1.0, 2.0]))[0], 15.0),
    "checkpoint": (lambda d: jax.grad(jax.checkpoint(d))(3.0), 18.0),
    "our own": (lambda d: grad(d)(3.0), 18.0),
    "our own, twice": (lambda d: grad(grad(d))(3.0), 6.0),
    "inside an arrow": (lambda d: ccc(lambda x: d(x) + x)(3.0), 30.0),
    "inside a function value": (lambda d: function(lambda x: d(x) + x, C.Tensor())(3.0), 30.0),
}


@pytest.mark.parametrize("name", CUBE)
def test_a_gradient_is_a_function_of_jax(name, functions):
    transform, expected = CUBE[name]
    np.testing.assert_allclose(np.asarray(transform(grad(lambda x: x**3, functions=functions))), expected, rtol=1e-6)


def test_an_arrow_is_a_function_of_jax():
    arrow = ccc(lambda x: jnp.sum(jnp.sin(x) * x))
    same(jax.grad(arrow)(v), jnp.sin(v) + v * jnp.cos(v))
    same(jax.jit(jax.vmap(arrow))(jnp.stack([v, u])), jnp.array([np.sum(np.sin(v) * v), np.sum(np.sin(u) * u)]))
    same(jax.hessian(arrow)(v), jnp.diag(2 * jnp.cos(v) - v * jnp.sin(v)))


# Pullbacks


def two(x, y):
    return {"a": x * y, "b": (jnp.sum(jnp.sin(x)), y)}


ct = {"a": jnp.array([1.0, 2.0, 3.0]), "b": (jnp.float32(0.5), jnp.array([1.0, 0.0, 0.0]))}


def test_a_pullback_agrees_with_jax(functions):
    value, pullback = vjp(two, v, u, functions=functions)
    expected, reference = jax.vjp(two, v, u)
    same(value, expected)
    same(pullback(ct), reference(ct))


def test_a_pullback_can_be_used_again(functions):
    _, pullback = vjp(two, v, u, functions=functions)
    first, other, second = pullback(ct), pullback(jax.tree.map(lambda c: -c, ct)), pullback(ct)
    same(first, second, 0)
    same(other, jax.tree.map(lambda g: -g, first), 0)


def test_a_pullback_is_linear(functions, x64):
    _, pullback = vjp(two, v.astype(float), u.astype(float), functions=functions)
    c, d = (jax.tree.map(lambda a, k=k: jnp.cos(k + a.astype(float)), ct) for k in (1.0, 2.0))
    combined = pullback(jax.tree.map(lambda a, b: 2.0 * a - 3.0 * b, c, d))
    same(combined, jax.tree.map(lambda a, b: 2.0 * a - 3.0 * b, pullback(c), pullback(d)), 1e-12)


def test_a_pullback_leaves_and_enters_compiled_code(functions):
    value, pullback = jax.jit(lambda x, y: vjp(two, x, y, functions=functions))(v, u)
    expected = jax.vjp(two, v, u)[1](ct)
    same(pullback(ct), expected)
    same(jax.jit(lambda pb, c: pb(c))(pullback, ct), expected)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(pullback))
    same(value, two(v, u))


def test_what_is_printed_is_printed_once(functions, capfd):
    def f(x):
        jax.debug.print("ran {}", x)
        return x * x

    assert float(grad(f, functions=functions)(jnp.float32(3))) == 6.0
    jax.effects_barrier()
    assert capfd.readouterr().out == "ran 3.0\n"


def test_pullbacks_of_a_batch(functions):
    xs = jnp.stack([v, u])
    values, pullbacks = jax.vmap(lambda x: vjp(lambda x: jnp.sin(x) * x, x, functions=functions))(xs)
    gradients = jax.vmap(lambda pb, c: pb(c)[0])(pullbacks, jnp.ones_like(xs))
    same(gradients, jnp.sin(xs) + xs * jnp.cos(xs))
    same(values, jnp.sin(xs) * xs)


def test_a_pullback_can_be_differentiated(functions):
    through = lambda x, c: jnp.sum(vjp(jnp.sin, x, functions=functions)[1](c)[0])
    same(jax.grad(through, (0, 1))(v, u), (-jnp.sin(v) * u, jnp.cos(v)))
    same(grad(through, (0, 1))(v, u), (-jnp.sin(v) * u, jnp.cos(v)))


def test_a_pullback_that_left_compiled_code_can_be_differentiated(functions):
    leave = jax.jit(lambda x: vjp(jnp.sin, x, functions=functions)[1])
    same(jax.grad(lambda x: jnp.sum(leave(x)(u)[0]))(v), -jnp.sin(v) * u)


def test_the_representation_of_a_term(functions):
    term = C.prod(C.proj(0) >> C.primitive("sin"), C.proj(1)) >> C.primitive("mul")
    y, pullback = represent(term, functions)(v, u)
    same(y, jnp.sin(v) * u)
    same(pullback(jnp.ones(3)), (jnp.cos(v) * u, jnp.sin(v)))
    same(jax.jit(lambda x, y, g: represent(term, functions)(x, y)[1](g))(v, u, v), (jnp.cos(v) * u * v, jnp.sin(v) * v))


# Derivatives in derivatives

D = grad
NESTED = {
    # D(y ↦ x y)(1) = x and D(y ↦ x + y)(1) = 1, so h(x) = x² + x
    "capture in the inner function": (
        lambda x: x * D(lambda y: x * y)(1.0) + x * D(lambda y: x + y)(1.0),
        4.0,
        20.0,
        9.0,
    ),
    "only the outer variable": (lambda x: x * D(lambda y: x)(1.0) + x, 4.0, 4.0, 1.0),
    "three levels": (lambda x: D(lambda y: D(lambda z: x * y * y * z * z)(y))(x), 2.0, 6 * 2.0**3, 18 * 2.0**2),
    "inner at the outer variable": (lambda x: D(lambda y: y**3)(x), 2.0, 12.0, 12.0),
    "JAX inside": (lambda x: jax.grad(lambda y: x * y**2)(x), 3.0, 18.0, 12.0),
    "an application inside": (lambda x: D(lambda y: function(lambda z: x * z**2, C.Tensor())(y))(x), 3.0, 18.0, 12.0),
    "inside a scan": (
        lambda x: lax.scan(lambda s, _: (D(lambda y: x * y**2)(s), None), x, None, length=2)[0],
        3.0,
        108.0,
        108.0,
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_derivatives_do_not_mix(name, functions):
    f, x, value, derivative = NESTED[name]
    got_value, got = value_and_grad(f, functions=functions)(x)
    assert (float(got_value), float(got)) == (pytest.approx(value), pytest.approx(derivative))
    assert float(jax.grad(f)(x)) == pytest.approx(derivative)


def test_mechanics_by_nested_derivatives(functions):
    """L(q, v) = |v|²/2 - 9.8 q₁ gives H = |p|²/2 + 9.8 q₁, so ∂H/∂q = (0, 9.8)."""

    def hamiltonian(q):
        lagrangian = lambda v: jnp.dot(v, v) / 2.0 - 9.8 * q[1]
        momentum, zero = jnp.array([5.0, 6.0]), jnp.zeros(2)
        velocity = jnp.linalg.solve(jax.hessian(lagrangian)(zero), momentum - D(lagrangian)(zero))
        return momentum @ velocity - lagrangian(velocity)

    value, g = value_and_grad(hamiltonian, functions=functions)(jnp.array([1.0, 2.0]))
    assert float(value) == pytest.approx(30.5 + 19.6)
    np.testing.assert_allclose(np.asarray(g), [0.0, 9.8], rtol=1e-5, atol=1e-5)
