"""Scripts that keep state, split keys, and give what is no array: as in Haiku, PyTorch and scikit-learn."""

import collections
import contextlib
import enum

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import gen_batches, shuffle
from sklearn.utils.class_weight import compute_class_weight

XS = np.cos(np.arange(12.0)).reshape(4, 3)
YS = np.sin(XS.sum(1))

frames = []


@contextlib.contextmanager
def frame(params, key, starting=False):
    """What the functions below find their parameters and keys in."""
    frames.append({"params": params, "key": key, "starting": starting, "made": collections.Counter()})
    try:
        yield frames[-1]
    finally:
        frames.pop()


def next_key():
    """A key of the frame."""
    frames[-1]["key"], key = jax.random.split(frames[-1]["key"])
    return key


def linear(x, size):
    """A layer that finds its weights in the frame, or makes them."""
    now = frames[-1]
    name = f"linear_{now['made']['linear']}"
    now["made"]["linear"] += 1
    if now["starting"]:
        now["params"][name] = jax.random.normal(next_key(), (x.shape[-1], size), x.dtype)
    return x @ now["params"][name]


def transformed_with_frames(D):
    """A network as a function, made pure by frames, with dropout in training alone."""

    def net(x, train):
        hidden = jnp.tanh(linear(x, 3))
        if train:
            hidden = jnp.where(jax.random.bernoulli(next_key(), 0.8, hidden.shape), hidden / 0.8, 0.0)
        return linear(hidden, 1)[:, 0]

    def loss(params, key, train):
        with frame(params, key):
            return jnp.mean((net(XS, train) - YS) ** 2)

    with frame({}, jax.random.key(0), starting=True) as start:
        net(XS, True)
    params, gradient, steps = start["params"], D.value_and_grad(loss), []
    for step in range(4):
        value, g = gradient(params, jax.random.key(step), step % 2 == 0)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, g)
        steps.append((value, g))
    return steps


class Normalised:
    """A layer with running statistics in its attributes, as in PyTorch."""

    def __init__(self):
        self.training, self.mean, self.seen = True, np.zeros(3), 0

    def load(self, params):
        self.scale = params["scale"]
        return self

    def __call__(self, x):
        mean = self.mean
        if self.training:
            mean, self.seen = x.mean(0), self.seen + 1
            self.mean = 0.5 * self.mean + 0.5 * jax.lax.stop_gradient(mean)
        return self.scale * (x - mean)


def running_statistics_in_attributes(D):
    """The statistics are updated while the loss is differentiated, and read in evaluation."""
    layer, params, steps = Normalised(), {"scale": jnp.ones(3), "w": jnp.asarray(XS[0])}, []
    gradient = D.grad(lambda p: jnp.mean((layer.load(p)(XS + p["w"]) @ p["w"] - YS) ** 2))
    for step in range(4):
        layer.training = step != 2
        g = gradient(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, g)
        steps.append(g)
    return steps


def a_key_split_inside_of_the_loss(D):
    """The loss itself takes a new key out of an attribute, in every call."""

    class Noise:
        key = jax.random.key(3)

        def loss(self, w):
            self.key, key = jax.random.split(self.key)
            return jnp.mean((XS @ w + 0.1 * jax.random.normal(key, (4,)) - YS) ** 2)

    w, steps, gradient = jnp.ones(3), [], D.grad(Noise().loss)
    for _ in range(3):
        g = gradient(w)
        w = w - 0.2 * g
        steps.append(g)
    return steps


class Mode(enum.Enum):
    """Of a model."""

    TRAIN = 1
    TEST = 2


def settings_as_arguments(D):
    """Text, members of enumerations, masks, sizes and None beside the parameters; one row of the data by its number."""

    def loss(w, row, mode, act="tanh", depth=1, mask=None, rate=0.5, **settings):
        x = XS[row] if isinstance(row, int) else XS
        for layer in range(depth):
            x = getattr(jnp, act)(x * w * settings.get("scale" + str(layer), 1.0))
        x = x if mask is None else x[..., mask]
        return jnp.sum(x) * (rate if mode is Mode.TRAIN and isinstance(rate, float) else 1.0)

    gradient, w = D.grad(loss), jnp.ones(3)
    return [
        gradient(w, 1, Mode.TRAIN),
        gradient(w, 2, Mode.TEST, "sin"),
        gradient(w, None, Mode.TRAIN, depth=2, scale1=2.0),
        gradient(w, 3, Mode.TRAIN, mask=XS[0] > 0, rate=2),
        gradient(w, 1, Mode.TRAIN, mask=np.array([0, 2]), rate=np.float64(3.0)),
    ]


