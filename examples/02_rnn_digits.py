"""A recurrent network reads handwritten digits row by row.

The example of *The Differentiable Curry* (paper 003, section 2): the cell of the network is partially applied to its
parameters, and the function that results, which has captured them, is folded over the sequence of inputs. This script
prints what becomes of that program, compares its gradient in both tangent spaces of functions with finite differences,
and trains it.

    python examples/02_rnn_digits.py [--steps N] [--functions environment|list] [--seed N] [--out FILE]
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import combinators as C
from compile_ccc import ccc, function, trace
from tangents import grad, value_and_grad

HIDDEN, PIXELS, CLASSES = 64, 8, 10
PICTURE = Path(__file__).parent / "out" / "rnn_digits.png"

type Data = tuple[jax.Array, jax.Array]  # images [n, 8, 8] with pixels from 0 to 1, and the digits [n] they show


# The model.


def cell(params: dict, state: jax.Array, row: jax.Array) -> jax.Array:
    """One step: the state [batch, hidden] after a row of pixels [batch, 8] has been read."""
    return jnp.tanh(row @ params["read"] + state @ params["keep"] + params["bias"])


def run_rnn(params: dict, state: jax.Array, rows: jax.Array) -> jax.Array:
    """The state after all rows [8, batch, 8]: a fold over a function that has captured the parameters."""
    step = function(lambda state, row: cell(params, state, row), state, C.Tensor(rows.shape[1:], rows.dtype))
    return C.fold(step, state, rows)


def logits(params: dict, images: jax.Array) -> jax.Array:
    """The scores [batch, 10] of the digits for images [batch, 8, 8]."""
    start = jnp.zeros((len(images), len(params["rnn"]["keep"])), images.dtype)
    return run_rnn(params["rnn"], start, jnp.swapaxes(images, 0, 1)) @ params["head"]


def loss(params: dict, images: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean cross-entropy of the softmax over the scores."""
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits(params, images), labels))


@ccc
def accuracy(params: dict, images: jax.Array, labels: jax.Array) -> jax.Array:
    """The share of images whose digit gets the highest score."""
    return jnp.mean(jnp.argmax(logits(params, images), axis=1) == labels)


def initial(seed: int, hidden: int) -> dict:
    """Random parameters; rows of `keep` are orthogonal, so that a state neither fades nor explodes over eight steps."""
    read, keep, head = jax.random.split(jax.random.key(seed), 3)
    normal, orthogonal = jax.nn.initializers.lecun_normal(), jax.nn.initializers.orthogonal()
    rnn = {"read": normal(read, (PIXELS, hidden)), "keep": orthogonal(keep, (hidden, hidden))}
    return {"rnn": rnn | {"bias": jnp.zeros((1, hidden))}, "head": normal(head, (hidden, CLASSES))}


# What becomes of it.


def print_terms() -> None:
    """The λ-term of the network and its combinators."""
    params, batch = initial(0, HIDDEN)["rnn"], 1
    network = trace(run_rnn, params, C.Tensor((batch, HIDDEN)), C.Tensor((8, batch, PIXELS)))
    print(f"run_rnn as a λ-term:\n\n{network.lambda_term}\n")
    print("In combinators, where extend(e) adds the value of e to the variables and proj(i) reads variable i:\n")
    print(f"{network.term}\n")


def check_gradient(data: Data) -> None:
    """Every entry of the gradient of a small network, in float64, against central differences."""
    with jax.enable_x64(True):
        params, images, labels = initial(0, hidden=6), jnp.asarray(data[0], float), data[1]
        point, unravel = ravel_pytree(params)

        def slope(direction: jax.Array, size: float = 1e-5) -> jax.Array:
            ahead, behind = (loss(unravel(point + s * direction), images, labels) for s in (size, -size))
            return (ahead - behind) / (2 * size)

        differences = jax.vmap(slope)(jnp.eye(len(point)))
        for functions in ("environment", "list"):
            gradient, _ = ravel_pytree(grad(loss, functions=functions)(params, images, labels))
            error = jnp.max(jnp.abs(gradient - differences))
            print(f"{len(point)} derivatives, {functions} tangent: within {error:.0e} of central differences")
            assert error < 1e-6


# Its training.


def digits() -> tuple[Data, Data]:
    """Four fifths of the data set to train on, and a fifth to test on."""
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    train_images, test_images = (jnp.asarray(part.reshape(-1, 8, 8) / 16, jnp.float32) for part in parts[:2])
    train_labels, test_labels = (jnp.asarray(part, jnp.int32) for part in parts[2:])
    return (train_images, train_labels), (test_images, test_labels)


def batches(size: int, count: int, seed: int) -> Iterator[np.ndarray]:
    """Places of random batches without end; in each round a place comes at most once."""
    random = np.random.default_rng(seed)
    while True:
        yield from random.permutation(count)[: count // size * size].reshape(-1, size)


def train(
    training: Data, test: Data, steps: int, functions: str, seed: int
) -> tuple[list[float], list[tuple[int, float]]]:
    """The loss at each step, and (step, accuracy on the test images) every 25 steps and after the last."""
    images, labels = training
    params, optimizer = initial(seed, HIDDEN), optax.adam(optax.cosine_decay_schedule(4e-3, steps))
    state = optimizer.init(params)

    @jax.jit
    def update(params: dict, state: tuple, images: jax.Array, labels: jax.Array) -> tuple:
        value, gradient = value_and_grad(loss, functions=functions)(params, images, labels)
        changes, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, changes), state, value

    losses, accuracies = [], []
    places = batches(128, len(images), seed)
    for step in track(range(1, steps + 1), description=f"Training, {functions} tangent"):
        batch = next(places)
        params, state, value = update(params, state, images[batch], labels[batch])
        losses.append(float(value))
        if step % 25 == 0 or step == steps:
            accuracies.append((step, float(accuracy(params, *test))))
    return losses, accuracies


def draw(losses: list[float], accuracies: list[tuple[int, float]], picture: Path) -> None:
    """Saves a plot of loss and accuracy over the steps."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.semilogy(range(1, len(losses) + 1), losses, linewidth=0.8)
    left.set(xlabel="step", title="Cross-entropy on a batch")
    right.plot(*zip(*accuracies, strict=True), marker=".")
    right.set(xlabel="step", title="Accuracy on the test images")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="steps of Adam (default: %(default)s)")
    parser.add_argument("--functions", choices=("environment", "list"), default="environment", help="function tangents")
    parser.add_argument("--seed", type=int, default=0, help="of parameters and batches (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=PICTURE, help="where the plot goes")
    parser.add_argument("--demand", type=float, default=0.95, help="the accuracy to reach (default: %(default)s)")
    arguments = parser.parse_args(argv)

    training, test = digits()
    print_terms()
    check_gradient((training[0][:4], training[1][:4]))
    losses, accuracies = train(training, test, arguments.steps, arguments.functions, arguments.seed)
    draw(losses, accuracies, arguments.out)
    reached = accuracies[-1][1]
    print(f"Accuracy on the test images: {reached:.1%}. The plot is {arguments.out.resolve()}")
    assert reached >= arguments.demand, f"at least {arguments.demand:.1%} was to be reached"


if __name__ == "__main__":
    main()
