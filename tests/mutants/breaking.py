"""How a rule of ours is broken for the length of a test."""

import __future__

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import CodeType
from typing import Any

import jax

from combinators.memo import clear_caches
from tangents.rows.kinds import Constant
from tangents.rows.table import ROWS

evaluate = import_module("combinators.meaning.evaluate")  # hidden by a function


@dataclass(frozen=True)
class Code:
    """A function of a module, or a method, whose text has `new` where it has `old`; `old` occurs once."""

    function: Any
    old: str
    new: str


@dataclass(frozen=True)
class Pullbacks:
    """The row of a primitive in the table of pullbacks."""

    name: str
    row: tuple[Callable[..., Any], ...] | Constant


@contextmanager
def broken(change: Code | Pullbacks) -> Iterator[None]:
    """The packages with this change.  Every reference to a function sees it: what is exchanged is its code."""
    function = inspect.unwrap(change.function) if isinstance(change, Code) else None
    kept = function.__code__ if function else ROWS[change.name]
    forget()
    try:
        if function:
            function.__code__ = _changed(function, change.old, change.new)
        else:
            ROWS[change.name] = change.row
        yield
    finally:
        if function:
            function.__code__ = kept
        else:
            ROWS[change.name] = kept
        forget()


def _changed(function: Any, old: str, new: str) -> CodeType:
    lines, first = inspect.getsourcelines(function)
    text = textwrap.dedent("".join(lines))
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {function.__qualname__}"
    text = "\n" * (first - 1) + text.replace(old, new)
    flags = __future__.annotations.compiler_flag
    module = compile(text, function.__code__.co_filename, "exec", flags, dont_inherit=True)
    return next(c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == function.__name__)


def forget() -> None:
    """Empties the caches in which programs outlive a change of the rules that made them."""
    clear_caches()
    jax.jit(evaluate.evaluate, static_argnums=0).clear_cache()