class LogisticRegression(ClassifierMixin, BaseEstimator):
    """An estimator of scikit-learn that is trained by gradients, in batches."""

    def __init__(self, D, rate=0.5, penalty="l2", batch=5):
        self.D, self.rate, self.penalty, self.batch = D, rate, penalty, batch

    def loss(self, w, X, y, weights):
        """The mean of the errors of one batch, each with the weight of its class."""
        scores = jax.nn.log_softmax(X @ w)[np.arange(len(y)), y]
        norm = jnp.sum(w**2) if self.penalty == "l2" else jnp.sum(jnp.abs(w))
        return -jnp.mean(weights[y] * scores) + 0.01 * norm

    def fit(self, X, y):
        """The weights after one run through the data."""
        self.classes_, y = np.unique(y, return_inverse=True)
        weights = compute_class_weight("balanced", classes=np.arange(len(self.classes_)), y=y)
        self.w_, self.steps_ = jnp.zeros((X.shape[1], len(self.classes_))), []
        X, y, gradient = *shuffle(X, y, random_state=0), self.D.value_and_grad(self.loss)
        for rows in gen_batches(len(X), self.batch):
            value, g = gradient(self.w_, X[rows], y[rows], weights)
            self.w_ = self.w_ - self.rate * g
            self.steps_.append((float(value), g))
        return self

    def predict(self, X):
        """The classes of the largest scores."""
        return self.classes_[np.argmax(X @ self.w_, axis=1)]


def a_pipeline_of_scikit_learn(D):
    """Scaled data comes as arrays of NumPy, with labels that are integers; the penalty is named."""
    X, y = (part[::10] for part in load_iris(return_X_y=True))
    runs = [make_pipeline(StandardScaler(), LogisticRegression(D, penalty=name)).fit(X, y) for name in ("l2", "l1")]
    return [*(step for run in runs for step in run[-1].steps_), runs[0].score(X, y)]


def nnx_with_streams_of_keys(D):
    """Dropout draws from the module's own stream, whose count is part of the state that comes back."""

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.w = nnx.Param(jnp.asarray(XS[0]))
            self.drop = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return self.drop(x) @ self.w[...]

    model, steps = Model(nnx.Rngs(0)), []
    for step in range(4):
        (model.eval if step == 2 else model.train)()
        graph, params, rest = nnx.split(model, nnx.Param, ...)

        def loss(params, rest, graph=graph):
            model = nnx.merge(graph, params, rest, copy=True)
            return jnp.mean((model(XS) - YS) ** 2), nnx.state(model, nnx.Not(nnx.Param))

        (value, rest), g = D.value_and_grad(loss, has_aux=True)(params, rest)
        nnx.update(model, jax.tree.map(lambda p, g: p - 0.1 * g, params, g), rest)
        steps.append((value, jax.tree.leaves(g)))
    return steps


def equinox_with_state(D):
    """Batch statistics in a state that is handed on, dropout by keys, and inference in between."""

    class Model(eqx.Module):
        w: jax.Array
        norm: eqx.nn.BatchNorm
        drop: eqx.nn.Dropout

        def __call__(self, x, state, key):
            x, state = self.norm(x, state)
            return self.drop(x, key=key) @ self.w, state

    parts = eqx.nn.BatchNorm(3, "batch", mode="batch", dtype=jnp.float64), eqx.nn.Dropout(0.5)
    model, state = eqx.nn.make_with_state(Model)(jnp.asarray(XS[0]), *parts)

    def loss(arrays, rest, state, keys):
        run = jax.vmap(eqx.combine(arrays, rest), axis_name="batch", in_axes=(0, None, 0), out_axes=(0, None))
        out, state = run(XS, state, keys)
        return jnp.mean((out - YS) ** 2), state

    gradient, steps = D.value_and_grad(loss, has_aux=True), []
    for step in range(3):
        arrays, rest = eqx.partition(eqx.nn.inference_mode(model, step == 1), eqx.is_inexact_array)
        keys = jax.random.split(jax.random.key(step), 4)
        (value, state), g = gradient(arrays, rest, state, keys)
        model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, g))
        steps.append((value, jax.tree.leaves(g)))
    return steps


SCRIPTS = [
    transformed_with_frames,
    running_statistics_in_attributes,
    a_key_split_inside_of_the_loss,
    settings_as_arguments,
    a_pipeline_of_scikit_learn,
    nnx_with_streams_of_keys,
    equinox_with_state,
]
