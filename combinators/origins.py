"""Origins of functions across compiled code, which is one for all functions of equal code.

Compiled code is given functions that have numbers in place of origins, so it says which of them came out where.  From
outside, each call gives its own functions their own origins back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from combinators.errors import user_line
from combinators.families import plain, require_one
from combinators.terms import Curry, Term
from combinators.values import NOWHERE, Closure, Given, Origin, relabelled

_running: ContextVar[tuple[Origin, ...]] = ContextVar("running", default=())  # innermost first


class Table(Origin):
    """Names by code, and no lines: what another process can know."""

    def __init__(self, table: dict[Curry, tuple[str, ...]]):
        self.table = table

    def names(self, code: Curry) -> tuple[str, ...] | None:
        return self.table.get(plain(code))


class Joint(Origin):
    """What several programs know together; names on which they differ are not known."""

    def __init__(self, origins: list[Origin]):
        self.origins = origins

    def names(self, code: Curry) -> tuple[str, ...] | None:
        known = {names for origin in self.origins if (names := origin.names(code)) is not None}
        return known.pop() if len(known) == 1 else None

    def lines(self, term: Term) -> Iterator[str]:
        for origin in self.origins:
            yield from origin.lines(term)


def joint(origins: list[Origin]) -> Origin:
    """What these programs know together."""
    known = list(dict.fromkeys(origin for origin in origins if type(origin) not in (Origin, Given)))
    return known[0] if len(known) == 1 else Joint(known) if known else NOWHERE


def with_origins(run: Callable[..., Any], *arguments: Any) -> Any:
    """run(*arguments), compiled code: functions that pass have the origins that they were given with.

    Functions that the code makes have those of all that it was given.  Raises `ArgumentError` for families of
    functions among the arguments.
    """
    given: list[Origin] = []

    def numbered(f: Closure) -> Origin:
        require_one(f)
        given.append(f.origin)
        return Given(len(given) - 1)

    numbered_arguments = relabelled(arguments, numbered)
    together = joint(given)
    token = _running.set((together, *_running.get()))
    try:
        result = run(*numbered_arguments)
    finally:
        _running.reset(token)

    def restored(f: Closure) -> Origin:
        origin = f.origin
        return given[origin.number] if isinstance(origin, Given) else together if type(origin) is Origin else origin

    return relabelled(result, restored)


def source_line(term: Term) -> str:
    """The user's line of an operation of the program that is running, all of them if it has several.

    That is the running line for operations of no program.
    """
    for origin in _running.get():
        if lines := dict.fromkeys(filter(None, origin.lines(term))):
            return " or ".join(lines)
    return user_line()
