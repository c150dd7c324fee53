"""Where an expression of a random program stands: what is in scope there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tangents.strategies.choices import choose
from tangents.strategies.numbers import Numbers
from tangents.strategies.templates import LETTERS, Arrow, Kind


@dataclass(frozen=True)
class Name:
    """A variable in scope.  A function that is no value is Python's own: one can call it, or make a value of it."""

    name: str
    kind: Kind
    is_value: bool = True


@dataclass(frozen=True, eq=False)
class Place:
    """Where an expression stands: the names in scope, how large it may become, how many loops may be nested in it."""

    scope: tuple[Name, ...]
    size: int
    numbers: Numbers
    loops: int = 2

    def under(self, *bound: tuple[str, Kind], is_value: bool = True) -> Place:
        """Here with more names, which hide older ones of the same letters."""
        names = [name for name, _ in bound]
        kept = (name for name in self.scope if name.name not in names)
        return replace(self, scope=(*kept, *(Name(name, kind, is_value) for name, kind in bound)))

    def hiding(self, names: str) -> Place:
        """Here without the names of these letters, which may then be bound again."""
        return replace(self, scope=tuple(name for name in self.scope if name.name not in names))

    def share(self, parts: int) -> Place:
        """A part of an expression of so many parts."""
        return replace(self, size=(self.size - 1) // max(parts, 1))

    def free(self, kind: Kind) -> list[str]:
        """The letters for a kind that stand for nothing here."""
        return [x for x in _letters(kind) if x not in [name.name for name in self.scope]]

    def variables(self, kind: Kind) -> list[str]:
        """The values of a kind in scope, and those in dicts and vectors; the latest name first."""
        found: list[str] = []
        for name in reversed(self.scope):
            match name.kind:
                case k if k == kind and name.is_value:
                    found.append(name.name)
                case "P" if kind == "S":
                    found.append(f"{name.name}[0]")
                case "D" if kind in ("S", "V"):
                    found.append(f"{name.name}['{'a' if kind == 'S' else 'b'}']")
                case "V" if kind == "S":
                    found.append(f"{name.name}[1]")
                case _:
                    pass
        return found

    def definitions(self, kind: Kind) -> list[str]:
        """Python's own functions of a kind."""
        return [name.name for name in self.scope if name.kind == kind and not name.is_value]

    def callees(self, kind: Kind) -> list[tuple[str, list[tuple[Kind, ...]]]]:
        """The functions in scope that lead to a kind, and what they are called with in turn."""
        found: list[tuple[str, list[tuple[Kind, ...]]]] = []
        for name in reversed(self.scope):
            doms: list[tuple[Kind, ...]] = []
            result = name.kind
            while isinstance(result, Arrow):
                doms, result = [*doms, result.dom], result.cod
                if result == kind:
                    found.append((name.name, doms))
        return found


def parameters(draw: st.DrawFn, kinds: Sequence[Kind]) -> list[str]:
    """Distinct names for variables of these kinds."""
    names: list[str] = []
    for kind in kinds:
        names.append(choose(draw, [x for x in _letters(kind) if x not in names]))
    return names


def _letters(kind: Kind) -> str:
    return LETTERS["F" if isinstance(kind, Arrow) else kind]
