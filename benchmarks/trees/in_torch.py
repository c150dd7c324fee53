"""The TreeLSTM in PyTorch: by recursion, node after node, and by hand, for all nodes of a depth at once."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.measure import timed
from benchmarks.problem import Params
from benchmarks.trees.flat import flatten
from benchmarks.trees.model import RATE, Epoch, Method
from examples.syntax_trees import Leaf, Tree

torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None

THREADS = 1, 2  # those tried; the one with the quickest of three short runs is kept

type Tensor = Any
type Prepare = Callable[[Sequence[Tree]], Any]
type Loss = Callable[[Params, Any], Tensor]


def method(prepare: Prepare, loss: Loss) -> Method:
    """What is prepared of a batch does not count; `loss` is differentiated by PyTorch."""

    def gradient(params: Params, trees: Sequence[Tree]) -> tuple[Any, Params]:
        tensors = _tensors(params)
        value = loss(tensors, prepare(trees))
        value.backward()
        return value.item(), {name: tensor.grad.numpy() for name, tensor in tensors.items()}

    def epoch(params: Params, batches: Sequence[Sequence[Tree]]) -> Epoch:
        tensors, prepared = _tensors(params), [prepare(trees) for trees in batches]
        optimizer = torch.optim.SGD(tensors.values(), lr=RATE)

        def run(threads: int, batches: Sequence[Any] = prepared) -> None:
            torch.set_num_threads(threads)
            for batch in batches:
                optimizer.zero_grad()
                loss(tensors, batch).backward()
                optimizer.step()

        some = prepared[: len(prepared) // 10 + 1]
        tried = [(timed(partial(run, threads, some), perf_counter)[0], threads) for threads in THREADS * 3]
        return partial(run, min(tried)[1])

    return Method(gradient, epoch)


def _tensors(params: Params) -> Params:
    return {name: torch.tensor(np.asarray(array)).requires_grad_() for name, array in params.items()}


def _read(params: Params, x: Tensor) -> tuple[Tensor, Tensor]:
    o, c = torch.addmm(params["read_bias"], x, params["read"]).chunk(2, 1)
    return torch.sigmoid(o) * torch.tanh(c), c


def _join(params: Params, h: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """From the h of both parts, side by side, and the c of each."""
    gates = torch.addmm(params["join_bias"], h, params["join"])
    i, of_left, of_right, o, u = gates.chunk(5, 1)
    c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(of_left) * left + torch.sigmoid(of_right) * right
    return torch.sigmoid(o) * torch.tanh(c), c


def _entropy(params: Params, h: Tensor, label: Tensor) -> Tensor:
    scores = torch.addmm(params["head_bias"], h, params["head"])
    return torch.nn.functional.cross_entropy(scores, label, reduction="sum")


def _by_recursion(params: Params, trees: Sequence[Tree]) -> Tensor:
    labels = torch.tensor([[0], [1]])
    losses: list[Tensor] = []

    def state(tree: Tree) -> tuple[Tensor, Tensor]:
        if isinstance(tree, Leaf):
            h, c = _read(params, params["words"][tree.word : tree.word + 1])
        else:
            left, right = state(tree.left), state(tree.right)
            h, c = _join(params, torch.cat([left[0], right[0]], 1), left[1], right[1])
        losses.append(_entropy(params, h, labels[int(tree.loop)]))
        return h, c

    for tree in trees:
        state(tree)
    return torch.stack(losses).sum() / len(trees)


def _levels(trees: Sequence[Tree]) -> tuple[list[tuple[int, Tensor, Tensor]], Tensor, int]:
    """Of each depth, the deepest first: how many nodes have parts, the words, and from where, of both, to the order."""
    flat = flatten(trees)
    levels: list[tuple[int, Tensor, Tensor]] = []
    labels: list[np.ndarray] = []
    for begin, end in zip(flat.depths[-2::-1], flat.depths[:0:-1], strict=True):
        leaf = flat.left[begin:end] < 0
        order = np.argsort(np.concatenate([np.flatnonzero(~leaf), np.flatnonzero(leaf)]))
        words = flat.word[begin:end][leaf]
        levels.append((int(np.sum(~leaf)), torch.tensor(words.astype(int)), torch.tensor(order)))
        labels.append(flat.label[begin:end])
    return levels, torch.tensor(np.concatenate(labels).astype(int)), len(trees)


def _by_depth(params: Params, batch: tuple[list[tuple[int, Tensor, Tensor]], Tensor, int]) -> Tensor:
    """The parts of the nodes of one depth are all nodes of the next, in pairs."""
    levels, labels, count = batch
    h, c = _read(params, params["words"][torch.cat([words for _, words, _ in levels])])
    sizes = [len(words) for _, words, _ in levels]
    state: tuple[Tensor, Tensor] = h[:0], c[:0]
    outputs: list[Tensor] = []
    for (joints, _, order), *leaves in zip(levels, h.split(sizes), c.split(sizes), strict=True):
        if joints:
            below = state[1].view(joints, 2, -1)
            joined = _join(params, state[0].view(joints, -1), below[:, 0], below[:, 1])
            state = tuple(torch.cat(both)[order] for both in zip(joined, leaves, strict=True))
        else:
            state = leaves[0], leaves[1]
        outputs.append(state[0])
    return _entropy(params, torch.cat(outputs), labels) / count


BY_RECURSION, BY_DEPTH = method(lambda trees: trees, _by_recursion), method(_levels, _by_depth)
