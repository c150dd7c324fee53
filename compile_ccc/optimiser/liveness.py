"""What terms read of a context, which of them may be left out, and chains of lets without those that nobody reads.

    extend(e) >> f = f    if f does not read the last variable, and e has no effect         let weakening, renumbered

Variables are projections by position, counted from 0, wherever the length of the context is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax.extend.core as jex

from combinators.building import compose, prod
from combinators.context import Context
from combinators.errors import DiffcurryError
from combinators.meaning.infer import component
from combinators.memo import remembered
from combinators.terms import (
    Call,
    Case,
    Cata,
    Checkpoint,
    Compose,
    Const,
    Curry,
    Eval,
    Extend,
    Fix,
    Fold,
    Inherit,
    Map,
    Primitive,
    Prod,
    Proj,
    Scan,
    Solve,
    Term,
    While,
)

type Reads = frozenset[int] | None  # the variables that a term reads; None: it takes the context as a whole


def steps_of(term: Term) -> tuple[Term, ...]:
    """The steps of a chain; any other term is the one step of itself."""
    return term.steps if isinstance(term, Compose) else (term,)


@remembered(entries=1024)
def is_context(form: Any) -> bool:
    """Whether a product of this form is a context."""
    return isinstance(form.unflatten(range(form.num_leaves)), Context)


class Uses:
    """Facts about terms, each found once."""

    def __init__(self) -> None:
        self._reads: dict[tuple[Term, int], Reads] = {}
        self._pure: dict[Term, bool] = {}

    def reads(self, term: Term, n: int | None) -> Reads:
        """What a term reads of a context of n variables."""
        if n is None:
            return None
        if (term, n) not in self._reads:
            self._reads[term, n] = self._chain_reads(steps_of(term), n)
        return self._reads[term, n]

    def reads_all(self, terms: Iterable[Term], n: int | None) -> Reads:
        """What several terms read together."""
        found: set[int] = set()
        for term in dict.fromkeys(terms):
            inner = self.reads(term, n)
            if inner is None:
                return None
            found.update(inner)
        return frozenset(found)

    def _chain_reads(self, steps: tuple[Term, ...], n: int) -> Reads:
        found: set[int] = set()
        for bound, step in enumerate(steps, n):
            inner = self.reads(step.value, bound) if isinstance(step, Extend) else self._step_reads(step, bound)
            if inner is None:
                return None
            found.update(i for i in inner if i < n)
            if not isinstance(step, Extend):
                return frozenset(found)
        return None

    def _step_reads(self, step: Term, n: int) -> Reads:
        match step:
            case Const():
                return frozenset()
            case Proj(key) if isinstance(key, int) and 0 <= key < n:
                return frozenset((key,))
            case Prod(parts):
                return self.reads_all(parts, n)
            case Case(branches) if n:
                inner = self.reads_all(branches, n)
                return None if inner is None else inner | {n - 1}
            case _:
                return None

    def is_pure(self, term: Term) -> bool:
        """Whether a term may be left out where its result is not needed: nothing in it prints or calls back.

        That is not known of the call of a function which is not visible.
        """
        if term not in self._pure:
            steps = steps_of(term)
            pairs = zip((None, *steps), steps, strict=False)
            self._pure[term] = False not in [self.is_pure_after(before, step) for before, step in pairs]
        return self._pure[term]

    def is_pure_after(self, before: Term | None, step: Term) -> bool:
        """The same of a step of a chain, by the step before it."""
        match step:
            case Primitive():
                return _is_silent(step)
            case Prod(parts) | Case(parts):
                return False not in [self.is_pure(f) for f in parts]
            case Extend(e) | Call(e) | Checkpoint(e):
                return self.is_pure(e)
            case Solve() | Cata() | Inherit() | While() | Fix():  # which may not end either
                return False
            case Eval() | Fold() | Scan() | Map():
                f = steps_of(before.parts[0])[-1] if isinstance(before, Prod) and before.parts else None
                return isinstance(f, Curry) and self.is_pure(f.body)
            case _:
                return True


@remembered(entries=4096)
def _is_silent(term: Primitive) -> bool:
    named = any(word in term.name for word in ("callback", "debug"))
    return not named and not any(program.effects for program in jex.jaxprs_in_params(dict(term.params)))


@remembered(entries=4096)
def place(form: Any, key: Any) -> int | None:
    """Which component of a product of this form a projection takes."""
    try:
        return component(form.unflatten(range(form.num_leaves)), key)
    except DiffcurryError:
        return None


def rearrangement(last: Term | None, step: Term, uses: Uses) -> Prod | None:
    """One product for prod(f0, f1, ...) >> prod(proj(i), ...), if that is what these two are, and it is equal."""
    if not (isinstance(last, Prod) and isinstance(step, Prod)):
        return None
    if not all(isinstance(f, Proj | Const) for f in step.parts):
        return None
    places: dict[Term, Any] = {f: place(last.form, f.key) for f in step.parts if isinstance(f, Proj)}
    taken = set(places.values())
    if None in taken or not all(uses.is_pure(f) for i, f in enumerate(last.parts) if i not in taken):
        return None
    return Prod(tuple(last.parts[places[f]] if f in places else f for f in step.parts), step.form)


def renumbered(term: Term, move: Callable[[int], int]) -> Term:
    """A term over a context whose variables have moved.  It does not take the context as a whole."""
    known: dict[Term, Term] = {}

    def of(term: Term) -> Term:
        if term not in known:
            known[term] = chain(term)
        return known[term]

    def chain(term: Term) -> Term:
        steps = steps_of(term)
        lets = next((i for i, step in enumerate(steps) if not isinstance(step, Extend)), len(steps))
        return compose(*[single(step) for step in steps[: lets + 1]], *steps[lets + 1 :])

    def single(step: Term) -> Term:
        match step:
            case Proj(key):
                return Proj(move(key))
            case Prod(parts, form):
                return Prod(tuple([of(f) for f in parts]), form)
            case Extend(e):
                return Extend(of(e))
            case Case(branches):
                return Case(tuple([of(f) for f in branches]))
            case _:
                return step

    return of(term)


class _Places:
    """Where the variables of a context are after some were dropped: the first `base` at their place, then `later`."""

    def __init__(self, base: int):
        self.base, self.later, self.length = base, list[int](), base

    def bind(self, live: bool) -> None:
        """One more variable."""
        self.later.append(self.length if live else -1)
        self.length += live

    def moved(self, term: Term) -> Term:
        """A term over the old context as one over the new."""
        base, later, old, new = self.base, self.later, self.base + len(self.later), self.length
        if old == new:
            return term
        return renumbered(term, lambda i: i if i < base else later[i - base] if i < old else i - old + new)


def alive(steps: list[Term], lengths: list[int | None], uses: Uses) -> list[Term]:
    """A chain without the lets, and the entries of contexts, that nobody reads.

    `lengths` says how many variables there are before each step and at the end; None where no context is visible.
    """
    if not any(lengths[1:]):
        return steps
    kept: list[Term] = []
    places = _Places(lengths[0] or 0)
    for step, after, live in zip(steps, lengths[1:], _live(steps, lengths, uses), strict=True):
        match step:
            case Extend() if after is not None:
                if live is None:
                    kept.append(places.moved(step))
                places.bind(live is None)
            case Prod(parts) if live is not None:
                entries = prod(Context(*(places.moved(parts[i]) for i in live)))
                while kept and (together := rearrangement(kept[-1], entries, uses)):
                    entries = together
                    kept.pop()
                kept.append(entries)
                places = _Places(0)
                for i in range(len(parts)):
                    places.bind(i in live)
            case _:
                kept.append(places.moved(step))
                places = _Places(after or 0)
    return kept


def _live(steps: list[Term], lengths: list[int | None], uses: Uses) -> list[dict[int, None] | None]:
    """For each step what it binds that somebody reads, or None if that is all."""
    found: list[dict[int, None] | None] = []
    needed: set[int] | None = None  # of what there is after the step; None: all of it
    for step, n in zip(reversed(steps), reversed(lengths[:-1]), strict=True):
        live = None
        match step:
            case Extend(e) if n is not None and needed is not None:
                if n not in needed and uses.is_pure(e):
                    live = {}
                elif (inner := uses.reads(e, n)) is None:
                    needed = None
                else:
                    needed.discard(n)
                    needed.update(inner)
            case Extend():
                pass
            case Prod(parts, form) if needed is not None and len(needed) < len(parts) and is_context(form):
                live = {i: None for i, f in enumerate(parts) if i in needed or not uses.is_pure(f)}
                needed = _changeable(uses.reads_all([parts[i] for i in live], n))
            case _:
                needed = _changeable(uses.reads(step, n))
        found.append(live)
    return found[::-1]


def _changeable(reads: Reads) -> set[int] | None:
    return None if reads is None else set(reads)
