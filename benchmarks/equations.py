"""The size of a program: its equations, those of the bodies of loops and calls among them, without dead code."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tangents.checking.operations import live


def equations(program: Any) -> int:
    """How many equations are left of a jaxpr when calls are inlined and dead code is removed.

    A loop or a branch counts as one equation and those of its bodies, each once.
    """
    return live(program, _written).total()


def _written(eqn: Any, bodies: list[Counter[str]]) -> Counter[str]:
    own = Counter({eqn.primitive.name: 0 if "call_jaxpr" in eqn.params else 1})
    return sum(bodies, start=own)
