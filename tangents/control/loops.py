"""Representation of fold, scan and map: an iterated `eval`, in whichever tangent space for functions.

    s1, pb1 = eval (f, (s0, x0));  s2, pb2 = eval (f, (s1, x1));  ...         forward, one `lax.scan`
    pullback: gs, gx, gf from the last pullback to the first; gf summed        backward, one `lax.scan`

What f captured gets the sum of its cotangents over the iterations; a list tangent is stacked instead, and becomes one
block of calls with a leading axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

from combinators import staging
from combinators.fixpoint import Fixpoints, fixpoint
from combinators.meaning.infer import carried
from combinators.terms import Fold, Scan
from combinators.values import Closure
from compile_ccc.jaxprs.programs import Program
from compile_ccc.jaxprs.recorder import aval_of
from compile_ccc.jaxprs.recording import record, recorded, row_types, zeros
from compile_ccc.jaxprs.scans import scan
from tangents.at_once.ahead import ahead
from tangents.at_once.once import Once
from tangents.at_once.steps import Step
from tangents.cotangents.calls import Calls
from tangents.cotangents.leaves import arriving, filled, placed, present, structs
from tangents.cotangents.residuals import Pulled, Residuals
from tangents.cotangents.sparse import (
    ZERO,
    Cotangent,
    IsLeaf,
    Sparse,
    is_active,
    marks,
    nothing,
    pair,
    parts,
    plus,
    release,
    remark,
)
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
    leaf, scans = space.is_leaf, isinstance(term, Scan)
    x_marks, outside = marks(xs, leaf), jax.tree.leaves(release(f))
    state_type = carried(term, *release((f, state, xs)))
    state, narrowed = widening(state, state_type, leaf)

    def step(s: Any, x: Any, s_marks: Marks) -> Represented:
        y, pb = space.eval(rep, f, (remark(s, s_marks, leaf), remark(x, x_marks, leaf)))
        after, out = y if scans else (y, ())
        after, narrowed = widening(after, state_type, leaf)

        def pull(g: Cotangent) -> Cotangent:
            g_after, g_out = parts(g)
            g_after = narrowed(g_after)
            return pb(pair(g_after, g_out) if scans else g_after)

        return (after, out), pull

    def attempt(held: Marks) -> tuple[Marks, tuple[Program, Residuals, Marks] | None]:
        """A step whose state has these marks: which of these hold after it, and its program."""
        made: list[Any] = []

        def forward(s: Any, x: Any) -> Any:
            (after, out), pb = step(s, x, held)
            stays = tuple(h and now for h, now in zip(held, marks(after, leaf), strict=True))
            made[:] = [stays, None, None]
            if stays != held:
                return ()
            after = remark(release(after), held, leaf)

            def pull(g_s: Found, g_out: Found) -> tuple[Found, Found, Found]:
                g_f, g_arguments = parts(pb(pair(placed(g_s, after, leaf), placed(g_out, out, leaf))))
                g_s, g_x = parts(g_arguments)
                return present(g_f, f, leaf), present(g_s, state, leaf), present(g_x, xs, leaf)

            examples = (structs(after, leaf), structs(out, leaf))
            residuals = Residuals(pull, examples, outside, jax.tree.leaves(x), opened=True)
            made[:] = [stays, residuals, marks(out, leaf)]
            return release(after), release(out), residuals.kept

        if by_captures and has_functions(remark(release(state), held, leaf), leaf):
            return held, None
        program = record(forward, release(state), row_types(release(xs)), stays=True)
        stays, residuals, out_marks = made
        return stays, (program, residuals, out_marks)

    held, found = _held.of((space, term, *described((f, state, xs), leaf)), marks(state, leaf), attempt)
    if found is None:
        assert by_captures
        return by_captures()
    program, residuals, out_marks = found
    state = remark(release(state), held, leaf)
    steps = term.length if term.length is not None else len(jax.tree.leaves(release(xs))[0])
    states, inputs = len(jax.tree.leaves(release(state))), jax.tree.leaves(release(xs))
    products, program = ahead(program, states, inputs)
    run = Step(program, len(residuals.kept), states, len(inputs))

    body = run.alone(lambda after, out, kept: (after, (out, kept)))
    last, (outputs, kept) = scan(body, release(state), [*inputs, *products], term.length, term.reverse, term.unroll)
    saved, ends = run.saved(kept, outputs), jax.tree.leaves(last)
    last, outputs = remark(last, held, leaf), remark(outputs, out_marks, leaf)

    def pullback(g: Cotangent) -> Cotangent:
        g_last, g_outputs = parts(g) if scans else (g, ZERO)
        of_last, of_rows = arriving(g_last, last, leaf), arriving(g_outputs, outputs, leaf)
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

        start = {i: g for i, g in filled(g_last, last, leaf).items() if i in active}
        after = [ends[leaf] for leaf in run.carried]
        (g_s, added, _), (stacked, calls, g_x) = scan(
            backward, (start, once.zeros, after), (saved, inputs, of_rows), term.length, not term.reverse, term.unroll
        )
        kept = run.all_rows(saved, inputs, after, term.reverse, once.read)
        total = once.totals(added, stacked, kept, inputs, start, of_rows)
        g_f = placed({**total, **_stacked(calls)}, f, leaf)
        return _triple(g_f, narrowed(placed(g_s, state, leaf)), placed(_stacked(g_x), xs, leaf))

    result = (last, outputs) if scans else last
    return result, pullback if is_active(result, leaf) else nothing


def mapping(rep: Representation, space: Space, f: Any, xs: Any) -> Represented:
    """The rule of map: every row has its own pullback; cotangents of what f captured are summed over the rows."""
    leaf = space.is_leaf
    x_marks, outside = marks(xs, leaf), jax.tree.leaves(release(f))
    made: list[Any] = []

    def forward(x: Any) -> Any:
        y, pb = space.eval(rep, f, remark(x, x_marks, leaf))

        def pull(g: Found) -> tuple[Found, Found]:
            g_f, g_x = parts(pb(placed(g, y, leaf)))
            return present(g_f, f, leaf), present(g_x, xs, leaf)

        residuals = Residuals(pull, (structs(y, leaf),), outside, jax.tree.leaves(x), opened=True)
        made[:] = [residuals, marks(y, leaf)]
        return release(y), residuals.kept

    program = record(forward, row_types(release(xs)), stays=True)
    residuals, y_marks = made
    run, inputs = Step(program, len(residuals.kept), 0, again=False), jax.tree.leaves(release(xs))
    ys, kept = jax.vmap(run)(release(xs))
    saved = run.saved(kept, ys)
    ys = remark(ys, y_marks, leaf)

    def pullback(g: Cotangent) -> Cotangent:
        of_rows = arriving(g, ys, leaf)
        once = Once(residuals.at(of_rows), run.fixed)

        def backward(saved: list[Any], x: list[Any], g_y: Found) -> Any:
            return once(run.all_kept(saved, x, []), x, g_y)

        added, stacked, (calls, g_x) = jax.vmap(recorded(backward))(saved, inputs, of_rows)
        added = [jnp.sum(c, 0, dtype=c.dtype) for c in added]
        kept = run.all_rows(saved, inputs, [], False, once.read)
        total = once.totals(added, stacked, kept, inputs, of_rows)
        return pair(placed({**_stacked(calls), **total}, f, leaf), placed(_stacked(g_x), xs, leaf))

    return ys, pullback if is_active(ys, leaf) else nothing


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


_held = Fixpoints[Marks]("held loop states")  # a leaf of the state stays held only if no iteration makes it active


def described(x: Any, leaf: IsLeaf) -> tuple[Any, ...]:
    """All that the marks of what is worked out from x depend on."""
    leaves, form = jax.tree.flatten(release(x))
    return form, marks(x, leaf), tuple(map(aval_of, leaves)), staging.settings()


def has_functions(x: Any, leaf: IsLeaf) -> bool:
    """Whether functions are leaves of a primal that are not held."""
    return any(isinstance(v, Closure) for v in jax.tree.leaves(x, is_leaf=leaf))


def _stacked(found: Found) -> Found:
    return {i: c.stacked() if isinstance(c, Calls) else c for i, c in found.items()}


def _triple(*components: Cotangent) -> Cotangent:
    return Sparse(enumerate(components))
