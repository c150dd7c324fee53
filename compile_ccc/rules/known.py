"""Inputs that have to be known when a function is traced, and which of them these are.

A `jax.custom_vjp` takes no tracers in `nondiff_argnums`, and the body of a `scan` has no values that Python could ask
for.  Where JAX would have an array there, captured, an argument or made of constants, the function is traced again with
arrays in the place of tracers: these are part of its code then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax

from combinators.errors import LeakedFunctionError, NeedsValueError, line_of_error
from compile_ccc.jaxprs import compat
from compile_ccc.refusing.complaints import asks_for_number

type Attempt = Callable[[tuple[int, ...]], Any]  # traces the function with these inputs as they are


def traced_with_known(
    attempt: Attempt, first: tuple[int, ...], inputs: Callable[[], list[int]], check: Callable[[], None]
) -> Any:
    """What the first of these attempts gives that does not fail for want of a value.

    It is made with the inputs `first`, then with as few `inputs` as will do, and then likewise with
    operations on constants worked out at once, as outside of a trace, if the `check` does not refuse that.  Raises
    `NeedsValueError`.
    """
    try:
        return attempt(first)
    except Exception as error:
        if not asks_for_value(error):
            raise
        knowable = inputs()
        for worked_out in (False, True):
            if worked_out:
                check()
            with jax.ensure_compile_time_eval() if worked_out else nullcontext():
                if _works(attempt, knowable):
                    return attempt(tuple(sorted(_needed(attempt, [], knowable))))
        if not asks_for_constant(error):
            raise
        raise NeedsValueError(
            "a function with a rule is given an array in nondiff_argnums that is not known before the program runs",
            expected="an array that the program captured, or made of such ones, outside of jax.jit and loops",
            got="an array that depends on what is mapped, differentiated, or the state of a loop",
            line=line_of_error(error),
            hint="make it an argument, one for which the rule of a jax.custom_vjp gives None as its cotangent",
        ) from error


def asks_for_value(error: Exception) -> bool:
    """Whether a trace failed since a value has to be known in it."""
    return asks_for_constant(error) or asks_for_number(error)


def asks_for_constant(error: Exception) -> bool:
    """Whether it failed since a rule has to know it."""
    return isinstance(error, NeedsValueError) or compat.refuses_tracer(error)


def _works(attempt: Attempt, known: Sequence[int]) -> bool:
    try:
        attempt(tuple(known))
    except LeakedFunctionError:  # a function without captured values is no constant
        return False
    except Exception as error:
        if not asks_for_value(error):
            raise
        return False
    return True


def _needed(attempt: Attempt, known: list[int], rest: list[int]) -> list[int]:
    """The captured values of `rest` without which, beside the known ones, an attempt fails; by halves."""
    if _works(attempt, known):
        return []
    if len(rest) <= 1:
        return rest
    left, right = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    of_right = _needed(attempt, [*known, *left], right)
    return [*_needed(attempt, [*known, *of_right], left), *of_right]
