"""Inputs that are code and take many values: each is another program, which is said once of each input."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax

from combinators.errors import ManyProgramsWarning, definition_line
from combinators.identity.held import parameters
from combinators.identity.identity import key_of
from combinators.memo import Table
from combinators.types import Type

MANY = 24  # values of one input, which is a program each

_taken: Table[Any, dict[int, set[int]]] = Table("values of inputs that are code", 1024)


def note(
    key: Any, f: Callable[..., Any], captured: Sequence[str], dom: Type, fixed: Sequence[int], inputs: Sequence[Any]
) -> None:
    """Notes the values of the inputs that are code in a program that was traced, which has this key without them.

    Warns of an input when it has had more than `MANY`.
    """
    taken = _taken.get(key) or _taken.put(key, {})
    for i in fixed:
        values = taken.setdefault(i, set())
        if len(values) <= MANY:
            values.add(hash(key_of(inputs[i])))
            if len(values) > MANY:
                name = captured[i] if i < len(captured) else _argument(f, dom, i - len(captured))
                function = getattr(f, "__name__", type(f).__name__)
                warnings.warn(ManyProgramsWarning(name, function, MANY, definition_line(f)), stacklevel=2)


def _argument(f: Callable[..., Any], dom: Type, leaf: int) -> str:
    """The name of a leaf of the arguments of f."""
    path: Any = jax.tree_util.tree_flatten_with_path(dom)[0][leaf][0]
    names = parameters(f)
    if len(names) != 1 and path and isinstance(path[0], jax.tree_util.SequenceKey):
        first = names[path[0].idx] if path[0].idx < len(names) else f"argument {path[0].idx}"
        return str(first) + str(jax.tree_util.keystr(path[1:]))
    return (names[0] if names else "argument 0") + str(jax.tree_util.keystr(path))
