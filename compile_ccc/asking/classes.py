"""What functions of installed packages ask for the class of: Python reports their calls of `isinstance` and `type`.

All tracers are of the class `jax.Array`, and that cannot be hidden.  Where a package may ask for it, or for the `type`
of something, the inputs that it asks about become code.
"""

from __future__ import annotations

import dis
import sys
import types
from itertools import pairwise
from typing import Any

import jax
import jax.core

from combinators.errors import is_users
from compile_ccc.asking.standing import Computed
from compile_ccc.asking.tracers import Known, asked_of

_CALL = sys.monitoring.events.CALL
_watched: set[types.CodeType] = set()  # the functions whose calls are reported now


def watch(tool: int, code: types.CodeType, variables: dict[str, Any]) -> bool:
    """Has the calls in a package's function reported if these may ask for such a class, and whether they may."""
    if not is_users(code.co_filename) or not _may_ask(code, variables):
        return False
    if code not in _watched:
        _watched.add(code)
        sys.monitoring.set_local_events(tool, code, _CALL)
    return True


def unwatch(tool: int) -> None:
    """Has no more calls reported."""
    while _watched:
        sys.monitoring.set_local_events(tool, _watched.pop(), 0)


def called(code: types.CodeType, offset: int, function: Any, value: Any) -> None:
    """Wants the inputs behind a tracer as code whose class is asked for, if it may stand for no array of JAX's."""
    if (function is not isinstance and function is not type) or not issubclass(type(value), Known | Computed):
        return
    if (asked := asked_of(value)) is not None:
        asked.look(value)


def _may_ask(code: types.CodeType, variables: dict[str, Any]) -> bool:
    names = code.co_names
    return "type" in names or ("isinstance" in names and names_array(code, variables))


def names_array(code: types.CodeType, variables: dict[str, Any]) -> bool:
    """Whether code names a class that a tracer is of, and what it stands for may not be."""
    names = code.co_names
    if not _OF_JAX.isdisjoint(names) or any(_has_array(variables.get(name)) for name in names):
        return True
    if "ndarray" not in names:
        return False
    steps = list(dis.get_instructions(code))
    owners = [one.argval for one, then in pairwise(steps) if then.argval == "ndarray"]
    return any(getattr(variables.get(name), "ndarray", None) is jax.Array for name in owners if isinstance(name, str))


_OF_JAX = frozenset({"Array", "Tracer"})


def _has_array(value: Any) -> bool:
    """Whether a global variable is the class of JAX's arrays, or holds it as `isinstance` takes it."""
    if type(value) is types.UnionType:
        return any(map(_has_array, value.__args__))
    if type(value) is tuple:
        return any(map(_has_array, value))
    return value is jax.Array or value is jax.core.Tracer
