"""A TreeLSTM tells from the syntax tree of a function, in which loops have no word of their own, whether it has one.

A tree is a value of an inductive type, and the network is a fold over it: `C.cata` takes a function for each
constructor, here for words and for joints, which have captured the parameters. The state of a part of the tree is
(h, c) as in the binary TreeLSTM of Tai and others, and the sum of the losses at all nodes of that part. A batch is one
value of arrays, whatever the shapes of its trees are, so few programs are compiled. The network is compared with a
logistic regression that sees the same words, but not how they are joined.

    python examples/07_tree_lstm.py [--epochs N] [--functions environment|list] [--seed N] [--out FILE]
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure
from rich.progress import track
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from syntax_trees import WORDS, Leaf, Tree, modules, split, words

import combinators as C
from compile_ccc import ccc
from tangents import grad, value_and_grad

EMBEDDING, HIDDEN, BATCH = 300, 150, 25
PICTURE = Path(__file__).parent / "out" / "tree_lstm.png"

WORD, LABEL = C.Tensor((), jnp.int32), C.Tensor((), jnp.bool_)
TREE = C.Inductive(leaf=(WORD, LABEL), node=(C.Rec, C.Rec, LABEL))

type State = tuple[jax.Array, jax.Array, jax.Array]  # h and c [hidden], and the sum of the losses


# The model.


def view(tree: Tree) -> tuple[str, tuple]:
    """The constructor of a tree and its parts."""
    if isinstance(tree, Leaf):
        return "leaf", (tree.word, tree.loop)
    return "node", (tree.left, tree.right, tree.loop)


def encode(trees: Sequence[Tree]) -> Any:
    """A batch of trees as one value of arrays."""
    return TREE.encode(trees, view=view)


def entropy(params: dict, h: jax.Array, label: jax.Array) -> jax.Array:
    """The cross-entropy of what is read from h with the label."""
    return optax.softmax_cross_entropy_with_integer_labels(scores(params, h), label.astype(jnp.int32))


def scores(params: dict, h: jax.Array) -> jax.Array:
    """The scores [..., 2] of there being no loop, and one, for h [..., hidden]."""
    return h @ params["head"]


def leaf(params: dict, word: jax.Array, label: jax.Array) -> State:
    """The state of a word."""
    o, c = jnp.split(params["words"][word] @ params["read"] + params["read_bias"], 2)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return h, c, entropy(params, h, label)


def node(params: dict, left: State, right: State, label: jax.Array) -> State:
    """The state of two parts together."""
    gates = jnp.concatenate([left[0], right[0]]) @ params["join"] + params["join_bias"]
    i, of_left, of_right, o, u = jnp.split(gates, 5)
    c = jax.nn.sigmoid(i) * jnp.tanh(u) + jax.nn.sigmoid(of_left) * left[1] + jax.nn.sigmoid(of_right) * right[1]
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return h, c, left[2] + right[2] + entropy(params, h, label)


def states(params: dict, forest: Any) -> State:
    """The states of whole trees: h and c [trees, hidden], and the losses [trees]."""
    algebra = {
        "leaf": lambda word, label: leaf(params, word, label),
        "node": lambda left, right, label: node(params, left, right, label),
    }
    return C.cata(TREE)(algebra, forest)


def loss(params: dict, forest: Any) -> jax.Array:
    """The mean over the trees."""
    return jnp.mean(states(params, forest)[2])


@ccc
def answers(params: dict, forest: Any) -> jax.Array:
    """For each tree, whether the score of a loop is the higher one."""
    return jnp.argmax(scores(params, states(params, forest)[0]), axis=1) == 1


def initial(seed: int, hidden: int, embedding: int) -> dict:
    """Random parameters."""
    normal, keys = jax.nn.initializers.lecun_normal(), iter(jax.random.split(jax.random.key(seed), 4))
    return {
        "words": 0.3 * jax.random.normal(next(keys), (len(WORDS), embedding)),
        "read": normal(next(keys), (embedding, 2 * hidden)),
        "read_bias": jnp.zeros(2 * hidden),
        "join": normal(next(keys), (2 * hidden, 5 * hidden)),
        "join_bias": jnp.zeros(5 * hidden),
        "head": normal(next(keys), (hidden, 2)),
    }


def check_gradient(trees: Sequence[Tree]) -> None:
    """The slope of a small network in a random direction, in float64, against a central difference."""
    with jax.enable_x64(True):
        params, forest = initial(0, hidden=4, embedding=3), encode(trees)
        point, unravel = ravel_pytree(params)
        direction = jax.random.normal(jax.random.key(1), point.shape)
        ahead, behind = (loss(unravel(point + size * direction), forest) for size in (1e-5, -1e-5))
        difference = (ahead - behind) / 2e-5
        for functions in ("environment", "list"):
            gradient, _ = ravel_pytree(grad(loss, functions=functions)(params, forest))
            error = jnp.abs(gradient @ direction / difference - 1)
            print(f"The slope by the {functions} tangent is within {error:.0e} of a central difference")
            assert error < 1e-6


# What it is compared with.


def baseline(training: Sequence[Tree], test: Sequence[Tree]) -> float:
    """The accuracy of a logistic regression on how often each word is there."""
    counts, labels = (
        [function(trees) for trees in (training, test)]
        for function in (
            lambda trees: np.array([np.bincount(words(tree), minlength=len(WORDS)) for tree in trees]),
            lambda trees: [tree.loop for tree in trees],
        )
    )
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return float(regression.fit(counts[0], labels[0]).score(counts[1], labels[1]))


# Its training.


def train(
    training: Sequence[Tree], test: Sequence[Tree], epochs: int, functions: str, seed: int, sizes: tuple[int, int]
) -> tuple[list[float], list[tuple[int, float]]]:
    """The loss at each step, and (step, accuracy on the test trees) after each epoch."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(training))[: len(training) // BATCH * BATCH].reshape(-1, BATCH)
    batches = [encode([training[place] for place in batch]) for batch in order]
    held_out, labels = encode(test), np.array([tree.loop for tree in test])
    params, optimizer = initial(seed, *sizes), optax.adam(optax.cosine_decay_schedule(2e-3, epochs * len(batches)))
    state = optimizer.init(params)

    @jax.jit
    def update(params: dict, state: tuple, forest: Any) -> tuple:
        value, gradient = value_and_grad(loss, functions=functions)(params, forest)
        changes, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, changes), state, value

    losses, accuracies = [], []
    steps = [place for _ in range(epochs) for place in random.permutation(len(batches))]
    for step, place in enumerate(track(steps, description=f"Training, {functions} tangent"), 1):
        params, state, value = update(params, state, batches[place])
        losses.append(float(value))
        if step % len(batches) == 0:
            accuracies.append((step, float(np.mean(answers(params, held_out) == labels))))
    return losses, accuracies


