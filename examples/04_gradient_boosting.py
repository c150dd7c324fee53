"""Gradient boosting: the gradient of a loss by a function that nobody can look into.

The model is a sum of scikit-learn's regression trees. To JAX it is a black box of a known type: it has no parameters to
differentiate by. But the *list* tangent of a function is the list of its calls, each with the cotangent of its result,
and that asks nothing of the inside. Of the squared loss it is the list of the examples with the residuals. Each round
fits a tree to the negative of these cotangents and adds it to the model: gradient descent in a space of functions. The
numbers are those of scikit-learn's own gradient boosting; another loss needs no more than another line.

    python examples/04_gradient_boosting.py [--rounds N] [--rate R] [--depth N]
"""

import argparse
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

import combinators as C
from compile_ccc import black_box
from tangents import value_and_grad


class Ensemble:
    """start + rate · (the sum of the trees): an object of Python, which compiled code calls on the host."""

    def __init__(self, start: float, rate: float):
        self.start, self.rate, self.trees = start, rate, []

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """The values [n] at the rows [n, features]."""
        return self.start + self.rate * sum((tree.predict(rows) for tree in self.trees), start=np.zeros(len(rows)))


def loss(model: C.Closure, xs: jax.Array, ys: jax.Array) -> jax.Array:
    """Half of the sum of the squared distances of model(x) from y."""
    return 0.5 * jnp.sum((C.map(model, xs) - ys) ** 2)


def boost(xs: np.ndarray, ys: np.ndarray, rounds: int, rate: float, depth: int) -> tuple[Ensemble, list[float]]:
    """The ensemble after some rounds, and the loss before each of them and after the last."""
    ensemble, random = Ensemble(ys.mean(), rate), np.random.RandomState(0)
    model = black_box(ensemble.predict, C.Tensor(xs.shape[1]), C.Tensor(), vmap_method="expand_dims")
    value_and_calls = value_and_grad(loss, functions="list")
    losses = []
    for _ in range(rounds):
        value, calls = value_and_calls(model, xs, ys)
        (block,) = calls.blocks  # one call for each row of xs
        np.testing.assert_allclose(-block.cotangent, ys - ensemble.predict(xs))  # these are the residuals
        tree = DecisionTreeRegressor(max_depth=depth, random_state=random)
        ensemble.trees.append(tree.fit(block.argument, -block.cotangent))
        losses.append(float(value))
    return ensemble, [*losses, float(value_and_calls(model, xs, ys)[0])]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="trees in the end (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate (default: %(default)s)")
    parser.add_argument("--depth", type=int, default=3, help="depth of each tree (default: %(default)s)")
    arguments = parser.parse_args(argv)

    xs, ys = load_diabetes(return_X_y=True)
    xs = xs.astype(np.float32).astype(float)  # scikit-learn's trees compare in float32
    with jax.enable_x64(True):
        ensemble, losses = boost(xs, ys, arguments.rounds, arguments.rate, arguments.depth)
    theirs = GradientBoostingRegressor(
        n_estimators=arguments.rounds, learning_rate=arguments.rate, max_depth=arguments.depth, random_state=0
    ).fit(xs, ys)

    print("round   mean squared error   of scikit-learn")
    errors = [2 * value / len(ys) for value in losses]
    for i in range(0, arguments.rounds, max(1, arguments.rounds // 10)):
        print(f"{i + 1:5d} {errors[i + 1]:20.4f} {theirs.train_score_[i]:17.4f}")
    difference = np.abs(ensemble.predict(xs) - theirs.predict(xs)).max()
    print(f"\nThe predictions differ by {difference:.1e} at most.")

    assert all(after < before for before, after in pairwise(losses)), "the loss falls every round"
    np.testing.assert_allclose(errors[1:], theirs.train_score_, rtol=1e-10)
    np.testing.assert_allclose(ensemble.predict(xs), theirs.predict(xs), rtol=1e-10)


if __name__ == "__main__":
    main()
