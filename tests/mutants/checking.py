"""The checks that have to notice a broken rule: functions of no argument that give what fails, in words.

They draw few examples, and do not shrink them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import hypothesis
import jax
import numpy as np

import combinators as C
from compile_ccc import function
from tangents import report, vjp
from tangents.check_arrows import check_arrow
from tangents.check_laws import check_law
from tangents.check_spaces import check_space
from tangents.differences import difference
from tangents.reading import READINGS
from tangents.represent import SPACES
from tangents.strategies import Program
from tangents.subjects import in_float64, subjects

type Check = Callable[[], list[str]]


@contextmanager
def unshrunk() -> Iterator[None]:
    """Failing examples are given as they are found."""
    settings = lambda **given: hypothesis.settings(**{**given, "phases": [hypothesis.Phase.generate]})
    kept, report.hypothesis = report.hypothesis, SimpleNamespace(**{**vars(hypothesis), "settings": settings})
    try:
        yield
    finally:
        report.hypothesis = kept


def failures(rows: Any) -> list[str]:
    return [f"{row}: {row.counterexample}" for row in rows if row.counterexample is not None]


def law(name: str, *readings: str, examples: int = 5, seed: int = 0) -> Check:
    """A law in some readings."""
    (found,) = (law for law in C.LAWS if str(law) == name)
    return lambda: failures(check_law(found, [READINGS[reading] for reading in readings], examples, seed))


def space(functions: str, examples: int) -> Check:
    """The laws of a tangent space."""
    return lambda: failures(check_space(SPACES[functions], examples, 0))


def holds(
    f: Any,
    *domain: Any,
    meaning: Callable[..., Any] | None = None,
    examples: int = 1,
    spaces: tuple[str, ...] = tuple(SPACES),
) -> Check:
    """What `check` examines of a term, or of a lambda: it means what Python means by it, or by `meaning`."""

    def run() -> list[str]:
        with jax.enable_x64(True):
            types = tuple(map(in_float64, domain))
            stated, _ = subjects(f, types, None)
            if meaning is not None:
                on_numpy = lambda x: jax.tree.map(np.asarray, x if len(types) != 1 else (x,))
                stated = replace(stated, meaning=lambda x: meaning(*on_numpy(x)))
            with jax.disable_jit():  # compiling a loop takes longer than running it step by step
                return failures(check_arrow(stated, stated, [SPACES[s] for s in spaces], examples, 0))

    return run


def program(body: str) -> Check:
    """A program over scalars x and y and a vector v, held against its run on NumPy, with lambdas as they are."""
    source = f"S, V = C.Tensor(), C.Tensor((3,))\ndef program(x, y, v): return {body}"
    made = Program(source, ())
    with jax.enable_x64(True):
        f = made.make()
    return holds(f, C.Tensor(), C.Tensor(), C.Tensor(3), meaning=made.meaning())


def as_jax(f: Any, *arguments: Any) -> Check:
    """The derivative at points where there is a convention: JAX's own."""

    def run() -> list[str]:
        (y, pullback), (z, expected) = vjp(f, *arguments), jax.vjp(f, *arguments)
        found = difference(y, z) or difference(pullback(np.ones_like(y)), expected(np.ones_like(z)))
        return [found] if found else []

    return run


def agree(ours: Any, jaxs: Any, *arguments: Any) -> Check:
    """Two derivatives of a program at a point."""

    def run() -> list[str]:
        found = difference(ours(*arguments), jaxs(*arguments))
        return [found] if found else []

    return run


def gives(f: Callable[..., Any], *rows: tuple[tuple[float, ...], Any]) -> Check:
    """What a compiled derivative is at some points."""

    def run() -> list[str]:
        with jax.enable_x64(True):
            return [found for at, right in rows if (found := difference(f(*at), jax.tree.map(np.float64, right)))]

    return run


def anew(make: Callable[[Any], Callable[[Any], Any]], *captured: Any) -> Check:
    """Functions that differ in what they capture, one after the other: each means what it says."""

    def run() -> list[str]:
        x = np.float32(0.7)
        pairs = [(function(make(c), C.Tensor())(x), make(c)(x)) for c in captured]
        return [str(pair) for pair in pairs if not np.allclose(*pair)]

    return run


def environment(f: Callable[[Any], Any], *values: float) -> Check:
    """The numbers that a function holds, one for each variable, in the order in which it uses them."""

    def run() -> list[str]:
        got = list(function(f, C.Tensor()).environment)
        return [] if got == list(values) else [f"{got} instead of {values}"]

    return run