def draw(losses: list[float], accuracies: list[tuple[int, float]], counted: float, picture: Path) -> None:
    """Saves a plot of loss and accuracy over the steps, and of the accuracy of the words alone."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.semilogy(range(1, len(losses) + 1), losses, linewidth=0.8)
    left.set(xlabel="step", title="Loss of a tree, over a batch")
    right.plot(*zip(*accuracies, strict=True), marker=".", label="TreeLSTM")
    right.axhline(counted, linestyle="--", color="gray", label="words alone")
    right.set(xlabel="step", title="Accuracy on held-out functions")
    right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help="rounds over the training trees (default: %(default)s)")
    parser.add_argument("--functions", choices=("environment", "list"), default="environment", help="function tangents")
    parser.add_argument("--hidden", type=int, default=HIDDEN, help="numbers of a state (default: %(default)s)")
    parser.add_argument("--embedding", type=int, default=EMBEDDING, help="numbers of a word (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of parameters and batches (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=PICTURE, help="where the plot goes")
    parser.add_argument("--demand", type=float, default=0.95, help="the accuracy to reach (default: %(default)s)")
    arguments = parser.parse_args(argv)

    training, test = split(modules())
    print(f"{len(training)} functions to train on, {len(test)} held out")
    check_gradient(training[:2])
    counted = baseline(training, test)
    sizes = arguments.hidden, arguments.embedding
    losses, accuracies = train(training, test, arguments.epochs, arguments.functions, arguments.seed, sizes)
    draw(losses, accuracies, counted, arguments.out)
    reached = accuracies[-1][1]
    print(f"Accuracy on held-out functions: {reached:.1%}, from the words alone {counted:.1%}.")
    print(f"The plot is {arguments.out.resolve()}")
    assert reached >= arguments.demand, f"at least {arguments.demand:.1%} was to be reached"


if __name__ == "__main__":
    main()
