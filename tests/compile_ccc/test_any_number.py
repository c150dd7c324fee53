"""Functions of any number of arguments, lambda *a: ..., get the parts of what a loop or a fold applies them to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import ccc
from tangents import grad

EXPRESSIONS = C.Inductive(nothing=(), number=C.Tensor(), add=(C.Rec, C.Rec))
SUM_OF_TWO = EXPRESSIONS.encode([("add", ("number", 1.0), ("add", ("nothing",), ("number", 2.0)))])
NUMBERS = jnp.array([1.0, 2.0, 4.0])
LEAVES = {"nothing": lambda *x: 5.0 + len(x), "number": lambda *x: x[0] * len(x)}
ANY_NUMBER = {  # by what they are: a program of a number, and its derivative at 2, worked out by hand
    "cata": (lambda w: C.cata(EXPRESSIONS)(
        {**LEAVES, "add": lambda *a: w * a[0] * a[1] * len(a)}, SUM_OF_TWO)[0], 160.0),
    "some": (lambda w: C.cata(EXPRESSIONS)({**LEAVES, "add": lambda a, *b: w * a + b[0]}, SUM_OF_TWO)[0], 6.0),
    "annotate": (lambda w: jnp.max(C.annotate(EXPRESSIONS)(
        {**LEAVES, "add": lambda *a: w * a[0] + a[1]}, SUM_OF_TWO).payloads["add"][1]), 6.0),
    "inherit": (lambda w: jnp.max(C.inherit(EXPRESSIONS)(
        {"add": lambda *a: (a[0], w * a[0])}, jnp.ones(1), SUM_OF_TWO).payloads["number"][1]), 4.0),
    "fold": (lambda w: C.fold(lambda *a: w * a[0] + a[1], 0.0, NUMBERS), 6.0),
    "scan": (lambda w: C.scan(lambda *a: (w * a[0] + a[1], len(a) * a[0]), 0.0, NUMBERS)[1][2], 2.0),
    "map": (lambda w: C.map(lambda *a: w * a[0] * a[1], (NUMBERS, NUMBERS))[2], 16.0),
    "while": (lambda w: C.while_(lambda *a: a[0] < 3.0, lambda *a: (a[0] + 1.0, w * a[1]), (0.0, 1.0))[1], 12.0),
    "of one": (lambda w: C.fold(lambda *a: w * a[0] + a[1][0], 0.0, (NUMBERS, NUMBERS)), 6.0),
}  # fmt: skip


@pytest.mark.parametrize("name", ANY_NUMBER)
def test_a_function_of_any_number_of_arguments_gets_the_parts(name):
    program, derivative = ANY_NUMBER[name]
    for asked in (grad(program), jax.jit(grad(program)), grad(program, functions="list")):
        np.testing.assert_allclose(asked(2.0), derivative, rtol=1e-6)
    assert ccc(lambda *a: len(a) * a[0][0])((3.0, 4.0)) == 3.0  # whereas one argument that is a pair is one
