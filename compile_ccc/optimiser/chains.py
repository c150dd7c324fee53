"""A chain while it is optimised: the steps that are done, and what is known of the values between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import jax

from combinators.context import Context
from combinators.terms import Compose, Const, Curry, Extend, Id, Inject, Primitive, Prod, Proj, Scan, Term
from combinators.types import LEAF
from compile_ccc.optimiser.liveness import Uses, is_context, steps_of

type Steps = tuple[Term, ...]
type Kind = Any  # of a context its length, of any other value a form, or LEAF; None if it may be either

PAIR = jax.tree.structure((0, 0))


def kind_after(step: Term, kind: Kind) -> Kind:
    """What can be seen of the kind of a value, by the step that gives it and the kind before."""
    match step:
        case Id():
            return kind
        case Prod(parts, form):
            return len(parts) if is_context(form) else form
        case Extend():
            return kind if kind is None else kind + 1 if isinstance(kind, int) else PAIR
        case Const(value):
            return len(value) if isinstance(value, Context) else LEAF
        case Curry() | Primitive() | Inject():
            return LEAF
        case Scan():
            return PAIR
        case Compose(steps):
            for f in steps:
                kind = kind_after(f, kind)
            return kind
        case _:
            return None


def tells(e: Term) -> bool:
    """Whether it is of use to know that a variable is bound to this: to no computation, or to a product."""
    match steps_of(e):
        case (Proj() | Const() | Prod() | Curry(),):
            return True
        case (Prod(parts, form), Curry()):
            return is_context(form) and all(map(is_free, parts))
        case _:
            return False


def is_free(f: Term) -> bool:
    """Whether nothing is computed: a variable, a component of one, or a constant."""
    return all(isinstance(step, Proj | Const) for step in steps_of(f))


@dataclass(eq=False)
class Scope:
    """What the variables of a context are bound to, by position, where that is worth knowing."""

    known: dict[int, Term] = field(default_factory=dict)
    memo: dict[tuple[Term, Kind], Term] = field(default_factory=dict)


@dataclass(eq=False, frozen=True, slots=True)
class Value:
    """What is known of a value between two steps."""

    kind: Kind
    scope: Scope = field(default_factory=Scope)


class Chain:
    """A chain that is being optimised.

    `steps` are done; `before` tells of the value before each of them, and `value` of what the last gives.  `laws`
    counts the laws that were used, and `uses` knows what terms use.
    """

    def __init__(self, domain: Value, uses: Uses, laws: Counter[str]):
        self.domain = self.value = domain
        self.uses, self.laws = uses, laws
        self.steps: list[Term] = []
        self.before: list[Value] = []

    def optimised(self, term: Term, kind: Kind) -> Term:
        """Another term, optimised for a domain of this kind."""
        raise NotImplementedError

    def law(self, name: str, *instead: Term) -> Steps:
        """The steps to do instead, by the law of this name."""
        self.laws[name] += 1
        return instead

    def last(self, n: int = 1) -> Term | None:
        """The n-th step from the end, if there are so many."""
        return self.steps[-n] if n <= len(self.steps) else None

    def pop(self) -> Term:
        """Takes the last step away."""
        step, scope = self.steps.pop(), self.value.scope
        self.value = self.before.pop()
        if isinstance(step, Extend):
            scope.known.pop(self.value.kind, None)
            scope.memo.clear()
        return step

    def append(self, step: Term) -> None:
        """Puts a step at the end."""
        kind, scope = self.value.kind, Scope()
        match step:
            case Extend(e) if isinstance(kind, int):
                scope = scope if self.value.scope is self.domain.scope else self.value.scope
                if tells(e):
                    scope.known[kind] = e
            case Prod(parts, form) if is_context(form):
                scope.known = {i: f for i, f in enumerate(parts) if isinstance(f, Const)}
            case _:
                pass
        self.steps.append(step)
        self.before.append(self.value)
        self.value = Value(kind_after(step, kind), scope)
