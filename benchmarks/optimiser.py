"""What shorter terms of the models would give to JAX and to XLA, in counts that no machine changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

import combinators as C
from benchmarks.equations import equations
from benchmarks.models import MODELS
from combinators.terms import parts
from compile_ccc import optimise, trace
from tangents import represent

FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "traced": lambda term, domain: term,
    "optimised": lambda term, domain: optimise(term),
    "normal": C.normalise,
}
COUNTS = ("combinators", "equations", "instructions")
SHORT = [name for name, model in MODELS.items() if not model.smaller().nested]


def optimiser_row(name: str) -> dict[str, Any]:
    """Of a model at small sizes, by forms of its term: combinators, and of value and pullback the equations and, after
    XLA, the instructions.
    """
    problem = MODELS[name].smaller()
    traced = trace(problem.loss, *problem.arguments)
    row: dict[str, Any] = {"name": name}
    for form, of in FORMS.items():
        term = of(traced.term, traced.domain)
        program = jax.jit(partial(_value_and_slope, represent(term))).trace(*problem.arguments)
        text = program.lower().compile().as_text() or ""
        row[form] = [combinators(term), equations(program.jaxpr.jaxpr), text.count(" = ")]
    return row


def _value_and_slope(representation: Callable[..., Any], *arguments: Any) -> Any:
    y, pullback = representation(*arguments)
    return y, pullback(1.0)


def combinators(term: Any) -> int:
    """How many different combinators a term is made of."""
    seen, waiting = set[Any](), [term]
    while waiting:
        if (part := waiting.pop()) not in seen:
            seen.add(part)
            waiting += parts(part)
    return len(seen)
