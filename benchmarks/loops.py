"""What gradients of loops cost: recurrent networks against JAX, and `while` against Equinox's checkpointed loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
from equinox.internal import while_loop
from jax import lax

import tangents
from benchmarks.measure import Row, batch_of, ratio, seconds, take_turns, timed
from benchmarks.models.recurrent import CELLS, recurrent
from benchmarks.peers import JAX, OURS
from benchmarks.problem import ones

SIZES = ((20, 20, 128), (100, 1, 256), (100, 20, 150), (200, 32, 256))  # steps, batch, hidden units
STEPS, STATES = (10, 1_000, 100_000), {"scalar": (), "100 numbers": (100,)}
COMPILATIONS = 3  # pairs of them

type Programs = tuple[str, list[Any], Any, tuple[Any, ...]]  # the peer, ours and its, the loss, the arguments


def loop_row(name: str, rounds: int) -> Row:
    """The row of one loop: medians of paired ratios, of programs that take turns."""
    peer, programs, loss, arguments = LOOPS[name]()
    lowered = [program.lower(*arguments) for program in programs]
    ours, theirs = [program.compile() for program in lowered]
    arguments = jax.device_put(arguments)
    compiling = take_turns([lambda p=p: timed(p.compile, time.perf_counter)[0] for p in lowered], COMPILATIONS)
    memory = [_memory(executable) for executable in (ours, theirs)]
    row = {
        "name": name,
        "peer": peer,
        "run_time_ratio": _paired(ours, theirs, arguments, rounds),
        "compile_time_ratio": median(a / b for a, b in compiling),
        "memory_ratio": ratio(*memory),
        "temporary_bytes": memory,
    }
    forward = jax.jit(loss).lower(*arguments).compile()
    return row | {"forward_time_ratio": _paired(ours, forward, arguments, rounds)}


def _paired(first: Any, second: Any, arguments: tuple[Any, ...], rounds: int) -> float:
    batch = batch_of(first, second, arguments)
    pairs = take_turns([lambda e=e: seconds(e, arguments, batch) for e in (first, second)], rounds)
    return median(a / b for a, b in pairs)


def _network(cell: str, *sizes: int) -> Programs:
    problem = recurrent(cell, *sizes)
    return "jax", [peer.compiled(problem) for peer in (OURS, JAX)], problem.loss, problem.arguments


def _while(steps: int, shape: tuple[int, ...]) -> Programs:
    def loss(loop: Callable[..., Any], w: Any, n: Any, x: Any) -> Any:
        goes_on = lambda state: state[0] < n
        step = lambda state: (state[0] + 1, state[1] + 0.001 * jnp.sin(w * state[1]))
        return jnp.sum(loop(goes_on, step, (0, x))[1])

    def theirs(checkpoints: int) -> Any:
        loop = partial(while_loop, max_steps=steps, kind="checkpointed", checkpoints=checkpoints)
        return jax.jit(jax.value_and_grad(partial(loss, loop), argnums=(0, 2)))

    arguments = ones(), steps, ones(*shape)
    plain = partial(loss, lax.while_loop)
    ours = jax.jit(tangents.value_and_grad(plain, argnums=(0, 2)))
    return "equinox", [ours, theirs(_checkpoints(ours, theirs, steps, arguments))], plain, arguments


def _checkpoints(ours: Any, theirs: Callable[[int], Any], steps: int, arguments: tuple[Any, ...]) -> int:
    """With how many checkpoints, one for each step at most, a peer's temporary memory comes closest to ours."""
    memory = lambda program: _memory(program.lower(*arguments).compile())
    wanted, all_kept, (one, half) = memory(ours), memory(theirs(steps)), (memory(theirs(c)) for c in (1, steps // 2))
    if all_kept <= wanted:
        return steps
    return max(1, min(steps - 1, 1 + round((wanted - one) / (half - one) * (steps // 2 - 1))))


def _memory(executable: Any) -> int:
    return executable.memory_analysis().temp_size_in_bytes


LOOPS: dict[str, Callable[[], Programs]] = {
    **{
        f"{cell} {steps}x{batch}x{hidden}": lambda c=cell, s=(steps, batch, hidden): _network(c, *s)
        for cell in CELLS
        for steps, batch, hidden in SIZES
    },
    **{
        f"while {name}, {steps:,} steps": lambda n=steps, s=shape: _while(n, s)
        for name, shape in STATES.items()
        for steps in STEPS
    },
}
