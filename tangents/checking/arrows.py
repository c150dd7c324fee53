"""What every arrow must satisfy: a term, a primitive or a Python lambda on a domain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.building import compose
from combinators.meaning.evaluate import apply, evaluate
from combinators.meaning.infer import abstract
from combinators.terms import Id, Term
from combinators.types import type_of
from combinators.values import Closure, accepts
from tangents.checking.differences import difference, settled, unsettled
from tangents.checking.laws import observation
from tangents.checking.reading import FORWARD, cotangent_of, representation
from tangents.checking.report import Counterexample, Row, examine
from tangents.checking.running import evaluated, evaluated_rows, pushforward, represented
from tangents.checking.subjects import Subject, converted
from tangents.checking.ways import wide
from tangents.cotangents.calls import Calls
from tangents.cotangents.leaves import zero_leaf
from tangents.spaces.environment import ENVIRONMENT
from tangents.spaces.public import add
from tangents.spaces.space import Space
from tangents.strategies import values_of
from tangents.strategies.goals import has_functions

_BY_ENVIRONMENT = representation(ENVIRONMENT)


def check_arrow(
    stated: Subject, sharp: Subject, spaces: list[Space], examples: int, seed: int, points: Any = None
) -> list[Row]:
    """Rows for: types, meaning under jit and vmap, linear pullbacks, central differences, duality, precision.

    `sharp` is the arrow in float64 if it can be run so, else `stated` itself.  `points` draws values of the domain, if
    not all of them are meant.
    """
    term = sharp.term

    def row(property: str, reading: str, holds: Callable[[Term, Any, Any], None]) -> Row:
        def at(draw: Any) -> None:
            x, seen = sharp.points(points, draw), observer(draw)
            holds(term if isinstance(seen, Id) else compose(term, seen), x, draw)

        return examine(sharp.name, property, reading, at, examples, seed, sharp.x64)

    def observer(draw: Any) -> Term:
        """Applies the functions in a result of the term to something."""
        return observation(abstract(sharp.codomain), lambda type: draw(values_of(type)))

    def typed(draw: Any) -> None:
        x = stated.points(points, draw)
        _require(
            accepts(stated.codomain, type_of(evaluate(stated.term, x))), "the value has another type", stated.term, x
        )

    def batched(f: Term, x: Any, draw: Any) -> None:
        alike = values_of(type_of(x))  # functions of one code, so that they make one array
        _batched(f, [x, draw(alike) if points is None else sharp.points(points, draw)])

    def translated(draw: Any, meaning: Callable[[Any], Any]) -> None:
        x, seen = sharp.points(points, draw), observer(draw)
        arrays = jax.tree.map(jnp.asarray, x)
        left, right = evaluate(compose(term, seen), x), evaluate(seen, meaning(arrays))
        _same(left, right, "the translation changes the value", term, x)

    rows = [
        examine(stated.name, "typed", "types", typed, examples, seed, stated.x64),
        row("jit", "meaning", _compiled),
        row("vmap", "meaning", batched),
    ]
    if sharp.meaning is not None:
        means = partial(translated, meaning=sharp.meaning)
        rows.append(examine(sharp.name, "Python's meaning", "meaning", means, examples, seed, sharp.x64))
    for space in spaces:
        reading = representation(space)
        rows += [
            row("value", space.name, lambda f, x, _, r=reading: _value(r, f, x)),
            row("linear pullback", space.name, lambda f, x, draw, r=reading: _linear(r, f, x, draw)),
            row("central differences", space.name, lambda f, x, draw, r=reading: _dual(r, f, x, draw, sharp)),
        ]
    rows.append(row("duality", FORWARD.name, lambda f, x, draw: _duality(f, x, draw, sharp)))
    if sharp is not stated and not has_functions(sharp.domain):
        precise = lambda draw: _precise(stated, sharp, stated.points(points, draw), draw)
        rows.append(examine(stated.name, "precision", ENVIRONMENT.name, precise, examples, seed, stated.x64))
    return rows


def _compiled(f: Term, x: Any, _: Any) -> None:
    _same(evaluate(f, x), jax.jit(evaluate, static_argnums=0)(f, x), "jit changes the value", f, x)


def _batched(f: Term, xs: list[Any]) -> None:
    if not jax.tree.leaves(xs[0]):
        return
    rows = evaluated_rows(f, jax.tree.map(lambda *parts: jnp.stack(parts), *xs))
    for i, each in enumerate(xs):
        _same(jax.tree.map(lambda a, i=i: a[i], rows), evaluated(f, each), "vmap changes the value", f, each)


def _value(reading: Any, f: Term, x: Any) -> None:
    _same(represented(reading, f, x)[0], evaluated(f, x), "the representation changes the value", f, x)


def _linear(reading: Any, f: Term, x: Any, draw: Any) -> None:
    y, pullback = represented(reading, f, x)
    g, h = map(cotangent_of, draw(values_of((type_of(settled(y, y)),) * 2)))
    doubled = jax.tree.map(lambda leaf: leaf + leaf if _is_inexact(leaf) else leaf, g)
    cotangent = pullback(g)
    _require_type(cotangent, x, f)
    _require_same(pullback(doubled), add(cotangent, cotangent), "the pullback is not homogeneous", f, x)
    _require_same(pullback(add(g, h)), add(cotangent, pullback(h)), "the pullback is not additive", f, x)


def _dual(reading: Any, f: Term, x: Any, draw: Any, at: Subject) -> None:
    """⟨g, f(x + εt) - f(x - εt)⟩ / 2ε = ⟨pullback g, t⟩"""
    y, pullback = represented(reading, f, x)
    g, t = draw(values_of((type_of(settled(y, y)), type_of(settled(x, x)))))  # as one value, so that they differ
    change = lambda a, b: _change(a, b, 2 * at.step)
    ends = [jax.tree.map(lambda a, b, s=s: _moved(a, b, s), x, unsettled(t, x)) for s in (at.step, -at.step)]
    slope = change(*(evaluated(f, end) for end in ends))
    cotangent = pullback(g)
    pick = lambda c, ahead, behind, along: change(ahead, behind) if _is_calls(c) else along
    tangent = jax.tree.map(pick, cotangent, *(settled(end, end) for end in ends), t, is_leaf=_is_calls)
    values = jax.tree.map(lambda leaf: 1.0 + np.abs(leaf) if _is_inexact(leaf) else leaf, settled(y, y))
    rounding = 20 * at.eps / at.step * _size(_products(g, values))  # of values, and of what they are computed from
    numeric, exact, allowed = _agree((g, slope), (cotangent, tangent), at.tolerance, rounding)
    words = f"central differences give {numeric}, the pullback {exact}, in the direction {t}"
    _require(abs(numeric - exact) <= allowed, words, f, x)


def _duality(f: Term, x: Any, draw: Any, at: Subject) -> None:
    """⟨g, push t⟩ = ⟨pull g, t⟩, and the two give one value"""
    (z, pull), (push, directions) = represented(_BY_ENVIRONMENT, f, x), pushforward(f, x)
    g, t = draw(values_of((type_of(settled(z, z)), directions)))
    y, tangent = push(t)
    _same(y, z, "forward mode changes the value", f, x)
    fits = jax.tree.map(_has_type_of, tangent, settled(y, y))
    _require(all(jax.tree.leaves(fits)), f"a tangent has not the type of its value: {tangent}", f, x)
    pushed, pulled, allowed = _agree((g, tangent), (pull(g), t), max(at.tolerance, at.eps**0.5), 1e3 * at.eps)
    words = f"forward mode gives {pushed}, the pullback {pulled}, in the direction {t}"
    _require(abs(pushed - pulled) <= allowed, words, f, x)


def _precise(stated: Subject, sharp: Subject, x: Any, draw: Any) -> None:
    """Where the stated dtypes and float64 give one value, they give one cotangent, up to rounding.

    Random numbers, for one thing, are others in float64.
    """
    if has_functions(stated.codomain):  # they are of other types in float64
        return
    rounding = 4 * stated.eps**0.5
    y, pullback = represented(_BY_ENVIRONMENT, stated.term, x)
    g = draw(values_of(type_of(settled(y, y))))
    cotangent = pullback(g)
    _require_type(cotangent, x, stated.term)
    with jax.enable_x64(sharp.x64):
        z, sharper = represented(_BY_ENVIRONMENT, sharp.term, converted(x, sharp.domain))
        if difference(settled(y, y), _like(settled(z, z), settled(y, y)), rounding) is not None:
            return
        expected = _like(sharper(_like(g, settled(z, z))), cotangent)
    found = difference(cotangent, expected, rounding)
    _require(found is None, f"in float64 the pullback gives another cotangent: {found}", stated.term, x)


def _like(value: Any, other: Any) -> Any:
    """The value in the dtypes of another one; keys have the same everywhere."""
    is_key = lambda leaf: jnp.issubdtype(type_of(leaf).dtype, jax.dtypes.extended)
    return jax.tree.map(lambda a, b: a if is_key(b) else np.asarray(a).astype(np.asarray(b).dtype), value, other)


def _agree(first: tuple[Any, Any], second: tuple[Any, Any], relative: float, rounding: float) -> tuple[float, ...]:
    """The two pairings ⟨g, t⟩, and how far apart they may be."""
    left, right = (list(_products(*pair)) for pair in (first, second))
    totals = [sum(float(np.sum(np.real(product))) for product in side) for side in (left, right)]
    return *totals, relative * _size((*left, *right)) + rounding


def _size(products: Iterable[Any]) -> float:
    """Σ |g| |t|, to which errors of a pairing are relative."""
    return sum(float(np.sum(np.abs(product))) for product in products)


def _products(g: Any, t: Any) -> Iterator[Any]:
    """The products, leaf by leaf, whose sum is the pairing ⟨g, t⟩; of complex numbers, its real part."""
    leaves, form = jax.tree.flatten(g, is_leaf=_is_calls)
    for a, b in zip(leaves, form.flatten_up_to(t), strict=True):
        if _is_calls(a):
            for argument, cotangent in a:
                yield from _products(cotangent, b(argument))
        elif _is_inexact(a):
            yield wide(a) * wide(b)


def _moved(x: Any, t: Any, step: float) -> Any:
    return x + (step * t).astype(x.dtype) if _is_inexact(x) else x


def _change(ahead: Any, behind: Any, distance: float) -> Any:
    """The central difference of two values; of two functions, that of their results, as a function."""

    def leaf(a: Any, b: Any) -> Any:
        if isinstance(a, Closure):
            return lambda x: _change(apply(a, x), apply(b, x), distance)
        return (a - b) / distance if _is_inexact(a) else a

    a, b = (settled(value, value) for value in (ahead, behind))
    return jax.tree.map(leaf, a, b, is_leaf=lambda value: isinstance(value, Closure))


def _is_inexact(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), np.inexact))


def _is_calls(value: Any) -> bool:
    return isinstance(value, Calls)


def _has_type_of(cotangent: Any, primal: Any) -> bool:
    return _is_calls(cotangent) or type_of(cotangent) == type_of(zero_leaf(primal))


def _require_type(cotangent: Any, x: Any, f: Term) -> None:
    fits = jax.tree.map(_has_type_of, cotangent, settled(x, x), is_leaf=_is_calls)
    _require(all(jax.tree.leaves(fits)), f"a cotangent has not the type of its argument: {cotangent}", f, x)


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
