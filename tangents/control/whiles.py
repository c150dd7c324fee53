"""Representation of while: an iterated `eval`, whose number of steps nobody knows.

    while goes_on(s): s = f(s)           forwards: every m-th state is kept, in a fixed number of slots; when they are
                                         full, every other one is dropped, and m doubles
    for each block of steps, from the last: the steps run again from a state that was kept, and their residuals are
    rows of one buffer; then the pullbacks of these steps                                           backwards

So memory is bounded, and the number of steps is not.  With `max_steps` all residuals are rows of one buffer, and no
step runs again.  In the list tangent, functions inside of the loop are what they captured: their calls are used up
there, and `Captured` stands for their list, which has no size; with `max_steps` it has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from combinators.building import compose, prod
from combinators.context import Context
from combinators.meaning.control import while_loop
from combinators.meaning.infer import carried
from combinators.terms import Case, Const, Curry, Eval, Fold, Proj, Tag, Term, While
from compile_ccc.jaxprs.recorder import aval_of
from compile_ccc.jaxprs.recording import record, run, zeros
from tangents.at_once.once import Once
from tangents.at_once.steps import Step
from tangents.control.loops import moving, repeated
from tangents.cotangents.sparse import ZERO, Cotangent, Sparse, nothing, pair, parts, plus, release
from tangents.spaces.space import Representation, Represented, Space
from tangents.spaces.widening import widening

type Rows = list[Any]

# (goes_on, f, (s, ())) ↦ f s if goes_on s, else s
_STEP = compose(
    prod(Context(Proj(1), Proj(2) >> Proj(0), prod(Proj(0), Proj(2) >> Proj(0)) >> Eval() >> Tag(2))),
    Case((Proj(1), prod(Proj(0), Proj(1)) >> Eval())),
)

_MOST, _LEAST, _BYTES = 512, 16, 2**24  # of states, and of rows of residuals, that are kept: as many as are so large


def bounded(max_steps: int) -> Term:
    """while[n] (goes_on, f, s) = fold of n steps that do nothing once the loop has ended: its calls have a list."""
    return compose(prod(prod(Context(Proj(0), Proj(1))) >> Curry(_STEP), Proj(2), Const(())), Fold(length=max_steps))


def repetition(rep: Representation, space: Space, term: While, condition: Any, f: Any, state: Any) -> Represented:
    """The rule of while, in the tangent space of environments."""
    state_type = carried(term, *release((condition, f, state)))
    state, narrowed = widening(state, state_type, space)
    asks = record(lambda s: space.eval(rep, space.hold(condition), space.hold(s))[0].value, release(state))
    goes_on = lambda s: run(asks, jax.tree.leaves(s))[0]

    def eval(s: Any, _: Any) -> Represented:
        y, pb = space.eval(rep, f, s)
        after, narrowed = widening(y, state_type, space)

        def pull(g: Cotangent) -> Cotangent:
            g_f, g_s = parts(pb(narrowed(parts(g)[0])))
            return pair(g_f, pair(g_s, ZERO))

        return (after, ()), pull

    held, found = repeated(space, term, eval, f, state, ())
    assert found
    tape, residuals, _ = found
    program, silent = (tape.giving(tape.result.values, silent=without) for without in (False, True))
    state = space.remark(release(state), held)
    form = jax.tree.structure(release(state))
    plain = Step(program, len(residuals.kept))
    quiet = Step(silent, len(residuals.kept)) if program.jaxpr.effects else plain

    def step(s: Any, once_more: bool = False) -> tuple[Any, Rows]:
        after, _, kept = (quiet if once_more else plain)(form.unflatten(s), ())
        return jax.tree.leaves(after), kept

    start = jax.tree.leaves(release(state))
    if not space.is_active(state) or all(held):
        last = while_loop(goes_on, lambda s: step(s)[0], start, term.max_steps)
        return space.remark(form.unflatten(last), held), nothing
    types = jax.eval_shape(lambda s: step(s)[1], start)
    if term.max_steps is None:
        last, backwards = _checkpointed(goes_on, step, start, types)
    else:
        last, backwards = _buffered(goes_on, step, start, types, term.max_steps)
    result = space.remark(form.unflatten(last), held)

    def pullback(g: Cotangent) -> Cotangent:
        of_last = space.arriving(g, result)
        if not of_last:
            return ZERO
        active, pulled = moving(residuals, of_last, ())
        once = Once(pulled, plain.fixed)

        def back(row: Rows, carry: Any) -> Any:
            g_s, total = carry
            added, stacked, (_, before, _) = once(plain.all_kept(row, [], []), [], g_s, {})
            g_s = {i: before[i] if i in before else zeros(g) for i, g in g_s.items()}
            return (g_s, list(map(plus, total, added))), stacked

        def block(rows: Rows, count: Any, size: int, carry: Any) -> Any:
            g_s, total = carry
            (g_s, added), stacked = _pulled(back, rows, count, (g_s, once.zeros), _rows(once.stacked, size))
            kept, valid = plain.all_rows(rows, [], [], False, once.read), jnp.arange(size, dtype=jnp.int32) < count
            sums = once.totals(added, stacked, kept, [], g_s, {}, valid=valid)
            return g_s, {i: plus(total[i], sums[i]) for i in total}

        start = {i: zeros(c) for i, c in pulled.result[0].items()}
        given = {i: g for i, g in space.filled(g, result).items() if i in active}
        g_s, total = backwards(block, (given, start))
        return Sparse({1: space.placed(total, f), 2: narrowed(space.placed(g_s, state))})

    return result, pullback


type Run = tuple[list[Any], Callable[[Callable[..., Any], Any], Any]]  # the last state, and what runs blocks backwards


def _buffered(goes_on: Any, step: Any, start: list[Any], types: Rows, max_steps: int) -> Run:
    more = lambda i, s: lax.bitwise_and(i < max_steps, goes_on(s))
    count, last, rows = _filled(more, step, start, _rows(types, max_steps))
    return last, lambda back, carry: back(rows, count, max_steps, carry)


def _checkpointed(goes_on: Any, step: Any, start: list[Any], types: Rows) -> Run:
    slots, size = _number(start), _number(types)
    only, again = lambda s: step(s)[0], partial(step, once_more=True)

    def segment(carry: Any) -> Any:
        total, every, used, kept, s = carry
        kept = [lax.dynamic_update_index_in_dim(slot, x, used, 0) for slot, x in zip(kept, s, strict=True)]
        more = lambda at: lax.bitwise_and(at[0] < every, goes_on(at[1]))
        steps, s = lax.while_loop(more, lambda at: (at[0] + 1, only(at[1])), (jnp.int32(0), s))
        full = lambda now: now[1] == slots
        every, used, kept = lax.while_loop(full, _halved, (every, used + 1, kept))
        return total + steps, every, used, kept, s

    begin = (jnp.int32(0), jnp.int32(size), jnp.int32(0), _rows(start, slots), start)
    count, every, _, kept, last = lax.while_loop(lambda carry: goes_on(carry[-1]), segment, begin)

    def backwards(back: Callable[..., Any], carry: Any) -> Any:
        def block(at: Any) -> Any:
            number, carry = at
            first = (number - 1) * size
            slot = first // every
            s = [lax.dynamic_index_in_dim(x, slot, 0, keepdims=False) for x in kept]
            away = first - slot * every
            s = lax.fori_loop(0, away, lambda _, s: again(s)[0], s)
            here = jnp.minimum(count - first, size)
            _, _, rows = _filled(lambda i, _: i < here, again, s, _rows(types, size))
            return number - 1, back(rows, here, size, carry)

        blocks = (count + size - 1) // size
        return lax.while_loop(lambda at: at[0] > 0, block, (blocks, carry))[1]

    return last, backwards


def _halved(now: Any) -> Any:
    """Every other state is dropped."""
    every, used, kept = now
    half = used // 2
    fewer = [jnp.concatenate([x[::2], jnp.zeros_like(x[1::2])]) for x in kept]
    return 2 * every, half, fewer


def _filled(more: Any, step: Any, start: list[Any], rows: Rows) -> tuple[Any, list[Any], Rows]:
    """Steps as long as there are `more`, with their residuals as rows: how many, the last state, and the rows."""

    def body(at: Any) -> Any:
        i, s, rows = at
        s, kept = step(s)
        return i + 1, s, [lax.dynamic_update_index_in_dim(row, x, i, 0) for row, x in zip(rows, kept, strict=True)]

    return lax.while_loop(lambda at: more(*at[:2]), body, (jnp.int32(0), start, rows))


def _pulled(back: Callable[..., Any], rows: Rows, count: Any, carry: Any, stacked: Rows) -> Any:
    """The pullbacks of so many steps, from the last one, and what they put out, as rows."""

    def body(at: Any) -> Any:
        i, carry, stacked = at
        row = [lax.dynamic_index_in_dim(x, i - 1, 0, keepdims=False) for x in rows]
        carry, out = back(row, carry)
        return (
            i - 1,
            carry,
            [lax.dynamic_update_index_in_dim(x, o, i - 1, 0) for x, o in zip(stacked, out, strict=True)],
        )

    return lax.while_loop(lambda at: at[0] > 0, body, (count, carry, stacked))[1:]


def _rows(types: Rows, count: int) -> Rows:
    return [jnp.zeros((count, *aval_of(t).shape), aval_of(t).dtype) for t in types]


def _number(types: Rows) -> int:
    """How many of such values are kept, a power of two."""
    size = sum(math.prod(t.shape) * t.dtype.itemsize for t in map(aval_of, types))
    fits = 1 << max(0, (_BYTES // max(1, size)).bit_length() - 1)
    return max(_LEAST, min(_MOST, fits))
