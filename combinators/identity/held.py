"""What Python functions hold: the one place that knows where values stand in them, beside the variables of a module.

Which of these a function names is in its bytecode (`bytecode.py`).
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any


def is_empty(cell: Any) -> bool:
    """Whether a cell of a function has no content yet."""
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


def contents(f: types.FunctionType) -> dict[str, Any]:
    """What the cells of a function hold, by the names of their variables."""
    cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if not is_empty(cell)}


def held(f: types.FunctionType) -> list[Any]:
    """What a function holds: the contents of its cells, and its defaults."""
    return [*contents(f).values(), *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]


def wrapped(value: Any) -> tuple[Any, ...] | None:
    """What is called in the place of a method, a property, or a partial application, and with what."""
    match value:
        case types.MethodType():
            return value.__self__, value.__func__
        case staticmethod() | classmethod():
            return (value.__func__,)
        case property():
            return (value.fget,)
        case functools.cached_property():
            return (value.func,)
        case functools.partial():
            return value.func, *value.args, *value.keywords.values()
        case _:
            return None


def parameters(f: Any) -> list[str]:
    """The names of what a function takes by position, as far as they are known."""
    try:
        found = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # of functions in C, it may not be known
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
