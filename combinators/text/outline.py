"""The text of values and types, whatever their size: of arrays the types, of what is long or deep the outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from combinators.depth import deep, one_level
from combinators.errors import text
from combinators.types import Function, leaf_type

_PARTS, _LEVELS = 60, 20  # what has no more parts, and no more levels, is shown as Python shows it
_SHOWN, _SHOWN_LEVELS = 5, 4  # of anything larger


@text.register(object)
@deep
def outline(x: Any, whole: Callable[[Any], str] = str) -> str:
    """The text of a value or a type: of a small one all of it, by `whole`; of others the outside."""
    return whole(x) if is_small(x) else _elided(x, _SHOWN_LEVELS)


def is_small(x: Any) -> bool:
    """Whether x has few parts and few levels."""
    level, count = [x], 0
    for _ in range(_LEVELS):
        inner: list[Any] = []
        for node in level:
            parts = _parts(node)
            count += 1 + len(parts)
            if count > _PARTS:
                return False
            inner += parts
        if not inner:
            return True
        level = inner
    return False


def shapes(x: Any) -> str:
    """The text of a small value, whose arrays are shown by their types, and numbers as they are."""
    return str(jax.tree.map(_shape, x))


class Text(str):
    """A text that shows itself without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _shape(leaf: Any) -> Any:
    if isinstance(leaf, jax.core.Tracer) or not isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return leaf
    if leaf.ndim or jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        return Text(leaf_type(leaf))
    return Text(f"{leaf.item()}:{leaf_type(leaf)}"[:-2])


def _parts(x: Any) -> Any:
    if isinstance(x, Function):
        return (x.dom, x.cod)
    return one_level(x)


def _elided(x: Any, levels: int) -> str:
    parts = list(_parts(x))
    if not parts:
        return str(_shape(x))
    if not levels:
        return "…"
    texts = [_elided(part, levels - 1) for part in parts[:_SHOWN]]
    if isinstance(x, dict):
        texts = [f"{key!r}: {text}" for key, text in zip(x, texts, strict=False)]
    if len(parts) > _SHOWN:
        texts.append(f"… {len(parts) - _SHOWN:,} more")
    match x:
        case Function():
            return f"({texts[0]} ⇝ {texts[1]})"
        case tuple() if type(x) is tuple:
            return f"({', '.join(texts)}{',' * (len(parts) == 1)})"
        case list():
            return f"[{', '.join(texts)}]"
        case dict():
            return f"{{{', '.join(texts)}}}"
        case _:
            return f"{type(x).__name__}({', '.join(texts)})"
