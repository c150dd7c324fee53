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

RUNNING = 1.0  # seconds that the compiled programs of one model run for


def compare(name: str, problem: Problem, ours: Peer, theirs: Peer, rounds: int) -> Row:
    """The row of one model.  Times are medians of paired ratios: the two take turns, and who is first changes."""
    peers = ours, theirs
    programs = [peer.trace(problem) for peer in peers]
    lowered = [program.lower() for program in programs]  # from here on, both know the rules and jnp's functions
    times: dict[str, list[Pair]] = {"trace": [], "lower": [], "trace_plus_lower": []}
    for n in range(rounds):
        (t0, l0), (t1, l1) = _in_turn(n, *(lambda peer=peer: _front(peer, problem) for peer in peers))
        for stage, sample in zip(times, ((t0, t1), (l0, l1), (t0 + l0, t1 + l1)), strict=True):
            times[stage].append(sample)
    (c0, ours_compiled), (c1, theirs_compiled) = (timed(program.compile) for program in lowered)
    times["compile"] = [(c0, c1)]
    times["run"] = _run(ours_compiled, theirs_compiled, jax.device_put(problem.arguments))
    sizes = [equations(program.jaxpr) for program in programs]
    bytes = [executable.memory_analysis().temp_size_in_bytes for executable in (ours_compiled, theirs_compiled)]
    return {
        "name": name,
        **{f"{stage}_time_ratio": median(a / b for a, b in samples) for stage, samples in times.items()},
        "equations_ratio": ratio(*sizes),
        "memory_ratio": ratio(*bytes),
        "equations": sizes,
        "temporary_bytes": bytes,
        "seconds": {stage: [median(side) for side in zip(*samples, strict=True)] for stage, samples in times.items()},
    }


def gradient_error(problem: Problem, ours: Peer, theirs: Peer) -> float:
    """The largest relative difference of value and gradients in float64; of an array, relative to its largest entry."""
    with jax.enable_x64(True):
        problem = problem.cast(np.float64)
        got, expected = (jax.tree.leaves(peer.compiled(problem)(*problem.arguments)) for peer in (ours, theirs))
    errors = [np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-300) for a, b in zip(got, expected, strict=True)]
    return float(max(errors))


def ratio(ours: float, theirs: float) -> float | None:
    """ours / theirs; of two zeros 1, and None over a single zero."""
    return ours / theirs if theirs else None if ours else 1.0


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds that a call takes, and its result.  Garbage of earlier calls is collected before."""
    gc.collect()
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def _in_turn[A](n: int, *runs: Callable[[], A]) -> list[A]:
    """The results of two calls, the second of which goes first in odd rounds."""
    results = [run() for run in (runs[::-1] if n % 2 else runs)]
    return results[::-1] if n % 2 else results


def _front(peer: Peer, problem: Problem) -> Pair:
    """The seconds that tracing and lowering take."""
    function = peer.compiled(problem)
    trace, program = timed(lambda: function.trace(*problem.arguments))
    lower, _ = timed(program.lower)
    return trace, lower


def _run(ours: Any, theirs: Any, arguments: tuple[Any, ...]) -> list[Pair]:
    """The seconds of single runs; each sample is a batch of at least some milliseconds."""

    def several(executable: Any, count: int) -> float:
        start = time.perf_counter()
        results = [executable(*arguments) for _ in range(count)]
        jax.block_until_ready(results)
        return (time.perf_counter() - start) / count

    once = max(several(executable, 1) for executable in (ours, theirs) for _ in range(2))
    count = max(1, int(2e-3 / once))
    samples = min(200, max(5, int(RUNNING / (2 * count * once))))
    runs = [lambda e=executable: several(e, count) for executable in (ours, theirs)]
    return [(pair[0], pair[1]) for pair in (_in_turn(n, *runs) for n in range(samples))]
