"""Scripts whose models are classes of one's own: layers, keys, statistics and masks stand in their attributes."""

import functools
import weakref

import jax
import jax.numpy as jnp
import numpy as np

RNG = np.random.default_rng(0)
XS = RNG.normal(size=(5, 3))
YS = np.tanh(XS @ np.array([1.0, -1.0, 0.5]))

key = jax.random.key(0)


def descend(params, g, rate=0.2):
    """One step of gradient descent."""
    return jax.tree.map(lambda p, g: p - rate * g, params, g)


def weights(*shape):
    """Weights that are the same in every run."""
    return jnp.sin(jnp.arange(float(np.prod(shape)))).reshape(shape)


def trained(gradient, params, between, steps=5):
    """The gradients of some steps, with something done between them."""
    found = []
    for step in range(steps):
        g = gradient(params)
        found.append(g)
        params = descend(params, g)
        between(step)
    return found


class Dropout:
    """Reads the key of the module, and its own rate."""

    rate = 0.5

    def __call__(self, x):
        keep = jax.random.bernoulli(key, 1 - self.rate, x.shape)
        return jnp.where(keep, x / (1 - self.rate), 0.0)


def dropout_by_a_global_key(D):
    """The key is split between the steps; the rate of the class is lowered at last."""
    global key
    key, dropout = jax.random.key(3), Dropout()

    def between(step):
        global key
        key, _ = jax.random.split(key)
        Dropout.rate = 0.25 if step == 3 else Dropout.rate

    loss = lambda w: jnp.mean((dropout(XS) @ w - YS) ** 2)
    found = trained(D.grad(loss), weights(3), between)
    Dropout.rate = 0.5
    return found


def dropout_by_a_key_in_an_attribute(D):
    """A class with a key of its own, which it splits once a step, takes its noise from there."""

    class Noise:
        def __init__(self):
            self.key = jax.random.key(1)

        def advance(self):
            self.key, self.given = jax.random.split(self.key)

        def loss(self, w):
            return jnp.mean((XS @ w + 0.1 * jax.random.normal(self.given, (5,)) - YS) ** 2)

    noise = Noise()
    noise.advance()
    return trained(D.grad(noise.loss), weights(3), lambda step: noise.advance())


def layers_one_by_one(D):
    """Greedy training: a layer is appended to a list between the steps."""

    class Tower:
        def __init__(self):
            self.frozen = []

        def features(self, x):
            return functools.reduce(lambda x, layer: layer(x), self.frozen, x)

        def loss(self, w):
            return jnp.mean((jnp.tanh(self.features(XS) @ w).sum(1) - YS) ** 2)

    tower, gradient, found = Tower(), D.value_and_grad(Tower().loss), []
    gradient = D.value_and_grad(tower.loss)
    for depth in range(4):
        w = weights(3, 3) / (depth + 1)
        value, g = gradient(w)
        found.append((value, g))
        w = descend(w, g)
        tower.frozen.append(lambda x, w=w: jnp.tanh(x @ w))
    return found


def pruning_by_a_mask(D):
    """A mask of NumPy is changed in place, after each step."""

    class Sparse:
        def __init__(self):
            self.mask = np.ones(3)

        def __call__(self, w):
            return XS @ (w * self.mask)

    model = Sparse()
    gradient, w, found = D.grad(lambda w: jnp.mean((model(w) - YS) ** 2)), weights(3), []
    for step in range(4):
        g = gradient(w)
        w = descend(w, g)
        model.mask[step % 3] = 0.0 if step < 2 else 0.5
        found.append(g)
    return found


def moving_average_as_a_teacher(D):
    """The average of the parameters stands in an attribute; the loss pulls towards it."""

    class Teacher:
        __slots__ = ("decay", "params")

        def __init__(self, params, decay=0.5):
            self.params, self.decay = params, decay

        def follow(self, params):
            self.params = jax.tree.map(lambda t, p: self.decay * t + (1 - self.decay) * p, self.params, params)

    model = lambda params: jnp.tanh(XS @ params["w"]) + params["b"]
    params = {"w": weights(3), "b": jnp.array(0.1)}
    teacher = Teacher(params)
    loss = lambda params: jnp.mean((model(params) - YS) ** 2) + jnp.mean((model(params) - model(teacher.params)) ** 2)
    gradient, found = D.grad(loss), []
    for step in range(5):
        g = gradient(params)
        params = descend(params, g)
        teacher.follow(params)
        teacher.decay = 0.9 if step == 2 else teacher.decay
        found.append(g)
    return found


def statistics_in_place(D):
    """Mean and variance of the data, by a property, from buffers that are updated in place."""

    class Normaliser:
        def __init__(self):
            self.total, self.squares, self.count = np.zeros(3), np.zeros(3), 0

        def see(self, rows):
            self.total += rows.sum(0)
            self.squares += (rows**2).sum(0)
            self.count += len(rows)

        @property
        def scale(self):
            return jnp.sqrt(jnp.asarray(self.squares / self.count - (self.total / self.count) ** 2) + 0.1)

        def __call__(self, rows):
            return (rows - self.total / self.count) / self.scale

    normalise = Normaliser()
    normalise.see(XS[:2])
    loss = lambda w: jnp.mean((normalise(XS) @ w - YS) ** 2)
    return trained(D.grad(loss), weights(3), lambda step: normalise.see(XS[step : step + 1]))


LOSSES = {}


def register(f):
    """Puts a loss into the table, under its name."""

    @functools.wraps(f)
    def counted(*arguments):
        counted.calls += 1
        return f(*arguments)

    counted.calls = 0
    LOSSES[f.__name__] = counted
    return counted


@register
def square(error):
    """The usual one."""
    return jnp.mean(error**2)


@register
def absolute(error):
    """A robust one."""
    return jnp.mean(jnp.sqrt(error**2 + 0.1))


def losses_from_a_table(D):
    """The loss is chosen by a name; its decorator counts; at last the table is changed."""
    name = "square"

    def loss(w):
        return LOSSES[name](XS @ w - YS)

    def between(step):
        nonlocal name
        name = "absolute" if step % 2 == 0 else "square"
        if step == 3:
            LOSSES["square"] = lambda error: 2.0 * square(error)

    found = trained(D.grad(loss), weights(3), between, 6)
    LOSSES["square"] = square
    return found


def tied_weights_by_a_weak_reference(D):
    """A decoder looks at its encoder, which is exchanged by another of its kind."""

    class Encoder:
        def __init__(self, scale):
            self.scale = scale

    class Decoder:
        def __init__(self, encoder):
            self.encoder = weakref.ref(encoder)

        def __getattr__(self, name):
            return getattr(self.encoder(), name)

    encoders = [Encoder(1.0), Encoder(0.5)]
    decoder = Decoder(encoders[0])

    def between(step):
        encoders[step % 2].scale += 0.25
        decoder.encoder = weakref.ref(encoders[(step + 1) % 2])

    loss = lambda w: jnp.mean((decoder.scale * jnp.tanh(XS @ w) - YS) ** 2)
    return trained(D.grad(loss), weights(3), between)


SCRIPTS = [
    dropout_by_a_global_key,
    dropout_by_a_key_in_an_attribute,
    layers_one_by_one,
    pruning_by_a_mask,
    moving_average_as_a_teacher,
    statistics_in_place,
    losses_from_a_table,
    tied_weights_by_a_weak_reference,
]
