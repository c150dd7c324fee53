"""What a random term is asked for: an arrow from a domain to a codomain, and what the domain has to offer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import jax
from hypothesis import strategies as st

from combinators.building import compose
from combinators.context import Context, extend
from combinators.sums import Sum
from combinators.terms import Id, Proj, Term
from combinators.types import Function, Tensor, Type, children, is_discrete, same_type
from tangents.strategies.choices import number
from tangents.strategies.numbers import Numbers


@dataclass(frozen=True, eq=False)
class Goal:
    """An arrow to find: domain ⇝ codomain, of about `size` combinators, with loops and branches if `control`."""

    domain: Type
    codomain: Type
    size: int
    numbers: Numbers
    kinks: bool = False
    control: bool = True

    def to(self, codomain: Type, share: float = 1.0) -> Goal:
        """A part of the arrow, with its share of what size is left."""
        return replace(self, codomain=codomain, size=int((self.size - 1) * share))

    def under(self, bound: Type) -> Goal:
        """The same where a variable of this type is bound."""
        return replace(self, domain=extend(self.domain, bound))

    def variables(self) -> list[Term]:
        """What the domain has of the codomain."""
        return [f for f, type in variables(self.domain) if same_type(type, self.codomain)]

    def callees(self) -> list[tuple[Term, list[Type]]]:
        """The functions of the domain that lead to the codomain, and the types of what they are applied to in turn."""
        found: list[tuple[Term, list[Type]]] = []
        for f, type in variables(self.domain):
            doms: list[Type] = []
            while isinstance(type, Function):
                doms, type = [*doms, type.dom], type.cod
                if same_type(type, self.codomain):
                    found.append((f, doms))
        return found


@singledispatch
def arrows(goal: Any) -> st.SearchStrategy[Term]:
    """Arrows that a goal asks for: see `tangents.strategies.terms`."""
    raise NotImplementedError


def variables(domain: Type) -> Iterator[tuple[Term, Type]]:
    """What a domain holds, with its types: entries of a context, another domain itself, and the components of these."""
    if isinstance(domain, Context):
        entries = [(Proj(i), type) for i, type in enumerate(domain)]
        yield from reversed([*entries, *((Proj(-1), type) for type in list(domain)[-1:])])
    else:
        entries = [(Id(), domain)]
        yield Id(), domain
    for _ in range(2):
        entries = [
            (Proj(key) if isinstance(f, Id) else compose(f, Proj(key)), type)
            for f, product in entries
            if not isinstance(product, Tensor | Function | Sum)
            for key, type in children(product)[0]
        ]
        yield from entries


def is_real(type: Type) -> bool:
    """Whether a type is that of arrays of reals."""
    return isinstance(type, Tensor) and not is_discrete(type)


def has_functions(type: Type) -> bool:
    """Whether values of a type hold functions."""
    return any(isinstance(leaf, Function) for leaf in jax.tree.leaves(type))


def has_sums(type: Type) -> bool:
    """Whether values of a type hold sums."""
    return any(isinstance(t, Sum) for t in jax.tree.leaves(type, is_leaf=lambda t: isinstance(t, Sum)))


def together(draw: st.DrawFn, goal: Goal, *codomains: Type) -> tuple[Term, ...]:
    """Arrows to each codomain, which share the size; now and then one arrow stands in two places."""
    made: list[Term] = []
    for i, type in enumerate(codomains):
        repeats = i > 0 and same_type(type, codomains[i - 1]) and number(draw, 5) == 5
        made.append(made[-1] if repeats else draw(arrows(goal.to(type, 1 / len(codomains)))))
    return tuple(made)
