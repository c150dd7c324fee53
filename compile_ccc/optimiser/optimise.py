"""Optimising a term by the laws of `combinators.laws.table` that are oriented, from left to right.

Each rewrite is a law of the table: its left side is matched against the steps of the term, and its right side takes
their place, if what it drops prints nothing and calls nothing back.  The laws of products, of coproducts and of tags
are taken for as many components as the term has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import jax
import jax.core
import numpy as np

from combinators.base import only_terms
from combinators.building import compose
from combinators.depth import deep
from combinators.errors import DiffcurryError
from combinators.laws.table import LAWS, coproduct_beta, product_beta, tag_beta
from combinators.meaning.infer import component
from combinators.memo import remembered
from combinators.terms import Call, Case, Checkpoint, Const, Extend, Id, Inject, Prod, Proj, Scan, Tag, Term
from compile_ccc.optimiser.patterns import Form, Pattern, Steps, steps_of
from compile_ccc.optimiser.purity import Purity


@deep
def optimise(term: Term) -> Term:
    """A term that is equal by the oriented laws, and executes no more scalar operations.

    One pass, linear in the length of the term, in which equal parts are optimised once; `optimise(optimise(f))` is
    `optimise(f)`.  Terms know no types, so a law is applied where the term itself shows that it fits.  The code of a
    function stays as it is: functions are told apart by their code.
    """
    only_terms("optimise", (term,))
    return Optimiser().optimised(term)


class Optimiser:
    """One pass: what it found so far, and how often it applied which law."""

    def __init__(self) -> None:
        self.laws = Counter[str]()
        self._memo: dict[tuple[Term, Form], Term] = {}
        self._is_pure = Purity()

    def optimised(self, term: Term, form: Form = None) -> Term:
        """The term optimised for values that are products of this form, if that is known."""
        if (term, form) not in self._memo:
            result = self._chain(term, form)
            self._memo[term, form] = self._memo[result, form] = result
        return self._memo[term, form]

    def _chain(self, term: Term, form: Form) -> Term:
        """The chain, whose steps are appended one by one; those that take the place of others are looked at again."""
        done, forms, todo = list[Term](), [form], list(reversed(steps_of(term)))
        while todo:
            step = self._inside(todo.pop(), forms[-1])
            found = self._rewritten(done, forms, step)
            if found is None:
                done.append(step)
                forms.append(_form_after(step, forms[-1]))
            else:
                before, right = found
                del done[len(done) - before :], forms[len(forms) - before :]
                todo += reversed(right)
        return compose(*done)

    def _rewritten(self, done: list[Term], forms: list[Form], step: Term) -> tuple[int, Steps] | None:
        """How many of the last steps a law replaces, together with the next one, and by which steps."""
        for pattern in _patterns(done[-1] if done else None, step):
            before = len(pattern.steps) - 1
            if before > len(done):
                continue
            steps = (*done[len(done) - before :], step)
            found = pattern.right(_by_numbers(steps), forms[len(forms) - 1 - before])
            if found is not None and False not in map(self._is_pure, found[1]):
                self.laws[str(pattern.law)] += 1
                return before, found[0]
        return None

    def _inside(self, step: Term, form: Form) -> Term:
        """A step whose parts are optimised where they stand."""
        match step:
            case Prod(parts, own):
                new = tuple([self.optimised(f, form) for f in parts])
                return step if new == parts else Prod(new, own)
            case Extend(e):
                return Extend(self.optimised(e, form))
            case Case(branches):
                return Case(tuple([self.optimised(f) for f in branches]))
            case Call(body, name, rule):
                return Call(self.optimised(body, form), name, rule)
            case Checkpoint(body, policy, prevent_cse):
                return Checkpoint(self.optimised(body, form), policy, prevent_cse)
            case _:
                return step


def _form_after(step: Term, form: Form) -> Form:
    match step:
        case Id():
            return form
        case Prod(parts, own) if own == _tuple(len(parts)):
            return len(parts)
        case Scan():
            return 2
        case _:
            return None


_by_last: dict[Any, list[Pattern]] = defaultdict(list)  # by the kind of their last step; of metavariables, None
for _pattern in [Pattern(law) for law in LAWS if law.oriented]:
    if _pattern.is_applied:
        _by_last[_pattern.last].append(_pattern)


def _patterns(before: Term | None, step: Term) -> list[Pattern]:
    """The laws whose left sides may end in this step, which comes after that one."""
    return [*_of_size(before, step), *_by_last[type(step)], *(_by_last[None] if before is not None else ())]


def _of_size(before: Term | None, step: Term) -> list[Pattern]:
    """The laws of as many components, or alternatives, as there are here."""
    match before, step:
        case Prod(parts, form), Proj(key) if (i := _place(form, key)) is not None:
            return [_sized(product_beta, len(parts), i)]
        case Inject(i, n), Case(branches) if n == len(branches):
            return [_sized(coproduct_beta, n, i)]
        case Const(number), Tag(n) if _is_number(number) and 0 <= number < n:
            return [_sized(tag_beta, n, int(number))]
        case _:
            return []


def _is_number(value: Any) -> bool:
    """Whether a constant is a number of a tag, of NumPy or of JAX: they are one constant."""
    is_array = isinstance(value, np.generic | np.ndarray | jax.Array) and not isinstance(value, jax.core.Tracer)
    return is_array and value.shape == () and value.dtype == np.int32


@remembered(entries=256)
def _sized(law: Any, n: int, i: int) -> Pattern:
    return Pattern(law(n, i))


def _by_numbers(steps: Steps) -> Steps:
    """A component of a product of any form as one of a tuple: what its key is makes no difference."""
    match steps:
        case (Prod(parts, form), Proj(key)) if (i := _place(form, key)) is not None:
            return Prod(parts, _tuple(len(parts))), Proj(i)
        case _:
            return steps


@remembered(entries=256)
def _tuple(size: int) -> Any:
    return jax.tree.structure((0,) * size)


@remembered(entries=4096)
def _place(form: Any, key: Any) -> int | None:
    """Which component of a product of this form a projection takes."""
    try:
        return component(form.unflatten(range(form.num_leaves)), key)
    except DiffcurryError:
        return None
