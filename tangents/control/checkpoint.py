"""Representation of `checkpoint`: what its pullback would keep is worked out again from the argument.

    checkpoint(f) x = (y, λ g. let (_, pb) = f x in pb g)    where f x = (y, _)

f is represented once.  Of its program forward a first run gives y, and a second one, in the pullback, the residuals:
that program is cut where the residuals are, which depend on the cotangents that arrive.  What a policy saves is handed
from the first run to the second.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.ad_checkpoint import Offloadable, Saveable

from combinators.depth import check_programs
from combinators.meaning.evaluate import evaluate
from combinators.terms import Checkpoint, Primitive, Term, subterms
from compile_ccc.jaxprs import compat
from compile_ccc.jaxprs.recorder import Tape
from compile_ccc.jaxprs.recording import inlined, record, run
from compile_ccc.reading.remat import remat
from tangents.cotangents.sparse import ZERO, Cotangent, nothing, release
from tangents.spaces.space import Representation, Represented, Space


def checkpoint(rep: Representation, space: Space, term: Checkpoint, x: Any) -> Represented:
    """checkpoint(f) x = (y, λ g. pb g) for the (y, pb) of a second run of f"""
    check_programs(term)
    leaves, form = jax.tree.flatten(release(x))
    held = space.marks(x)
    tape = Tape(
        lambda *again: rep(term.body, space.remark(form.unflatten(again), held)), *leaves, opened=bool(term.policy)
    )
    y, pb = tape.result
    saved, places = _saved(tape, term.policy)
    if _keeps_little(term):
        plain = record(lambda *again: evaluate(term.body, form.unflatten(again)), *leaves)
        values, kept = inlined(plain, leaves), inlined(tape.giving(saved), leaves)
    else:
        values, kept = inlined(tape.giving((release(y), saved)), leaves)
    kept = [_moved(value, place and place.dst) for value, place in zip(kept, places, strict=True)]
    result = space.remark(values, space.marks(y))
    if not space.is_active(result):
        return result, nothing

    def pullback(g: Cotangent) -> Cotangent:
        given = space.arriving(g, result)
        if not given:
            return ZERO
        pull = record(lambda g: space.present(pb(space.placed(g, y)), x), given)
        constants, pull.constants = pull.constants, []
        second = tape.giving([value for value in constants if tape.has(value)], known=saved, silent=True)

        def again(leaves: list[Any], kept: list[Any], g: dict[int, Any]) -> Any:
            there = [_moved(value, place and place.src) for value, place in zip(kept, places, strict=True)]
            found = iter(inlined(second, [*leaves, *there]))
            residuals = [next(found) if tape.has(value) else value for value in constants]
            return pull.form.unflatten(run(pull, [*residuals, *jax.tree.leaves(g)]))

        return space.placed(remat(again, leaves, kept, given, prevent_cse=term.prevent_cse), x)

    return result, pullback


def _keeps_little(term: Term) -> bool:
    """Whether a function in it has a rule for the second run alone: of the first one, it gives its value."""
    return any(isinstance(f, Primitive) and compat.keeps_little(dict(f.params)) for f in subterms(term))


def _saved(tape: Tape, policy: Any) -> tuple[list[Any], list[Offloadable | None]]:
    """The values that a policy saves, and where to; it is asked for what calls do, and of loops as a whole."""
    saved: list[Any] = []
    places: list[Offloadable | None] = []
    for equation in tape.recorder.equations if policy else ():
        verdict = policy(equation.primitive, *(v.aval for v in equation.invars), **equation.params)
        place = verdict if isinstance(verdict, Offloadable) else None
        if (place or verdict is True or verdict is Saveable) and not equation.effects:
            saved += tape.results(equation)
            places += [place] * len(equation.outvars)
    return saved, places


def _moved(value: Any, place: str | None) -> Any:
    """A value in the memory of this name."""
    return value if place is None else jax.device_put(value, _SPACES[place])


_SPACES = {"device": jax.memory.Space.Device, "pinned_host": jax.memory.Space.Host}
