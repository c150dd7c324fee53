"""Scripts in which others call the model: functions of modules in the style of Haiku, a pipeline of scikit-learn."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

XS = np.cos(np.arange(12.0)).reshape(4, 3)
YS = np.sin(XS.sum(1, keepdims=True))


class Transformed:
    """A function of modules that name their parameters, as Haiku has it: `init` collects them, `apply` gives them."""

    frames: ClassVar[list[tuple[dict, dict, list]]] = []

    def __init__(self, f):
        self.f = f

    def init(self, key, *arguments):
        return self._run({}, {}, key, arguments)[1:]

    def apply(self, params, state, key, *arguments):
        result, _, state = self._run(params, dict(state), key, arguments)
        return result, state

    def _run(self, params, state, key, arguments):
        self.frames.append((params, state, [key, 0]))
        try:
            return self.f(*arguments), params, state
        finally:
            self.frames.pop()


def parameter(name, shape):
    params, _, keys = Transformed.frames[-1]
    if name not in params:
        keys[0], key = jax.random.split(keys[0])
        params[name] = jax.random.normal(key, shape)
    return params[name]


def linear(x, width):
    *_, keys = Transformed.frames[-1]
    keys[1] += 1  # so that each layer has a name
    name = f"linear_{keys[1]}"
    return x @ parameter(f"{name}/w", (x.shape[-1], width)) + parameter(f"{name}/b", (width,))


def haiku_style(D):
    """Parameters by name in a frame that is open while the function runs; a moving mean as state beside them."""

    def network(x, training):
        _, state, keys = Transformed.frames[-1]
        x = jax.nn.tanh(linear(x, 5))
        state["mean"] = 0.9 * state.get("mean", jnp.zeros(5)) + 0.1 * x.mean(0)
        if training:
            keys[0], key = jax.random.split(keys[0])
            x = x * jax.random.bernoulli(key, 0.7, x.shape)
        return linear(x - state["mean"], 1)

    model = Transformed(network)
    params, state = model.init(jax.random.key(0), XS, False)

    def loss(params, state, key):
        predicted, state = model.apply(params, state, key, XS, True)
        return jnp.mean((predicted - YS) ** 2), state

    optimiser, steps = optax.adam(0.1), []
    moments = optimiser.init(params)
    for step in range(4):
        (value, state), g = D.value_and_grad(loss, has_aux=True)(params, state, jax.random.key(step))
        updates, moments = optimiser.update(g, moments, params)
        params = optax.apply_updates(params, updates)
        steps.append((value, g, state))
    return steps


class Logistic(ClassifierMixin, BaseEstimator):
    """An estimator of scikit-learn that descends by gradients, over arrays of NumPy."""

    def __init__(self, D=None, penalty=0.1):
        self.D, self.penalty = D, penalty

    def loss(self, w, x, y):
        assert isinstance(x, np.ndarray) and x.shape[1] == len(w)
        return jnp.logaddexp(0.0, -y * (x @ w)).mean() + self.penalty * (w**2).sum()

    def fit(self, x, y):
        self.classes_, self.path_ = np.unique(y), []
        w = np.zeros(x.shape[1])
        for _ in range(4):
            g = np.asarray(self.D.grad(self.loss)(w, x, y))
            self.path_.append(g)
            w = w - 0.5 * g
        self.coef_ = w
        return self

    def predict(self, x):
        return np.where(x @ self.coef_ > 0, 1.0, -1.0)


def scikit_learn_pipeline(D):
    """Scaled and expanded features of folds of the rows, and a penalty that a search sets."""
    rows = np.random.default_rng(0).normal(size=(24, 2))
    labels = np.sign(rows[:, 0] + rows[:, 1] ** 2 - 0.5)
    pipeline, steps = make_pipeline(StandardScaler(), PolynomialFeatures(2), Logistic(D)), []
    for penalty in (0.01, 0.1):
        pipeline.set_params(logistic__penalty=penalty)
        for train, _ in KFold(2).split(rows):
            steps.append(pipeline.fit(rows[train], labels[train])[-1].path_)
    return steps


SCRIPTS = [haiku_style, scikit_learn_pipeline]
