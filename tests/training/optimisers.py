"""Scripts in the manner of optimiser tutorials: schedules, flags and settings that stand outside of the loss."""

import argparse
import contextvars
import enum
import functools
import os
import types
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import optax

XS = np.linspace(-1.0, 1.0, 12).reshape(6, 2)
YS = XS @ np.array([1.5, -0.5]) + 0.25

batch = (XS, YS)
penalty = 0.0
frozen = False
weight_of = contextvars.ContextVar("weight_of", default=1.0)


def linear(params, xs):
    """A linear model."""
    return xs @ params["w"] + params["b"]


def start():
    """The parameters that all scripts begin with."""
    return {"w": jnp.array([0.1, -0.2]), "b": jnp.array(0.0)}


def batch_loss(params):
    """Reads its batch and its penalty from the module."""
    xs, ys = batch
    return jnp.mean((linear(params, xs) - ys) ** 2) + penalty * jnp.sum(params["w"] ** 2)


def batches_in_a_global(D):
    """Minibatches are put into a variable of the module; the penalty grows."""
    global batch, penalty
    params, gradient, steps = start(), D.value_and_grad(batch_loss), []
    for step in range(6):
        rows = slice(2 * (step % 3), 2 * (step % 3) + 2)
        batch, penalty = (XS[rows], YS[rows]), 0.1 * (step // 2)
        loss, g = gradient(params)
        params = jax.tree.map(lambda p, g: p - 0.3 * g, params, g)
        steps.append((loss, g))
    batch, penalty = (XS, YS), 0.0
    return steps


class Decay(enum.Enum):
    """How a rate goes down."""

    LINEAR = "linear"
    COSINE = "cosine"


@dataclass
class Settings:
    """A configuration that is changed while training goes on."""

    decay: Decay = Decay.LINEAR
    smoothing: float = 0.5
    scales: dict = field(default_factory=lambda: {"w": 1.0, "b": 1.0})


def settings_in_a_dataclass(D):
    """The loss reads an enum, a number and a dict of a configuration."""
    settings = Settings()

    def loss(params):
        scaled = {name: settings.scales[name] * p for name, p in params.items()}
        error = linear(scaled, XS) - YS
        kind = jnp.abs(error) if settings.decay is Decay.COSINE else error**2
        return jnp.mean(kind) * settings.smoothing

    params, steps = start(), []
    changes = [
        lambda: None,
        lambda: setattr(settings, "decay", Decay.COSINE),
        lambda: settings.scales.update(b=0.5),
        lambda: setattr(settings, "smoothing", 2.0),
        lambda: setattr(settings, "decay", Decay.LINEAR),
    ]
    gradient = D.grad(loss)
    for change in changes:
        change()
        g = gradient(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, g)
        steps.append(g)
    return steps


def arguments_of_a_command(D):
    """Options as argparse gives them, changed by a warm-up."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--loss", choices=["square", "huber"], default="square")
    options = parser.parse_args(["--rate", "0.2"])
    losses = {"square": optax.losses.squared_error, "huber": optax.losses.huber_loss}

    def loss(params):
        return options.rate * jnp.sum(losses[options.loss](linear(params, XS), YS))

    params, steps = start(), []
    for step in range(4):
        options.loss = "huber" if step >= 2 else "square"
        options.rate *= 0.9
        g = D.grad(loss)(params)
        params = optax.apply_updates(params, jax.tree.map(jnp.negative, g))
        steps.append(g)
    return steps


def adam_of_optax(D):
    """Optax's Adam with a schedule; the loss is a partial application whose keywords change."""
    schedule = optax.exponential_decay(0.1, 2, 0.5)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))
    powers = lambda xs, ys, params, *, power: jnp.mean((linear(params, xs) - ys) ** power)
    loss = functools.partial(powers, XS, YS, power=2)
    params = start()
    state, steps, gradient = optimiser.init(params), [], D.value_and_grad(loss)
    for step in range(4):
        loss.keywords["power"] = 2 if step < 2 else 4
        value, g = gradient(params)
        updates, state = optimiser.update(g, state, params)
        params = optax.apply_updates(params, updates)
        steps.append((value, params))
    return steps


def a_schedule_with_state(D):
    """A schedule is an object that counts; its property is read by the loss."""

    class Warmup:
        peak = 4.0

        def __init__(self):
            self.step = 0

        @property
        def temperature(self):
            return min(self.step + 1, self.peak) / self.peak

        def __call__(self):
            self.step += 1

    schedule = Warmup()
    loss = lambda params: -jnp.mean(jax.nn.log_softmax(linear(params, XS) / schedule.temperature) * jnp.sign(YS))
    params, steps, gradient = start(), [], D.grad(loss)
    for step in range(6):
        if step == 4:
            Warmup.peak = 8.0
        g = gradient(params)
        params = jax.tree.map(lambda p, g: p - 0.5 * g, params, g)
        schedule()
        steps.append(g)
    return steps


def gradient_accumulation(D):
    """Gradients of parts are added up; the weight of a part is a context variable."""

    def loss(params, part):
        return weight_of.get() * jnp.sum((linear(params, XS[part]) - YS[part]) ** 2)

    gradient, params, steps = D.grad(loss), start(), []
    for step in range(3):
        total = jax.tree.map(jnp.zeros_like, params)
        for i, part in enumerate(np.split(np.arange(6), 3)):
            token = weight_of.set(1.0 / (1 + i + step))
            total = jax.tree.map(jnp.add, total, gradient(params, part))
            weight_of.reset(token)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, total)
        steps.append(total)
    return steps


def early_stopping_by_a_flag(D):
    """A flag of the module, and one of the environment, switch parts of the loss off."""
    global frozen

    def loss(params):
        w = jax.lax.stop_gradient(params["w"]) if frozen else params["w"]
        noise = 0.5 if os.environ.get("TRAINING_WITH_NOISE") == "1" else 0.0
        return jnp.mean((XS @ w + params["b"] + noise - YS) ** 2)

    params, steps = start(), []
    for step in range(6):
        os.environ["TRAINING_WITH_NOISE"] = "01"[step % 3 == 1]
        g = D.grad(loss)(params)
        frozen = frozen or float(jnp.abs(g["w"]).max()) < 0.6 or step >= 3
        params = jax.tree.map(lambda p, g: p - 0.3 * g, params, g)
        steps.append((g, float(frozen)))
    del os.environ["TRAINING_WITH_NOISE"]
    frozen = False
    return steps


def line_search(D):
    """A helper made by `grad` is a variable of a namespace; the step size is halved until the loss goes down."""
    state = types.SimpleNamespace(rate=0.5, centre=0.0)
    rosenbrock = lambda p: (1 - p[0] - state.centre) ** 2 + 5.0 * (p[1] - p[0] ** 2) ** 2
    state.gradient = D.grad(rosenbrock)
    descent = lambda p: rosenbrock(p - state.rate * state.gradient(p))
    p, steps, along = jnp.array([-0.5, 0.5]), [], D.value_and_grad(descent)
    for step in range(3):
        state.centre = 0.1 * step
        while float(along(p)[0]) > float(rosenbrock(p)):
            state.rate /= 2
        steps.append((along(p), state.rate))
        p = p - state.rate * state.gradient(p)
    return steps


SCRIPTS = [
    batches_in_a_global,
    settings_in_a_dataclass,
    arguments_of_a_command,
    adam_of_optax,
    a_schedule_with_state,
    gradient_accumulation,
    early_stopping_by_a_flag,
    line_search,
]
