"""A user's program as data: its source, its arguments, and what Python alone makes of it."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import combinators as C
from compile_ccc.tracing.function import function


@dataclass(frozen=True, eq=False)
class Program:
    """A program as a user would write it; its text is what a counterexample shows.

    `source` binds the name `program`, a function of `arguments` that gives a real scalar.  It uses jnp, lax, jax, C,
    functools and `function`, and says by `S` and `V` the types of its scalars and vectors.
    """

    source: str
    arguments: tuple[Any, ...]

    def make(self, function: Callable[..., Any] = function) -> Callable[..., Any]:
        """The Python function, made anew; with `lambda f, *domain: f` in place of `function` it is JAX's own matter."""
        return self._run(jax=jax, jnp=jnp, lax=lax, C=C, function=function)

    def meaning(self) -> Callable[..., Any]:
        """What Python means by the program: run on NumPy with loops of Python, and with nothing of JAX or ours."""
        return self._run(jax=_JAX, jnp=np, lax=_LAX, C=_C, function=lambda f, *domain: f)

    def _run(self, **names: Any) -> Callable[..., Any]:
        file = f"<program {abs(hash(self.source)):x}>"  # where errors of ours find the lines that they quote
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        names["functools"] = functools
        exec(compile(self.source, file, "exec"), names)
        return names["program"]

    def __repr__(self) -> str:
        return f"{self.source}\nprogram({', '.join(map(repr, self.arguments))})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis prints it."""
        printer.text(repr(self))


def _scan(f: Any, state: Any, xs: Any) -> Any:
    outputs: list[Any] = []
    for x in xs:
        state, output = f(state, x)
        outputs.append(output)
    return state, np.array(outputs)


def _fori_loop(start: int, stop: int, f: Any, state: Any) -> Any:
    for i in range(start, stop):
        state = f(i, state)
    return state


def _while_loop(goes_on: Any, f: Any, state: Any) -> Any:
    while goes_on(state):
        state = f(state)
    return state


def _fold(f: Any, state: Any, xs: Any) -> Any:
    for x in xs:
        state = f(state, x)
    return state


def _map(f: Any, xs: Any) -> Any:
    return np.array([f(x) for x in xs])


_JAX = SimpleNamespace(vmap=lambda f: lambda xs: _map(f, xs), jit=lambda f: f)
_LAX = SimpleNamespace(scan=_scan, fori_loop=_fori_loop, while_loop=_while_loop)
_C = SimpleNamespace(fold=_fold, scan=_scan, map=_map, Tensor=lambda *_: None, Function=lambda *_: None)
