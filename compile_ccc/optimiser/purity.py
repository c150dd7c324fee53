"""Which terms may be left out where their results are not needed."""

from __future__ import annotations

import jax.extend.core as jex

from combinators.memo import remembered
from combinators.terms import (
    Call,
    Case,
    Checkpoint,
    Compose,
    Const,
    Curry,
    Extend,
    Id,
    Inject,
    Primitive,
    Prod,
    Proj,
    Tag,
    Term,
)


class Purity:
    """Whether nothing in a term prints or calls back, found once for each term.

    It is not known of the call of a function, nor of a loop or a recursion, which may not end either.
    """

    def __init__(self) -> None:
        self._known: dict[Term, bool] = {}

    def __call__(self, term: Term) -> bool:
        if term not in self._known:
            self._known[term] = self._found(term)
        return self._known[term]

    def _found(self, term: Term) -> bool:
        match term:
            case Id() | Proj() | Const() | Curry() | Inject() | Tag():
                return True
            case Primitive():
                return _is_silent(term)
            case Compose(parts) | Prod(parts) | Case(parts):
                return False not in map(self, parts)
            case Extend(e) | Call(e) | Checkpoint(e):
                return self(e)
            case _:
                return False


@remembered(entries=4096)
def _is_silent(term: Primitive) -> bool:
    named = any(word in term.name for word in ("callback", "debug"))
    return not named and not any(program.effects for program in jex.jaxprs_in_params(dict(term.params)))
