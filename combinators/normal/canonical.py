"""From the graph of normal forms to its canonical text: a term again.

A scope is what an abstraction binds, or the whole.  Its context holds what comes from outside, then its variable, then
one `let` for each operation that depends on the variable, depth first from the result.  What does not depend on it is
bound further out, where its last variable is.  The text depends on nothing but the graph.
"""

from __future__ import annotations

from collections.abc import Iterable

import jax

from combinators.building import compose, prod
from combinators.context import Context
from combinators.depth import bottom_up
from combinators.normal.graph import Abstraction, Node, Product, Variable
from combinators.terms import Case, Const, Curry, Extend, Id, Prod, Proj, Term
from combinators.types import Type


def term_of(root: Node, domain: Type) -> Term:
    """The term : domain ⇝ ? of a normal form, whose one free variable is the domain, of level 0."""
    codes: Codes = {}
    bottom_up(root, lambda node: node.operands, lambda node, _: _add_code(node, codes), {})
    if isinstance(domain, Context):
        return _Scope(root, None, codes).term(Id(), len(domain))
    return compose(prod(Context(Id())), _Scope(root, None, codes).term(Proj(0), 1))


type Codes = dict[Node, tuple[Curry, tuple[Node, ...]]]  # of abstractions: their code, and what it captures


def _add_code(node: Node, codes: Codes) -> None:
    """The code of an abstraction, inside of which the codes are known."""
    head = node.head
    if isinstance(head, Abstraction):
        scope = _Scope(node.operands[0], head.level, codes)
        body = scope.term(Proj(len(scope.captured)), len(scope.captured) + 1)
        codes[node] = Curry(body, head.argument), tuple(scope.captured)


class _Scope:
    """What is bound at one level: `order` lists it, operands first; `captured` comes from outside, by first use."""

    def __init__(self, root: Node, level: int | None, codes: Codes):
        self.root, self.level, self.codes = root, level, codes
        self.captured: dict[Node, int] = {}
        self.order: list[Node] = []
        seen: set[Node] = set()
        todo = [(root, False)]
        while todo:
            node, operands_done = todo.pop()
            if operands_done:
                self.order.append(node)
            elif node not in seen:
                seen.add(node)
                if self._is_outside(node):
                    self.captured[node] = len(self.captured)
                elif not isinstance(node.head, Variable):
                    todo.append((node, True))
                    todo += [(part, False) for part in reversed(self._uses(node))]

    def term(self, variable: Term, bound: int) -> Term:
        """The scope as a chain of lets, over a context of `bound` entries in which `variable` is its variable."""
        terms: dict[Node, Term] = {node: Proj(place) for node, place in self.captured.items()}
        lets: list[Term] = []
        for node in self.order:
            expression = self._expression(node, terms, variable)
            if isinstance(node.head, Const | Proj | Product):
                terms[node] = expression
            elif node is self.root:
                return compose(*lets, expression)
            else:
                terms[node] = Proj(bound + len(lets))
                lets.append(Extend(expression))
        return compose(*lets, terms.get(self.root, variable))

    def _is_outside(self, node: Node) -> bool:
        """Constants are written where they are used, and products are made there of what comes from outside."""
        inside = self.level is None or node.free >> self.level & 1
        return not inside and not isinstance(node.head, Const | Product)

    def _uses(self, node: Node) -> list[Node]:
        """What must be there before the node is written."""
        match node.head:
            case Abstraction():
                return list(self.codes[node][1])
            case Case():
                return [*self._captures(node), node.operands[0]]
            case _:
                return list(node.operands)

    def _expression(self, node: Node, terms: dict[Node, Term], variable: Term) -> Term:
        def of(nodes: Iterable[Node]) -> tuple[Term, ...]:
            return tuple(terms.get(node, variable) for node in nodes)

        match node.head:
            case Abstraction():
                code, captured = self.codes[node]
                return compose(prod(Context(*of(captured))), code)
            case Product(form):
                return Prod(of(node.operands), form)
            case Case():
                captured = self._captures(node)
                branches = Case(tuple(self._branch(branch, captured) for branch in node.operands[1:]))
                return compose(prod(Context(*of(captured), *of(node.operands[:1]))), branches)
            case Variable() | Const():
                return node.head  # type: ignore[return-value]
            case head if len(node.operands) == 1:
                return compose(*(f for f in of(node.operands) if f is not Id()), head)
            case head:
                return compose(Prod(of(node.operands), jax.tree.structure((0,) * len(node.operands))), head)

    def _captures(self, case: Node) -> list[Node]:
        """What all branches of a case capture together."""
        branches = [branch for branch in case.operands[1:] if isinstance(branch.head, Abstraction)]
        return list(dict.fromkeys(node for branch in branches for node in self.codes[branch][1]))

    def _branch(self, branch: Node, captured: list[Node]) -> Term:
        """A branch over the context of what all of them capture; where there is no such alternative, `id`."""
        if not isinstance(branch.head, Abstraction):
            return Id()
        code, own = self.codes[branch]
        places = (*map(captured.index, own), len(captured))
        restriction = () if len(own) == len(captured) else (prod(Context(*map(Proj, places))),)
        return compose(*restriction, code.body)
