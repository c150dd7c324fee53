"""What every arrow must satisfy: a term, a primitive or a Python lambda on a domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.evaluate import evaluate
from combinators.infer import accepts, infer
from combinators.terms import Term
from combinators.types import Type, type_of
from tangents.compare import difference
from tangents.public import add, inner
from tangents.reading import representation
from tangents.report import Counterexample, Row, examine
from tangents.space import Space
from tangents.sparse import release
from tangents.strategies import values_of

_STEP = 1e-5  # of central differences in float64: errors of about step² and of eps/step


def check_arrow(
    name: str, term: Term, domain: Type, spaces: list[Space], examples: int, seed: int, meaning: Any = None
) -> list[Row]:
    """Rows for: types, meaning under jit and vmap, linear pullbacks, both tangent spaces alike, central differences.

    `meaning(x)` is an independent meaning, such as the Python function that the term was translated from.
    """

    def row(property: str, reading: str, holds: Callable[[Any], None]) -> Row:
        return examine(name, property, reading, holds, examples, seed)

    def point(draw: Any) -> Any:
        return draw(values_of(domain))

    def typed(draw: Any) -> None:
        x = point(draw)
        _require(accepts(infer(term, domain), type_of(evaluate(term, x))), "the value has another type", term, x)

    def compiled(draw: Any) -> None:
        x = point(draw)
        _same(evaluate(term, x), jax.jit(evaluate, static_argnums=0)(term, x), "jit changes the value", term, x)

    def batched(draw: Any) -> None:
        xs = [point(draw), point(draw)]
        stack = lambda *parts: jnp.stack(parts)
        rows = jax.vmap(lambda x: evaluate(term, x))(jax.tree.map(stack, *xs))
        _same(rows, jax.tree.map(stack, *(evaluate(term, x) for x in xs)), "vmap changes the values", term, xs)

    def translated(draw: Any) -> None:
        x = point(draw)
        _same(evaluate(term, x), meaning(x), "the translation changes the value", term, x)

    rows = [row("typed", "types", typed), row("jit", "meaning", compiled)]
    if jax.tree.leaves(domain):
        rows.append(row("vmap", "meaning", batched))
    if meaning is not None:
        rows.append(row("Python's meaning", "meaning", translated))
    for space in spaces:
        reading = representation(space)
        rows += [
            row("value", space.name, lambda draw, r=reading: _value(r, term, point(draw))),
            row("linear pullback", space.name, lambda draw, r=reading: _linear(r, term, point(draw), draw)),
            row("central differences", space.name, lambda draw, r=reading: _dual(r, term, point(draw), draw)),
        ]
    return rows


def _value(reading: Any, term: Term, x: Any) -> None:
    _same(reading.cases(term, x)[0], evaluate(term, x), "the representation changes the value", term, x)


def _linear(reading: Any, term: Term, x: Any, draw: Any) -> None:
    y, pullback = reading.cases(term, x)
    g, h = (draw(values_of(type_of(y))) for _ in range(2))
    doubled = jax.tree.map(lambda leaf: leaf + leaf if _is_real(leaf) else leaf, g)
    _same(pullback(doubled), add(pullback(g), pullback(g)), "the pullback is not homogeneous", term, x)
    _same(pullback(add(g, h)), add(pullback(g), pullback(h)), "the pullback is not additive", term, x)


def _dual(reading: Any, term: Term, x: Any, draw: Any) -> None:
    """⟨g, f(x + εt) - f(x - εt)⟩ / 2ε = ⟨pullback g, t⟩"""
    y, pullback = reading.cases(term, x)
    g, t = draw(values_of(type_of(y))), draw(values_of(type_of(x)))
    ahead, behind = (evaluate(term, jax.tree.map(lambda a, b, s=s: _moved(a, b, s), x, t)) for s in (_STEP, -_STEP))
    slope = jax.tree.map(lambda a, b: (a - b) / (2 * _STEP) if _is_real(a) else a, ahead, behind)
    numeric, exact = float(inner(g, slope)), float(inner(pullback(g), t))
    scale = 1.0 + abs(numeric) + abs(exact)
    agree = bool(np.isclose(numeric, exact, rtol=0.0, atol=1e-6 * scale))
    _require(agree, f"central differences give {numeric}, the pullback {exact}, in the direction {t}", term, x)


def _moved(x: Any, t: Any, step: float) -> Any:
    return x + step * t if _is_real(x) else x


def _is_real(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), np.floating))


def _same(left: Any, right: Any, words: str, term: Term, x: Any) -> None:
    found = difference(release(left), release(right))
    _require(found is None, f"{words}: {found}", term, x)


def _require(holds: bool, words: str, term: Term, x: Any) -> None:
    if not holds:
        raise Counterexample(f"{words}\n  term = {term}\n  x = {x}")
