"""The checks that have to notice a broken rule: functions of no argument that give what fails, in words.

They draw few examples, and do not shrink them.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import hypothesis
import jax
import numpy as np
import pytest

import combinators as C
from combinators.errors import DiffcurryError, TracedAnewWarning
from combinators.terms import Curry, Eval
from compile_ccc import function
from tangents import vjp
from tangents.checking import arrows as check_arrows
from tangents.checking import laws as check_laws
from tangents.checking import report
from tangents.checking import spaces as check_spaces
from tangents.checking.differences import difference
from tangents.checking.reading import READINGS
from tangents.checking.subjects import in_float64, subjects
from tangents.spaces.public import SPACES
from tangents.strategies import Program
from tests.random_programs import inside

type Check = Callable[[], list[str]]


class Noticed(Exception):
    """Raised at the first property that fails, with its row in words."""


@contextmanager
def until_one_fails(among: Callable[[str], bool]) -> Iterator[None]:
    """Failing examples are given as they are found, and no property is examined after the first that fails."""
    settings = lambda **given: hypothesis.settings(**{**given, "phases": [hypothesis.Phase.generate]})

    def examined(subject: str, property: str, *about: Any, **more: Any) -> report.Row:
        if not among(property):
            return report.Row(subject, property, "", 0)
        row = report.examine(subject, property, *about, **more)
        if row.counterexample is not None:
            raise Noticed(f"{row}: {row.counterexample}")
        return row

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "hypothesis", SimpleNamespace(**{**vars(hypothesis), "settings": settings}))
        for module in (check_arrows, check_laws, check_spaces):
            patch.setattr(module, "examine", examined)
        yield


SELDOM = {"jit", "vmap"}  # properties by which no rule that is broken here is noticed alone


def failures(check: Callable[[], object]) -> list[str]:
    """The property that fails, if any: central differences, which most mutants fail, come before all others."""
    for soon in (True, False):
        with until_one_fails(lambda p, soon=soon: (p == "central differences") is soon and p not in SELDOM):
            try:
                check()
            except Noticed as noticed:
                return [str(noticed)]
    return []


def law(name: str, *readings: str, examples: int = 5, seed: int = 0) -> Check:
    """A law in some readings."""
    (found,) = (law for law in C.LAWS if str(law) == name)
    return lambda: failures(lambda: check_laws.check_law(found, [READINGS[r] for r in readings], examples, seed))


def space(functions: str, examples: int) -> Check:
    """The laws of a tangent space."""
    return lambda: failures(lambda: check_spaces.check_space(SPACES[functions], examples, 0))


def holds(
    f: Any,
    *domain: Any,
    meaning: Callable[..., Any] | None = None,
    examples: int = 1,
    spaces: tuple[str, ...] = tuple(SPACES),
) -> Check:
    """What `check` examines of a term, or of a lambda: it means what Python means by it, or by `meaning`.

    Without functions the tangent spaces are one.
    """

    def run() -> list[str]:
        with jax.enable_x64(True):
            types = tuple(map(in_float64, domain))
            stated, _ = subjects(f, types, None)
            if meaning is not None:
                on_numpy = lambda x: jax.tree.map(np.asarray, x if len(types) != 1 else (x,))
                stated = replace(stated, meaning=lambda x: meaning(*on_numpy(x)))
            with jax.disable_jit():  # compiling a loop takes longer than running it step by step
                functions = any(isinstance(part, Curry | Eval) for part, _ in inside(stated.term))
                of_spaces = [SPACES[s] for s in (spaces if functions else spaces[:1])]
                return failures(lambda: check_arrows.check_arrow(stated, stated, of_spaces, examples, 0))

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


def traces_are_kept() -> bool:
    """Whether a function that is met again is not traced again: not where another tool takes Python's reports, or adds
    functions of its own to each trace.
    """
    runs: list[None] = []

    def double(x: Any) -> Any:
        runs.append(None)
        return 2.0 * x

    for _ in range(2):
        function(double, C.Tensor())
    return len(runs) == 1


def environment(f: Callable[[Any], Any], *values: float) -> Check:
    """The numbers that a function holds, one for each variable, in the order in which it uses them."""

    def run() -> list[str]:
        got = list(function(f, C.Tensor()).environment)
        return [] if got == list(values) else [f"{got} instead of {values}"]

    return run


def comes_to(right: Any, run: Callable[[], Any]) -> Check:
    """What a program of Python comes to; refused for an error of ours."""

    def check() -> list[str]:
        try:
            with warnings.catch_warnings(action="ignore", category=TracedAnewWarning):
                got = run()
        except (DiffcurryError, ValueError) as error:
            got = "refused" if right == "refused" else f"{type(error).__name__}: {error}"
        return [] if got == right else [f"{got} instead of {right}"]

    return check


def in_turn(derivative: Callable[..., Any], *calls: tuple[Any, ...]) -> list[float]:
    return [float(derivative(*call)) for call in calls]
