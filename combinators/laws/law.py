"""What a law is: a named equation between terms with typed metavariables, and its instances.

f : a ⇝ b, ...  ⊢  left = right : domain ⇝ codomain
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import jax

from combinators.arrays import Array
from combinators.building import compose, curry, prod
from combinators.terms import Id, Map, Primitive, Proj, Term
from combinators.types import Function, Tensor, Type

type Scheme = Any  # a type with names of type variables in it, Each for arrays, and Hom for functions


@dataclass(frozen=True)
class Each:
    """The scheme of an array of values of a scheme: of `count`, or as long as all such arrays of the law."""

    of: Scheme
    count: int | None = None

    def __repr__(self) -> str:
        count = "" if self.count is None else f"{self.count} "
        return "[]" if self.count == 0 else f"[{count}{_text(self.of)}]"


@dataclass(frozen=True)
class Hom:
    """The scheme of functions from one scheme to another."""

    dom: Scheme
    cod: Scheme

    def __repr__(self) -> str:
        return f"({self.dom} ⇝ {self.cod})"


@dataclass(frozen=True)
class Law:
    """`sides(**metavariables)` gives (left, right).

    `arrows` are the metavariables that are terms, by their domain and codomain, and `values` those that are values, by
    their type.  `plain` names the type variables that stand for types without functions, and `elements` those that
    stand in arrays, whose values need an array to have a length.  `oriented`: the optimiser replaces left by right,
    which never costs a scalar operation.  `source` says where the law is stated.
    """

    name: str
    group: str
    domain: Scheme
    codomain: Scheme
    sides: Callable[..., tuple[Term, Term]]
    arrows: Mapping[str, tuple[Scheme, Scheme]] = field(default_factory=dict)
    values: Mapping[str, Scheme] = field(default_factory=dict)
    plain: tuple[str, ...] = ()
    elements: tuple[str, ...] = ()
    oriented: bool = False
    source: str = "Curien 1986; Elliott 2018"

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


def instantiate(scheme: Scheme, types: Mapping[str, Type], length: int) -> Type:
    """The type that a scheme stands for."""
    match scheme:
        case "R":
            return Tensor(())
        case str():
            return types[scheme]
        case Each(of, count):
            return Array(length if count is None else count, instantiate(of, types, length))
        case Hom(dom, cod):
            return Function(instantiate(dom, types, length), instantiate(cod, types, length))
        case _:
            of_part = lambda part: instantiate(part, types, length) if _is_part(part) else part
            return jax.tree.map(of_part, scheme, is_leaf=_is_part)


def _is_part(node: Any) -> bool:
    return isinstance(node, str | Each | Hom)


def variables(law: Law) -> tuple[str, ...]:
    """The names of a law's type variables, sorted."""

    def of(scheme: Scheme) -> set[str]:
        match scheme:
            case str():
                return {scheme} - {"R"}
            case Each(inner, _):
                return of(inner)
            case Hom(dom, cod):
                return of(dom) | of(cod)
            case _:
                parts = filter(_is_part, jax.tree.leaves(scheme, is_leaf=_is_part))
                return set[str]().union(*map(of, parts))

    schemes = (law.domain, law.codomain, *(s for pair in law.arrows.values() for s in pair), *law.values.values())
    return tuple(sorted(set[str]().union(*map(of, schemes))))


def statement(law: Law) -> str:
    """The law in one line: its metavariables, the two sides, and their type."""
    terms = {name: Primitive(name) for name in law.arrows}
    left, right = law.sides(**terms, **{name: name for name in law.values})
    arrows = [f"{name} : {_text(dom)} ⇝ {_text(cod)}" for name, (dom, cod) in law.arrows.items()]
    values = [f"{name} : {_text(type)}" for name, type in law.values.items()]
    given = ", ".join((*arrows, *values))
    return f"{given}{' ' if given else ''}⊢ {left} = {right} : {_text(law.domain)} ⇝ {_text(law.codomain)}"


def page(laws: Iterable[Law]) -> str:
    """The page of laws for the documentation, in Markdown: a section for each group, a statement for each law."""
    rows = [
        "# The laws",
        "",
        "Printed from `C.LAWS` by `python -m diffcurry laws --page`; `python -m diffcurry laws` holds each law against",
        "every reading. A law marked → is applied by the optimiser from left to right. `[a]` is an array of a's.",
    ]
    for group, members in groupby(laws, key=lambda law: law.group):
        rows += ["", f"## {group.capitalize()}", ""]
        for law in members:
            arrow = " →" if law.oriented else ""
            rows += [f"**{law.name}**{arrow} ({law.source})", "", "```", statement(law), "```", ""]
        rows.pop()
    return "\n".join(rows) + "\n"


def _text(scheme: Scheme) -> str:
    return repr(scheme).replace("'", "")


def both(f: Term, g: Term) -> Term:
    """f × g : (a, b) ⇝ (c, d)"""
    return prod(compose(Proj(0), f), compose(Proj(1), g))


def function(f: Term) -> Term:
    """The arrow f as a constant function value : a ⇝ (b ⇝ c), for f : b ⇝ c."""
    return curry(compose(Proj(-1), f))


def mapped(f: Term) -> Term:
    """map of the arrow f : [a] ⇝ [b], for f : a ⇝ b."""
    return compose(prod(function(f), Id()), Map())
