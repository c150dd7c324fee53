"""What is run again instead of being kept, `jax.checkpoint` in a traced program: reading it, and writing it down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex

from combinators.edges import check_policy
from compile_ccc.jaxprs.recorder import current
from compile_ccc.jaxprs.recording import record
from compile_ccc.lambda_terms import Again, atom_type, free_variables, single
from compile_ccc.reading.builder import Builder
from compile_ccc.reading.refs import changed, contents, put, within
from compile_ccc.refusing.refusals import line_at


def checkpointed(block: Builder, eqn: Any, operands: list[Any]) -> list[Any]:
    """checkpoint b, for the program b of a `remat2` equation, on its operands"""
    params = eqn.params
    check_policy(params["policy"], lambda: line_at(eqn, block.calls))
    inner, prevent, cells = block.inner(), params["prevent_cse"], changed(eqn, operands)
    inside, values = within(inner, operands, cells, contents(cells))
    results = [*inner.run(params["jaxpr"], values), *contents(inside)]
    type = single([atom_type(a) for a in results])
    body = inner.close(inner.build(list(results), type))
    again = Again(body, free_variables(body), params["policy"], prevent if isinstance(prevent, bool) else any(prevent))
    return put(cells, block.leaves(block.let(again, type), type))


def remat(f: Callable[..., Any], *arguments: Any, policy: Any = None, prevent_cse: bool = True) -> Any:
    """f(*arguments), which JAX keeps apart from a first run of the same operations, and of which it keeps nothing."""
    program = record(f, *arguments, name="checkpoint")
    if (recorder := current()) is not None:
        recorder.is_high |= program.is_high
    results = jex.primitives.remat_p.bind(
        *program.constants,
        *jax.tree.leaves(arguments),
        jaxpr=program.jaxpr,
        prevent_cse=prevent_cse,
        differentiated=True,
        policy=policy,
    )
    return program.form.unflatten(results)
