"""`check`: hold anything of ours against the laws that it must obey.  Needs the extra `laws`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from combinators.errors import ArgumentError, DiffcurryError
from combinators.infer import infer
from combinators.law import Law
from combinators.laws import LAWS
from combinators.terms import Primitive, Term
from combinators.types import Function, Tensor, pack
from compile_ccc.arguments import argument_type
from compile_ccc.arrow import Arrow, trace
from tangents.check_arrows import check_arrow
from tangents.check_laws import check_law
from tangents.check_spaces import check_space
from tangents.reading import READINGS, Reading
from tangents.report import Report, Row
from tangents.represent import SPACES
from tangents.space import Space

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
    - a tangent space: its cotangents are a commutative monoid with an inner product.

    Values are drawn away from kinks, in float64, of either sign; `points`, a Hypothesis strategy, draws those of the
    domain of a term or lambda instead, such as positive ones.  In a test one line is enough: `check(f, C.Tensor(3))`.
    Raises `LawError` (an `AssertionError`), or `ArgumentError` for something that cannot be checked.
    """
    if examples < 1:
        raise ArgumentError("a check needs examples", expected="examples from 1 on", got=str(examples))
    match x:
        case Law():
            rows = check_law(x, READINGS.values(), examples, seed)
        case Reading():
            rows = [row for law in LAWS for row in check_law(law, [x], examples, seed)]
        case Space():
            rows = check_space(x, examples, seed)
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
    with jax.enable_x64(True):
        types = tuple(map(_wide, map(argument_type, domain)))
        spaces = list(SPACES.values())
        if isinstance(x, Term):
            return check_arrow(str(x), x, pack(types), spaces, examples, seed, points=points)
        meaning = lambda value: x(*(value if len(types) != 1 else (value,)))
        name = getattr(x, "__name__", str(x))
        return check_arrow(name, trace(x, *types).term, pack(types), spaces, examples, seed, meaning, points)


def _wide(type: Any) -> Any:
    """The type in float64, where central differences are accurate."""

    def leaf(t: Any) -> Any:
        if isinstance(t, Function):
            return Function(_wide(t.dom), _wide(t.cod))
        return Tensor(t.shape, float) if isinstance(t, Tensor) and jnp.issubdtype(t.dtype, jnp.floating) else t

    return jax.tree.map(leaf, type)


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
