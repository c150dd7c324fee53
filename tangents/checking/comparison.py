"""`compare`: one gradient in every way that there is, and where the ways differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from combinators.edges import flags, real, whole
from combinators.errors import DiffcurryError, NotDifferentiableError, user_line
from tangents.api.auxiliary import check_pair
from tangents.api.calling import asked_arguments, named
from tangents.checking.ways import ALONG, DOUBLE, WHOLE, Leaves, Point, directions, step_of, wide


@dataclass(frozen=True)
class Row:
    """A way to the gradient: how far it is from the first one in its worst leaf, and how far it may be.

    Both are relative to the size of the gradient there.  `error` is None where there is nothing to compare.
    """

    way: str
    words: str = ""
    leaf: str = ""
    error: float | None = None
    allowed: float = 0.0

    @property
    def agrees(self) -> bool:
        return self.error is None or self.error <= self.allowed

    def __str__(self) -> str:
        match self.error:
            case None:
                text = self.words
            case 0:
                text = "agrees   exactly"
            case error if self.agrees:
                text = f"agrees   up to {error:.0e}, by {self.leaf}; allowed is {self.allowed:.0e}"
            case error:
                text = f"DIFFERS  by {error:.0e}, by {self.leaf}: {self.words}; allowed is {self.allowed:.0e}"
        return f"{self.way:<20} {text}"


@dataclass(frozen=True)
class Comparison:
    """The rows of a comparison.  `comparison.ok` says whether all ways agree."""

    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.agrees)

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))

    def require(self) -> Comparison:
        """This comparison if all ways agree.  Raises `GradientError` if not."""
        if self.failures:
            raise GradientError(self)
        return self


class GradientError(AssertionError):
    """Ways to a gradient differ.  `error.comparison` has all rows; the message names the leaf that differs most."""

    def __init__(self, comparison: Comparison):
        self.comparison = comparison
        worst = max(comparison.failures, key=lambda row: (row.error or 0.0) / max(row.allowed, DOUBLE))
        what = f"{worst.way} gives another gradient by {worst.leaf}: {worst.words}"
        super().__init__(f"{what}\n  at: {user_line()}\n\n{comparison}")


def compare(
    f: Any,
    *arguments: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    tolerance: float | None = None,
    seed: int = 0,
) -> Comparison:
    """Compares the ways to the gradient of f at these arguments, and gives a table of them if they agree.

    f, `argnums` and `has_aux` are those of `grad`.  The ways are reverse mode in the environment and in the list space
    of functions, `jax.grad`, forward mode and central differences; the last two along a direction in each leaf of the
    arguments that is drawn from `seed`.  A way that there is not for this f, as JAX's for one that calls a black box,
    has a row that says why.  Each is held against the first that there is.

    `tolerance` is the error that is allowed, relative to the largest entry of a leaf's gradient.  By default it is
    eps^(1/2), of the least precise dtype that f computes with.  Central differences are taken in float64 if f can be
    run so, that is, if it names no dtype of its own; if not, their step, eps^(1/3), asks for 3 eps^(1/3).  A kink that
    is nearer than a step is seen as a difference.

    Raises `GradientError` (an `AssertionError`), which names the worst leaf, or what `grad` raises.
    """
    flags(has_aux=has_aux)
    whole("the seed", seed, 0)
    if tolerance is not None:
        real("the tolerance", tolerance, zero=True)
    scalar = named(lambda *xs: _first(f(*xs)), f) if has_aux else f
    point = Point(scalar, arguments, asked_arguments(argnums, arguments, len(arguments)))
    if not point.numbered:
        raise NotDifferentiableError(
            "there is no gradient to compare",
            expected="a real number in the arguments that are asked for, or captured by a function there",
            got=tuple(arguments[i] for i in point.asked),
            hint="a function that captured nothing has calls, but no gradient by numbers",
        )
    known, refused = _attempts(WHOLE, point)
    if "environment" in refused and "list" in refused:
        raise refused["environment"]
    first, gradient = next(iter(known.items()))
    along = directions(gradient, seed)
    slopes, others = _attempts(ALONG, point, along)
    expected = [np.real(np.sum(wide(g) * t)) for g, t in zip(gradient, along, strict=True)]

    rows = [_reference(first, point, gradient)]
    rows += [_worst(way, point, gradient, found, tolerance) for way, found in known.items() if way != first]
    rows += [_worst(way, point, expected, found, tolerance) for way, found in slopes.items()]
    rows += [Row(way, f"is not there: {str(error).partition('\n')[0]}") for way, error in {**refused, **others}.items()]
    return Comparison(tuple(rows)).require()


def _first(result: Any) -> Any:
    check_pair(result)
    return result[0]


def _reference(way: str, point: Point, gradient: Leaves) -> Row:
    """The row of the first way, which says where the gradient is no finite number."""
    odd = [name for (_, name), g in zip(point.numbered, gradient, strict=True) if not np.all(np.isfinite(wide(g)))]
    return Row(way, "is what the others are held against" + (f"; NOT FINITE by {', '.join(odd)}" if odd else ""))


def _attempts(
    ways: dict[str, Callable[..., Leaves]], *arguments: Any
) -> tuple[dict[str, Leaves], dict[str, Exception]]:
    """What each way gives, and why others give nothing.  Of JAX's, whatever it says is an answer."""
    found: dict[str, Leaves] = {}
    refused: dict[str, Exception] = {}
    for way, gives in ways.items():
        try:
            found[way] = gives(*arguments)
        except Exception as error:
            if way != "JAX" and not isinstance(error, DiffcurryError):
                raise
            refused[way] = error
    return found, refused


def _worst(way: str, point: Point, expected: Leaves, found: Leaves, tolerance: float | None) -> Row:
    """The row of a way: the leaf in which its error is the largest multiple of what is allowed."""
    pairs = [(wide(a), wide(b)) for a, b in zip(expected, found, strict=True)]
    # A gradient that is small beside that of other leaves, or f's own value, has the rounding errors of these.
    least = max((_size(a) for a, _ in pairs), default=0.0) * point.precision**0.25
    allowed = point.precision**0.5
    if way == "central differences":
        least = max(least, 10 * step_of(point) * abs(float(point.value(point.of(point.arguments)))))
        allowed = max(allowed, 3 * step_of(point))
    allowed = allowed if tolerance is None else tolerance
    worst = Row(way, error=0.0)
    for (_, name), (a, b) in zip(point.numbered, pairs, strict=True):
        place, distance = _farthest(a, b)
        scale = max(_size(a), _size(b), least)
        error = 0.0 if distance == 0 else distance / scale if scale else np.inf
        if error > (worst.error or 0.0):
            entry = f"{name}[{', '.join(map(str, place))}]" if place else name
            worst = Row(way, f"{b[place]:.6g} instead of {a[place]:.6g}", entry, error, allowed)
    return worst


def _farthest(a: Any, b: Any) -> tuple[tuple[int, ...], float]:
    """Where two arrays differ most, and how much; what is not finite is equal to its like alone."""
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    if not apart.size:
        return (), 0.0
    apart = np.nan_to_num(apart, nan=np.inf, posinf=np.inf)
    place = tuple(map(int, np.unravel_index(np.argmax(apart), apart.shape)))
    return place, float(apart[place])


def _size(array: Any) -> float:
    """The largest finite entry."""
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))
