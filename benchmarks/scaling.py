"""How the time per operation of our passes grows with programs: chains and random graphs."""

from __future__ import annotations

from typing import Any

import jax

import tangents
from benchmarks.measure import Row, timed
from benchmarks.models.chains import jnp_chain, lax_chain, random_graph
from benchmarks.peers import OURS, fresh
from combinators import infer
from compile_ccc import optimise, trace

PROGRAMS = {"jnp chain": jnp_chain, "lax chain": lax_chain, "random graph": random_graph}
LENGTHS = (100, 1_000, 10_000, 100_000)
PASSES = ("make_jaxpr", "trace", "infer", "optimise", "value_and_grad")


def scaling(name: str, lengths: list[int], rounds: int) -> list[Row]:
    """A row for each length of a program.

    `trace`, `infer`, `optimise`, `value_and_grad`: the time of our pass over that of `jax.make_jaxpr` of the same
    program; the last is the tracing of the gradient program, with all that is done on the way.  `growth`: the time per
    operation of each over that at the first length of 1,000 or more, or at the longest if there is none.
    """
    _passes(name, 100, 1)
    times = {length: _passes(name, length, rounds if length < 10_000 else 1) for length in lengths}
    unit = min((n for n in lengths if n >= 1_000), default=max(lengths))
    return [
        {
            "name": name,
            "operations": n,
            **{stage: time / times[n]["make_jaxpr"] for stage, time in times[n].items() if stage != "make_jaxpr"},
            "growth": {stage: time / n / (times[unit][stage] / unit) for stage, time in times[n].items()},
        }
        for n in lengths
    ]


def _passes(name: str, length: int, rounds: int) -> dict[str, float]:
    """The seconds of each pass: the least of some rounds, since what else the machine does only adds."""
    problem = PROGRAMS[name](length)
    (x,) = problem.arguments
    rows: list[dict[str, Any]] = []
    for _ in range(rounds):
        OURS.forget()
        f = fresh(problem.loss)
        row = {"make_jaxpr": timed(lambda f=f: jax.make_jaxpr(f)(x))[0]}
        row["trace"], translation = timed(lambda f=f: trace(f, x))
        row["infer"] = timed(lambda t=translation: infer(t.term, t.domain))[0]
        row["optimise"] = timed(lambda t=translation: optimise(t.term))[0]
        OURS.forget()
        row["value_and_grad"] = timed(lambda f=f: jax.make_jaxpr(tangents.value_and_grad(f))(x))[0]
        rows.append(row)
    return {stage: min(row[stage] for row in rows) for stage in PASSES}
