"""Curry by hand: programs without variables, and two ways to differentiate through a function.

*The Differentiable Curry* (paper 003, figure 4) has three pairs of programs that mean the same. Here they are terms,
built from combinators alone. The terms of a pair have the same value, and their pullbacks give the same cotangents,
whether the cotangent of a function is that of the environment which it captured or the list of its calls.

    python examples/01_curry_by_hand.py
"""

import argparse
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

import combinators as C
from tangents import Calls, represent

add, sin, times = C.primitive("add"), C.primitive("sin"), C.primitive("mul")
first, second = C.proj(0), C.proj(1)

# `curry(times)` takes a number to the function that multiplies by it, so `scale(3.0)` is a closure that captured 3.0.
scale = C.curry(times)


def call(f: C.Term, x: C.Term) -> C.Term:
    """f x, where f and x say how to find the function and its argument."""
    return C.prod(f, x) >> C.eval


def uncurry(foo: C.Term) -> C.Term:
    """(f, x) ↦ foo f x"""
    return call(first >> foo, second)


@dataclass
class Pair:
    """Two terms that mean the same, and a point to compare them at."""

    title: str
    foo1: C.Term
    foo2: C.Term
    point: tuple


def figure_4() -> Iterator[Pair]:
    """The pairs of the figure. Under a `curry`, first is what was captured and second is the argument."""
    f = C.prod(times, second >> sin) >> add  # f (a, b) = a b + sin b
    yield Pair("Partial application", uncurry(C.curry(f)), f, (2.0, 0.5))

    # The cotangent of g x is known to be zero, and such a call is left out of the list that g gets.
    f_x, g_x = call(first >> first, second), call(first >> second, second)
    forgets, ignores = C.curry(C.prod(f_x, g_x) >> first), C.curry(f_x)
    yield Pair("Forgetting results", uncurry(forgets), uncurry(ignores), ((scale(3.0), scale(5.0)), 0.5))

    f_x = call(first, second)
    calls_twice, calls_once = C.curry(C.prod(f_x, f_x) >> add), C.curry(f_x >> C.prod(C.id, C.id) >> add)
    yield Pair("Summing results", uncurry(calls_twice), uncurry(calls_once), (scale(3.0), 0.5))


def summed(calls: Calls) -> dict[float, float]:
    """What a list of calls means: the sum of the cotangents for each argument, and nothing where that sum is zero."""
    total: dict[float, float] = defaultdict(float)
    for argument, cotangent in calls:
        total[float(argument)] += float(cotangent)
    return {argument: cotangent for argument, cotangent in total.items() if cotangent}


def leaves(cotangents: object) -> list:
    """The cotangents one by one; calls are summed, and a closure has those of what it captured."""
    flat = jax.tree.leaves(cotangents, is_leaf=lambda g: isinstance(g, Calls))
    return [summed(g) if isinstance(g, Calls) else float(g) for g in flat]


def shown(cotangents: object) -> str:
    """The cotangents as they are, calls in the paper's notation."""
    match cotangents:
        case Calls():
            return "[" + ", ".join(f"({shown(x)}, {shown(g)})" for x, g in cotangents) + "]"
        case C.Closure():
            return f"captured {shown(cotangents.environment)}"
        case tuple():
            return "(" + ", ".join(map(shown, cotangents)) + ")"
        case _:
            return f"{float(cotangents):.4g}"


def same(left: object, right: object) -> bool:
    """Whether two cotangents mean the same, up to rounding."""
    left, right = leaves(left), leaves(right)
    agree = jax.tree.structure(left) == jax.tree.structure(right)
    return agree and np.allclose(jax.tree.leaves(left), jax.tree.leaves(right))


def main(argv: list[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    for pair in figure_4():
        print(pair.title)
        terms = {"foo1": pair.foo1, "foo2": pair.foo2}
        for name, foo in terms.items():
            print(f"  {name} = {textwrap.indent(C.show(foo, width=90), ' ' * 9).strip()}")
        for functions in ("environment", "list"):
            values, cotangents = [], []
            for name, foo in terms.items():
                y, pullback = represent(foo, functions=functions)(*pair.point)
                values.append(y)
                cotangents.append(pullback(jnp.ones_like(y)))
                print(f"  {functions:<11}  {name} gives {shown(y):<5} and pulls 1 back to {shown(cotangents[-1])}")
            assert np.allclose(*values)
            assert same(*cotangents)
        print()
    print("The terms of each pair agree in their values, and in their pullbacks in both tangent spaces.")


if __name__ == "__main__":
    main()
