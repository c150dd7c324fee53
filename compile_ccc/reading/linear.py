"""Linear equations in a traced program, `jax.lax.custom_linear_solve`: reading one, and writing one down."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import jax
import jax.extend.core as jex

from combinators.meaning import control
from combinators.terms import Solve
from combinators.types import Function
from compile_ccc.jaxprs import compat
from compile_ccc.jaxprs.recorder import current
from compile_ccc.jaxprs.recording import record
from compile_ccc.lambda_terms import Arrow, Var, atom_type, lam, single
from compile_ccc.reading.builder import Builder
from compile_ccc.refusing.refusals import sources

_SOLVE = jex.primitives.linear_solve_p


def solved(block: Builder, eqn: Any, operands: list[Any]) -> list[Any]:
    """solve (A, Aᵀ, s, t, b) for the programs of a `custom_linear_solve` equation, functions that capture constants."""
    jaxprs, bounds = eqn.params["jaxprs"], [0, *accumulate(eqn.params["const_lengths"])]
    b = operands[bounds[-1] :]
    type, count = single([atom_type(a) for a in b]), len(b)
    aux = len(jaxprs.solve.outvars) > count
    functions = []
    for program, (start, end), gives_aux in zip(jaxprs, pairwise(bounds), (False, False, aux, aux), strict=True):
        if program is None:
            functions.append(block.build([], ()))
            continue
        inner, x = block.inner(), Var(next(block.names), type)
        results = inner.run(program, [*operands[start:end], *inner.leaves(x, type)])
        of_aux = single([atom_type(a) for a in results[count:]])
        cod = (type, of_aux) if gives_aux else type
        functions.append(block.let(lam(x, inner.close(inner.build(list(results), cod))), Function(type, cod)))
    result = functions[2].type.cod
    term = Solve(aux)
    arrow = Arrow(term, (*functions, block.build(list(b), type)), sources(eqn, block.calls))
    return block.leaves(block.let(arrow, result), result)


def solve(functions: Sequence[Any], b: Any, aux: bool) -> Any:
    """s b, for functions (A, Aᵀ, s, t), as one equation in a program that is being written; see `C.solve`."""
    recorder = current()
    if recorder is None or jax.config.jax_disable_jit or compat.has_named_axes() or isinstance(functions[3], tuple):
        return control.solve(functions, b, aux)
    programs = [record(f, b) for f in functions]
    if any(p.is_high or p.jaxpr.effects for p in programs):
        return control.solve(functions, b, aux)
    values = [value for program in programs for value in program.constants]
    form = compat.solve_parts()
    params = {
        "const_lengths": form(*(len(program.constants) for program in programs)),
        "jaxprs": form(*(program.jaxpr for program in programs)),
    }
    wires = recorder.wires((*values, *jax.tree.leaves(b)))
    results = recorder.append(_SOLVE, params, wires, [v.aval for v in programs[2].outputs], jex.no_effects)
    return programs[2].form.unflatten(results)
