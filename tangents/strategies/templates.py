"""What random programs are written with: kinds of values, letters for variables, and templates of expressions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

type Kind = (
    Any  # "S", a scalar; "V", a vector; "P", a pair of scalars; "D", a dict of a scalar and a vector; or an Arrow
)


@dataclass(frozen=True)
class Arrow:
    """A function type: the kinds of its arguments, and of its result."""

    dom: tuple[Kind, ...]
    cod: Kind


def domain(kinds: Iterable[Kind]) -> str:
    """The source of the types of these kinds, as `function` takes them."""
    return ", ".join(map(_type, kinds))


def _type(kind: Kind) -> str:
    match kind:
        case Arrow(dom, cod):
            types = domain(dom)
            return f"C.Function({types if len(dom) == 1 else f'({types})'}, {_type(cod)})"
        case "P":
            return "(S, S)"
        case "D":
            return "{'a': S, 'b': V}"
        case _:
            return kind


UNARY = Arrow(("S",), "S")
BINARY = Arrow(("S", "S"), "S")
STEP = Arrow(("S", "S"), "P")
ARROWS: tuple[Arrow, ...] = (
    UNARY,
    BINARY,
    Arrow(("V",), "S"),
    Arrow(("S",), UNARY),
    Arrow((UNARY,), "S"),
    Arrow((UNARY, "S"), "S"),
    Arrow(("V", "S"), "V"),
    Arrow(("D",), "S"),
    Arrow(("P",), "P"),
    STEP,
    Arrow((UNARY,), UNARY),
    Arrow(("S",), Arrow(("V",), UNARY)),
    Arrow((BINARY,), UNARY),
)

# Letters are shared between kinds, so that a name can hide one of another kind.
LETTERS = {"S": "xyzabd", "V": "uvwxd", "P": "pqrx", "D": "pqx", "F": "fghx"}

# A text and the kinds of its holes.  "s" and "v" are variables or numbers alone, so that no product grows fast.
_SMOOTH = (
    "jnp.sin({})",
    "jnp.tanh({})",
    "(-{})",
    "jnp.cos({})",
    "jnp.exp(jnp.tanh({}))",
    "jnp.log(1.5 + jnp.sin({}))",
    "jnp.sqrt(1.0 + jnp.tanh({}) ** 2)",
    "jnp.sin({}) ** 3",
)
_COUNTED = (
    "lax.while_loop(lambda s: (s[0] < 4) & (s[1] < 2.0), lambda s: (s[0] + 1, ({})(s[1]) + jnp.sin(s[1])), (0, {}))[1]"
)
_OVER_VECTORS = Arrow(("V", "S"), "V")

LOOPS = ("C.fold", "C.scan", "C.map", "lax.scan", "lax.fori_loop", "lax.while_loop", "jax.vmap")

TEMPLATES: dict[Kind, list[tuple[str, tuple[Kind, ...]]]] = {
    "S": [
        ("({} + {})", ("S", "S")),
        ("({} * {})", ("s", "S")),
        ("({} - {})", ("S", "S")),
        *((text, ("S",)) for text in _SMOOTH),
        ("({} / (1.5 + jnp.sin({})))", ("S", "S")),
        ("(jnp.sin({}) * {})", ("S", "S")),
        ("jnp.sum({})", ("V",)),
        ("jnp.mean({})", ("V",)),
        ("({} @ jnp.sin({}))", ("v", "V")),
        ("({})[-1]", ("V",)),
        *[("C.fold({}, {}, {})", (BINARY, "S", "V"))] * 3,
        *[("C.fold({}, {}, {})[0]", (_OVER_VECTORS, "V", "V"))] * 2,
        ("lax.scan({}, {}, {})[0]", (STEP, "S", "V")),
        ("C.scan({}, {}, {})[0]", (STEP, "S", "V")),
        ("lax.fori_loop(0, jnp.where({} > {}, 3, 1), lambda _, s: ({})(s), {})", ("s", "s", UNARY, "S")),
        *[(_COUNTED, (UNARY, "S"))] * 2,
        ("({})[1]", ("P",)),
        ("jnp.where({} > {}, {}, {})", ("s", "s", "S", "S")),
        ("jnp.maximum({}, {})", ("S", "S")),
        ("jnp.abs({})", ("S",)),
        ("jnp.max({})", ("V",)),
    ],
    "V": [
        ("({} * {})", ("s", "V")),
        ("({} + {})", ("V", "V")),
        ("({} * jnp.sin({}))", ("v", "V")),
        *((text, ("V",)) for text in _SMOOTH[:4]),
        ("({} - {})", ("S", "V")),
        ("{}[::-1]", ("v",)),
        ("jnp.stack([{}, {}, {}])", ("S", "S", "S")),
        *[("C.map({}, {})", (UNARY, "V"))] * 2,
        ("jax.vmap({})({})", (UNARY, "V")),
        ("lax.scan({}, {}, {})[1]", (STEP, "S", "V")),
        ("C.scan({}, {}, {})[1]", (STEP, "S", "V")),
        ("jnp.where({} > {}, {}, {})", ("v", "v", "V", "V")),
        ("jnp.minimum({}, {})", ("V", "V")),
        ("jnp.cumsum({})", ("V",)),
    ],
    "P": [("({}, {})", ("S", "S"))],
    "D": [("{{'a': {}, 'b': {}}}", ("S", "V"))],
}
