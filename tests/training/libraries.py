"""Scripts with models of Flax and Equinox, trained by Optax."""

import dataclasses
import types

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from flax.training import train_state

XS = np.cos(np.arange(12.0)).reshape(4, 3)
YS = np.sin(XS.sum(1, keepdims=True))

config = types.SimpleNamespace(width=4, activation="tanh", slope=0.1)


class Perceptron(nn.Module):
    """A model of Flax that reads the configuration of the module."""

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(4, param_dtype=x.dtype)(x)
        x = getattr(nn, config.activation)(x)
        return nn.Dense(1, param_dtype=x.dtype)(x)


def flax_with_a_configuration(D):
    """The activation is named in a configuration, which changes; the state is Flax's, of Optax's SGD."""
    model = Perceptron()
    params = model.init(jax.random.key(0), XS)
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.sgd(0.1, momentum=0.9))
    loss = lambda params: jnp.mean((state.apply_fn(params, XS) - YS) ** 2)
    steps = []
    for step in range(3):
        config.activation = ("tanh", "tanh", "sigmoid")[step]
        value, g = D.value_and_grad(loss)(state.params)
        state = state.apply_gradients(grads=g)
        steps.append((value, g))
    config.activation = "tanh"
    return steps


def flax_with_dropout_and_statistics(D):
    """Dropout by keys, batch statistics as an auxiliary result."""

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.BatchNorm(use_running_average=not train, param_dtype=x.dtype, dtype=x.dtype)(x)
            x = nn.Dropout(0.5, deterministic=not train)(x)
            return nn.Dense(1, param_dtype=x.dtype)(x)

    model, key, train = Model(), jax.random.key(2), True
    variables = model.init({"params": key, "dropout": key}, XS, train=False)
    params, statistics = variables["params"], variables["batch_stats"]

    def loss(params):
        given, rngs = {"params": params, "batch_stats": statistics}, {"dropout": key}
        out, changed = model.apply(given, XS, train=train, rngs=rngs, mutable=["batch_stats"])
        return jnp.mean((out - YS) ** 2), changed["batch_stats"]

    gradient, steps = D.grad(loss, has_aux=True), []
    for step in range(3):
        key, train = jax.random.fold_in(key, step), step < 2
        g, statistics = gradient(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, g)
        steps.append((g, statistics))
    return steps


def nnx_split_and_merged(D):
    """A module of NNX, whose parameters are a state; a buffer that is no parameter is changed."""

    class Model(nnx.Module):
        def __init__(self):
            self.w = nnx.Param(jnp.asarray(XS[:3] / 2))
            self.scale = 1.0

        def __call__(self, x):
            return self.scale * jnp.tanh(x @ self.w[...]).sum(1, keepdims=True)

    model = Model()
    steps, optimiser = [], optax.adam(0.05)
    state = optimiser.init(jnp.asarray(XS[:3]))
    for step in range(4):
        graph, params = nnx.split(model)
        loss = lambda params, graph=graph: jnp.mean((nnx.merge(graph, params)(XS) - YS) ** 2)
        g = D.grad(loss)(params)
        (leaf,) = jax.tree.leaves(g)
        updates, state = optimiser.update(leaf, state)
        model.w[...] = model.w[...] + updates
        model.scale = 1.0 + 0.5 * step
        steps.append(leaf)
    return steps


class Layer(eqx.Module):
    """A layer of Equinox, with a static field."""

    w: jax.Array
    b: jax.Array
    settings: types.SimpleNamespace = eqx.field(static=True)

    def __call__(self, x):
        return jnp.where(x @ self.w > 0, 1.0, self.settings.slope) * (x @ self.w) + self.b


class Settings:
    """What a static field holds: an object that may change."""

    slope = 0.1


def equinox_with_static_settings(D):
    """The settings in a static field change in place."""
    settings = Settings()
    model = Layer(jnp.asarray(XS[:3, :1]), jnp.zeros(1), settings)
    gradient, steps = D.value_and_grad(lambda model: jnp.mean((model(XS) - YS) ** 2)), []
    for step in range(4):
        settings.slope = 0.1 * (step // 2)
        value, g = gradient(model)
        model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.2 * g, g))
        steps.append((value, g.w, g.b))
    return steps


def equinox_with_a_frozen_part(D):
    """A model in two parts: the trained one is an argument, the frozen one is captured, and exchanged."""
    mlp = eqx.nn.MLP(3, 1, 4, 2, key=jax.random.key(5), dtype=jnp.float64)
    is_trained = jax.tree.map(lambda _: False, mlp)
    steps, frozen = [], mlp

    def loss(part):
        return jnp.mean((jax.vmap(eqx.combine(part, frozen))(XS) - YS) ** 2)

    for i in range(3):
        wanted = eqx.tree_at(lambda m, i=i: m.layers[i].weight, is_trained, True)
        trained, frozen = eqx.partition(mlp, wanted)
        g = D.grad(loss)(trained)
        steps.append(jax.tree.leaves(g))
        mlp = eqx.apply_updates(mlp, jax.tree.map(lambda g: -0.1 * g, g))
    return steps


def optax_with_injected_rates(D):
    """Hyperparameters stand in the state of the optimiser; the loss weighs by one of them."""

    @dataclasses.dataclass
    class Run:
        optimiser: optax.GradientTransformation
        state: object = None

        def loss(self, w):
            rate = self.state.hyperparams["learning_rate"]
            return jnp.mean((XS @ w - YS) ** 2) + rate * jnp.sum(w**2)

    run = Run(optax.inject_hyperparams(optax.sgd)(learning_rate=0.1))
    w = jnp.ones((3, 1))
    run.state = run.optimiser.init(w)
    steps, gradient = [], D.grad(run.loss)
    for step in range(4):
        g = gradient(w)
        updates, run.state = run.optimiser.update(g, run.state)
        run.state.hyperparams["learning_rate"] = jnp.asarray(0.1 / (step + 1), jnp.float32)
        w = w + updates
        steps.append(g)
    return steps


SCRIPTS = [
    flax_with_a_configuration,
    flax_with_dropout_and_statistics,
    nnx_split_and_merged,
    equinox_with_static_settings,
    equinox_with_a_frozen_part,
    optax_with_injected_rates,
]
