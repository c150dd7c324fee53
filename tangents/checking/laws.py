"""The laws held against a reading: random types and terms for the metavariables, a random point of the domain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
from hypothesis import strategies as st

from combinators.building import compose, prod
from combinators.laws.law import Law, instantiate, variables
from combinators.meaning.infer import infer
from combinators.terms import Const, Eval, Id, Proj, Term
from combinators.types import LEAF, Function, Type, children
from tangents.checking.reading import Draw, Reading
from tangents.checking.report import Counterexample, Row, examine
from tangents.strategies import terms, types, values_of

_SIZE = 4  # about how many combinators an arrow has: enough to differ, small enough for many examples
_THREE_IN_FOUR = st.sampled_from((True, True, True, False))  # examples without compilation, which is what takes time
_ONE_IN_FOUR = st.sampled_from((False, False, False, True))  # examples with loops and branches inside their arrows


def check_law(law: Law, readings: Iterable[Reading], examples: int, seed: int) -> list[Row]:
    """One row for each reading: both sides of the law have the stated type, and are read as the same.

    All readings see the same examples; a reading that fails is reported, and the others are tried without it.
    """
    rows: list[Row] = []
    remaining = list(readings)
    while remaining:
        failing: list[Reading] = []

        def holds(draw: Any, remaining: Any = tuple(remaining), failing: Any = failing) -> None:
            _holds_at(law, remaining, failing, draw)

        row = examine(law.group, law.name, "", holds, examples, seed)
        failed = failing[-1:] if row.counterexample else []
        found = failed or remaining
        rows += [Row(row.subject, row.property, r.name, row.examples, row.counterexample) for r in found]
        remaining = [r for r in remaining if failed and r is not failed[0]]
    return rows


def _holds_at(law: Law, readings: Iterable[Reading], failing: list[Reading], draw: Any) -> None:
    control = draw(_ONE_IN_FOUR)
    value = lambda type: draw(values_of(type, control=control))
    chosen = {name: draw(_types(law, name)) for name in variables(law)}
    length = draw(st.integers(1, 3))
    of = lambda scheme: instantiate(scheme, chosen, length)
    arrows = {
        name: draw(terms(of(dom), of(cod), size=_SIZE, control=control)) for name, (dom, cod) in law.arrows.items()
    }
    values = {name: value(of(type)) for name, type in law.values.items()}
    plain = value(of(law.domain))
    left, right = law.sides(**arrows, **values)
    observed = observation(of(law.codomain), value)
    codomain = infer(observed, of(law.codomain))
    interpreted = draw(_THREE_IN_FOUR)
    for reading in readings:
        failing.append(reading)
        stands = reading.types(of(law.domain))
        x = plain if stands == of(law.domain) else value(stands)
        sides = [compose(side, observed) for side in (left, right)]
        with jax.disable_jit(interpreted):
            a, b = (reading.cases(side, x) for side in sides)
            found = reading.compare(a, b, codomain, value)
        if found:
            example = {**{f"{n} : {of(d)} ⇝ {of(c)}": arrows[n] for n, (d, c) in law.arrows.items()}, **values, "x": x}
            shown = "\n".join(f"  {name} = {value}" for name, value in example.items())
            raise Counterexample(f"{law} in the reading {reading.name!r}: {found}\n{shown}\n  {left}\n  = {right}")


def _types(law: Law, name: str) -> st.SearchStrategy[Type]:
    in_array = name in law.elements
    candidates = types(functions=not in_array and name not in law.plain, sums=not in_array, depth=1)
    return candidates.filter(jax.tree.leaves) if name in law.elements else candidates


def observation(type: Type, draw: Draw) -> Term:
    """An arrow from a type to one without functions, which applies each function to an argument drawn for it."""
    if isinstance(type, Function):
        argument = Const(draw(type.dom))
        return compose(prod(Id(), argument), Eval(), observation(type.cod, draw))
    pairs, form = children(type)
    if form == LEAF or not any(isinstance(leaf, Function) for leaf in jax.tree.leaves(type)):
        return Id()
    return prod(form.unflatten([compose(Proj(key), observation(part, draw)) for key, part in pairs]))
