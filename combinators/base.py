"""What all terms have in common: they are interned, composed by `>>`, applied to values and printed.

Combinators take Python functions wherever they take terms.  What they make of these is an arrow that is no term: it
waits for its domain, on which functions can be traced.  Who can trace them says what such an arrow is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import singledispatch
from typing import Any, Protocol, dataclass_transform

from combinators.edges import no_keywords
from combinators.errors import ArgumentError, text
from combinators.identity.identity import OWN_KEYS, Interned, are_terms, constructors


class Combinator(Interned):
    """An arrow of the category.  `f >> g` runs f first; `f(x)` applies f to a value (several arguments are a tuple)."""

    __slots__ = ()

    def __rshift__(self, other: Any) -> Any:
        return composite(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return composite(other, self)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        no_keywords(self, keywords)
        return value_at(self, arguments)

    def __repr__(self) -> str:
        return text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How IPython and Hypothesis print terms."""
        printer.text(repr(self))

    def __reduce__(self) -> Any:
        return (type(self), tuple(getattr(self, field.name) for field in fields(self)))  # type: ignore[arg-type]

    def __copy__(self) -> Combinator:
        return self

    def __deepcopy__(self, memo: Any) -> Combinator:
        return self


@dataclass_transform(eq_default=False, frozen_default=True)
def constructor[T: Combinator](combinator: type[T]) -> type[T]:
    """The class of a constructor of terms: a frozen dataclass whose objects are interned."""
    made: Any = dataclass(frozen=True, eq=False, repr=False, slots=True)(combinator)
    made.fill = made.__init__
    del made.__init__  # which Python would call with a term that is there already
    constructors.add(made)
    OWN_KEYS.add(made)
    return made


@singledispatch
def composite(first: Any, then: Any) -> Any:
    """first >> then: `combinators.building` makes a chain of them."""
    raise NotImplementedError


@singledispatch
def value_at(arrow: Any, arguments: tuple[Any, ...]) -> Any:
    """The value of a term, or of a closure, at these arguments: `combinators.meaning.evaluate` says which."""
    raise NotImplementedError


class Ruled(Protocol):
    """What the rule of a named call gives: its derivative is what a user says (`tangents.control.ruled`)."""

    def value(self, call: Any, x: Any) -> Any:
        """The value of the call at x."""
        ...


type OwnRule = Callable[[], Ruled]  # with a `__name__`


@singledispatch
def in_program(term: Any, x: Any) -> tuple[Any] | None:
    """(term at x,) as one operation of the lambda that is being traced, or None if none is: `compile_ccc.carriers`."""
    return None


class Instance(Protocol):
    """What an operator is of functions that are known; if `constant`, its result has no derivative."""

    constant: bool

    def at(self, leaves: tuple[Any, ...], form: Any) -> tuple[Any, Any]:
        """(code, form): code from these leaves, of a type of this form, to those of the result, and its form."""
        ...


class Composable:
    """Base class of arrows that hold Python functions: `term` has holes in the place of these.

    `form` has numbers in the holes, so it is one for arrows that differ in their functions alone.
    """

    term: Any
    functions: tuple[Any, ...]

    @property
    def form(self) -> Any:
        """The term as an arrow from its functions."""
        raise NotImplementedError

    def with_functions(self, functions: Sequence[Any]) -> Composable:
        """The arrow with other functions in its holes."""
        raise NotImplementedError

    def on(self, domain: Any) -> Any:
        """The term that the arrow is on a domain, with what its functions captured as constants."""
        raise NotImplementedError


_kinds: list[Callable[[Any], Composable]] = []


def holds_functions[T: Composable](kind: type[T]) -> type[T]:
    """Makes this the class of arrows that hold functions: kind(f) holds f, and kind(term) is of a term with holes."""
    _kinds.append(kind)
    return kind


def mixed(name: str, combinator: Callable[..., Combinator], *parts: Any) -> Any:
    """combinator(*parts), a term; an arrow that waits for its domain, if the parts are not all terms.

    Raises `ArgumentError` for a part that is no term, arrow or function.
    """
    if are_terms(parts):
        return combinator(*parts)
    terms = tuple([part if isinstance(part, Combinator) else _with_holes(part) for part in parts])
    only_terms(name, terms)
    return _kinds[0](combinator(*terms))


def _with_holes(part: Any) -> Any:
    if isinstance(part, Composable):
        return part.term
    if not callable(part):
        return part
    if _kinds:
        return _kinds[0](part).term
    raise ArgumentError(
        "combinators take Python functions where these can be traced",
        expected="a term, such as C.id, C.proj(0) or C.primitive('sin')",
        got=f"{part!r} of type {type(part).__name__}",
        hint="import compile_ccc, or tangents, which trace them",
    )


def term_on(name: str, f: Any, domain: Any) -> Any:
    """The term that an arrow is on a domain; a term is itself.  Raises `ArgumentError` for what is neither."""
    if isinstance(f, Composable):
        return f.on(domain)
    only_terms(name, (f,))
    return f


def only_terms(combinator: str, parts: tuple[Any, ...], kinds: Any = Combinator) -> None:
    """Raises `ArgumentError` if one of the arguments of a function is no term, or is of none of these kinds."""
    for index, part in enumerate(parts):
        if not isinstance(part, kinds):
            raise ArgumentError(
                f"argument {index} of {combinator} is not a term",
                expected="a term, such as C.id, C.proj(0) or C.primitive('sin')",
                got=f"{part!r} of type {type(part).__name__}",
                hint="a function or arrow f becomes one by compile_ccc.trace(f, domain).term, a value by C.const(v)",
            )
