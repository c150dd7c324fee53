"""What is measured of a model: a row of ratios, ours over JAX's."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import numpy as np

from benchmarks.equations import equations
from benchmarks.peers import Peer
from benchmarks.problem import Problem

type Row = dict[str, Any]
type Pair = tuple[float, float]  # ours, theirs

COMPILING, RUNNING = 2.0, 1.0  # seconds after which no other pair of compilations, or of runs, is begun


def compare(name: str, problem: Problem, ours: Peer, theirs: Peer, rounds: int) -> Row:
    """The row of one model.  Times are medians of paired ratios: the two take turns, and who is first changes."""
    peers = ours, theirs
    programs = [peer.trace(problem) for peer in peers]
    first, second = [program.lower().compile() for program in programs]  # from here on, both know all rules
    again = take_turns([lambda peer=peer: timed(lambda: peer.again(problem))[0] for peer in peers], rounds)
    fronts = take_turns([lambda peer=peer: _front(peer, problem) for peer in peers], rounds)
    arguments = jax.device_put(problem.arguments)
    batch = batch_of(first, second, arguments)
    times: dict[str, list[Pair]] = {
        "trace": [(a[0], b[0]) for a, b in fronts],
        "trace_again": again,
        "lower": [(a[1], b[1]) for a, b in fronts],
        "trace_plus_lower": [(sum(a), sum(b)) for a, b in fronts],
        "compile": take_turns(
            [lambda p=program: timed(p.lower().compile, time.perf_counter)[0] for program in programs],
            rounds,
            COMPILING,
        ),
        "run": take_turns([lambda e=e: seconds(e, arguments, batch) for e in (first, second)], 200, RUNNING),
    }
    sizes = [equations(program.jaxpr) for program in programs]
    memory = [executable.memory_analysis().temp_size_in_bytes for executable in (first, second)]
    row: Row = {"name": name}
    row |= {f"{stage}_time_ratio": median(a / b for a, b in pairs) for stage, pairs in times.items()}
    row |= {"equations_ratio": ratio(*sizes), "memory_ratio": ratio(*memory)}
    row |= {"equations": sizes, "temporary_bytes": memory}
    if jax.default_backend() == "gpu":
        row["seconds"] = {stage: [median(side) for side in zip(*pairs, strict=True)] for stage, pairs in times.items()}
    return row


def gradient_error(problem: Problem, ours: Peer, theirs: Peer) -> float:
    """The largest relative difference of value and gradients in float64.

    Of an array, it is relative to its largest entry, or to a hundredth of the largest of all arrays if that is more: in
    front of a normalisation, there are gradients that would be 0 but for rounding.
    """
    with jax.enable_x64(True):
        problem = problem.cast(np.float64)
        results = (peer.compiled(problem)(*problem.arguments) for peer in (ours, theirs))
        got, expected = (list(map(np.asarray, jax.tree.leaves(result))) for result in results)
        sizes = [np.max(np.abs(leaf)) for leaf in expected]
        least = max(sizes) / 100
        differences = [np.max(np.abs(a - b)) for a, b in zip(got, expected, strict=True)]
    return float(max(d / max(size, least) for d, size in zip(differences, sizes, strict=True)))


def ratio(ours: float, theirs: float) -> float | None:
    """ours / theirs; of two zeros 1, and None over a single zero."""
    return ours / theirs if theirs else None if ours else 1.0


def take_turns[A](runs: list[Callable[[], A]], most: int, seconds: float = float("inf")) -> list[tuple[A, A]]:
    """The results of two calls, up to `most` times; the second goes first in every other round."""
    (first, second), results = runs, []
    end = time.perf_counter() + seconds
    while not results or (len(results) < most and time.perf_counter() < end):
        if len(results) % 2:
            b = second()
            results.append((first(), b))
        else:
            a = first()
            results.append((a, second()))
    return results


def timed(run: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[float, Any]:
    """The seconds that a call takes, and its result.  Garbage of earlier calls is collected before.

    By default they are of processor time, in which what else the machine does hardly shows.
    """
    gc.collect()
    start = clock()
    result = run()
    return clock() - start, result


def _front(peer: Peer, problem: Problem) -> Pair:
    """The seconds that tracing and lowering take."""
    function = peer.compiled(problem)
    trace, program = timed(lambda: function.trace(*problem.arguments))
    lower, _ = timed(program.lower)
    return trace, lower


def seconds(executable: Any, arguments: tuple[Any, ...], batch: int) -> float:
    """The seconds of one run, as the mean over a batch of them."""
    start = time.perf_counter()
    jax.block_until_ready([executable(*arguments) for _ in range(batch)])
    return (time.perf_counter() - start) / batch


def batch_of(first: Any, second: Any, arguments: tuple[Any, ...]) -> int:
    """How many runs make a sample of some milliseconds, which the clock and the call do not blur."""
    return max(1, int(2e-3 / max(seconds(e, arguments, 2) for e in (first, second, first, second))))
