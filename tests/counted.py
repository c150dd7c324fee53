"""Programs, counted: how many equations and combinators they have, and how long the long ones are."""

import os
from collections import Counter

import jax
import jax.extend.core as jex
import jax.numpy as jnp
from jax import lax

import combinators as C
from tangents import represent

LONG = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 20_000  # far more than Python recurses


def chain(n, name=""):
    """A lambda of n lets; under another name it is another program."""

    def f(x, name=name):
        for _ in range(n // 2):
            x = lax.mul(lax.sin(x), x)
        return x

    return f


def all_equations(f, *arguments):
    """The equations of a program, those of the bodies of loops and calls among them."""
    programs = [jax.make_jaxpr(f)(*arguments).jaxpr]
    for program in programs:
        for eqn in program.eqns:
            programs += jex.jaxprs_in_params(eqn.params)
            yield eqn


def equations(f, *arguments):
    """How many equations of each primitive a program has."""
    return Counter(eqn.primitive.name for eqn in all_equations(f, *arguments))


def operations(f, *arguments):
    """The number of equations that are no call of a compiled program."""
    return equations(f, *arguments).total() - equations(f, *arguments)["jit"]


def value_and_pullback(term, functions):
    def run(x):
        y, pullback = represent(term, functions)(x)
        return y, pullback(jnp.ones_like(y))

    return run


def size(term):
    """The number of combinators in a term."""
    inner = [*getattr(term, "steps", ()), *getattr(term, "parts", ())]
    inner += [part for part in (getattr(term, "body", None), getattr(term, "value", None)) if isinstance(part, C.Term)]
    return 1 + sum(map(size, inner))
