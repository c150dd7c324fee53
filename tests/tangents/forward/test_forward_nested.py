"""Derivatives of derivatives: every nesting of forward and reverse mode, Jacobians, Hessians, and what they are for."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import black_box, ccc, function
from tangents import grad, hessian, hvp, jacobian, jvp, vjp
from tests.counted import all_equations
from tests.tangents.test_gradients import same

S = C.Tensor()
MUL, SIN = map(C.primitive, ("mul", "sin"))
p0, p1 = map(C.proj, range(2))
v = np.array([0.5, -1.0, 2.0])


def forward(f, jvp=jvp):
    return lambda x: jvp(f, (x,), (jnp.ones_like(x),))[1]


OURS = {"forward": forward, "reverse": grad, "pullback": lambda f: lambda x: vjp(f, x)[1](jnp.ones_like(f(x)))[0]}
JAXS = {"forward": lambda f: forward(f, jax.jvp), "reverse": jax.grad, "pullback": jax.grad}
MODES = list(OURS)


def twice(d, e):
    """Each derivative sees the variables of those around it."""
    return lambda x: d(lambda y: jnp.sin(x * y) * e(lambda z: y * z**3 * x + jnp.exp(x * z))(y * x))(x * 1.5)


def thrice(c, d, e):
    return c(lambda x: x * twice(d, e)(x) + d(lambda y: x * y * y)(x))


@pytest.mark.parametrize("modes", [*product(MODES, MODES)], ids="-over-".join)
def test_two_derivatives(modes, x64):
    ours, jaxs = (twice(*(kind[mode] for mode in modes)) for kind in (OURS, JAXS))
    same(ours(0.7), jax.jit(jaxs)(0.7))


@pytest.mark.parametrize("modes", [*product(["forward", "reverse"], repeat=3)], ids="-over-".join)
def test_three_derivatives(modes, x64):
    ours, jaxs = (thrice(*(kind[mode] for mode in modes)) for kind in (OURS, JAXS))
    same(ccc(ours)(0.7), jax.jit(jaxs)(0.7))


@pytest.mark.parametrize("modes", [*product(["forward", "reverse"], repeat=2)], ids="-over-".join)
class TestPerturbationsAreNotConfused:
    """Who mixes up the tangents of the two derivatives gets another number in each of these."""

    def test_of_siskind_and_pearlmutter(self, modes):
        d, e = (OURS[mode] for mode in modes)
        assert d(lambda x: x * e(lambda y: x + y)(1.0))(1.0) == 1.0  # 2 if confused

    def test_a_constant_inside(self, modes):
        d, e = (OURS[mode] for mode in modes)
        assert d(lambda x: e(lambda y: x)(2.0))(3.0) == 0.0  # 1 if confused

    def test_a_product_inside(self, modes):
        d, e = (OURS[mode] for mode in modes)
        assert d(lambda x: x * e(lambda y: x * y)(2.0))(3.0) == 6.0  # the derivative of x²

    def test_a_derivative_by_a_shift_applied_twice(self, modes, x64):
        """Of Manzyuk and others: the operator takes and gives functions, and is applied to its own result."""
        d, e = (OURS[mode] for mode in modes)
        shifted = lambda d: lambda h: lambda x: d(lambda u: h(x + u))(0.0)
        assert float(shifted(d)(shifted(e)(jnp.exp))(1.0)) == pytest.approx(np.e)  # 0 if confused
        assert float(shifted(d)(shifted(e)(lambda x: x**3))(2.0)) == 12.0

    def test_a_function_value_that_holds_the_outer_variable(self, modes):
        d, e = (OURS[mode] for mode in modes)
        scaled = lambda x, y: function(lambda t: x * y * t, S)
        assert d(lambda x: e(lambda y: scaled(x, y)(y))(x))(3.0) == 12.0  # the derivative of 2 x²


def test_through_loops(x64):
    def f(d):
        step = lambda x: lambda s, a: (jnp.sin(s * x) + d(lambda y: a * y * y * x)(s), s)
        return lambda x: d(lambda x: lax.scan(step(x), x, v)[0])(x)

    for mode in ("forward", "reverse"):
        same(f(OURS[mode])(0.3), jax.jit(f(JAXS[mode]))(0.3))


# Jacobians


def tree(x, y):
    return {"a": jnp.sin(x) @ y["w"], "b": x * y["b"], "c": jnp.float64(1.0)}


TREES = (np.linspace(0.0, 1.0, 6).reshape(2, 3), {"w": v, "b": 2.0})


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
@pytest.mark.parametrize("argnums", [0, 1, -1, (0, 1), (1,)], ids=str)
def test_a_jacobian_has_the_structure_and_the_values_of_jaxs(mode, argnums, x64):
    same(jacobian(tree, argnums, mode=mode)(*TREES), jax.jacrev(tree, argnums)(*TREES))


def test_a_jacobian_takes_fewer_passes():
    """Of 5 numbers by 2, or of 2 by 5, no array has more than 10: either pass over the other would need 25."""

    def largest(f, x):
        return max(v.aval.size for eqn in all_equations(jacobian(f), x) for v in eqn.outvars)

    assert largest(lambda x: jnp.sin(jnp.sin(x)[:2]), jnp.ones(5)) == 10
    assert largest(lambda x: jnp.sin(jnp.pad(x, (0, 3))), jnp.ones(2)) == 10
    assert largest(lambda x: jnp.sum(jnp.sin(x)), jnp.ones(5)) == 5


def test_a_jacobian_of_nothing_and_by_nothing():
    assert jacobian(lambda x: x * 2.0)(jnp.zeros(0)).shape == (0, 0)
    assert jacobian(lambda x: jnp.sum(x))(jnp.zeros(0)).shape == (0,)
    assert jacobian(lambda x: jnp.zeros((0,)) * x, mode="reverse")(1.0).shape == (0,)


def test_a_jacobian_by_a_function_is_a_closure_over_jacobians():
    w = np.float32([1.0, 2.0, 3.0])
    f = function(lambda x: w * x, S)
    for mode in ("forward", "reverse"):
        found = jacobian(lambda f, x: f(x) * f(1.0), mode=mode)(f, 2.0)
        assert isinstance(found, C.Closure)
        same(found.environment[0], np.diag(2 * 2.0 * w).astype(np.float32), 1e-6)


def test_a_function_that_captured_nothing_has_an_empty_jacobian():
    found = jacobian(lambda f, x: f(x))(function(lambda x: 2.0 * x, S), 1.0)
    assert isinstance(found, C.Closure) and jax.tree.leaves(found) == []


def test_discrete_leaves_have_zeros():
    found = jacobian(lambda p: {"y": p[0] * p[1], "n": p[1]})((2.0, 3))
    assert found == {"y": (3.0, 0), "n": (0, 0)}


def test_what_has_no_jacobian_is_refused():
    with pytest.raises(C.errors.ArgumentError, match="mode"):
        jacobian(jnp.sin, mode="sideways")
    with pytest.raises(C.errors.NotDifferentiableError, match="complex"):
        jacobian(jnp.conj)(1j)
    with pytest.raises(C.errors.NotDifferentiableError, match="discrete"):
        jacobian(lambda n: n * 2)(3)
    with pytest.raises(C.errors.NotDifferentiableError, match="black box"):
        jacobian(lambda f, x: f(x))(black_box(np.sin, S, S), 1.0)


# Hessians


def test_a_hessian(x64):
    f = lambda x, y: jnp.sum(jnp.sin(x) ** 3) * x[0] * y
    same(hessian(f, (0, 1))(v, 2.0), jax.jit(jax.hessian(f, (0, 1)))(v, 2.0))
    same(hvp(f, (v, 2.0), (v, 1.0)), jax.jit(lambda *x: jax.jvp(jax.grad(f, (0, 1)), x, (v, 1.0))[1])(v, 2.0))
    same(hessian(f)(v, 2.0) @ v, hvp(lambda x: f(x, 2.0), (v,), (v,)))  # of one argument
    g = lambda x: jnp.sin(x) * x[::-1]
    same(hessian(g)(v), jax.jit(jax.hessian(g))(v))


def test_a_hessian_by_a_function():
    """Of (S x)² with S = Σ w², by w: 8 x² w wᵀ + 4 S x² I."""
    w = np.float32([0.0, 1.0, 2.0])
    f = function(lambda x: jnp.sum(w * w) * x, S)
    expected = 8 * 4.0 * np.outer(w, w) + 4 * 5.0 * 4.0 * np.eye(3)
    square = lambda f, x: f(x) * f(x)
    same(hessian(square)(f, 2.0).environment[0].environment[0], expected, 1e-6)
    along = jax.tree.map(lambda w: jnp.float32([1.0, 2.0, 3.0]), f)
    same(hvp(lambda f: square(f, 2.0), (f,), (along,)).environment[0], expected @ np.float32([1.0, 2.0, 3.0]), 1e-6)


def test_a_hessian_through_a_closure_that_a_case_chooses(x64):
    multiple = C.curry(MUL, C.Tensor((), float))  # c ↦ (t ↦ c t)
    chosen = C.prod(C.case(MUL >> multiple, p1 >> multiple), p0) >> C.eval >> SIN  # sin(a x x), or sin(a x)
    a, x = 1.5, 0.7
    for tag, expected in (
        (0, 2 * a * np.cos(a * x * x) - 4 * a * a * x * x * np.sin(a * x * x)),
        (1, -a * a * np.sin(a * x)),
    ):
        sum = C.Sum(a, a, tag=jnp.int32(tag))
        assert float(hessian(chosen)(x, sum)) == pytest.approx(expected)
        assert float(hvp(chosen, (x, sum), (1.0, C.Sum(0.0, 0.0, tag=jnp.int32(0))))[0]) == pytest.approx(expected)


@pytest.mark.parametrize(
    "derivative",
    [hessian, jacobian, lambda f: lambda x: hvp(f, (x,), (x,)), lambda f: forward(grad(forward(f)))],
    ids=["hessian", "jacobian", "hvp", "three in one"],
)
def test_derivatives_of_derivatives_compile_once(derivative, compilations):
    make = lambda w: lambda x: jnp.sin(w * x) * x
    derivative(make(2.0))(0.5)
    compilations.new()
    derivative(make(3.0))(0.5)
    assert compilations.new() == 0


# What they are for


def test_maml(x64):
    """The gradient of the loss after a step of gradient descent, by the parameters before it."""
    xs = np.linspace(-1.0, 1.0, 7)
    loss = lambda p, shift: jnp.mean((p["a"] * jnp.sin(xs + p["b"]) - jnp.sin(xs + shift)) ** 2)

    def outer(grad):
        adapted = lambda p, shift: jax.tree.map(lambda p, g: p - 0.1 * g, p, grad(loss)(p, shift))
        return lambda p, shift: loss(adapted(adapted(p, shift), shift), shift + 0.1)

    p = {"a": 0.5, "b": 0.1}
    same(grad(outer(grad))(p, 0.3), jax.jit(jax.grad(outer(jax.grad)))(p, 0.3))
    same(*(j(outer(g), (p, 0.3), (p, 1.0)) for j, g in ((jvp, grad), (jax.jvp, jax.grad))))


def test_the_loss_of_a_physics_informed_network(x64):
    """u'' + u = 0 at some points, by the parameters of u: forward over forward, and over reverse, in reverse."""
    ts = np.linspace(0.0, 1.0, 5)
    params = {"w": v, "b": v[::-1], "o": np.array([1.0, 0.5, -0.5])}
    u = lambda p, t: jnp.tanh(p["w"] * t + p["b"]) @ p["o"]

    def loss(d, e):
        residual = lambda p, t: d(e(lambda t: u(p, t)))(t) + u(p, t)
        return lambda p: jnp.mean(jax.vmap(lambda t: residual(p, t))(ts) ** 2)

    expected = jax.jit(jax.value_and_grad(loss(jax.grad, jax.grad)))(params)
    for modes in product(["forward", "reverse"], repeat=2):
        f = loss(*(OURS[mode] for mode in modes))
        same((f(params), grad(f)(params)), expected)
