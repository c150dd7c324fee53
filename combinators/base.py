"""What all terms have in common: they are interned, composed by `>>`, applied to values and printed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, dataclass_transform

from combinators.edges import no_keywords
from combinators.errors import ArgumentError
from combinators.identity import Interned


class Composable:
    """Base class of what is no term, and stands beside terms in `f >> g`."""

    __slots__ = ()


class Term(metaclass=Interned):
    """An arrow of the category.  `f >> g` runs f first; `f(x)` applies f to a value (several arguments are a tuple)."""

    __slots__ = ("__weakref__", "depth", "facts", "programs")
    facts: dict[Any, Any]  # what tables remember of it
    depth: int  # how many combinators are within each other, this one included
    programs: int  # how many of them hold a program of their own for JAX
    holds_program: ClassVar[bool] = False

    def __rshift__(self, other: Any) -> Term:
        from combinators.terms import compose

        return NotImplemented if isinstance(other, Composable) else compose(self, other)

    def __rrshift__(self, other: Any) -> Term:
        from combinators.terms import compose

        return compose(other, self)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        from combinators.evaluate import apply_term

        no_keywords(self, keywords)
        return apply_term(self, arguments)

    def __repr__(self) -> str:
        from combinators.show import brief

        return brief(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How IPython and Hypothesis print terms."""
        printer.text(repr(self))

    def __reduce__(self) -> Any:
        return (type(self), tuple(getattr(self, field.name) for field in fields(self)))  # type: ignore[arg-type]

    def __copy__(self) -> Term:
        return self

    def __deepcopy__(self, memo: Any) -> Term:
        return self


@dataclass_transform(eq_default=False, frozen_default=True)
def combinator[T: Term](constructor: type[T]) -> type[T]:
    """The class of a constructor of terms: a frozen dataclass whose objects are interned."""
    return dataclass(frozen=True, eq=False, repr=False, slots=True)(constructor)


def only_terms(combinator: str, parts: tuple[Any, ...]) -> None:
    """Raises `ArgumentError` if one of the arguments of a function is no term."""
    for index, part in enumerate(parts):
        if not isinstance(part, Term):
            raise ArgumentError(
                f"argument {index} of {combinator} is not a term",
                expected="a term, such as C.id, C.proj(0) or C.primitive('sin')",
                got=f"{part!r} of type {type(part).__name__}",
                hint="a function or arrow f becomes one by compile_ccc.trace(f, domain).term, a value by C.const(v)",
            )
