"""The body of a recursion in blocks: cut where it calls itself and goes on afterwards.

    block ::= operations; end
    end   ::= return results | call a [then block] | go on at block | choice i of block | ... | block

What a block needs of those before it, beside what the call gives, is its frame: it waits on a stack for the end of the
call.  A call after which nothing is left to do has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import jax.extend.core as jex

from compile_ccc.recursion.unfolding import Atom, Body, Choice, Operation, SelfCall, Step

_SHORT = 4  # operations after a choice which stand in each of its branches, rather than in a block of their own


@dataclass(frozen=True, eq=False)
class Push:
    """The block that goes on later, by its number, and the values of its frame."""

    block: int
    frame: tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Tree:
    """A block: operations, and then one of the ends, or a choice between trees.

    `results` are returned, `arguments` those of a call; where there is neither, the block that is pushed goes on.
    """

    operations: tuple[Any, ...]
    push: Push | None = None
    results: tuple[Atom, ...] | None = None
    arguments: tuple[Atom, ...] | None = None
    number: Atom = None
    branches: tuple[Tree, ...] = ()

    @property
    def ends(self) -> Iterable[Atom]:
        """What is read after the operations, but by the branches."""
        frame = () if self.push is None else self.push.frame
        chosen = () if self.number is None else (self.number,)
        return (*frame, *(self.results or ()), *(self.arguments or ()), *chosen)


@dataclass(frozen=True, eq=False)
class Block:
    """`given` are the variables of what the call before it gave, `frame` those that waited for it."""

    given: tuple[Any, ...]
    frame: tuple[Any, ...]
    tree: Tree


class Blocks:
    """The blocks of a body, the entry first, over these arguments; `outside` are variables that stay as they are."""

    def __init__(self, body: Body, arguments: Sequence[Any], outside: Iterable[Any]):
        self._outside = set(outside)
        self.blocks = [Block(tuple(arguments), (), Tree(()))]
        self.blocks[0] = Block(tuple(arguments), (), self._tree(body.steps, body.results, None))

    def _tree(self, steps: tuple[Step, ...], results: tuple[Atom, ...], then: int | None) -> Tree:
        """These steps, whose results are returned, or are the first of the frame of the block that is to go on."""
        operations: list[Any] = []
        for place, step in enumerate(steps):
            rest = steps[place + 1 :]
            match step:
                case Operation(equation):
                    operations.append(equation)
                case SelfCall(arguments, outs):
                    is_last = not rest and then is None and _same(results, outs)
                    push = None if is_last else self._pushed(self._block(outs, self._tree(rest, results, then)))
                    return Tree(tuple(operations), push, arguments=arguments)
                case Choice(number, branches, outs):
                    if not (len(rest) <= _SHORT and all(isinstance(s, Operation) for s in rest)):
                        then, results, rest = self._join(outs, self._tree(rest, results, then)), outs, ()
                    trees = [self._branch(branch, outs, rest, results, then) for branch in branches]
                    return Tree(tuple(operations), number=number, branches=tuple(trees))
                case _:
                    assert_never(step)
        if then is None:
            return Tree(tuple(operations), results=results)
        frame = (*results, *self.blocks[then].frame[len(results) :])
        return Tree(tuple(operations), Push(then, frame))

    def _branch(self, branch: Body, outs: Any, rest: Any, results: Any, then: int | None) -> Tree:
        """A branch, and the short rest after it."""
        values = dict(zip(outs, branch.results, strict=True))
        env: dict[Any, Any] = dict(values)
        steps: list[Step] = list(branch.steps)
        value = lambda a: a if type(a) is jex.Literal else env.get(a, a)
        for step in rest:
            made = [jex.Var(v.aval) for v in step.equation.outvars]
            steps.append(Operation(step.equation.replace(invars=[*map(value, step.equation.invars)], outvars=made)))
            env.update(zip(step.equation.outvars, made, strict=True))
        return self._tree(tuple(steps), tuple(map(value, results)), then)

    def _block(self, given: tuple[Any, ...], tree: Tree) -> int:
        self.blocks.append(Block(given, tuple(self.free(tree, given)), tree))
        return len(self.blocks) - 1

    def _join(self, outs: tuple[Any, ...], tree: Tree) -> int:
        """A block that goes on after a choice: its frame begins with what the branches give."""
        self.blocks.append(Block((), (*outs, *self.free(tree, outs)), tree))
        return len(self.blocks) - 1

    def _pushed(self, number: int) -> Push:
        return Push(number, self.blocks[number].frame)

    def free(self, tree: Tree, bound: Iterable[Any] = ()) -> list[Any]:
        """The variables that a tree reads, and neither binds nor finds outside."""
        found: dict[Any, None] = {}

        def walk(tree: Tree, bound: frozenset[Any]) -> None:
            made: set[Any] = set(bound)
            for equation in tree.operations:
                found.update(dict.fromkeys(a for a in equation.invars if _is_free(a, made)))
                made.update(equation.outvars)
            found.update(dict.fromkeys(a for a in tree.ends if _is_free(a, made)))
            for branch in tree.branches:
                walk(branch, frozenset(made))

        walk(tree, frozenset((*bound, *self._outside)))
        return list(found)


def _is_free(a: Atom, bound: set[Any]) -> bool:
    return type(a) is not jex.Literal and a not in bound


def _same(results: Sequence[Any], outs: Sequence[Any]) -> bool:
    return len(results) == len(outs) and all(a is b for a, b in zip(results, outs, strict=True))
