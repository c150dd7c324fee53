"""The blocks of a recursion as one loop: a block a step, and a stack of frames for the calls that wait.

    while running: the block with the number of the one that is next runs; it puts a frame on the stack, or does not;
                   and then a call enters the first block, or a return takes the topmost frame off

A recursion in which no call waits has no stack: it is a `while` on its argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax import lax

from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recording import run
from compile_ccc.recursion.blocks import Block, Tree
from compile_ccc.recursion.guarded import guarded, has_loop

type Values = list[Any]
type Env = dict[Any, Any]  # the values of variables


class Now(NamedTuple):
    """What a block finds: the number of the block that waits below it, arguments, results, and its frame.

    Under `jax.vmap`, lanes in which it is another block's turn are not `here`; None if there is no other.
    """

    below: Any
    arguments: Values
    results: Values
    frame: Values
    here: Any


class Machine:
    """Blocks, the types of their result, and how many frames the stack has at most."""

    def __init__(self, blocks: Sequence[Block], results: Sequence[Any], max_depth: int):
        self._blocks, self._results, self._depth = blocks, list(results), max_depth
        frames = [Counter(map(_kind, block.frame)) for block in blocks]
        kinds = dict.fromkeys(kind for frame in frames for kind in frame)
        self._slots = [kind for kind in kinds for _ in range(max(frame[kind] for frame in frames))]

    def run(self, outside: Env, x: Values) -> tuple[Values, Any]:
        """The results for these arguments, and whether the stack was too small; `outside` are the values outside."""
        arguments = [_strong(v, p.aval) for v, p in zip(x, self._blocks[0].given, strict=True)]
        results = [jnp.zeros(t.shape, t.dtype) for t in self._results]
        if len(self._blocks) == 1:
            return self._tail(outside, arguments, results), jnp.bool_(False)
        numbers = jnp.zeros(self._depth, jnp.int32)
        stack = [jnp.zeros((self._depth, *shape), dtype) for shape, dtype in self._slots]
        zero = jnp.int32(0)
        start = (jnp.bool_(True), jnp.bool_(False), zero, zero, arguments, results, numbers, stack)
        last = lax.while_loop(lambda s: s[0], lambda s: self._step(outside, *s[1:]), start)
        return last[5], last[1]

    def _tail(self, outside: Env, arguments: Values, results: Values) -> Values:
        def step(state: Any) -> Any:
            _, arguments, results = state
            env = {**outside, **dict(zip(self._blocks[0].given, arguments, strict=True))}
            now = Now(jnp.int32(0), arguments, results, [], None)
            _, _, _, calls, arguments, results = self._end(self._blocks[0].tree, env, now)
            return calls, arguments, results

        return lax.while_loop(lambda s: s[0], step, (jnp.bool_(True), arguments, results))[2]

    def _step(
        self,
        outside: Env,
        deep: Any,
        block: Any,
        top: Any,
        arguments: Values,
        results: Values,
        numbers: Any,
        stack: Any,
    ) -> Any:
        """One block, which finds its frame at `top`."""
        now = Now(_row(numbers, top - 1), arguments, results, [_row(rows, top) for rows in stack], None)
        of = lambda i: lambda: self._run(self._blocks[i], outside, now._replace(here=block == i))
        ends = [of(i) for i in range(len(self._blocks))]
        block, push, frame, calls, arguments, results = lax.switch(block, ends)
        numbers = _written(numbers, push, top)
        stack = [_written(rows, row, top) for rows, row in zip(stack, frame, strict=True)]
        pushes = push > 0
        deep = pushes & (top >= self._depth)
        top = top + lax.convert_element_type(pushes, jnp.int32)
        running = (calls | (top > 0)) & ~deep
        return running, deep, block, jnp.where(calls, top, top - 1), arguments, results, numbers, stack

    def _run(self, block: Block, outside: Env, now: Now) -> Any:
        given = now.arguments if block is self._blocks[0] else now.results[: len(block.given)]
        waited = [now.frame[i] for i in self._places(block.frame)]
        env = {**outside, **dict(zip((*block.given, *block.frame), (*given, *waited), strict=True))}
        return self._end(block.tree, env, now)

    def _places(self, variables: Sequence[Any]) -> list[int]:
        """The slots of the variables of a frame."""
        free: dict[Any, list[int]] = {}
        for place, kind in enumerate(self._slots):
            free.setdefault(kind, []).append(place)
        return [free[_kind(v)].pop(0) for v in variables]

    def _end(self, tree: Tree, env: Env, now: Now) -> Any:
        """What the end of a tree does: which block is next, which one is pushed, or 0, and its frame; whether it calls.

        What there is nothing to put in the place of stays as it is now.
        """
        env = {**env, **_after(tree, env, now.here)}
        value = lambda a: a.val if type(a) is jex.Literal else env[a]
        if tree.number is not None:
            return lax.switch(value(tree.number), [lambda t=t: self._end(t, env, now) for t in tree.branches])
        block, push, frame, arguments, results = now.below, 0, list(now.frame), now.arguments, now.results
        if tree.push is not None:
            push, pushed = tree.push.block, self._blocks[tree.push.block]
            for place, variable, a in zip(self._places(pushed.frame), pushed.frame, tree.push.frame, strict=True):
                frame[place] = _strong(value(a), variable.aval)
            block = jnp.int32(push)
        if tree.arguments is not None:
            pairs = zip(tree.arguments, self._blocks[0].given, strict=True)
            arguments, block = [_strong(value(a), p.aval) for a, p in pairs], jnp.int32(0)
        if tree.results is not None:
            results = [_strong(value(a), t) for a, t in zip(tree.results, self._results, strict=True)]
        return block, jnp.int32(push), frame, jnp.bool_(tree.arguments is not None), arguments, results


def _after(tree: Tree, env: Env, here: Any) -> Env:
    """The values that the operations of a tree give."""
    made = dict.fromkeys(v for equation in tree.operations for v in equation.outvars)
    read = {a for equation in tree.operations for a in equation.invars if type(a) is not jex.Literal}
    inputs = [v for v in read if v not in made]
    program = Program([], inputs, list(made), list(tree.operations))
    values = [env[v] for v in inputs]
    if here is not None and has_loop(tree.operations):
        return dict(zip(made, guarded(program.jaxpr, values, here), strict=True))
    return dict(zip(made, run(program, values), strict=True)) if made else {}


def _kind(variable: Any) -> Any:
    return variable.aval.shape, variable.aval.dtype


def _row(rows: Any, place: Any) -> Any:
    """The row at this place, or the first one for a negative place."""
    sizes = (1, *rows.shape[1:])
    return jex.primitives.dynamic_slice_p.bind(rows, *_at(rows, place), slice_sizes=sizes).reshape(rows.shape[1:])


def _written(rows: Any, row: Any, place: Any) -> Any:
    """The rows with another one at this place, which is that of `_row`: both are at one variable of the program."""
    return jex.primitives.dynamic_update_slice_p.bind(rows, row[None], *_at(rows, place))


def _at(rows: Any, place: Any) -> list[Any]:
    return [place, *[np.int32(0)] * (rows.ndim - 1)]


def _strong(value: Any, aval: Any) -> Any:
    """A value in exactly this type, which is its own but for its being weak."""
    return lax.convert_element_type(value, aval.dtype)
