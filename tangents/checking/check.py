"""`check`: hold anything of ours against the laws that it must obey.  Needs the extra `laws`."""

from __future__ import annotations

from typing import Any

from hypothesis.strategies import SearchStrategy

from combinators.edges import whole
from combinators.errors import ArgumentError, DiffcurryError
from combinators.laws.law import Law
from combinators.laws.table import LAWS
from combinators.meaning.infer import infer
from combinators.terms import Primitive, Term
from combinators.types import Tensor, pack
from compile_ccc.arrow import Arrow
from compile_ccc.tracing.arguments import argument_type
from tangents.checking.arrows import check_arrow
from tangents.checking.laws import check_law
from tangents.checking.reading import READINGS, Reading, representation
from tangents.checking.report import Report, Row
from tangents.checking.spaces import check_space
from tangents.checking.subjects import subjects
from tangents.spaces.public import SPACES
from tangents.spaces.space import Space

_SHAPES = ((), (3,), (2, 3), (0,))
_PAIRS = (((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), ()), ((2, 3), (2, 1)), ((1, 3), (2, 3)), ((0, 3), (0, 3)))


def check(x: Any, *domain: Any, examples: int = 100, seed: int = 0, points: Any = None) -> Report:
    """Checks x with random examples; returns a report, and raises with the smallest counterexample if a law fails.

    - a term or Python lambda, on a domain (types, or arguments whose types are taken): its value has the inferred type
      and commutes with jit and vmap; its pullback is linear in both tangent spaces and agrees with central differences
      in float64; a lambda's translation means what Python means;
    - a primitive without a domain: the same, for one or two real arguments of several shapes, broadcast and empty ones;
    - a law of `C.LAWS`: both sides have the stated type, the same values and the same pullbacks in every reading;
    - a reading: all laws in this reading;
    - a tangent space: its cotangents are a commutative monoid with an inner product, and with its `curry` and `eval`
      the laws of exponentials hold.

    What can be computed in float64 is, where central differences see a derivative from about 1e-9 on; the stated dtypes
    then have to give the same derivative up to rounding.  What cannot, since it names a dtype or joins its arguments
    with float32, is checked as stated, and less sharply.  Values are drawn of either sign, away from kinks but by
    chance; `points`, a Hypothesis strategy, draws those of the domain of a term or lambda instead, such as positive
    ones.  In a test one line is enough: `check(f, C.Tensor(3))`.

    Raises `LawError` (an `AssertionError`), or `ArgumentError` for something that cannot be checked.
    """
    whole("the number of examples", examples, 1)
    whole("the seed", seed, 0)
    if points is not None and not (domain and isinstance(points, SearchStrategy)):
        raise ArgumentError(
            "`points` draws values of a domain",
            expected="a Hypothesis strategy, beside a domain",
            got=f"points={points!r}, and {len(domain)} types",
            hint="for example check(f, C.Tensor(), points=st.floats(0.5, 2.0))",
        )
    match x:
        case Law():
            rows = check_law(x, READINGS.values(), examples, seed)
        case Reading():
            rows = [row for law in LAWS for row in check_law(law, [x], examples, seed)]
        case Space():
            exponentials = [law for law in LAWS if law.group == "exponentials"]
            reading = representation(x)
            rows = check_space(x, examples, seed)
            rows += [row for law in exponentials for row in check_law(law, [reading], examples, seed)]
        case Primitive() if not domain:
            rows = [row for d in _domains(x) for row in _arrow(x, d, examples, seed, None)]
        case _ if (isinstance(x, Term | Arrow) or callable(x)) and domain:
            rows = _arrow(x, domain, examples, seed, points)
        case _:
            raise ArgumentError(
                "this cannot be checked",
                expected="a law, a reading, a tangent space, a primitive, or a term or function with its domain",
                got=repr(x),
                hint="for example check(f, C.Tensor(3)), check(C.LAWS[0]), check(C.primitive('tanh'))",
            )
    return Report(tuple(rows)).require()


def _arrow(x: Any, domain: tuple[Any, ...], examples: int, seed: int, points: Any) -> list[Row]:
    stated, sharp = subjects(x, tuple(map(argument_type, domain)), points)
    return check_arrow(stated, sharp, list(SPACES.values()), examples, seed, points)


def _domains(term: Primitive) -> list[tuple[Any, ...]]:
    """The domains of real arrays, of one and of two arguments, that a primitive accepts."""
    candidates = [*((Tensor(s),) for s in _SHAPES), *((Tensor(a), Tensor(b)) for a, b in _PAIRS)]
    accepted: list[tuple[Any, ...]] = []
    for domain in candidates:
        try:
            infer(term, pack(domain))
        except DiffcurryError:
            continue
        accepted.append(domain)
    if not accepted:
        raise ArgumentError("no domain of one or two real arrays fits this primitive", expected="a domain", got=term)
    return accepted
