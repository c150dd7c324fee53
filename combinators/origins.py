"""Where functions come from: what the program that made one knows of it, for readers.

Names of variables and the user's lines take no part in equality, and compiled code is one for all functions of equal
code.  So it is given functions that have numbers in place of origins, and says by these which of them came out where;
from outside, each call gives its own functions their own origins back.  What comes out of a program that JAX traces and
keeps, as a `jax.jit` of the user's does, has no origins from those functions that it was traced with.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import jax

from combinators.errors import user_line


class Origin:
    """What is known of the program that a function comes from.  Of terms written by hand it is nothing."""

    __slots__ = ("__weakref__",)

    def __deepcopy__(self, _: Any) -> Origin:
        return self

    def names(self, code: Any) -> tuple[str, ...] | None:
        """The names of the variables that this code captures, in the order of its environment, if they are known."""
        return None

    def lines(self, term: Any) -> Iterator[str]:
        """The user's lines at which the program has this operation; empty ones where the user wrote none."""
        yield from ()


NOWHERE = Origin()
UNKNOWN = Origin()  # of functions that come out of a program of JAX


class Given(Origin):
    """The origin of the function with this number among those that compiled code is given.

    While the code is traced, it is known what the first function with this number comes from.
    """

    __slots__ = ("_first", "number")

    def __init__(self, number: int, first: Origin | None = None):
        self.number, self._first = number, weakref.ref(first or NOWHERE)  # JAX keeps this with what it traced

    def names(self, code: Any) -> tuple[str, ...] | None:
        return (self._first() or NOWHERE).names(code)


class Lent(Origin):
    """The origin of a function that JAX hands in to a program which it traces: it holds in this trace alone."""

    __slots__ = ("origin",)

    def __init__(self, origin: Origin):
        self.origin = origin

    def names(self, code: Any) -> tuple[str, ...] | None:
        return self.origin.names(code)

    def lines(self, term: Any) -> Iterator[str]:
        return self.origin.lines(term)


class Table(Origin):
    """Names by the bodies of codes, and no lines: what another process can know."""

    __slots__ = ("table",)

    def __init__(self, table: dict[Any, tuple[str, ...]]):
        self.table = table

    def names(self, code: Any) -> tuple[str, ...] | None:
        return self.table.get(code.body)


class Joint(Origin):
    """What several programs know together; names on which they differ are not known."""

    __slots__ = ("origins",)

    def __init__(self, origins: Sequence[Origin]):
        self.origins = origins

    def names(self, code: Any) -> tuple[str, ...] | None:
        known = {names for origin in self.origins if (names := origin.names(code)) is not None}
        return known.pop() if len(known) == 1 else None

    def lines(self, term: Any) -> Iterator[str]:
        for origin in self.origins:
            yield from origin.lines(term)


def joint(origins: Sequence[Origin]) -> Origin:
    """What these programs know together."""
    known = list(dict.fromkeys([origin for origin in origins if type(origin) not in (Origin, Given)]))
    if len(known) < 2:
        return known[0] if known else NOWHERE
    return Lent(Joint(known)) if any(isinstance(origin, Lent) for origin in known) else Joint(known)


type Relabelling = Callable[[Any], Origin]
relabelling: ContextVar[Relabelling | None] = ContextVar("relabelling", default=None)  # of functions in pytrees
_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python
_running: ContextVar[tuple[Origin, ...]] = ContextVar("running", default=())  # innermost first


def of_function(of_head: Origin, is_staged: Callable[[], bool]) -> Origin:
    """The origin of a function that is put together from such a head; `is_staged` says whether in a trace of JAX."""
    if type(of_head) in (Origin, Given) or relabelling.get():
        return of_head
    return UNKNOWN if isinstance(of_head, Lent) else Lent(of_head) if is_staged() else of_head


def is_of_jax(f: Any) -> bool:
    """Whether a function went into, or came out of, a program that JAX traces and keeps."""
    return f.origin is UNKNOWN or isinstance(f.origin, Lent)


def relabelled(x: Any, origin: Relabelling) -> Any:
    """The value with other origins of its functions, which are met from the outside inwards; itself if it has none."""
    if isinstance(x, jax.Array):
        return x
    met = False

    def noted(f: Any) -> Origin:
        nonlocal met
        met = True
        return origin(f)

    token = relabelling.set(noted)
    try:
        leaves, form = _flatten(x, None)
        return form.unflatten(leaves) if met else x
    finally:
        relabelling.reset(token)


def of_form(form: Any, leaves: Any) -> Any:
    """The value of a form with these leaves.  Its functions have the origins that are in the form, in any trace."""
    token = relabelling.set(lambda f: f.origin)
    try:
        return form.unflatten(leaves)
    finally:
        relabelling.reset(token)


def anonymous(x: Any) -> Any:
    """The value without the origins of the functions in it."""
    return relabelled(x, lambda _: NOWHERE)


def numbered(x: Any, named: bool = True) -> tuple[Any, list[Origin]]:
    """The value with numbers in place of the origins of its functions, and these; `named` if names can be asked for."""
    given: list[Origin] = []

    def number(f: Any) -> Origin:
        given.append(f.origin)
        return Given(len(given) - 1, f.origin if named else None)

    return relabelled(x, number), given


def restored(x: Any, given: list[Origin], others: Origin = NOWHERE) -> Any:
    """The value with these origins in place of their numbers, and others for functions of which nothing is known."""

    def origin(f: Any) -> Origin:
        own = f.origin
        return given[own.number] if isinstance(own, Given) else others if type(own) is Origin else own

    return relabelled(x, origin)


def with_origins(run: Callable[..., Any], *arguments: Any) -> Any:
    """run(*arguments), compiled code: functions that pass have the origins that they were given with.

    Functions that the code makes have those of all that it was given.
    """
    numbered_arguments, given = numbered(arguments)
    together = joint(given)
    token = _running.set((together, *_running.get()))
    try:
        result = run(*numbered_arguments)
    finally:
        _running.reset(token)
    return restored(result, given, together)


def source_line(term: Any) -> str:
    """The user's line of an operation of the program that is running, all of them if it has several.

    That is the running line for operations of no program.
    """
    for origin in _running.get():
        if lines := dict.fromkeys(filter(None, origin.lines(term))):
            return " or ".join(lines)
    return user_line()
