"""Representation of fold, scan and map: an iterated `eval`, in whichever tangent space for functions.

    s1, pb1 = eval (f, (s0, x0));  s2, pb2 = eval (f, (s1, x1));  ...         forward, one `lax.scan`
    pullback: gs, gx, gf from the last pullback to the first; gf summed        backward, one `lax.scan`

What f captured gets the sum of its cotangents over the iterations; a list tangent is stacked instead, and becomes one
block of calls with a leading axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from combinators import staging
from combinators.fixpoint import Fixpoints, fixpoint
from combinators.meaning.infer import carried
from combinators.terms import Fold, Scan, Term
from compile_ccc.jaxprs.recorder import Tape, aval_of
from compile_ccc.jaxprs.recording import record, recorded, row_types, zeros
from compile_ccc.jaxprs.scans import scan
from tangents.at_once.ahead import ahead
from tangents.at_once.once import Once
from tangents.at_once.steps import Step
from tangents.cotangents.calls import Calls
from tangents.cotangents.residuals import Pulled, Residuals
from tangents.cotangents.sparse import ZERO, Cotangent, Sparse, nothing, pair, parts, plus, release
from tangents.spaces.space import Representation, Represented, Space
from tangents.spaces.widening import widening

type Found = dict[int, Cotangent]  # cotangents by the numbers of their leaves
type Marks = tuple[bool, ...]  # of leaves: whether they are held


def loop(
    rep: Representation,
    space: Space,
    term: Fold | Scan,
    f: Any,
    state: Any,
    xs: Any,
    by_captures: Callable[[], Represented] | None = None,
) -> Represented:
    """The rule of scan, whose steps give (state, output); a fold is a scan whose steps put out ().

    With functions as leaves of its state, whose list of calls would grow with every step, it is that `by_captures`.
    """
    scans, x_marks = isinstance(term, Scan), space.marks(xs)
    state_type = carried(term, *release((f, state, xs)))
    state, narrowed = widening(state, state_type, space)

    def step(s: Any, x: Any) -> Represented:
        y, pb = space.eval(rep, f, (s, space.remark(x, x_marks)))
        after, out = y if scans else (y, ())
        after, narrowed = widening(after, state_type, space)

        def pull(g: Cotangent) -> Cotangent:
            g_after, g_out = parts(g)
            g_after = narrowed(g_after)
            return pb(pair(g_after, g_out) if scans else g_after)

        return (after, out), pull

    held, found = repeated(space, term, step, f, state, xs)
    if found is None:
        assert by_captures
        return by_captures()
    tape, residuals, out_marks = found
    program = tape.giving(tape.result.values)
    state = space.remark(release(state), held)
    steps = term.length if term.length is not None else len(jax.tree.leaves(release(xs))[0])
    states, inputs = len(jax.tree.leaves(release(state))), jax.tree.leaves(release(xs))
    products, program = ahead(program, states, inputs)
    run = Step(program, len(residuals.kept), states, len(inputs))

    body = run.alone(lambda after, out, kept: (after, (out, kept)))
    last, (outputs, kept) = scan(body, release(state), [*inputs, *products], term.length, term.reverse, term.unroll)
    saved, ends = run.saved(kept, outputs), jax.tree.leaves(last)
    last, outputs = space.remark(last, held), space.remark(outputs, out_marks)

    def pullback(g: Cotangent) -> Cotangent:
        g_last, g_outputs = parts(g) if scans else (g, ZERO)
        of_last, of_rows = space.arriving(g_last, last), space.arriving(g_outputs, outputs)
        if not (of_last or of_rows):
            return ZERO
        active, pulled = moving(residuals, of_last, of_rows)
        once = Once(pulled, run.fixed, steps)

        def backward(carry: Any, row: Any) -> Any:
            (g_s, total, after), (saved, x, g_out) = carry, row
            kept = run.all_kept(saved, x, after)
            added, stacked, (calls, before, g_x) = once(kept, x, g_s, g_out)
            g_s = {i: before[i] if i in before else zeros(g_s[i]) for i in g_s}
            return (g_s, list(map(plus, total, added)), run.before(kept)), (stacked, calls, g_x)

        start = {i: g for i, g in space.filled(g_last, last).items() if i in active}
        after = [ends[leaf] for leaf in run.carried]
        (g_s, added, _), (stacked, calls, g_x) = scan(
            backward, (start, once.zeros, after), (saved, inputs, of_rows), term.length, not term.reverse, term.unroll
        )
        kept = run.all_rows(saved, inputs, after, term.reverse, once.read)
        total = once.totals(added, stacked, kept, inputs, start, of_rows)
        g_f = space.placed({**total, **_stacked(calls)}, f)
        return _triple(g_f, narrowed(space.placed(g_s, state)), space.placed(_stacked(g_x), xs))

    result = (last, outputs) if scans else last
    return result, pullback if space.is_active(result) else nothing


def repeated(
    space: Space, term: Term, step: Callable[[Any, Any], Represented], f: Any, state: Any, xs: Any
) -> tuple[Marks, tuple[Tape, Residuals, Marks] | None]:
    """Which leaves of the state are held in every step; a step as what it writes down, its pullback, marks of outputs.

    (s, x) ↦ ((s after it, output), λ (gs, gout). (gf, (gs, gx))); None if functions are leaves of the state.
    """
    outside = jax.tree.leaves(release(f))

    def attempt(held: Marks) -> tuple[Marks, tuple[Tape, Residuals, Marks] | None]:
        """A step whose state has these marks: which of these hold after it, and what it is."""

        def forward(s: Any, x: Any) -> _Written:
            (after, out), pb = step(space.remark(s, held), x)
            stays = tuple(h and now for h, now in zip(held, space.marks(after), strict=True))
            if stays != held:
                return _Written(stays)
            after = space.remark(release(after), held)

            def pull(g_s: Found, g_out: Found) -> tuple[Found, Found, Found]:
                g_f, g_arguments = parts(pb(pair(space.placed(g_s, after), space.placed(g_out, out))))
                g_s, g_x = parts(g_arguments)
                return space.present(g_f, f), space.present(g_s, state), space.present(g_x, xs)

            examples = (space.structs(after), space.structs(out))
            residuals = Residuals(pull, examples, outside, jax.tree.leaves(x), opened=True)
            return _Written(stays, (release(after), release(out), residuals.kept), residuals, space.marks(out))

        if space.has_functions(space.remark(release(state), held)):
            return held, None
        tape = Tape(forward, release(state), row_types(release(xs)))
        return tape.result.stays, (tape, tape.result.residuals, tape.result.out_marks)

    leaves, form = jax.tree.flatten(release((f, state, xs)))
    key = (space, term, form, space.marks((f, state, xs)), tuple(map(aval_of, leaves)), staging.settings())
    return _held.of(key, space.marks(state), attempt)


class _Written(NamedTuple):
    """What is written down of a step: which leaves of the state stay held, and if it is as supposed, all the rest."""

    stays: Marks
    values: Any = ()
    residuals: Any = None
    out_marks: Marks = ()


_held = Fixpoints[Marks]("held loop states")  # a leaf of the state stays held only if no step makes it active


def mapping(rep: Representation, space: Space, f: Any, xs: Any) -> Represented:
    """The rule of map: every row has its own pullback; cotangents of what f captured are summed over the rows."""
    x_marks, outside = space.marks(xs), jax.tree.leaves(release(f))
    made: list[Any] = []

    def forward(x: Any) -> Any:
        y, pb = space.eval(rep, f, space.remark(x, x_marks))

        def pull(g: Found) -> tuple[Found, Found]:
            g_f, g_x = parts(pb(space.placed(g, y)))
            return space.present(g_f, f), space.present(g_x, xs)

        residuals = Residuals(pull, (space.structs(y),), outside, jax.tree.leaves(x), opened=True)
        made[:] = [residuals, space.marks(y)]
        return release(y), residuals.kept

    program = record(forward, row_types(release(xs)), stays=True)
    residuals, y_marks = made
    run, inputs = Step(program, len(residuals.kept), 0, again=False), jax.tree.leaves(release(xs))
    ys, kept = jax.vmap(run)(release(xs))
    saved = run.saved(kept, ys)
    ys = space.remark(ys, y_marks)

    def pullback(g: Cotangent) -> Cotangent:
        of_rows = space.arriving(g, ys)
        once = Once(residuals.at(of_rows), run.fixed)

        def backward(saved: list[Any], x: list[Any], g_y: Found) -> Any:
            return once(run.all_kept(saved, x, []), x, g_y)

        added, stacked, (calls, g_x) = jax.vmap(recorded(backward))(saved, inputs, of_rows)
        added = [jnp.sum(c, 0, dtype=c.dtype) for c in added]
        kept = run.all_rows(saved, inputs, [], False, once.read)
        total = once.totals(added, stacked, kept, inputs, of_rows)
        return pair(space.placed({**_stacked(calls), **total}, f), space.placed(_stacked(g_x), xs))

    return ys, pullback if space.is_active(ys) else nothing


def moving(residuals: Residuals, of_last: Iterable[int], of_rows: Iterable[int]) -> tuple[frozenset[int], Pulled]:
    """The leaves of the state whose cotangents arrive in some step, and the pullback of a step for these."""

    def reached(active: frozenset[int]) -> tuple[frozenset[int], None]:
        _, found, _ = residuals.reached(active, of_rows)
        return active.union(i for i, flags in found.items() if any(jax.tree.leaves(flags))), None

    def given(active: frozenset[int]) -> tuple[frozenset[int], Pulled]:
        pulled = residuals.at(active, of_rows)
        return active.union(pulled.result[1]), pulled

    active, _ = fixpoint(frozenset(of_last), reached)
    return fixpoint(active, given)  # a rule of the user's may give what depends on none of them


def _stacked(found: Found) -> Found:
    return {i: c.stacked() if isinstance(c, Calls) else c for i, c in found.items()}


def _triple(*components: Cotangent) -> Cotangent:
    return Sparse(enumerate(components))
