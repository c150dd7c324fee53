"""`C.checkpoint`, and `jax.checkpoint` read as it: what it means, what it keeps, and what policies save."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

import combinators as C
from compile_ccc import ccc, function
from tangents import grad, hessian, hvp, jvp, represent, value_and_grad, vjp

SIN, EXP = C.primitive("sin"), C.primitive("exp")
POLICIES = jax.checkpoint_policies
both = pytest.mark.parametrize("functions", ["environment", "list"])


def operations(f, *arguments):
    """The names of all operations of a program, in the programs within it too."""

    def of(program):
        for eqn in program.eqns:
            yield eqn.primitive.name
            for inner in jax.extend.core.jaxprs_in_params(eqn.params):
                yield from of(inner)

    return list(of(jax.make_jaxpr(f)(*arguments).jaxpr))


def test_it_means_what_its_body_means():
    again = C.checkpoint(SIN >> EXP)
    np.testing.assert_allclose(again(0.3), np.exp(np.sin(0.3)), rtol=1e-6)
    assert C.infer(again, C.Tensor(3)) == C.Tensor(3)
    assert str(again) == "checkpoint(sin >> exp)"
    assert C.equal(again, SIN >> EXP, C.Tensor())


@both
def test_its_pullback_is_that_of_its_body(functions):
    y, pullback = represent(C.checkpoint(SIN >> EXP), functions)(0.3)
    np.testing.assert_allclose(y, np.exp(np.sin(0.3)), rtol=1e-6)
    np.testing.assert_allclose(pullback(jnp.float32(2.0)), 2 * np.cos(0.3) * np.exp(np.sin(0.3)), rtol=1e-6)


def layer(w, x):
    return jnp.tanh(jnp.dot(w, x))


def network(policy=None, **options):
    again = jax.checkpoint(layer, policy=policy, **options)

    def loss(w, x):
        for _ in range(3):
            x = again(w, x)
        return jnp.sum(x)

    return loss


W, X = np.float32([[0.5, -0.3], [0.2, 0.8]]), np.float32([1.0, -2.0])


def slope_of_the_network():
    """The gradient of `network` by w, by the chain rule on NumPy in float64."""
    w, xs = W.astype(float), [X.astype(float)]
    for _ in range(3):
        xs.append(np.tanh(w @ xs[-1]))
    g, total = np.ones(2), np.zeros((2, 2))
    for x, y in zip(xs[-2::-1], xs[:0:-1], strict=True):
        g = g * (1 - y**2)
        total, g = total + np.outer(g, x), w.T @ g
    return total


NAMES = {
    "nothing": POLICIES.nothing_saveable,
    "everything": POLICIES.everything_saveable,
    "products": POLICIES.dots_saveable,
    "products without batches": POLICIES.dots_with_no_batch_dims_saveable,
    "the host": POLICIES.offload_dot_with_no_batch_dims("device", "pinned_host"),
}


@pytest.mark.parametrize("policy", [None, *NAMES.values()], ids=["none", *NAMES])
@both
def test_a_policy_changes_no_gradient(policy, functions):
    got = grad(network(policy), functions=functions)(W, X)
    np.testing.assert_allclose(got, slope_of_the_network(), rtol=1e-5)


# The products of a layer and its pullback: forward 1, by w 1, by x 1 (not of the first layer), and 1 that runs again
# unless its result is saved.
@pytest.mark.parametrize(
    ("policy", "products", "tangents"),
    [(None, 3 + 3 + 2 + 3, 6), ("nothing", 11, 6), ("everything", 8, 3), ("products", 8, 6)],
)
def test_what_a_policy_saves_is_not_run_again(policy, products, tangents):
    names = operations(value_and_grad(network(NAMES.get(policy))), W, X)
    assert (names.count("dot_general"), names.count("tanh")) == (products, tangents)


def test_named_values_are_saved_by_name():
    def f(x):
        return jnp.exp(checkpoint_name(jnp.sin(x), "angle"))

    saved = jax.checkpoint(f, policy=POLICIES.save_only_these_names("angle"))
    other = jax.checkpoint(f, policy=POLICIES.save_only_these_names("other"))
    assert operations(value_and_grad(saved), 0.3).count("sin") == 1
    assert operations(value_and_grad(other), 0.3).count("sin") == 2
    for g in (saved, other):
        np.testing.assert_allclose(grad(g)(0.3), np.cos(0.3) * np.exp(np.sin(0.3)), rtol=1e-6)


def kept(f, *arguments):
    """How many numbers a pullback keeps."""
    _, pullback = jax.eval_shape(lambda *x: vjp(f, *x), *arguments)
    return sum(leaf.size for leaf in jax.tree.leaves(pullback))


def test_nothing_is_kept_but_the_argument():
    deep = lambda x: jnp.sin(jnp.exp(jnp.cos(jnp.tanh(x))))
    x = np.ones(100, np.float32)
    assert kept(jax.checkpoint(deep), x) == 100
    assert kept(deep, x) == 200  # tanh x, and what exp gives


def test_a_loop_over_layers_keeps_the_states_alone():
    def run(f):
        def loss(ws, x):
            return jnp.sum(lax.scan(lambda x, w: (f(w, x), None), x, ws)[0])

        return loss

    deep = lambda w, x: jnp.sin(jnp.exp(jnp.cos(jnp.tanh(jnp.dot(w, x)))))
    ws, x = np.ones((7, 2, 2), np.float32), X
    assert kept(run(jax.checkpoint(deep)), ws, x) == ws.size + 7 * 2
    assert kept(run(deep), ws, x) == ws.size + 3 * 7 * 2


def test_the_second_run_is_kept_apart_from_the_first():
    f = lambda prevent: jax.checkpoint(lambda x: jnp.sin(jnp.exp(x)), prevent_cse=prevent)
    text = lambda f: jax.jit(grad(f)).lower(0.3).as_text()
    assert "optimization_barrier" in text(f(True))
    assert "optimization_barrier" not in text(f(False))


def test_forward_mode_is_under_the_checkpoint_too():
    f = jax.checkpoint(lambda x: jnp.sin(x) * x)
    np.testing.assert_allclose(jvp(f, (0.3,), (2.0,))[1], 2 * (np.cos(0.3) * 0.3 + np.sin(0.3)), rtol=1e-6)
    assert "remat2" in operations(lambda x: jvp(f, (x,), (1.0,)), 0.3)


def test_second_derivatives():
    f = jax.checkpoint(lambda x: jnp.sin(x) * x)
    right = 2 * np.cos(0.3) - 0.3 * np.sin(0.3)
    np.testing.assert_allclose(hessian(f)(0.3), right, rtol=1e-5)
    np.testing.assert_allclose(grad(grad(f))(0.3), right, rtol=1e-5)
    np.testing.assert_allclose(hvp(f, (0.3,), (2.0,)), 2 * right, rtol=1e-5)


@both
def test_functions_are_captured_called_and_returned(functions):
    def f(p, q):
        square = function(lambda x: p * x * x, C.Tensor())
        scaled = jax.checkpoint(lambda a: function(lambda x: a * square(x), C.Tensor()))(q)
        return jax.checkpoint(lambda x: scaled(x) + square(x))(3.0)

    by_p, by_q = grad(f, argnums=(0, 1), functions=functions)(2.0, 5.0)  # (q + 1) p x² at x = 3
    np.testing.assert_allclose((by_p, by_q), (6 * 9.0, 2 * 9.0), rtol=1e-6)


def test_the_calls_of_a_function_under_a_checkpoint():
    p = 3.0
    square = function(lambda x: p * x * x, C.Tensor())
    calls = grad(lambda f: jax.checkpoint(lambda x: f(x) * x)(2.0), functions="list")(square)
    assert [(float(x), float(g)) for x, g in calls] == [(2.0, 2.0)]
    by_environment = grad(lambda f: jax.checkpoint(lambda x: f(x) * x)(2.0))(square)
    assert jax.tree.leaves(by_environment) == [8.0]  # x · x² at 2


def test_the_derivative_of_a_lambda_that_was_compiled_is_under_the_checkpoint_for_jax_too():
    f = ccc(jax.checkpoint(lambda x: jnp.sin(jnp.exp(x))))
    assert "remat2" in operations(jax.grad(f), 0.3)
    np.testing.assert_allclose(jax.grad(f)(0.3), np.cos(np.exp(0.3)) * np.exp(0.3), rtol=1e-6)


@pytest.mark.parametrize("options", [{"policy": "dots"}, {"policy": 3}, {"prevent_cse": "x"}])
def test_options_that_are_none_are_refused(options):
    with pytest.raises(C.errors.ArgumentError, match=r"no policy of a checkpoint|no such setting of prevent_cse"):
        C.checkpoint(SIN, **options)


def test_it_is_a_mistake_to_checkpoint_what_is_no_term():
    with pytest.raises(C.errors.ArgumentError, match="not a term"):
        C.checkpoint(1.0)


def test_a_rule_that_is_for_the_second_run_alone_leaves_the_value_of_its_function():
    """The value is that of the function, tan, though its rule gives sin; and so is the cotangent of its square."""
    before = jax.config.jax_custom_vjp3
    jax.config.update("jax_custom_vjp3", True)
    try:
        f = jax.custom_vjp(lambda x: jnp.tan(x))
        f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.cos(x) * g,), optimize_remat=True)
        for again in (jax.checkpoint(f), jax.checkpoint(lambda x: jax.jit(f)(x) * 1.0)):
            value, slope = value_and_grad(lambda x, again=again: again(x) ** 2)(0.5)
            np.testing.assert_allclose(value, np.tan(0.5) ** 2, rtol=1e-6)
            np.testing.assert_allclose(slope, 2 * np.tan(0.5) * np.cos(0.5), rtol=1e-6)
    finally:
        jax.config.update("jax_custom_vjp3", before)


@pytest.mark.parametrize("around", [lambda f: f, jax.checkpoint, jax.jit, jax.vmap])
def test_second_derivatives_of_a_rule_that_is_for_the_second_run_alone(around):
    sine = jax.custom_vjp(jnp.sin)
    sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.cos(x) * g,), optimize_remat=True)
    x = np.array([0.5, 2.0], np.float32)
    f = lambda x: jnp.sum(around(lambda x: x * sine(x))(x))
    for second in (jax.vmap(grad(grad(lambda x: f(x[None]))))(x), jnp.diag(hessian(f)(x))):
        np.testing.assert_allclose(second, 2 * np.cos(x) - x * np.sin(x), rtol=1e-5)
