"""Control flow of JAX, which outside of traces runs what it has to and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import numpy as np
from jax.ad_checkpoint import checkpoint_name


def is_traced(x: Any) -> bool:
    """Whether JAX traces some value in x."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(x))


def switch(which: Any, branches: list[Callable[[], Any]]) -> Any:
    """The result of the branch of this number; all give one type.  Outside of traces, only that branch is run.

    Of branches for platforms, XLA is given that for its own alone.
    """
    if not is_traced(which):
        return branches[int(which)]()
    platform = platform_of(which, len(branches))
    if platform is None:
        return jax.lax.switch(which, branches)
    named = zip(platform.params["platforms"], branches, strict=True)
    return jax.lax.platform_dependent(**{name: f for names, f in named for name in names or ("default",)})


def platform_of(number: Any, count: int) -> Any:
    """What asks for the platform, as one of so many, if that is what a traced number comes from; else None."""
    while (made := getattr(number, "parent", None)) is not None and made.primitive.name in _KEEPING:
        number = made.in_tracers[_KEEPING[made.primitive.name]]
    if made is None or made.primitive.name != "platform_index" or len(made.params["platforms"]) != count:
        return None
    return made


_KEEPING = {"clamp": 1, "convert_element_type": 0}  # operations that bring a number in range, and which operand that is


def checkpoint(f: Callable[[Any], Any], x: Any, policy: Any, prevent_cse: bool) -> Any:
    """f x, for which JAX keeps x alone if it differentiates it.  Outside of traces, nobody does."""
    if is_traced(x):
        return jax.checkpoint(f, policy=policy, prevent_cse=prevent_cse)(x)
    return f(x)


def scan(
    step: Callable[[Any, Any], Any], state: Any, xs: Any, length: int | None, reverse: bool, unroll: int = 1
) -> Any:
    """`jax.lax.scan`; under `jax.disable_jit` a loop of Python, which of no steps could not tell the type of a row."""
    leaves = jax.tree.leaves(xs)
    empty = (leaves[0].shape[0] if leaves else length) == 0
    with jax.disable_jit(jax.config.jax_disable_jit and not empty):
        return jax.lax.scan(step, state, xs, length, reverse, unroll)


def while_loop(
    goes_on: Callable[[Any], Any], step: Callable[[Any], Any], state: Any, max_steps: int | None = None
) -> Any:
    """`jax.lax.while_loop`, of at most `max_steps` steps if that is a number; its condition has a name then."""
    if max_steps is None:
        return jax.lax.while_loop(goes_on, step, state)
    more = lambda counted: jax.lax.bitwise_and(counted[0] < max_steps, goes_on(counted[1]))
    named = lambda counted: checkpoint_name(more(counted), f"{_AT_MOST}{max_steps}")
    return jax.lax.while_loop(named, lambda counted: (counted[0] + 1, step(counted[1])), (np.int32(0), state))[1]


def most_steps(condition: Any) -> int | None:
    """How many steps a loop with this program as its condition takes at most, if `while_loop` has written it."""
    names = (e.params["name"] for e in condition.eqns if e.primitive.name == "name")
    return next((int(name.removeprefix(_AT_MOST)) for name in names if name.startswith(_AT_MOST)), None)


_AT_MOST = "diffcurry: max_steps="


def solve(functions: Sequence[Any], b: Any, aux: bool) -> Any:
    """The solution of a linear equation; outside of traces, just what its solver gives.  See `C.solve`."""
    matrix, _, s, t = functions
    if not is_traced(b):
        return s(b)
    transposed = None if isinstance(t, tuple) else lambda _, g: t(g)
    return jax.lax.custom_linear_solve(matrix, b, lambda _, b: s(b), transposed, has_aux=aux)
