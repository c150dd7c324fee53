"""Arrows and closures among the models and the optimisers of other libraries: Equinox, Flax and Optax."""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from diffcurry import C, ccc, function, grad, value_and_grad

R = C.Tensor()
v = np.array([0.5, -1.0, 2.0], np.float32)
W = np.linspace(-0.5, 0.5, 9, dtype=np.float32).reshape(3, 3)
layer = ccc(lambda w, x: jnp.tanh(w @ x))


def plain_layer(w, x):
    return jnp.tanh(w @ x)


def close(got, expected, tolerance=1e-5):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance), got, expected)


# Equinox


class Model(eqx.Module):
    w: jax.Array
    read: Callable
    layer: Callable = eqx.field(static=True)

    def __call__(self, x):
        return jnp.sum(self.read(self.layer(self.w, x)[0]))


def wave(a):
    return function(lambda y: a * jnp.sin(y), R)


def expected_by_w_and_a(w, a):
    return jax.grad(lambda w, a: a * jnp.sin(plain_layer(w, v)[0]), (0, 1))(w, a)


MODES = {
    "filter_grad": lambda loss: eqx.filter_grad(loss),
    "filter_jit of filter_grad": lambda loss: eqx.filter_jit(eqx.filter_grad(loss)),
    "jax.grad": lambda loss: jax.jit(jax.grad(loss)),
    "ours": lambda loss: grad(loss),
    "ours under filter_jit": lambda loss: eqx.filter_jit(grad(loss)),
    "ours over filter_jit": lambda loss: grad(eqx.filter_jit(loss)),
}


@pytest.mark.parametrize("mode", MODES)
def test_an_arrow_and_a_closure_are_fields_of_a_module(mode):
    model = Model(jnp.asarray(W), wave(jnp.float32(2.0)), layer)
    g = MODES[mode](lambda model, x: model(x))(model, v)
    close((g.w, model.read.gradient(g.read)["a"]), expected_by_w_and_a(W, 2.0))


def test_a_module_with_an_arrow_for_a_leaf():
    class Free(eqx.Module):
        w: jax.Array
        layer: Callable

    model = Free(jnp.asarray(W), layer)
    loss = lambda model, x: jnp.sum(model.layer(model.w, x) ** 2)
    close(eqx.filter_jit(eqx.filter_grad(loss))(model, v).w, jax.grad(lambda w: jnp.sum(plain_layer(w, v) ** 2))(W))


def test_our_gradient_of_the_arrays_of_a_module():
    model = eqx.nn.MLP(3, "scalar", 4, 2, key=jax.random.key(0))
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    loss = lambda arrays, x: eqx.combine(arrays, rest)(x) ** 2
    close(grad(loss)(arrays, v), jax.grad(loss)(arrays, v))
    with pytest.raises(C.errors.UntypedFunctionError):
        grad(lambda model, x: model(x) ** 2)(model, v)


def test_a_module_is_a_function_that_captured_its_arrays():
    model = eqx.nn.MLP(3, "scalar", 4, 2, key=jax.random.key(0))
    f = function(model, C.Tensor(3))
    close(f(v), model(v))
    g = grad(lambda f: f(v) ** 2)(f)
    close(jax.tree.leaves(g), jax.tree.leaves(eqx.filter_grad(lambda m: m(v) ** 2)(model)))


def test_a_closure_under_what_equinox_does_to_trees():
    f = wave(jnp.float32(2.0))
    assert eqx.tree_at(lambda f: f.environment[0], f, jnp.float32(3.0))(0.5) == 3.0 * jnp.sin(0.5)
    arrays, rest = eqx.partition(f, eqx.is_inexact_array)
    assert eqx.combine(arrays, rest)(0.5) == f(0.5)
    close(eqx.filter_vmap(f)(v), 2.0 * jnp.sin(v))


# Flax


def test_an_arrow_in_a_linen_module():
    class Net(nn.Module):
        layer: Callable

        @nn.compact
        def __call__(self, x):
            w = self.param("w", lambda key: jnp.asarray(W))
            return jnp.sum(self.layer(w, nn.Dense(3)(x)))

    ours, plain = Net(layer), Net(plain_layer)
    parameters = ours.init(jax.random.key(0), v)
    expected = jax.grad(lambda p: plain.apply(p, v))(parameters)
    close(jax.jit(jax.grad(lambda p: ours.apply(p, v)))(parameters), expected)
    close(grad(lambda p: ours.apply(p, v))(parameters), expected)
    close(jax.jit(grad(lambda p: ours.apply(p, v)))(parameters), expected)


