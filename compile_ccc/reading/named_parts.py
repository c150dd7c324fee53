"""Names that users give to parts of a program, by `jax.named_scope`: such a part is a call of a function of that name.

So the name is there in what XLA compiles, forward and backward, and profilers show it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from types import SimpleNamespace
from typing import Any, ClassVar

import jax.extend.core as jex

from compile_ccc.asking.jax_traces import program_of

_NAME = re.compile(r"[\w.\-]+(\([\w.\-]+\))*")  # what JAX calls a part by itself, such as an einsum, is no name


@dataclass(frozen=True, eq=False)
class Part:
    """The equations of a part that has a name, in the place of an equation: a call of their program."""

    primitive: ClassVar[Any] = SimpleNamespace(name="jit")
    name: str
    program: Any
    invars: list[Any]
    outvars: list[Any]
    source_info: Any

    @property
    def params(self) -> dict[str, Any]:
        return {"name": self.name}


def parts(program: Any, depth: int) -> Sequence[Any]:
    """The equations of a program, those of a part with a name together; so many names are around all of them."""
    equations = program.eqns
    stacks = [eqn.source_info.name_stack for eqn in equations]
    names = [_names(stack) if stack.stack else () for stack in stacks]
    if not [name for name in names if name[depth:]]:
        return equations
    found: list[Any] = []
    later = {v: len(names) for v in program.outvars if not isinstance(v, jex.Literal)}  # where each is read last
    for i, eqn in enumerate(equations):
        later.update((v, max(i, later.get(v, 0))) for v in eqn.invars if not isinstance(v, jex.Literal))
    numbered = list(enumerate(zip(equations, names, strict=True)))
    for name, group in groupby(numbered, key=lambda one: one[1][1][depth : depth + 1]):
        numbers, eqns = zip(*[(i, eqn) for i, (eqn, _) in group], strict=True)
        made = {v: None for eqn in eqns for v in eqn.outvars}
        outputs = [v for v in made if later.get(v, -1) > numbers[-1]]
        if not name or not outputs or any(eqn.effects for eqn in eqns):
            found += eqns
            continue
        read = (v for eqn in eqns for v in eqn.invars if not isinstance(v, jex.Literal) and v not in made)
        inputs = list(dict.fromkeys(read))
        found.append(Part(name[0], program_of(inputs, outputs, eqns), inputs, outputs, eqns[0].source_info))
    return found


def _names(stack: Any) -> tuple[str, ...]:
    """The names of the scopes of an equation, the outermost first, up to what is none."""
    names = str(stack).split("/")
    count = next((i for i, name in enumerate(names) if not _NAME.fullmatch(name)), len(names))
    return tuple(names[:count])
