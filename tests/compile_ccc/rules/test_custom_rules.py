"""Users' rules of derivatives: they count wherever they stand, and equal ones are one for terms and their caches."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, trace
from tangents import grad

v = np.array([0.5, -1.0, 2.0])


def factor(rule, y=2.0):
    """A function x ↦ x·y whose rule says that its derivative by x is `rule`·y."""

    @jax.custom_vjp
    def f(x):
        return x * y

    f.defvjp(lambda x: (x * y, y), lambda y, g: (rule * g * y,))
    return f


def rule_of(pull):
    """The identity with this pullback."""

    @jax.custom_vjp
    def f(x):
        return x * 1.0

    f.defvjp(lambda x: (x * 1.0, None), lambda _, g: (pull(g),))
    return f


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def scaled(n, x):
    return n * x


scaled.defvjp(lambda n, x: (n * x, None), lambda n, _, g: (100.0 * n * g,))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def applied(f, x):
    return f(x)


applied.defjvp(lambda f, x, dx: (f(*x), 50.0 * jax.jvp(f, x, dx)[1]))


@jax.custom_jvp
def squared(x):
    return x * x


squared.defjvp(lambda x, dx: (squared(*x), 7.0 * x[0] * dx[0]))


@jax.custom_vjp
def unused(x, y):
    return x * jnp.sin(y)


unused.defvjp(
    lambda x, y: (x.value * jnp.sin(y.value), (x.value, y.value, x.perturbed, y.perturbed)),
    lambda kept, g: (g * jnp.sin(kept[1]) * (3.0 if kept[3] else 5.0), g * kept[0] if kept[3] else None),
    symbolic_zeros=True,
)


# Traced again, a program is the same term, although JAX wraps its rules anew

AGAIN = {
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "gelu, silu, relu6": lambda x: jax.nn.gelu(x) + jax.nn.silu(x) + jax.nn.relu6(x),
    "logsumexp": jax.nn.logsumexp,
    "a rule that captures": lambda x: factor(3.0)(x),
    "an argument without derivative": lambda x: scaled(2, x),
    "a function as one": lambda x: applied(jnp.sin, x),
    "vmap of one": lambda x: jax.vmap(lambda y: scaled(2, y))(x),
    "in a branch": lambda x: lax.cond(x[0] > 0.0, jax.nn.relu, lambda y: scaled(2, y), x),
    "in a loop": lambda x: lax.while_loop(lambda s: s[0] < 2.0, lambda s: jax.nn.relu(s) + 1.0, x),
    "checkpoint": jax.checkpoint(jax.nn.relu, policy=jax.checkpoint_policies.save_only_these_names("a")),
    "a gradient": jax.grad(lambda x: jnp.sum(scaled(2, squared(x)))),
}


@pytest.mark.parametrize("name", AGAIN)
def test_a_program_that_is_traced_again_is_the_same_term(name):
    f = AGAIN[name]
    assert trace(lambda x: f(x), v).term is trace(lambda y: f(y), v).term


def captured_by_default(k):
    @jax.custom_vjp
    def f(x):
        return x * 1.0

    f.defvjp(lambda x: (f(x), None), lambda _, g, k=k: (k * g,))
    return f


SCALE = 2


@jax.custom_vjp
def by_global_name(x):
    return x * 1.0


by_global_name.defvjp(lambda x: (x * 1.0, None), lambda _, g: (SCALE * g,))


class Times:
    def __init__(self, k):
        self.k = k

    def pull(self, g):
        return self.k * g


# Rules that differ in what they hold alone, and the derivative at 1 for 2 and for 3
DIFFERENT = {
    "a captured number": lambda k: factor(k, 1.0),
    "a captured array": lambda k: factor(np.float32(k), 1.0),
    "a captured list": lambda k: (lambda held: rule_of(lambda g: held[0] * g))([k]),
    "a captured object": lambda k: rule_of(Times(k).pull),
    "a function that is captured": lambda k: rule_of(partial(lambda k, g: k * g, k)),
    "a default": captured_by_default,
    "an argument without derivative": lambda k: lambda x: scaled(k, x) / 100.0,
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_rules_that_hold_different_values_are_different(name):
    got = [float(grad(lambda x, k=k: DIFFERENT[name](k)(x))(1.0)) for k in (2, 3, 2)]
    assert got == [float(jax.grad(lambda x, k=k: DIFFERENT[name](k)(x))(1.0)) for k in (2, 3, 2)] == [2.0, 3.0, 2.0]


def test_a_rule_reads_global_names_when_it_is_traced(monkeypatch):
    assert float(grad(lambda x: by_global_name(x))(1.0)) == 2.0
    monkeypatch.setitem(globals(), "SCALE", 3)
    assert float(grad(lambda y: by_global_name(y))(1.0)) == 3.0


def test_one_primitive_at_two_types(x64):
    """JAX compares primitives that are objects, such as the one of searchsorted, without their types."""
    f = lambda x: jnp.sum(jnp.interp(0.7, x, x))
    assert [grad(f)(np.arange(n + 0.0)).shape for n in (3, 4)] == [(3,), (4,)]


# Rules count, wherever they stand; JAX tells what comes out

X = {"f": factor(3.0), "nondiff": partial(scaled, 2), "function": partial(applied, jnp.sin), "squared": squared}
AROUND = {
    "alone": lambda f, x: jnp.sum(jnp.sin(f(x))),
    "vmap": lambda f, x: jnp.sum(jax.vmap(f)(x) ** 2),
    "vmap of vmap": lambda f, x: jnp.sum(jax.vmap(jax.vmap(f))(x[None]) ** 2),
    "jit": lambda f, x: jnp.sum(jax.jit(lambda y: f(y) * y)(x)),
    "scan": lambda f, x: lax.scan(lambda s, e: (f(s) + e, f(e)), x[0], x)[0],
    "scan of vmap": lambda f, x: jnp.sum(lax.scan(lambda s, e: (jax.vmap(f)(s) + e, None), x, x)[0]),
    "cond": lambda f, x: lax.cond(x[0] > 0.0, lambda y: jnp.sum(f(y)), lambda y: jnp.sum(y), x),
    "cond under vmap": lambda f, x: jnp.sum(jax.vmap(lambda a: lax.cond(a > 0.0, f, lambda b: b, a))(x)),
    "fori_loop": lambda f, x: jnp.sum(lax.fori_loop(0, 3, lambda i, s: f(s) * 0.5, x)),
    "checkpoint": lambda f, x: jnp.sum(jax.checkpoint(lambda y: f(jnp.sin(y)))(x)),
    "twice": lambda f, x: jnp.sum(f(f(x))),
    "a gradient": lambda f, x: jnp.sum(jax.grad(lambda y: jnp.sum(f(y) * y))(x)),
    "a gradient of a gradient": lambda f, x: jax.grad(lambda z: jax.grad(lambda y: jnp.sum(f(y) * y))(z)[0])(x)[1],
    "in the rule of another": lambda f, x: jnp.sum(rule_of(lambda g: g * f(2.0))(x)),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("rule", X)
def test_rules_of_users_count_everywhere(rule, around, x64):
    program = lambda x: AROUND[around](X[rule], x)
    ours, jaxs = jax.jit(lambda x: (grad(program)(x), jax.grad(program)(x)))(v)  # compiled at once
    np.testing.assert_allclose(ours, jaxs, rtol=1e-12)


@pytest.mark.parametrize("rule", X)
def test_our_gradient_under_transformations_of_jax(rule, x64):
    """What our gradient leaves in the program are the rules, for JAX to differentiate again."""
    f = lambda x: jnp.sum(jnp.sin(X[rule](x)) * x)
    of = lambda d: [jax.jit(d(f))(v), jax.vmap(d(lambda a: X[rule](a) * a))(v), jax.grad(lambda x: d(f)(x)[0])(v)]
    for got, expected in zip(of(grad), of(jax.grad), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-12)


def test_a_rule_sees_which_arguments_vary(x64):
    for argnums in (0, 1, (0, 1)):
        np.testing.assert_array_equal(
            np.asarray(grad(unused, argnums)(2.0, 0.5)), np.asarray(jax.grad(unused, argnums)(2.0, 0.5))
        )


# Rules made inside the program


@pytest.mark.parametrize("kind", [float, int, jnp.float32, np.float64])
def test_a_rule_that_is_made_inside_holds_what_the_program_captures(kind, compilations):
    """JAX traces a rule after the program, so the value that it holds is code: there is a program for each."""

    def made_inside(scale):
        return lambda x: rule_of(lambda g: g * scale)(x) * scale

    gradients = [float(grad(made_inside(kind(k)))(1.0)) for k in (2, 3, 2)]
    assert gradients == [float(jax.grad(made_inside(kind(k)))(1.0)) for k in (2, 3, 2)] == [4.0, 9.0, 4.0]
    compilations.new()
    assert float(grad(made_inside(kind(3)))(1.0)) == 9.0
    assert compilations.new() == 0


def test_a_rule_that_is_made_inside_holds_a_traced_value():
    f = lambda t: grad(lambda x: rule_of(lambda g: g * t)(x) * x)(1.0)
    np.testing.assert_allclose(jax.jit(f)(3.0), 4.0)
    np.testing.assert_allclose(jax.vmap(f)(jnp.arange(3.0)), [1.0, 2.0, 3.0])


def captures_an_argument(x, y):
    @jax.custom_vjp
    def square(u):
        return u * u

    square.defvjp(lambda u: (u * u, u), lambda u, g: (2.0 * u * y * g,))
    return square(x)


def captures_an_intermediate_result(x, y):
    z = jnp.sin(y)

    @jax.custom_jvp
    def square(u):
        return u * u

    square.defjvp(lambda p, t: (p[0] ** 2, z * t[0]))
    return square(x)


def test_a_rule_of_custom_vjp_has_the_traced_value_that_it_captured():
    np.testing.assert_allclose(grad(captures_an_argument)(0.5, 0.7), 0.7, rtol=1e-6)
    assert float(ccc(captures_an_argument)(0.5, 0.7)) == 0.25  # whose value needs no rule


def test_a_rule_of_custom_jvp_has_the_traced_value_that_it_captured():
    np.testing.assert_allclose(grad(captures_an_intermediate_result)(0.5, 0.7), np.sin(0.7), rtol=1e-6)
    assert float(ccc(captures_an_intermediate_result)(0.5, 0.7)) == 0.25


def test_what_a_function_with_a_rule_captures_has_no_derivative_by_the_rule():
    def f(x, y):
        z = jnp.sin(y)
        scaled = jax.custom_vjp(lambda u: u * z)
        scaled.defvjp(lambda u: (u * 2.0, ()), lambda _, g: (7.0 * g,))
        return scaled(x)  # LINE

    with pytest.raises(C.errors.NotDifferentiableError, match="custom_vjp") as caught:
        grad(f, 1)(0.5, 0.7)
    assert "# LINE" in caught.value.line and "custom(f, pullback)" in caught.value.hint
    assert float(grad(f)(0.5, 0.7)) == 7.0
