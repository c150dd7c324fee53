"""Normalisation by evaluation: a term runs on an unknown, and what comes out is written down again.

Equal terms come out alike, so their normal forms are one term.  The semantics is in `semantics`, the way back in
`quote` (values to a graph of normal forms, `neutral`) and `canonical` (that graph to a term).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from combinators.base import term_on
from combinators.depth import deep
from combinators.edges import whole
from combinators.errors import BudgetError, DepthError
from combinators.meaning.infer import abstract
from combinators.normal.canonical import term_of
from combinators.normal.graph import Graph
from combinators.normal.quote import read_back
from combinators.normal.semantics import Exhausted, Run
from combinators.terms import Term
from combinators.types import UNKNOWN, Type, type_of

STEPS = 100_000


@deep
def normalise(term: Term, domain: Type, steps: int = STEPS, *, codomain: Type = None) -> Term:
    """The βη-normal form of `term` on `domain`, a type or values: an equal term, one for all terms that are equal.

    Its text is `Context(id)`, unless the domain is a context already, then one `extend` for each operation that is
    left, then the result.  Primitives, constants and loops are opaque, but equal calls are one; a function is always a
    `curry`, and what does not depend on its argument is computed outside of it, as it is for branches and loops.
    `codomain` is needed only where a result is a function whose `curry` has no annotation.

    A step reads one combinator; reading the term once is free, and a function is read at each of its calls.  Raises
    `BudgetError` beyond `steps`, `UnsupportedError` where a loop or an open `case` carries functions, and what
    `infer` raises.
    """
    whole("the number of steps", steps, 0)
    term = term_on("normalise", term, domain)
    type = abstract(type_of(domain))
    with within_budget(steps):
        run = Run(Graph(), term, steps)
        (root,) = read_back([run], [run.start(type)], stated(codomain))
        return term_of(root, type)


def stated(codomain: Type) -> Type:
    """A codomain as it is given by users."""
    return UNKNOWN if codomain is None else abstract(type_of(codomain))


@contextmanager
def within_budget(steps: int) -> Generator[None]:
    """Makes a `BudgetError` of an exhausted run, and of calls that nest too deeply."""
    try:
        yield
    except Exhausted:
        raise BudgetError(
            f"normalisation takes more than {steps} steps",
            expected=f"at most {steps} combinators read, beyond reading the term once",
            hint="a higher-order program can have an exponential normal form; if this one has not, give more `steps`",
        ) from None
    except RecursionError:
        raise DepthError(
            "normalisation nests deeper than Python's stack",
            expected="functions that call each other, and parts within parts, some thousands deep at most",
            hint="what is long as a chain of steps, or as an array, takes no room on the stack",
        ) from None
