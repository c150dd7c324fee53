"""What is run again instead of being kept, in programs that are being written: one equation of `jax.checkpoint`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex

from compile_ccc.recording import current, record


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
