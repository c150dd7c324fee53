"""What an epoch of training a TreeLSTM costs: ours in both schedules, against PyTorch and JAX."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median

from benchmarks.measure import Row, take_turns, timed
from benchmarks.trees import in_torch
from benchmarks.trees.by_hand import BY_HAND
from benchmarks.trees.by_shape import BY_SHAPE
from benchmarks.trees.model import Method, initial
from benchmarks.trees.ours import OURS
from examples.syntax_trees import Tree, modules, size, split

TREES, BATCHES, SHAPES = 100, (1, 25), (20, 35, 60)  # how many, in batches of which sizes; words of a single tree

PEERS = {"torch recursion": in_torch.BY_RECURSION, "torch by depth": in_torch.BY_DEPTH, "jax by hand": BY_HAND}

type Data = Callable[[], Sequence[Sequence[Tree]]]


def tree_row(name: str, rounds: int) -> Row | None:
    """The row of one comparison: medians of epochs that take turns; None if PyTorch is wanted and not installed."""
    ours, peer, method, data = ROWS[name]
    if peer.startswith("torch") and in_torch.torch is None:
        return None
    params, batches = initial(), data()
    preparing, epoch = timed(lambda: ours.epoch(params, batches), time.perf_counter)
    runs = [lambda run=run: timed(run, time.perf_counter)[0] for run in (epoch, method.epoch(params, batches))]
    first = [run() for run in runs]
    pairs = take_turns(runs, rounds)
    return {
        "name": name,
        "peer": peer,
        "epoch_time_ratio": median(a / b for a, b in pairs),
        "epoch_seconds": [median(side) for side in zip(*pairs, strict=True)],
        "first_seconds": first,
        "prepare_seconds": preparing,
    }


@cache
def trees() -> list[Tree]:
    """The trees to train on, in an order without meaning, but the same in each process."""
    training, _ = split(modules())
    random.Random(0).shuffle(training)
    return training


def batches(count: int) -> list[list[Tree]]:
    """Batches of `count` trees each."""
    return [trees()[begin : begin + count] for begin in range(0, TREES, count)]


def alone(words: int) -> list[list[Tree]]:
    """A batch of the first tree that has so many words."""
    return [[next(tree for tree in trees() if size(tree) == words)]]


ROWS: dict[str, tuple[Method, str, Method, Data]] = {
    **{
        f"{schedule} {count}, {peer}": (ours, peer, method, lambda n=count: batches(n))
        for peer, method in PEERS.items()
        for count in BATCHES
        for schedule, ours in OURS.items()
    },
    **{
        f"sequential 1, jax by shape, {words} words": (
            OURS["sequential"],
            "jax by shape",
            BY_SHAPE,
            lambda n=words: alone(n),
        )
        for words in SHAPES
    },
}
