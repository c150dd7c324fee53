"""Random programs of users: Python source over jnp, whose lambdas are called, made into function values, and captured.

Names come from few letters, so that parameters and local variables shadow outer ones; a block fixes its local names
before its first statement, because to Python a name is local in a whole function or not at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from combinators.types import Tensor
from tangents.strategies.choices import choose, flip, number, some
from tangents.strategies.expressions import expression
from tangents.strategies.numbers import Numbers
from tangents.strategies.places import Name, Place, parameters
from tangents.strategies.programs import Program
from tangents.strategies.templates import ARROWS, Arrow, Kind


@st.composite
def lambdas(draw: st.DrawFn, size: int = 30) -> Program:
    """Programs of one to three arguments, scalars, vectors of size 3, pairs and dicts, that give a scalar.

    Beside their arguments they read numbers from globals, cells and defaults.  They are smooth where the arguments are,
    up to chance: kinks and steps (maximum, abs, where) lie at random places.  `size` is about the number of operations.
    """
    numbers = Numbers(draw)
    kinds = some(draw, lambda: choose(draw, "SSVDP"), 1, 3)
    own = parameters(draw, kinds)
    letters = {at: choose(draw, "kcd") for at in ("global", "cell", "default") if number(draw, 2) == 2}
    if letters.get("default") in own:
        del letters["default"]
    lines = {at: [f"{letters[at]} = {numbers.real()}"] if at in letters else [] for at in ("global", "cell", "default")}
    outer = Place(tuple(Name(name, "S") for name in dict.fromkeys(letters.values())), size, numbers)
    body = _block(draw, outer.under(*zip(own, kinds, strict=True)), "S")
    source = [f"def program({', '.join([*own, *lines['default']])}):", *_indented(body)]
    if lines["cell"]:
        source = ["def made():", *_indented([*lines["cell"], *source, "return program"]), "program = made()"]
    arguments = tuple(_argument(kind, numbers) for kind in kinds)
    return Program("\n".join(["S, V = C.Tensor(), C.Tensor((3,))", *lines["global"], *source]), arguments)


def _block(draw: st.DrawFn, place: Place, kind: Kind) -> list[str]:
    """The statements of a function that gives a `kind`: its local variables, used or not, and the result."""
    inner = place.hiding(choose(draw, ("", "x", "fgh", "uvp", "abxyz")))
    lines: list[str] = []
    for _ in range(min(3, place.size // 3)):
        statement = draw(_statement(replace(inner, size=place.size // 3)))
        if statement is None:
            break
        inner, text = statement
        lines += text
    result = replace(inner, size=place.size // 2 if lines else place.size - 1)
    return [*lines, f"return {draw(expression(result, kind))}"]


@st.composite
def _statement(draw: st.DrawFn, place: Place) -> tuple[Place, list[str]] | None:
    """A local variable bound, or a function defined, by a name that is free here; None if there shall be no more."""
    kind = choose(draw, [None, None, "S", "V", *ARROWS, "P", "D"])
    free = place.free(kind) if kind is not None else []
    if not free:
        return None
    name, is_value = choose(draw, free), not isinstance(kind, Arrow) or flip(draw)
    text = [f"{name} = {draw(expression(place, kind))}"] if is_value else _definition(draw, place, name, kind)
    return place.under((name, kind), is_value=is_value), text


def _definition(draw: st.DrawFn, place: Place, name: str, kind: Any) -> list[str]:
    names = parameters(draw, kind.dom)
    body = _block(draw, place.under(*zip(names, kind.dom, strict=True)), kind.cod)
    return [f"def {name}({', '.join(names)}):", *_indented(body)]


def _argument(kind: Kind, numbers: Numbers) -> Any:
    scalar, vector = Tensor(), Tensor((3,))
    match kind:
        case "S":
            return numbers.array(scalar)
        case "V":
            return numbers.array(vector)
        case "P":
            return numbers.array(scalar), numbers.array(scalar)
        case _:
            return {"a": numbers.array(scalar), "b": numbers.array(vector)}


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
