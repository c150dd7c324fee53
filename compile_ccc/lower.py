"""`lower`: a term as an ordinary JAX function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from combinators.base import only_terms
from combinators.depth import deep
from combinators.edges import no_keywords
from combinators.meaning.evaluate import evaluate
from combinators.meaning.host import with_own_exceptions
from combinators.meaning.infer import infer
from combinators.memo import remembered
from combinators.origins import with_origins
from combinators.records import as_records, from_records
from combinators.terms import Term
from combinators.types import pack, require_values


@deep
def lower(term: Term) -> Callable[..., Any]:
    """The arrow as an ordinary JAX function, compiled by XLA for each type of its arguments.

    `lower(term)(*args)` equals `C.evaluate(term, args)`; `jax.jit`, `jax.vmap`, `jax.grad` work over it, and it has the
    methods of a function that `jax.jit` gives, such as `.lower(*args)`.
    """
    only_terms("lower", (term,))
    return _lowered(term)


@remembered(entries=256)
def _lowered(term: Term) -> Lowered:
    @deep
    def arrow(*arguments: Any) -> Any:
        x = as_records(pack(arguments))
        infer(term, x)
        return from_records(evaluate(term, x))

    return Lowered(term, jax.jit(arrow))


class Lowered:
    """What `lower` gives: a function that JAX compiled, with our checks of its arguments in front."""

    def __init__(self, term: Term, compiled: Any):
        self._term, self._compiled = term, compiled

    @deep
    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        no_keywords(self._term, keywords)
        require_values(arguments)
        return with_own_exceptions(with_origins, self._compiled, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    def __repr__(self) -> str:
        return f"lower({self._term!r})"
