"""What the trace of a Python function is, and what is known of the arguments that it is made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from combinators.context import Context
from combinators.depth import check_depth
from combinators.origins import Origin
from combinators.terms import Curry
from combinators.types import Function, Type
from combinators.values import Closure, depth_of
from compile_ccc.again import Run
from compile_ccc.asking.answers import Answers
from compile_ccc.lambda_terms import Lam
from compile_ccc.watching.before import Before, Still
from compile_ccc.watching.handed import Order, Written
from compile_ccc.watching.ran import Ran
from compile_ccc.watching.watch import Watch


@dataclass(frozen=True)
class Traced:
    """A traced lambda: its λ-term, its code, the type of its result, and where its environment comes from.

    `value` is the code of the function value, which goes anywhere: it says for which environment it was traced.
    """

    lam: Lam
    code: Curry
    value: Curry
    cod: Type
    sources: tuple[tuple[bool, int], ...]  # (whether a constant met in tracing, its place) for each free variable
    constants: tuple[Any, ...]
    fixed: tuple[int, ...]  # which inputs are code
    origin: Origin
    ran: Ran  # the functions that ran
    read: Watch  # what it read beside what the function captured
    answers: Answers | None = None  # what Python was told of its inputs
    shared: tuple[int, ...] = ()  # places among what the function shares that functions in the program reach, too
    written: tuple[Written, ...] = ()  # what it changed in its arguments
    order: Order = ()  # of the entries of these, see `Given`

    def closure(self, values: list[Any]) -> Closure:
        captured = [(self.constants if met else values)[i] for met, i in self.sources]
        f = Closure(self.value, Context(*captured), self.origin)
        if Closure not in map(type, captured):
            return f
        check_depth(depth_of(f))
        f.known_type = bool(jax.config.jax_enable_x64), Function(self.lam.parameter.type, self.cod)
        return f


@dataclass(frozen=True)
class Given:
    """What is known of the arguments of a function: their leaves, and the places of those that is differentiated by.

    Those that are not are the caller's `own`, the others None; `order` is that of the entries of the dictionaries in
    them.
    When the function has run, `at_end` puts values in the place of tracers that it left somewhere; `run` puts back what
    it has changed before it runs once more.  `before` is what it reaches beside its arguments.  Both are None if nobody
    has looked.
    """

    leaves: tuple[Any, ...] = ()
    varied: frozenset[int] = frozenset()
    own: tuple[Any, ...] = ()
    order: Order = ()
    at_end: Callable[[Callable[[Any], Any]], Any] = lambda _: None
    run: Run | None = None
    before: Before | Still | None = None


NOT_GIVEN = Given()
