"""Optimising a term by the laws of `combinators.laws.table` that are oriented, from left to right.

    id >> f = f,   f >> id = f                                              category: left identity, right identity
    prod(f0, f1, ...) >> proj(i) = fi                                       products: β
    prod(f0, f1, ...) >> prod(proj(i), ...) = prod(fi, ...)                 products: β, for several projections
    extend(e) >> proj(-1) = e                                               products: let β
    extend(e) >> f = f                for an f that does not read e         products: let weakening
    prod(curry(f), e) >> eval = extend(e) >> f                              exponentials: β in a context
    prod(Context(a, ...) >> curry(f), e) >> eval = Context(a, ..., e) >> f  exponentials: β in a context
    prod(g >> curry(f), e) >> eval = prod(g, e) >> f                        exponentials: β
    f >> const(v) = const(v)                                                const: const absorbs
    const(i) >> tag(n) = const(()) >> inject(i, n)                          coproducts: tag
    inject(i, n) >> case(f0, f1, ...) = fi                                  coproducts: β
    extend(e >> inject(i, n)) >> case(f0, f1, ...) = extend(e) >> fi        coproducts: β, in a context
    case(f >> inject(0, 2), g >> inject(1, 2)) >> case(h, k)
        = case(f >> h, g >> k)                                              coproducts: distributivity
    prod(curry(proj(-1)), e) >> map = e                                     map and fold: map of id
    prod(curry(f >> prod(g, unit)), s, e) >> scan >> proj(0)
        = prod(curry(f >> g), s, e) >> fold                                 map and fold: fold is a silent scan

A variable that is bound to another variable, a constant, a product or a function that can be seen stands for that.  A
computation is never repeated, and never moves into or out of a branch or a loop; what prints or calls back stays.

Terms know no types, so a law is applied only where the term itself shows that it fits: after `prod(Context(...))` it
can be seen which variable `proj(0)` is, on an unknown domain it can not.  Functions are told apart by their code, so
the code of a function that may go elsewhere stays as it is; of one that is applied in sight, or run by a loop, the body
is optimised.
"""

from __future__ import annotations

from collections import Counter

from combinators.base import only_terms
from combinators.building import compose
from combinators.depth import deep
from combinators.terms import Call, Case, Checkpoint, Const, Eval, Extend, Fold, Id, Map, Prod, Proj, Scan, Tag, Term
from compile_ccc.optimiser.chains import Chain, Kind, Scope, Steps, Value
from compile_ccc.optimiser.liveness import Uses, alive, renumbered, steps_of
from compile_ccc.optimiser.rewrites import applied, chosen, from_start, iterated, projected, rearranged, tagged


@deep
def optimise(term: Term) -> Term:
    """A term that is equal by the laws and executes no more scalar operations.  The module's text lists the laws.

    One pass, which visits about as many combinators as `C.infer` does, without recursion on the length of chains.
    `optimise(optimise(f)) is optimise(f)`.
    """
    only_terms("optimise", (term,))
    return Optimiser().optimised(term, None)


class Optimiser:
    """One pass: what it found so far, and how often it applied which law."""

    def __init__(self) -> None:
        self.laws = Counter[str]()
        self.uses = Uses()
        self._memo: dict[tuple[Term, Kind], Term] = {}

    def optimised(self, term: Term, kind: Kind, scope: Scope | None = None) -> Term:
        """The term optimised for a domain of this kind; once for all places where the same is known."""
        known = scope if scope is not None and scope.known else None
        if isinstance(term, Proj) and known is None:
            return from_start(term, kind)
        memo = self._memo if known is None else known.memo
        if (term, kind) not in memo:
            result = Rewriting(self, Value(kind, known or Scope())).run(term)
            memo[term, kind] = memo[result, kind] = result
        return memo[term, kind]


class Rewriting(Chain):
    """The steps of a term, appended one by one and rewritten where a law applies."""

    def __init__(self, optimiser: Optimiser, domain: Value):
        super().__init__(domain, optimiser.uses, optimiser.laws)
        self.optimiser = optimiser

    def optimised(self, term: Term, kind: Kind) -> Term:
        return self.optimiser.optimised(term, kind)

    def run(self, term: Term) -> Term:
        """The optimised chain.  Steps that are put instead of others are looked at again."""
        todo = list(reversed(steps_of(term)))
        while todo:
            step = self._inside(todo.pop())
            instead = self._rewritten(step)
            if instead is None:
                self.append(step)
            else:
                todo.extend(reversed(instead))
        lengths = [value.kind if isinstance(value.kind, int) else None for value in (*self.before, self.value)]
        return compose(*alive(self.steps, lengths, self.uses))

    def _inside(self, step: Term) -> Term:
        """A step whose parts are optimised where they stand."""
        kind, scope = self.value.kind, self.value.scope
        match step:
            case Prod(parts, form):
                new = tuple([self.optimiser.optimised(f, kind, scope) for f in parts])
                return step if new == parts else Prod(new, form)
            case Extend(e):
                new = self.optimiser.optimised(e, kind, scope)
                return step if new is e else Extend(new)
            case Case(branches):
                on = kind if isinstance(kind, int) else None  # of a pair, it is not known what stands before the sum
                new = tuple([self.optimiser.optimised(f, on) for f in branches])
                return step if new == branches else Case(new)
            case Call(body, name, rule):
                new = self.optimiser.optimised(body, kind)
                return step if new is body else Call(new, name, rule)
            case Checkpoint(body, policy, prevent_cse):
                new = self.optimiser.optimised(body, kind)
                return step if new is body else Checkpoint(new, policy, prevent_cse)
            case Proj():
                return from_start(step, kind)
            case _:
                return step

    def _rewritten(self, step: Term) -> Steps | None:
        """The steps to do instead of this one, after taking away those that they replace; None if there are none."""
        if shorter := self._weakened(step):
            return (shorter,)
        match step:
            case Id():
                return self.law(f"category: {'right' if self.steps else 'left'} identity")
            case Const() if self.steps and self.uses.is_pure_after(self.last(2), self.steps[-1]):
                self.pop()
                return self.law("const: const absorbs", step)
            case Prod():
                return rearranged(self, step)
            case Proj():
                return projected(self, step)
            case Eval():
                return applied(self)
            case Tag() if isinstance(number := self.last(), Const):
                return tagged(self, step, number)
            case Case():
                return chosen(self, step)
            case Fold() | Scan() | Map():
                return iterated(self, step)
            case _:
                return None

    def _weakened(self, step: Term) -> Term | None:
        """Takes the last lets away if `step` reads none of them; gives the step without them, whose own lets move."""
        n = self.value.kind
        if isinstance(step, Extend) or not isinstance(n, int) or not isinstance(self.last(), Extend):
            return None
        reads = self.uses.reads(step, n)
        while reads is not None and isinstance(let := self.last(), Extend) and self._is_unread(let, reads):
            self.law("products: let weakening")
            self.pop()
        left = self.value.kind
        return renumbered(step, lambda i: i if i < left else i - n + left) if left < n else None

    def _is_unread(self, let: Extend, reads: frozenset[int]) -> bool:
        return self.value.kind - 1 not in reads and self.uses.is_pure(let.value)
