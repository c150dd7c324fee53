"""The oriented laws as patterns: their left sides, matched against the steps of a term; metavariables match any term.

Terms know no types, so a law is applied where the term itself shows that it fits: one on any value everywhere, one on
a tuple after a product of that form, and one on a sum, or on arrays of a stated length, nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from combinators.building import compose
from combinators.laws.law import Each, Law, Scheme
from combinators.terms import Case, Compose, Const, Curry, Extend, Primitive, Prod, Term, parts

type Steps = tuple[Term, ...]
type Form = Any  # of a value that is seen to be a tuple, how many components it has; else None

ANY = "any"


def steps_of(term: Term) -> Steps:
    """The steps of a chain; any other term is the one step of itself."""
    return term.steps if isinstance(term, Compose) else (term,)


@dataclass(frozen=True)
class _Value:
    """What stands in a pattern for any value."""

    name: str


class Pattern:
    """The left side of a law as `steps`; `form` is that of the values on which the law holds, or `ANY`."""

    def __init__(self, law: Law):
        self.law, self.form = law, _form(law.domain)
        holes = {name: Primitive(f"?{name}") for name in law.arrows}
        left, right = law.sides(**holes, **{name: _Value(name) for name in law.values})
        self.steps = steps_of(left)
        self.is_applied = self.form is not None and left is not right
        self._holes: dict[Term, str] = {hole: name for name, hole in holes.items()}
        self.last = None if self.steps[-1] in self._holes else type(self.steps[-1])
        within = _within(right)
        self._dropped = [name for name, hole in holes.items() if hole not in within]
        self._makes_functions = Curry in map(type, within)  # a function that the law makes has no annotation

    def right(self, steps: Sequence[Term], form: Form) -> tuple[Steps, list[Term]] | None:
        """The right side, if these steps on a value of this form are the left; and what of them it does not have."""
        bound: dict[str, Any] = {}
        if self.form not in (ANY, form) or not self._all(self.steps, tuple(steps), bound):
            return None
        return steps_of(self.law.sides(**bound)[1]), [bound[name] for name in self._dropped]

    def _all(self, patterns: Steps, terms: Steps, bound: dict[str, Any]) -> bool:
        return all(self._matches(p, term, bound) for p, term in zip(patterns, terms, strict=True))

    def _matches(self, pattern: Term, term: Term, bound: dict[str, Any]) -> bool:
        """Whether a term is an instance of a pattern; `bound` is what metavariables stand for."""
        if (name := self._holes.get(pattern)) is not None:
            return bound.setdefault(name, term) is term
        match pattern, term:
            case Const(_Value(name)), Const(value):
                return bound.setdefault(name, value) is value
            case Prod(patterns, form), Prod(terms, other) if form == other:
                return self._all(patterns, terms, bound)
            case Case(patterns), Case(terms) if len(patterns) == len(terms):
                return self._all(patterns, terms, bound)
            case Extend(inner), Extend(part):
                return self._matches(inner, part, bound)
            case Curry(inner), Curry(part, argument) if argument is None or not self._makes_functions:
                return self._matches(inner, part, bound)
            case Compose(patterns), _:
                return self._chain(patterns, steps_of(term), bound)
            case _:
                return pattern is term

    def _chain(self, patterns: Steps, steps: Steps, bound: dict[str, Any]) -> bool:
        """In a chain, the first metavariable stands for all the steps that the others leave."""
        at = next((i for i, p in enumerate(patterns) if p in self._holes), 0)
        end = len(steps) - (len(patterns) - at - 1)
        return at <= end and self._all(patterns, (*steps[:at], compose(*steps[at:end]), *steps[end:]), bound)


def _within(term: Term) -> set[Term]:
    return {term}.union(*map(_within, parts(term)))


def _form(domain: Scheme) -> Form:
    match domain:
        case str() | Each(_, None):
            return ANY
        case tuple() if all(_form(part) is ANY for part in domain):
            return len(domain)
        case _:
            return None
