"""Rules of `jax.custom_vjp` that captured values of the program, which they know as constants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import CapturedError, NotDifferentiableError, TracedBranchError
from tangents import grad, hessian, jacobian, value_and_grad

X = np.array([1.0, 2.0, 3.0])


def doubled(pull, keep=lambda y: None):
    """y ↦ 2y, with this pullback of what is kept."""
    f = jax.custom_vjp(lambda y: 2.0 * y)
    f.defvjp(lambda y: (f(y), keep(y)), lambda kept, g: (pull(kept, g),))
    return f


def in_the_way_back(x, d):
    e = d * 2.0
    return jnp.sum(doubled(lambda _, g: g * e)(x))


def in_both_ways(x, d):
    e = d * 2.0
    return jnp.sum(doubled(lambda kept, g: g * kept * d, lambda y: y * e)(x))


def of_an_object(x, d):
    class Model:
        def __init__(self):
            self.scale, self.unused = d * 2.0, jnp.sum(x)

        def pull(self, _, g):
            return g * self.scale

    return jnp.sum(doubled(Model().pull)(x))


def under_jit(x, d):
    e = d * 2.0
    return jnp.sum(jax.jit(doubled(lambda _, g: g * e))(x))


def in_a_scan(x, d):
    e = d * 2.0
    return lax.scan(lambda s, a: (s + doubled(lambda _, g: g * e)(a), None), 0.0, x)[0]


def of_the_step(x, d):
    return lax.scan(lambda s, a: (s + doubled(lambda _, g: g * a * d)(a), None), 0.0, x)[0]


def mapped(x, d):
    e = d * 2.0
    return jnp.sum(jax.vmap(doubled(lambda _, g: g * e))(x))


def in_a_branch(x, d):
    e = d * 2.0
    return jnp.sum(lax.cond(d > 0, doubled(lambda _, g: g * e), lambda y: y, x))


def in_a_checkpoint(x, d):
    e = d * 2.0
    return jnp.sum(jax.checkpoint(doubled(lambda _, g: g * e))(x))


def in_one_another(x, d):
    e = d * 2.0
    inner = doubled(lambda _, g: g * e)
    return jnp.sum(doubled(lambda _, g: jax.vjp(inner, 1.0)[1](1.0)[0] * g)(x))


def asked(x, d):
    e = d * 2.0
    return jnp.sum(doubled(lambda _, g: g * e if e > 1.0 else g)(x))


CASES = [
    (in_the_way_back, 6.0 + 0 * X),
    (in_both_ways, 18.0 * X),
    (of_an_object, 6.0 + 0 * X),
    (under_jit, 6.0 + 0 * X),
    (in_a_scan, 6.0 + 0 * X),
    (of_the_step, 3.0 * X),
    (mapped, 6.0 + 0 * X),
    (in_a_branch, 6.0 + 0 * X),
    (in_a_checkpoint, 6.0 + 0 * X),
    (in_one_another, 6.0 + 0 * X),
]


@pytest.mark.parametrize(("f", "right"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_what_is_not_differentiated(f, right):
    value, slope = value_and_grad(f)(X, 3.0)
    np.testing.assert_allclose(value, 2.0 * X.sum(), rtol=1e-6)
    for found in (slope, jax.jit(grad(f))(X, 3.0), grad(jax.jit(f))(X, 3.0), grad(f, functions="list")(X, 3.0)):
        np.testing.assert_allclose(found, right, rtol=1e-6)
    np.testing.assert_allclose(jacobian(f, mode="forward")(X, 3.0), right, rtol=1e-6)
    np.testing.assert_allclose(grad(f)(X, 5.0), right * (5 / 3) ** (2 if f is in_both_ways else 1), rtol=1e-6)


def test_python_asks_for_what_the_rule_captured():
    np.testing.assert_allclose(grad(asked)(X, 3.0), 6.0 + 0 * X, rtol=1e-6)
    np.testing.assert_allclose(grad(asked)(X, 0.25), 1.0 + 0 * X, rtol=1e-6)


def test_what_is_differentiated_counts_in_the_next_derivative():
    """The rule says that the derivative is x²; 2y itself does not depend on what the rule captured."""

    def f(x):
        e = x * x
        return doubled(lambda _, g: g * e)(x)

    np.testing.assert_allclose(grad(f)(3.0), 9.0)
    np.testing.assert_allclose(hessian(f)(3.0), 6.0)
    np.testing.assert_allclose(grad(grad(grad(f)))(3.0), 2.0)


def test_the_function_itself_captured_what_is_differentiated():
    def f(x):
        h = jax.custom_vjp(lambda y: y * x)
        h.defvjp(lambda y: (h(y), None), lambda _, g: (g * x,))
        return h(2.0 * x)

    with pytest.raises(NotDifferentiableError, match="closed-over value"):
        grad(f)(3.0)


def test_a_rule_that_asks_for_zeros_is_told_of_none():
    def f(x, d):
        e = d * 2.0
        h = jax.custom_vjp(lambda y, z: 2.0 * y + z)
        h.defvjp(
            lambda y, z: (2.0 * y.value + z.value, None if y.perturbed else y.value),
            lambda kept, g: (g * e if kept is None else g, jnp.sum(g * d)),
            symbolic_zeros=True,
        )
        return jnp.sum(h(x, 1.0))

    for derivative in (grad(f), jax.jit(grad(f))):
        np.testing.assert_allclose(derivative(X, 3.0), 6.0 + 0 * X)


def test_a_rule_that_captured_what_was_mapped_is_refused_by_name():
    def by_lanes(a, b):  # the vmap has ended when the rule runs
        return doubled(lambda _, g: g * b)(a)

    with pytest.raises(CapturedError, match="captured a value"):
        grad(lambda x: jnp.sum(jax.vmap(by_lanes)(x, 2.0 * x)))(X)


def by_solving(x, d):
    """The sum of 2x, whose rule captured d and solves equations."""
    return jnp.sum(doubled(lambda _, g: jnp.linalg.solve(jnp.diag(jnp.full(3, 2.0)), g) * d)(x))


def test_a_rule_that_captured_something_solves_equations():
    np.testing.assert_allclose(grad(by_solving)(X, 3.0), 1.5 + 0 * X, rtol=1e-6)

    def by_tangents(x, d):
        f = jax.custom_jvp(lambda y: 2.0 * y)
        f.defjvp(lambda p, t: (f(*p), jnp.linalg.solve(jnp.diag(jnp.full(3, 2.0)), t[0]) * d))
        return jnp.sum(f(x))

    np.testing.assert_allclose(grad(by_tangents)(X, 3.0), 1.5 + 0 * X, rtol=1e-6)


def test_rules_of_a_library_ask_for_values():
    """What an installed library raises by itself, JAX could have raised for want of a rule."""
    source = "def forward(y):\n    return 2.0 * y, float(np.asarray(y).sum())\n"
    library = {"np": np}
    exec(compile(source, "/usr/lib/python3/site-packages/library.py", "exec"), library)
    f = jax.custom_vjp(lambda y: 2.0 * y)
    f.defvjp(library["forward"], lambda kept, g: (g * kept,))
    np.testing.assert_allclose(grad(lambda x: jnp.sum(f(x)))(X), 6.0 + 0 * X)
    with pytest.raises(TracedBranchError, match="needs the value"):
        jax.jit(grad(lambda x: jnp.sum(f(x))))(X)


LISTS = C.Inductive(nil=(), cons=(C.Tensor(), C.Rec))
FOREST = LISTS.encode([("cons", 2.0, ("cons", 3.0, ("nil",)))])
NUMBER = 0.5


def with_tangents(w):
    f = jax.custom_jvp(lambda y: 1.0 * y)
    f.defjvp(lambda p, t: (f(*p), t[0] * w))
    return f


def with_cotangents(w):
    f = jax.custom_vjp(lambda y: 1.0 * y)
    f.defvjp(lambda y: (f(y), None), lambda _, g: (g * w,))
    return f


@pytest.mark.parametrize("rule", [with_tangents, with_cotangents])
def test_in_functions_that_are_traced_apart(rule):
    """Each of two elements a multiplies by a, and the derivative by w too."""

    def f(w, x):
        act = rule(w)
        return C.cata(LISTS)({"nil": lambda: x, "cons": lambda a, v: act(v) * a}, FOREST)[0]

    for derivative in (grad(f, 1), jax.jit(grad(f, 1)), grad(jax.jit(f), 1)):
        np.testing.assert_allclose(derivative(0.3, 0.5), 6 * 0.09, rtol=1e-6)
    np.testing.assert_allclose(grad(lambda x: f(NUMBER, x))(0.5), 6 * 0.25, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(grad(f, 1), (0, None))(X, 0.5), 6 * X**2, rtol=1e-6)


@pytest.mark.parametrize("rule", [with_tangents, with_cotangents])
def test_the_function_does_not_depend_on_what_its_rule_alone_captured(rule):
    def f(w, x):
        return rule(w)(x) * w

    np.testing.assert_allclose(grad(f, (0, 1))(0.3, 0.5), (0.5, 0.09), rtol=1e-6)
    np.testing.assert_allclose(grad(grad(f, 1), 0)(0.3, 0.5), 0.6, rtol=1e-6)
    np.testing.assert_allclose(jacobian(f, (0, 1), mode="forward")(0.3, 0.5), (0.5, 0.09), rtol=1e-6)


@pytest.fixture
def rules_as_objects():
    before = jax.config.jax_custom_jvp3
    jax.config.update("jax_custom_jvp3", True)
    yield
    jax.config.update("jax_custom_jvp3", before)


def test_what_a_function_captured_whose_rule_is_an_object_is_refused(rules_as_objects):
    def f(x, d):
        h = jax.custom_jvp(lambda y: y + d)
        h.defjvp(lambda p, t: (h(*p), 2.0 * t[0]))
        return h(3.0 * x)

    np.testing.assert_allclose(grad(f)(3.0, 2.0), 6.0)
    for derivative in (grad(f, (0, 1)), jacobian(f, 1, mode="forward")):
        with pytest.raises(NotDifferentiableError, match="closed-over value"):
            derivative(3.0, 2.0)
