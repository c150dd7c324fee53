"""The two that are compared, and how each is made to trace a program anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import jax

import tangents
from benchmarks.problem import Problem
from compile_ccc.tracing.keeping import _kept, _met  # pyright: ignore[reportPrivateUsage]
from tangents.api.derivatives import _value_and_gradients  # pyright: ignore[reportPrivateUsage]


@dataclass(frozen=True)
class Peer:
    """A way to differentiate: its name, a module of functions like JAX's, and what makes it forget programs."""

    name: str
    derivatives: ModuleType
    forget: Callable[[], None]

    def compiled(self, problem: Problem) -> Any:
        """The jitted program of a problem that nobody has seen before."""
        self.forget()
        return self._jitted(problem)

    def again(self, problem: Problem) -> Any:
        """The program traced for another object of the same function, such as a lambda that is made anew."""
        return self._jitted(problem).trace(*problem.arguments)

    def trace(self, problem: Problem) -> Any:
        """The program of a problem, traced anew, as a stage of JAX's: it has `.jaxpr` and `.lower()`."""
        return self.compiled(problem).trace(*problem.arguments)

    def _jitted(self, problem: Problem) -> Any:
        loss = fresh(problem.loss)
        return jax.jit(partial(loss, self.derivatives) if problem.nested else self.derivatives.value_and_grad(loss))


def fresh(f: Any) -> Any:
    """The same function as another object, which JAX's caches therefore do not know."""
    return FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)


_compiled: Any = _value_and_gradients


def _forget() -> None:
    """Drops our whole programs, as `fresh` does JAX's; what is known of single primitives stays, as it does there.

    `clear_cache` would also drop what JAX knows of calls of any jitted function, for both.
    """
    _kept.clear()
    _met.clear()
    _compiled.runs.programs.clear()


OURS = Peer("diffcurry", tangents, _forget)
JAX = Peer("jax", jax, lambda: None)
PEERS = {peer.name: peer for peer in (OURS, JAX)}
