"""The first trace of a fresh process: `python -m benchmarks.cold MODEL PEER` prints the seconds that it took.

Nothing but imports has happened before: each rule, and each function of jnp that the model uses, is traced in it.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

import jax

from benchmarks.measure import timed
from benchmarks.models import MODELS
from benchmarks.peers import PEERS, Peer


def cold_ratio(name: str, ours: Peer, theirs: Peer, processes: int) -> float:
    """The ratio of the first traces of a model, the median over that many pairs of processes."""
    return median(_first(name, ours) / _first(name, theirs) for _ in range(processes))


def _first(name: str, peer: Peer) -> float:
    command = [sys.executable, "-m", "benchmarks.cold", name, peer.name]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _main(name: str, peer: str) -> None:
    problem = MODELS[name].make()
    jax.devices()  # the backend starts
    seconds, _ = timed(lambda: PEERS[peer].trace(problem))
    print(seconds)


if __name__ == "__main__":
    _main(*sys.argv[1:])
