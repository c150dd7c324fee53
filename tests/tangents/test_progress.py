"""Loops that tell how far they are, from compiled programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import errors as E
from tangents import grad
from tangents.progress import Progress

STEPS = 12


class Noted(Progress):
    """What it was told of."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.counts = []

    def _tell(self, count):
        super()._tell(count)
        self.counts.append(count)


def fori(w, n, told):
    return lax.fori_loop(0, n, lambda i, s: w * told(i, s), 1.0)


def scan(w, n, told):
    return lax.scan(lambda s, i: (w * told(i, s), ()), 1.0, jnp.arange(STEPS))[0]


def whiles(w, n, told):
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, w * told(s[0], s[1])), (0, 1.0))[1]


@pytest.mark.parametrize("functions", ["environment", "list"])
@pytest.mark.parametrize("loop", [fori, scan, whiles])
def test_every_fifth_step_and_the_last_are_told_of_once(loop, functions, capsys):
    with Noted(STEPS, every=5, name="twelve") as told:
        slope = jax.jit(grad(lambda w, n: loop(w, n, told), functions=functions))(1.1, STEPS)
    np.testing.assert_allclose(slope, STEPS * 1.1 ** (STEPS - 1), rtol=1e-5)
    assert sorted(told.counts) == [5, 10, 12]
    assert told.done == 12
    assert "12/12" in capsys.readouterr().out


def test_a_loop_of_which_nobody_knew_the_steps_has_a_full_bar_when_it_has_ended(capsys):
    with Noted(every=4) as told:
        jax.jit(lambda w, n: whiles(w, n, told))(1.1, 9)
    assert sorted(told.counts) == [4, 8]
    assert "8/8" in capsys.readouterr().out


@pytest.mark.parametrize("width", [1, 3])
def test_a_fold_over_trees_tells_of_the_nodes_of_the_largest(width, capsys):
    trees = C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Rec))
    chain = lambda n: ("leaf", 1.0) if n == 0 else ("node", chain(n - 1), ("leaf", 1.0))

    def total(w, forest, told):
        def node(left, right):
            nodes = left[1] + right[1] + 1
            return told(nodes - 1, w * left[0] * right[0]), nodes

        return jnp.sum(C.cata(trees)({"leaf": lambda x: (w * x, 0), "node": node}, forest)[0])

    with Noted(8, every=3) as told:
        slope = jax.jit(grad(lambda w, forest: total(w, forest, told)))(
            1.5, trees.encode([chain(8), chain(2)], width=width)
        )
    np.testing.assert_allclose(slope, 17 * 1.5**16 + 5 * 1.5**4, rtol=1e-5)  # n + 1 leaves, and n nodes
    assert {3, 6, 8} == set(told.counts) and told.done == 8
    assert "8/8" in capsys.readouterr().out


def test_without_a_number_the_program_is_the_same(capsys):
    def program(told):
        return str(jax.make_jaxpr(grad(lambda w, n: fori(w, n, told)))(1.1, STEPS))

    with Progress(STEPS) as told:
        assert program(told) == program(lambda i, s: s)
    assert capsys.readouterr().out == ""
    assert program(Progress(STEPS, every=5)) != program(lambda i, s: s)


def test_numbers_of_steps_are_positive():
    for numbers in ((0,), (5, 0), (2.5,)):
        with pytest.raises(E.ArgumentError, match="number of"):
            Progress(*numbers)
