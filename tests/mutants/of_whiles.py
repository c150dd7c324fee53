"""Mutants of while, and the programs that notice them: with two slots and two rows, eleven steps drop states."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import function
from compile_ccc.reading import whiles as reading
from tangents import grad
from tangents.at_once import branches
from tangents.control import whiles
from tangents.forward import control as forward_loops
from tangents.spaces import listing
from tests.mutants.breaking import Code
from tests.mutants.checking import Check, holds

S = C.Tensor()


def with_few(check: Check) -> Check:
    def run() -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(whiles, "_LEAST", 2)
            patch.setattr(whiles, "_MOST", 2)
            return check()

    return run


def repeated(f: Callable, n: int, x):
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, f(s[1])), (0, x))[1]


def eleven(x, y):
    return repeated(lambda s: s + 0.1 * jnp.cos(3.0 * s + y) + 0.05 * x, 11, x)


def eleven_of_numpy(x, y):
    s = x
    for _ in range(11):
        s = s + 0.1 * np.cos(3.0 * s + y) + 0.05 * x
    return s


def lanes(x, y):
    ends = jnp.arange(3, dtype=np.int32)
    return jnp.sum(jax.vmap(lambda n: repeated(lambda s: jnp.sin(s * y) + x, n, y))(ends))


def lanes_of_numpy(x, y):
    once = np.sin(y * y) + x
    return y + once + np.sin(once * y) + x


def through_a_function(x, y):
    f = function(lambda z: jnp.sin(z) * x, C.Tensor((), x.dtype))
    return repeated(lambda s: f(s * y), 3, y)


def through_a_function_of_numpy(x, y):
    s = y
    for _ in range(3):
        s = np.sin(s * y) * x
    return s


def choosing(w, x):
    """Products with a matrix, two of them or one in a branch, and none in the last one."""

    def step(i, x):
        twice = lambda: jnp.sin(w @ x + x @ w)
        return lax.switch(i % 3, [twice, lambda: w @ jnp.tanh(x), lambda: 0.5 * x])

    return jnp.sum(lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, step(*s)), (jnp.int32(0), x))[1])


def choosing_of_numpy(w, x):
    for i in range(5):
        x = (np.sin(w @ x + x @ w), w @ np.tanh(x), 0.5 * x)[i % 3]
    return np.sum(x)


def inverting(w, x):
    """A product with what is cheap to work out again, and infinite where there is no step."""
    return jnp.sum(repeated(lambda x: jnp.tanh(w @ (1.0 / x)), 5, x))


def inverting_of_numpy(w, x):
    for _ in range(5):
        x = np.tanh(w @ (1.0 / x))
    return np.sum(x)


def slopes(f: Callable, meaning: Callable) -> Check:
    """The gradient by a matrix, along a direction, compiled."""

    def run() -> list[str]:
        rng, h = np.random.default_rng(0), 1e-7
        with jax.enable_x64(True):
            w, along, x = rng.normal(size=(24, 24)) / 5, rng.normal(size=(24, 24)), rng.normal(size=24)
            slope = (meaning(w + h * along, x) - meaning(w - h * along, x)) / (2 * h)
            found = np.sum(jax.jit(grad(f))(w, x) * along)
        return [] if np.allclose(found, slope, rtol=1e-4) else [f"{found} instead of {slope}"]

    return run


CHECKS = {
    "choices in a while": slopes(choosing, choosing_of_numpy),
    "products in a while": slopes(inverting, inverting_of_numpy),
    "a while": with_few(holds(eleven, S, S, meaning=eleven_of_numpy)),
    "lanes of a while": holds(lanes, S, S, meaning=lanes_of_numpy),
    "a function of the program in a while": holds(through_a_function, S, S, meaning=through_a_function_of_numpy),
}

MUTANTS = {
    "of the branches with products the first alone has a cotangent": (
        "choices in a while",
        Code(branches._lifted, "[sum(xs[1:], xs[0])]", "[xs[0]]"),
    ),
    "a branch gives something for the products of others": (
        "choices in a while",
        Code(branches._giving, "jnp.zeros(", "jnp.ones("),
    ),
    "rows after the last step are added up": (
        "products in a while",
        Code(whiles.repetition, "{}, valid=valid)", "{})"),
    ),
    "the states between are kept": ("a while", Code(whiles._halved, "x[::2]", "x[1::2]")),
    "full slots leave the distance as it is": ("a while", Code(whiles._halved, "2 * every", "every")),
    "a block starts at the state that was kept": (
        "a while",
        Code(whiles._checkpointed, "away = first - slot * every", "away = 0 * first"),
    ),
    "steps are pulled back from the first": (
        "a while",
        Code(whiles._pulled, "x, i - 1, 0, keepdims", "x, count - i, 0, keepdims"),
    ),
    "of the steps the first alone has a cotangent": (
        "a while",
        Code(whiles.repetition, "list(map(plus, total, added))", "added"),
    ),
    "of the blocks the first alone has a cotangent": (
        "a while",
        Code(whiles.repetition, "plus(total[i], sums[i]) for i in total", "sums[i] for i in total"),
    ),
    "blocks are pulled back without the last": (
        "a while",
        Code(whiles._checkpointed, "(count + size - 1) // size", "count // size"),
    ),
    "a while forgets its tangents": (
        "a while",
        Code(forward_loops.repetition, "return dual(", "return (lambda y, _: y)("),
    ),
    "a lane that has ended goes on": (
        "lanes of a while",
        Code(reading._programs, "chosen(lanes, s[:count], s[count:]), 2", "s[:count], 2"),
    ),
    "the calls in a while are lost": (
        "a function of the program in a while",
        Code(listing._listed, "Calls(Captured(ARRAYS.present(c, _opened(leaf)), hint))", "ZERO"),
    ),
}
