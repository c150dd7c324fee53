"""Compiled loops: no buffer of all steps is copied in a step, which would make them quadratic."""

from __future__ import annotations

import math
import re

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function
from tangents import grad

STEPS, SIZE = 64, 32


def copies(text):
    """The sizes of arrays that are copied in the innermost loops of a compiled program that multiply: in their steps.

    What happens once for a block of steps is not meant: a buffer is made for it, and states that are kept are dropped.
    """
    computations = dict(re.findall(r"^(?:ENTRY )?%?([\w.\-]+) \(.*?\{\n(.*?)^\}", text, re.M | re.S))
    bodies = {name: _whole(name, computations) for name in re.findall(r"body=%?([\w.\-]+)", text)}
    steps = [body for body in bodies.values() if " while(" not in body and " dot(" in body]
    assert steps
    shapes = [shape for body in steps for shape in re.findall(r"= \w+\[([\d,]*)\]\S* copy\(", body)]
    return [math.prod(map(int, filter(None, shape.split(",")))) for shape in shapes]


def _whole(name, computations):
    """The text of a computation, and of all that it calls."""
    names, left = {}, [name]
    while left:
        name = left.pop()
        if name in computations and name not in names:
            names[name] = computations[name]
            left += re.findall(r"%([\w.\-]+)", computations[name])
    return "\n".join(names.values())


def network(w, xs, h):
    cell = lambda h, x: (jnp.tanh(x + h @ w), jnp.sin(h))
    last, outputs = lax.scan(cell, h, xs)
    return jnp.sum(last) + jnp.sum(outputs**2)


def search(w, xs, h):
    step = lambda i, h: jnp.tanh(xs[i] + h @ w)
    return jnp.sum(lax.fori_loop(0, jnp.int32(xs[0, 0, 0]), step, h))


def bounded(w, xs, h):
    more = function(lambda s: s[0] < STEPS, (C.Tensor((), "int32"), C.Tensor((2, SIZE))))
    step = function(lambda s: (s[0] + 1, jnp.tanh(xs[s[0]] + s[1] @ w)), (C.Tensor((), "int32"), C.Tensor((2, SIZE))))
    return more, step, (jnp.int32(0), h)


def of_function(w, xs, h):
    f = function(lambda h: jnp.tanh(h @ w), C.Tensor((2, SIZE)))
    return jnp.sum(lax.scan(lambda h, x: (f(h) + x * f(x), None), h, xs)[0])


LOOP = ccc(bounded) >> C.terms.While(STEPS) >> ccc(lambda s: jnp.sum(s[1]))


@pytest.mark.parametrize(
    ("loss", "functions"),
    [(network, "environment"), (search, "environment"), (LOOP, "environment"), (of_function, "list")],
    ids=lambda p: getattr(p, "__name__", p),
)
def test_no_step_copies_what_is_kept_of_all_steps(loss, functions):
    types = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((SIZE, SIZE), (STEPS, 2, SIZE), (2, SIZE))]
    text = jax.jit(grad(loss, (0, 1), functions=functions)).lower(*types).compile().as_text()
    found = copies(text)
    assert max(found, default=0) <= SIZE * SIZE, found


def test_a_copy_of_a_buffer_is_found():
    def step(i, s):  # reads and overwrites one buffer in several places
        buffer, x = s
        return buffer.at[i].set(x + buffer[STEPS - 1 - i] * buffer[i]), jnp.sum(buffer) + x @ jnp.ones((7, 7))

    text = (
        jax.jit(lambda b, x: lax.fori_loop(0, STEPS, step, (b, x))).lower(jnp.ones((STEPS, 7)), jnp.ones(7)).compile()
    )
    assert max(copies(text.as_text()), default=0) == 7 * STEPS
