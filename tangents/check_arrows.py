"""What every arrow must satisfy: a term, a primitive or a Python lambda on a domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.evaluate import apply, evaluate
from combinators.infer import abstract, accepts, infer
from combinators.terms import Id, Term, compose
from combinators.types import Type, type_of
from combinators.values import Closure
from tangents.calls import Calls
from tangents.check_laws import observation
from tangents.differences import difference, settled, unsettled
from tangents.environment import ENVIRONMENT
from tangents.public import add, inner
from tangents.reading import FORWARD, representation
from tangents.report import Counterexample, Row, examine
from tangents.space import Space
from tangents.strategies import values_of

_STEP = 1e-5  # of central differences in float64: errors of about step² and of eps/step


def check_arrow(
    name: str,
    term: Term,
    domain: Type,
    spaces: list[Space],
    examples: int,
    seed: int,
    meaning: Any = None,
    points: Any = None,
) -> list[Row]:
    """Rows for: types, meaning under jit and vmap, linear pullbacks, central differences, duality.

    `meaning(x)` is an independent meaning, such as the Python function that the term was translated from; `points`
    draws values of the domain, if not all of them are meant.
    """

    def point(draw: Any) -> Any:
        return draw(values_of(domain) if points is None else points)

    def row(property: str, reading: str, holds: Callable[[Term, Any, Any], None]) -> Row:
        def at(draw: Any) -> None:
            x, seen = point(draw), observer(draw)
            holds(term if isinstance(seen, Id) else compose(term, seen), x, draw)

        return examine(name, property, reading, at, examples, seed)

    def observer(draw: Any) -> Term:
        """Applies the functions in a result of the term to something."""
        return observation(abstract(infer(term, domain)), lambda type: draw(values_of(type)))

    def translated(draw: Any) -> None:
        x, seen = point(draw), observer(draw)
        left, right = evaluate(compose(term, seen), x), evaluate(seen, meaning(x))
        _same(left, right, "the translation changes the value", term, x)

    def typed(f: Term, x: Any, _: Any) -> None:
        _require(accepts(infer(f, domain), type_of(evaluate(f, x))), "the value has another type", f, x)

    rows = [row("typed", "types", typed), row("jit", "meaning", _compiled), row("vmap", "meaning", _batched)]
    if meaning is not None:
        rows.append(examine(name, "Python's meaning", "meaning", translated, examples, seed))
    for space in spaces:
        reading = representation(space)
        rows += [
            row("value", space.name, lambda f, x, _, r=reading: _value(r, f, x)),
            row("linear pullback", space.name, lambda f, x, draw, r=reading: _linear(r, f, x, draw)),
            row("central differences", space.name, lambda f, x, draw, r=reading: _dual(r, f, x, draw)),
        ]
    return [*rows, row("duality", FORWARD.name, _duality)]


def _compiled(f: Term, x: Any, _: Any) -> None:
    _same(evaluate(f, x), jax.jit(evaluate, static_argnums=0)(f, x), "jit changes the value", f, x)


def _batched(f: Term, x: Any, draw: Any) -> None:
    if not jax.tree.leaves(x):
        return
    xs = [x, draw(values_of(type_of(x)))]  # functions of one code, so that they make one array
    rows = jax.vmap(lambda x: evaluate(f, x))(jax.tree.map(lambda *parts: jnp.stack(parts), *xs))
    for i, each in enumerate(xs):
        _same(jax.tree.map(lambda a, i=i: a[i], rows), evaluate(f, each), "vmap changes the value", f, each)


def _value(reading: Any, f: Term, x: Any) -> None:
    _same(reading.cases(f, x)[0], evaluate(f, x), "the representation changes the value", f, x)


def _linear(reading: Any, f: Term, x: Any, draw: Any) -> None:
    y, pullback = reading.cases(f, x)
    g, h = draw(values_of((type_of(settled(y, y)),) * 2))
    doubled = jax.tree.map(lambda leaf: leaf + leaf if _is_real(leaf) else leaf, g)
    cotangent = pullback(g)
    fits = jax.tree.map(_has_type_of, cotangent, settled(x, x), is_leaf=_is_calls)
    _require(all(jax.tree.leaves(fits)), f"a cotangent has not the type of its argument: {cotangent}", f, x)
    _require_same(pullback(doubled), add(cotangent, cotangent), "the pullback is not homogeneous", f, x)
    _require_same(pullback(add(g, h)), add(cotangent, pullback(h)), "the pullback is not additive", f, x)


def _dual(reading: Any, f: Term, x: Any, draw: Any) -> None:
    """⟨g, f(x + εt) - f(x - εt)⟩ / 2ε = ⟨pullback g, t⟩"""
    y, pullback = reading.cases(f, x)
    g, t = draw(values_of((type_of(settled(y, y)), type_of(settled(x, x)))))  # as one value, so that they differ
    ends = [jax.tree.map(lambda a, b, s=s: _moved(a, b, s), x, unsettled(t, x)) for s in (_STEP, -_STEP)]
    slope = _change(*(evaluate(f, end) for end in ends))
    cotangent = pullback(g)
    pick = lambda c, ahead, behind, along: _change(ahead, behind) if _is_calls(c) else along
    tangent = jax.tree.map(pick, cotangent, *(settled(end, end) for end in ends), t, is_leaf=_is_calls)
    numeric, exact = float(inner(g, slope)), float(inner(cotangent, tangent))
    scale = 1.0 + abs(numeric) + abs(exact)
    agree = bool(np.isclose(numeric, exact, rtol=0.0, atol=1e-6 * scale))
    _require(agree, f"central differences give {numeric}, the pullback {exact}, in the direction {t}", f, x)


def _duality(f: Term, x: Any, draw: Any) -> None:
    """⟨g, push t⟩ = ⟨pull g, t⟩, and the two give one value"""
    (z, pull), (push, directions) = representation(ENVIRONMENT).cases(f, x), FORWARD.cases(f, x)
    g, t = draw(values_of((type_of(settled(z, z)), directions)))
    y, tangent = push(t)
    _same(y, z, "forward mode changes the value", f, x)
    fits = jax.tree.map(_has_type_of, tangent, settled(y, y))
    _require(all(jax.tree.leaves(fits)), f"a tangent has not the type of its value: {tangent}", f, x)
    pushed, pulled = float(inner(g, tangent)), float(inner(pull(g), t))
    agree = bool(np.isclose(pushed, pulled, rtol=0.0, atol=1e-6 * (1.0 + abs(pushed) + abs(pulled))))
    _require(agree, f"forward mode gives {pushed}, the pullback {pulled}, in the direction {t}", f, x)


def _moved(x: Any, t: Any, step: float) -> Any:
    return x + step * t if _is_real(x) else x


def _change(ahead: Any, behind: Any) -> Any:
    """The central difference of two values; of two functions, that of their results, as a function."""

    def leaf(a: Any, b: Any) -> Any:
        if isinstance(a, Closure):
            return lambda x: _change(apply(a, x), apply(b, x))
        return (a - b) / (2 * _STEP) if _is_real(a) else a

    a, b = (settled(value, value) for value in (ahead, behind))
    return jax.tree.map(leaf, a, b, is_leaf=lambda value: isinstance(value, Closure))


def _is_real(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), np.floating))


def _is_calls(value: Any) -> bool:
    return isinstance(value, Calls)


def _has_type_of(cotangent: Any, primal: Any) -> bool:
    return _is_calls(cotangent) or type_of(cotangent) == type_of(primal)


def _same(left: Any, right: Any, words: str, term: Term, x: Any) -> None:
    """Requires equal values, sums by the alternative that is there."""
    a, b = (settled(value, value) for value in (left, right))
    _require_same(a, b, words, term, x)


def _require_same(left: Any, right: Any, words: str, term: Term, x: Any) -> None:
    found = difference(left, right)
    _require(found is None, f"{words}: {found}", term, x)


def _require(holds: bool, words: str, term: Term, x: Any) -> None:
    if not holds:
        raise Counterexample(f"{words}\n  term = {term}\n  x = {x}")
