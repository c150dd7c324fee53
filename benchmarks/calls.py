"""What a call of a derivative costs beside the compiled program that it runs: tiny functions, against `jax.jit`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp

import tangents
from benchmarks.measure import Row, take_turns
from combinators.errors import TracedAnewWarning
from compile_ccc import ccc
from compile_ccc.tracing.captures import captures
from compile_ccc.watching.ran import running
from compile_ccc.watching.reached import reached

type Call = Callable[[], Any]
type Pair = tuple[Call, Call, str]  # ours, the peer's, and what that is

BATCH = 2e-3  # seconds that a sample takes at least


def call_row(name: str, rounds: int) -> Row:
    """The row of one call: the median ratio of batches of calls that take turns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracedAnewWarning)
        ours, theirs, peer = CALLS[name]()
        for call in (ours, theirs) * 3:  # compiled, and known
            jax.block_until_ready(call())
        count = max(1, int(BATCH / max(_seconds(theirs, 3), _seconds(ours, 3))))
        pairs = take_turns([lambda: _seconds(ours, count), lambda: _seconds(theirs, count)], rounds)
    return {"name": name, "peer": peer, "call_time_ratio": median(a / b for a, b in pairs)}


def _seconds(call: Call, count: int) -> float:
    start = time.perf_counter()
    result = None
    for _ in range(count):
        result = call()
    jax.block_until_ready(result)
    return (time.perf_counter() - start) / count


def _wave(x: Any) -> Any:
    return jnp.sin(x) * x


def _of(name: str, f: Callable[..., Any], x: Any) -> Pair:
    """A derivative of f, ours and JAX's under jit."""
    ours, theirs = getattr(tangents, name)(f), jax.jit(getattr(jax, name)(f))
    return lambda: ours(x), lambda: theirs(x), f"jit({name})"


def _ccc() -> Pair:
    ours, theirs, x = ccc(_wave), jax.jit(_wave), jnp.float32(2.0)
    return lambda: ours(x), lambda: theirs(x), "jit"


def _arrow() -> Pair:
    ours, theirs, x = ccc(jnp.sin) >> (lambda x: 2.0 * x), jax.jit(lambda x: 2.0 * jnp.sin(x)), jnp.float32(2.0)
    return lambda: ours(x), lambda: theirs(x), "jit"


def _guarded(x: Any) -> Any:
    return _wave(x) if x > 0 else -x


def _guards() -> Pair:
    ours, theirs, x = tangents.grad(_guarded), jax.grad(_guarded), jnp.float32(2.0)
    return lambda: ours(x), lambda: theirs(x), "grad"


def _captured() -> Pair:
    w = jnp.arange(3.0)
    return _of("grad", lambda x: jnp.sum(w * x), jnp.ones(3))


class _Spring:
    def __init__(self) -> None:
        self.stiffness, self.power, self.name = 2.0, 2, "spring"

    def energy(self, x: Any) -> Any:
        return self.stiffness * x**self.power / 2


def _watched() -> Pair:
    spring = _Spring()
    return _of("grad", lambda x: spring.energy(x), jnp.float32(2.0))


def _watch() -> Pair:
    spring, x = _Spring(), jnp.float32(2.0)
    energy = lambda x: spring.energy(x)
    with running() as ran:
        energy(x)
    captured = captures(energy)
    watch, theirs = captured.watch + reached(ran, captured.kept), jax.jit(jax.grad(energy))
    return watch.holds, lambda: theirs(x), "jit(grad)"


_long = [2.0] * 100_000


def _anew() -> Pair:
    scaled, x = lambda x: _long[0] * _wave(x), jnp.float32(2.0)
    ours, theirs = tangents.grad(scaled), jax.grad(scaled)
    return lambda: ours(x), lambda: theirs(x), "grad"


def _fresh() -> Pair:
    x = jnp.float32(2.0)
    return lambda: tangents.grad(lambda x: _wave(x))(x), lambda: jax.grad(lambda x: _wave(x))(x), "grad"


CALLS: dict[str, Callable[[], Pair]] = {
    "number": lambda: _of("grad", _wave, jnp.float32(2.0)),
    "Python float": lambda: _of("grad", _wave, 2.0),
    "dict of 50": lambda: _of(
        "grad", lambda d: sum(v * v for v in d.values()), {f"x{i}": jnp.float32(i) for i in range(50)}
    ),
    "captured array": _captured,
    "value_and_grad": lambda: _of("value_and_grad", _wave, jnp.float32(2.0)),
    "hessian": lambda: _of("hessian", _wave, jnp.float32(2.0)),
    "ccc": _ccc,
    "arrow of two": _arrow,
    "watched object": _watched,
    "watch alone": _watch,
    "guards": _guards,
    "traced anew": _anew,
    "fresh lambda": _fresh,
}
