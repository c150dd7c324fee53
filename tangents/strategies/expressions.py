"""Expressions of random programs, drawn by kind in a scope of typed names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hypothesis import strategies as st

from tangents.strategies.choices import choose, flip, number
from tangents.strategies.places import Place, parameters
from tangents.strategies.templates import LOOPS, TEMPLATES, Arrow, Kind, domain


@st.composite
def expression(draw: st.DrawFn, place: Place, kind: Kind) -> str:
    """An expression of a kind: functions are values."""
    return choose(draw, list(_rules(place, kind)))(draw, place, kind)


type Rule = Callable[[st.DrawFn, Place, Kind], str]


def _rules(place: Place, kind: Kind) -> Iterator[Rule]:
    """The rules that give a kind, simplest first; one that stands here twice is drawn twice as often."""
    grows = place.size > 0
    if place.variables(kind):
        yield from [_variable] * (1 if grows else 9)
    if isinstance(kind, Arrow):
        yield from [_abstraction] * (3 if grows else 1)
        if place.definitions(kind):
            yield from [_made_of_definition] * 3
    else:
        yield _literal
    if not grows:
        return
    if not isinstance(kind, Arrow):
        yield from [_template] * 10
        yield _immediate
    if kind in ("S", "V") and place.loops:
        yield from [_loop] * 2
    if place.callees(kind):
        yield from [_call] * 12


def _variable(draw: st.DrawFn, place: Place, kind: Kind) -> str:
    return choose(draw, place.variables(kind))


def _literal(draw: st.DrawFn, place: Place, kind: Kind) -> str:
    real = place.numbers.real
    match kind:
        case "S":
            return str(real())
        case "V":
            return f"jnp.array([{real()}, {real()}, {real()}])"
        case "P":
            return f"({real()}, {real()})"
        case _:
            nothing = replace(place, size=0)
            return f"{{'a': {draw(expression(nothing, 'S'))}, 'b': {draw(expression(nothing, 'V'))}}}"


def _template(draw: st.DrawFn, place: Place, kind: Kind) -> str:
    fitting = [(text, holes) for text, holes in TEMPLATES[kind] if place.loops or not text.startswith(LOOPS)]
    text, holes = choose(draw, fitting)
    part = place.share(len(holes))
    part = replace(part, loops=place.loops - text.startswith(LOOPS))
    filled = [draw(expression(replace(part, size=0) if h in ("s", "v") else part, _KIND.get(h, h))) for h in holes]
    return text.format(*filled)


_KIND: dict[Kind, Kind] = {"s": "S", "v": "V"}


def _abstraction(draw: st.DrawFn, place: Place, kind: Arrow) -> str:
    """function(λ), now and then of a λ that Python has applied to its first argument."""
    if number(draw, 7) < 7:
        return f"function({_lambda(draw, place, kind)}, {domain(kind.dom)})"
    f = _lambda(draw, place.share(2), Arrow(("S", *kind.dom), kind.cod))
    return f"function(functools.partial({f}, {draw(expression(place.share(2), 'S'))}), {domain(kind.dom)})"


def _lambda(draw: st.DrawFn, place: Place, kind: Arrow) -> str:
    """A lambda whose parameters may hide outer names, and a default of which may hold a number of the outer scope."""
    names = parameters(draw, kind.dom)
    bound = list(zip(names, kind.dom, strict=True))
    shown = list(names)
    if number(draw, 5) == 5 and "d" not in names:
        star = ["*"] * flip(draw)
        shown += [*star, f"d={draw(expression(replace(place, size=0), 'S'))}"]
        bound.append(("d", "S"))
    return f"lambda {', '.join(shown)}: {draw(expression(place.under(*bound).share(1), kind.cod))}"


def _made_of_definition(draw: st.DrawFn, place: Place, kind: Arrow) -> str:
    return f"function({choose(draw, place.definitions(kind))}, {domain(kind.dom)})"


def _immediate(draw: st.DrawFn, place: Place, kind: Kind) -> str:
    """A lambda that Python calls on the spot, jitted or not, or one argument after the other; or one out of a pair."""
    first, second = Arrow(("S",), kind), Arrow(("V",), kind)
    f = choose(draw, (first, second))
    argument = draw(expression(place.share(2), f.dom[0]))
    match choose(draw, ("called", "jitted", "curried", "paired")):
        case "called":
            return f"({_lambda(draw, place.share(2), f)})({argument})"
        case "jitted":
            return f"jax.jit({_lambda(draw, place.share(2), f)})({argument})"
        case "paired":
            g, h = (draw(expression(place.share(3), f)) for _ in range(2))
            return f"({g}, {h})[{number(draw, 1)}]({argument})"
        case _:
            pass
    (x,) = parameters(draw, f.dom)
    inner = _lambda(draw, place.under((x, f.dom[0])).share(2), first)
    return f"(lambda {x}: {inner})({argument})({draw(expression(place.share(2), 'S'))})"


def _loop(draw: st.DrawFn, place: Place, kind: Kind) -> str:
    """A loop of JAX over a lambda of Python's; it is squashed, so that its state stays small."""
    part = replace(place.share(3), loops=place.loops - 1)
    s, x = parameters(draw, "SS")
    start = draw(expression(part, "S"))
    if kind == "S" and flip(draw):
        step = draw(expression(part.under((s, "S")), "S"))
        return f"lax.fori_loop(0, 3, lambda _, {s}: jnp.tanh({step}), {start})"
    inner = part.under((s, "S"), (x, "S"))
    step, output = draw(expression(inner, "S")), draw(expression(replace(inner, size=0), "S"))
    elements = draw(expression(part, "V"))
    return f"lax.scan(lambda {s}, {x}: (jnp.tanh({step}), {output}), {start}, {elements})[{int(kind == 'V')}]"


def _call(draw: st.DrawFn, place: Place, kind: Kind) -> str:
    """A function in scope, called as often as it takes."""
    name, doms = choose(draw, place.callees(kind))
    part = place.share(sum(map(len, doms)))
    calls = [f"({', '.join(draw(expression(part, k)) for k in dom)})" for dom in doms]
    return name + "".join(calls)
