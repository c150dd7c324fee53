"""Deciding whether two terms are equal by the laws, with evidence.

βη-equality of products, contexts and exponentials over opaque primitives is decided by normal forms: equal terms have
one.  Loops and sums obey further laws, so where those occur, terms of different normal forms may still be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import jax

from combinators.base import term_on
from combinators.depth import deep
from combinators.edges import whole
from combinators.errors import BudgetError, UndecidedError, UnsupportedError
from combinators.meaning.infer import abstract
from combinators.normal.canonical import term_of
from combinators.normal.graph import Graph, Node, reachable
from combinators.normal.normalise import STEPS, normalise, stated, within_budget
from combinators.normal.quote import read_back
from combinators.normal.semantics import Run
from combinators.sums import Sum
from combinators.terms import Case, Cata, Fix, Fold, Inherit, Inject, Map, Scan, Term, While, parts
from combinators.text.sharing import length
from combinators.text.show import brief, show_marked
from combinators.types import Type, type_of

_SHORT = 200  # terms of so many combinators are shown whole


@dataclass(frozen=True, repr=False)
class Equality:
    """What `equal` finds.  `verdict` is True, False, or None for undecided, and `reason` then says why.

    `left` and `right` are the normal forms, None where none was found.  `laws` counts the laws that both
    normalisations applied, by name.  The text is the evidence.  As a truth value an undecided equality raises
    `UndecidedError`, so that neither `if equal(...)` nor `if not equal(...)` takes it for an answer.
    """

    verdict: bool | None
    left: Term | None
    right: Term | None
    laws: dict[str, int] = field(default_factory=dict)
    reason: str = ""

    def __bool__(self) -> bool:
        if self.verdict is None:
            raise UndecidedError(
                "it is not decided whether these terms are equal",
                expected="True or False",
                got=self.reason,
                hint="look at .verdict, which may be None, or print the equality",
            )
        return self.verdict

    def __str__(self) -> str:
        words = {True: "equal by the laws", False: "not equal by the laws", None: f"undecided: {self.reason}"}
        laws = ", ".join(f"{name} ({count})" for name, count in self.laws.items())
        return "\n".join((words[self.verdict], *self._evidence(), f"  laws applied: {laws or 'none'}"))

    __repr__ = __str__

    def _evidence(self) -> Iterator[str]:
        if self.left is self.right is not None:
            yield from _titled("both are", self.left, ())
            return
        path = () if self.left is None or self.right is None else _difference(self.left, self.right)
        yield from _titled("left", self.left, path)
        yield from _titled("right", self.right, path)


@deep
def equal(f: Term, g: Term, domain: Type, steps: int = STEPS, *, codomain: Type = None) -> Equality:
    """Whether f = g : domain ⇝ ? follows from the laws, primitives and constants being opaque, and equal calls one.

    Decided by normal forms, which `Equality` holds as evidence.  Undecided are terms of different normal forms in which
    a loop or a sum is left, those that take more than `steps`, and loops and open cases that carry functions.  `steps`
    and `codomain` are as for `normalise`.  Raises what `infer` raises, and `CompositionError` if the codomains differ.
    """
    whole("the number of steps", steps, 0)
    f, g = term_on("equal", f, domain), term_on("equal", g, domain)
    type = abstract(type_of(domain))
    runs: list[Run] = []
    try:
        with within_budget(steps):
            graph = Graph()
            runs += [Run(graph, term, steps) for term in (f, g)]
            left, right = read_back(runs, [run.start(type) for run in runs], stated(codomain))
    except (BudgetError, UnsupportedError) as error:
        found = (_found(term, type, steps, codomain) for term in (f, g))
        return Equality(True if f is g else None, *found, laws=_laws(runs), reason=error.what)
    reason = "" if left is right else _further_laws(left, right, type)
    verdict = True if left is right else None if reason else False
    return Equality(verdict, term_of(left, type), term_of(right, type), _laws(runs), reason)


def _laws(runs: list[Run]) -> dict[str, int]:
    total = sum((run.laws for run in runs), Counter[str]())
    return {name: count for name, count in sorted(total.items()) if count}


def _found(term: Term, domain: Type, steps: int, codomain: Type) -> Term | None:
    try:
        return normalise(term, domain, steps, codomain=codomain)
    except (BudgetError, UnsupportedError):
        return None


def _further_laws(left: Node, right: Node, domain: Type) -> str:
    """Why different normal forms do not decide, if they do not."""
    nodes = list(reachable(left, right))
    if any(isinstance(node.head, Fold | Scan | Map | While | Cata | Inherit) for node in nodes):
        return "a loop is left, which obeys more laws than normal forms know"
    if any(isinstance(node.head, Fix) for node in nodes):
        return "a recursion is left, which obeys more laws than normal forms know"
    is_sum = lambda type: any(isinstance(part, Sum) for part in jax.tree.leaves(type, is_leaf=_is_sum))
    if is_sum(domain) or any(isinstance(node.head, Case | Inject) or is_sum(node.type) for node in nodes):
        return "a sum is left, which obeys more laws than normal forms know"
    return ""


def _is_sum(type: Type) -> bool:
    return isinstance(type, Sum)


def _difference(left: Term, right: Term) -> tuple[int, ...]:
    """The way to the first part in which two terms differ."""
    path: list[int] = []
    while type(left) is type(right) and len(parts(left)) == len(parts(right)):
        pairs = enumerate(zip(parts(left), parts(right), strict=True))
        differing = [(i, pair) for i, pair in pairs if pair[0] is not pair[1]]
        if not differing:
            break
        index, (left, right) = differing[0]
        path.append(index)
    return tuple(path)


def _titled(title: str, term: Term | None, path: tuple[int, ...]) -> Iterator[str]:
    """A side of the evidence; of a long term, the place where it differs."""
    if term is None:
        text = "not found"
    elif (size := length(term)) <= _SHORT:
        text = brief(term)
    elif path:
        text = show_marked(term, path)
    else:
        text = f"a term of {size} combinators"
    yield f"  {title}:"
    yield from (f"    {line}" for line in text.splitlines())
