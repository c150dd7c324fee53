"""Choices in programs that are being written: one equation, without what `lax.switch` works out of any functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.extend.core as jex
import numpy as np

from combinators import staging
from combinators.meaning import control
from compile_ccc.jaxprs import compat
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import current
from compile_ccc.jaxprs.recording import inlined, record


def switch(which: Any, branches: list[Callable[[], Any]]) -> Any:
    """The result of the branch of this number, which is one of them; all give arrays of the same types.

    The number of a platform is asked for again in each program: so XLA gets the branch for its own alone.
    """
    recorder = current()
    if recorder is None or jax.config.jax_disable_jit or compat.has_named_axes() or len(branches) == 1:
        return control.switch(which, branches)
    programs = [record(branch, name="branch") for branch in branches]
    types = [[v.aval for v in program.outputs] for program in programs]
    if any(t != types[0] for t in types):
        differ = [len(set(column)) > 1 for column in zip(*types, strict=True)]
        programs = [record(lambda p=p: _strong(inlined(p), differ), name="branch") for p in programs]
        types = [[v.aval for v in program.outputs] for program in programs]
    if any(t != types[0] or p.is_high or p.jaxpr.effects for t, p in zip(types, programs, strict=True)):
        return control.switch(which, [lambda p=p: inlined(p) for p in programs])
    values = {id(value): value for program in programs for value in program.constants}
    platforms = None
    if (platform := control.platform_of(which, len(branches))) is not None:
        number = jax.core.ShapedArray((), np.dtype(np.int32))
        (which,) = recorder.append(platform.primitive, platform.params, [], [number], jex.no_effects)
        platforms = platform.params["platforms"]
    params = compat.choice_parameters([_over(program, values) for program in programs], platforms)
    wires = recorder.wires((which, *values.values()))
    results = recorder.append(jex.primitives.cond_p, params, wires, types[0], jex.no_effects)
    return programs[0].form.unflatten(results)


def _strong(result: Any, which: list[bool]) -> Any:
    """A result of which these leaves have no weak type."""
    leaves, form = jax.tree.flatten(result)
    strong = lambda x: jex.primitives.convert_element_type_p.bind(
        x, new_dtype=jax.typeof(x).dtype, weak_type=False, sharding=None
    )
    return form.unflatten([strong(x) if w else x for x, w in zip(leaves, which, strict=True)])


def _over(program: Program, values: dict[int, Any]) -> Any:
    """The program for JAX as one of all these values, its own constants among them."""
    own = dict(zip(map(id, program.constants), program.variables, strict=True))
    inputs = [own.get(name) or jex.Var(jax.typeof(value)) for name, value in values.items()]
    names = staging.names("branch", len(inputs), len(program.outputs))
    return jex.Jaxpr([], inputs, program.outputs, program.equations, jex.no_effects, names)
