"""Mutants of what is left out, moved or refused: products in branches, the optimiser, searches, policies."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import combinators as C
from combinators import edges
from compile_ccc import optimise
from compile_ccc.optimiser import patterns
from compile_ccc.optimiser.optimise import _by_numbers
from tangents import grad
from tangents.at_once import branches
from tangents.primitives import missing
from tests.mutants.breaking import Code
from tests.mutants.checking import comes_to, holds, in_turn

SIN = C.primitive("sin")
p0, p1 = C.proj(0), C.proj(1)


def bisection(name: str, until: bool) -> Any:
    loop = lambda d: lax.while_loop(lambda s: s < 1.0, lambda s: 2.0 * s, d)
    f = loop if until else lambda d: d * d
    f.__name__ = name
    return in_turn(grad(jax.jit(f)), (2.0,))


def chosen_products(w, v):
    branch = lambda s: jnp.sin(w @ s / 9), lambda s: jnp.tanh(w.T @ s / 9) + w @ (s * s) / 50
    return jnp.sum(lax.scan(lambda s, e: (lax.cond(e > 0, *branch, s), None), jnp.ones(12, w.dtype), v)[0])


def products_of_numpy(w, v):
    s = np.ones(12)
    for e in v:
        s = np.sin(w @ s / 9) if e > 0 else np.tanh(w.T @ s / 9) + w @ (s * s) / 50
    return np.sum(s)


def optimised(term: Any, *arguments: Any) -> Any:
    return jax.tree.map(float, optimise(term)(*arguments))


CHECKS = {
    "a search of JAX's": comes_to("refused", lambda: bisection("eigh_tridiagonal", True)),
    "a function with the name of a search": comes_to([4.0], lambda: bisection("eigh_tridiagonal", False)),
    "a function that is no policy": comes_to("refused", lambda: C.checkpoint(SIN, policy=np.sin)),
    "products in branches": holds(
        chosen_products, C.Tensor((12, 12)), C.Tensor(4), meaning=products_of_numpy, spaces=("environment",), examples=2
    ),
    "a pair of a triple, optimised": comes_to((1.0, 2.0), lambda: optimised(C.prod(p0, p1), 1.0, 2.0, 3.0)),
    "a component by its name, optimised": comes_to(
        1.0, lambda: optimised(C.prod({"a": C.id, "b": C.id >> SIN}) >> C.proj("a"), 1.0)
    ),
}

MUTANTS = {
    "no function is a search": ("a search of JAX's", Code(missing.check_searched, "isinstance(f, While)", "False")),
    "every function of the name is a search": (
        "a function with the name of a search",
        Code(missing.check_searched, "isinstance(f, While)", "True"),
    ),
    "any function is a policy": (
        "a function that is no policy",
        Code(edges._takes_any_keyword, "parameter.kind is parameter.VAR_KEYWORD", "True"),
    ),
    "of products in branches, one counts": (
        "products in branches",
        Code(branches._lifted, "sum(xs[1:], xs[0])", "xs[0]"),
    ),
    "a branch that is not taken gives ones": (
        "products in branches",
        Code(branches._giving, "jnp.zeros(", "jnp.ones("),
    ),
    "laws are applied to any tuple": (
        "a pair of a triple, optimised",
        Code(patterns.Pattern.right, "self.form not in (ANY, form) or", ""),
    ),
    "components are counted from the last": (
        "a component by its name, optimised",
        Code(_by_numbers, "Proj(i)", "Proj(len(parts) - 1 - i)"),
    ),
}