def test_an_arrow_in_an_nnx_module():
    class Net(nnx.Module):
        def __init__(self, layer, rngs):
            self.dense, self.w, self.layer = nnx.Linear(3, 3, rngs=rngs), nnx.Param(jnp.asarray(W)), layer

        def __call__(self, x):
            return jnp.sum(self.layer(self.w[...], self.dense(x)))

    gradient = nnx.jit(nnx.grad(lambda net: net(v)))
    ours, expected = (jax.tree.leaves(gradient(Net(f, nnx.Rngs(0)))) for f in (layer, plain_layer))
    close(ours, expected)
    definition, state = nnx.split(Net(layer, nnx.Rngs(0)))
    close(jax.tree.leaves(grad(lambda state: nnx.merge(definition, state)(v))(state)), expected)


# Optax


@pytest.fixture
def standard():
    """Optimisers mix integers with real numbers, which JAX does not refuse unless it is told to."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def activated(w, b, n):
    """A function that captured two numbers, an integer and another function."""
    act = function(lambda x: jnp.tanh(x), R)
    return function(lambda x: n * act(w * x + b), R)


def of_floats(p):
    return lambda x: 3 * jnp.tanh(p["w"] * x + p["b"])


def fit(f):
    return jnp.mean((jax.vmap(f)(v) - jnp.sin(v)) ** 2)


OPTIMISERS = {
    "sgd": optax.sgd(0.02),
    "momentum": optax.sgd(0.01, momentum=0.5),
    "adam": optax.adam(0.01),
    "adamw": optax.adamw(0.01, weight_decay=0.1),
    "decay": optax.chain(optax.clip_by_global_norm(1.0), optax.add_decayed_weights(0.1), optax.sgd(0.02)),
    "lion": optax.lion(0.01, weight_decay=0.1),
}


def trained(optimiser, derivative, loss, p, steps=20):
    state, values = optimiser.init(p), []
    step = jax.jit(lambda p, state: (derivative(loss)(p), state))
    for _ in range(steps):
        (value, g), state = step(p, state)
        updates, state = optimiser.update(g, state, p)
        p = optax.apply_updates(p, updates)
        values.append(float(value))
    return p, values


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optax_trains_a_closure_as_it_trains_its_numbers(name, standard):
    f = jax.tree.map(jnp.float32, activated(0.3, 0.1, 3))
    ours, values = trained(OPTIMISERS[name], value_and_grad, fit, f)
    floats = {"w": jnp.float32(0.3), "b": jnp.float32(0.1)}
    plain, expected = trained(OPTIMISERS[name], jax.value_and_grad, lambda p: fit(of_floats(p)), floats)
    close(values, expected)
    close({k: ours.captured[k] for k in plain}, plain)
    assert values[-1] < values[0]
    assert ours.code is f.code  # the integer is code, and the captured function has no leaf
    close(ours(0.5), of_floats(plain)(0.5))


def is_real(tree):
    """Where a tree holds real numbers: what an optimiser that decays weights is to see."""
    return jax.tree.map(lambda x: jnp.issubdtype(jnp.result_type(x), jnp.floating), tree)


WITH_INTEGERS = {
    "sgd": lambda p: optax.sgd(0.1),
    "adam": lambda p: optax.adam(0.1),
    "masked adamw": lambda p: optax.masked(optax.adamw(0.1, weight_decay=0.1), is_real),
    "adamw with a mask": lambda p: optax.adamw(0.1, weight_decay=0.1, mask=is_real(p)),
    "decay with a mask": lambda p: optax.chain(optax.add_decayed_weights(0.1, mask=is_real(p)), optax.sgd(0.1)),
}


@pytest.mark.parametrize("name", WITH_INTEGERS)
def test_integers_among_the_leaves_stay_as_they_are(name, standard):
    """An integer that a compiled program is given is environment of the function that it makes, and so a leaf."""
    repeated = jax.jit(lambda n: function(lambda x: n * x, R))
    p = {"w": jnp.float32(2.0), "steps": 3, "act": wave(jnp.float32(0.5)), "f": repeated(3)}
    loss = lambda p: p["steps"] * p["act"](p["f"](p["w"])) ** 2.0
    floats = {"w": p["w"], "a": jnp.float32(0.5)}
    plain = lambda q: 3 * (q["a"] * jnp.sin(3 * q["w"])) ** 2.0
    new, _ = trained(WITH_INTEGERS[name](p), value_and_grad, loss, p, 3)
    expected, _ = trained(WITH_INTEGERS[name](floats), jax.value_and_grad, plain, floats, 3)
    close((new["w"], new["act"].captured["a"]), (expected["w"], expected["a"]))
    assert (int(new["steps"]), *map(int, jax.tree.leaves(new["f"]))) == (3, 3)
    assert all(jnp.issubdtype(n.dtype, jnp.integer) for n in (new["steps"], *jax.tree.leaves(new["f"])))
