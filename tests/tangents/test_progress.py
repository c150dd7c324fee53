"""Loops that tell how far they are, from compiled programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

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
        self.counts.append(int(count))


def fori(w, n, told):
    return lax.fori_loop(0, n, lambda i, s: w * told(i, s), 1.0)


def scan(w, n, told):
    return lax.scan(lambda s, i: (w * told(i, s), ()), 1.0, jnp.arange(STEPS))[0]


def whiles(w, n, told):
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, w * told(s[0], s[1])), (0, 1.0))[1]


@pytest.mark.parametrize("functions", ["environment", "list"])
@pytest.mark.parametrize("loop", [fori, scan, whiles])
def test_every_fifth_step_is_told_of_once(loop, functions, capsys):
    with Noted(STEPS, every=5, name="twelve") as told:
        slope = jax.jit(grad(lambda w, n: loop(w, n, told), functions=functions))(1.1, STEPS)
    np.testing.assert_allclose(slope, STEPS * 1.1 ** (STEPS - 1), rtol=1e-5)
    assert sorted(told.counts) == [5, 10]
    assert told.done == 10
    assert "10/12" in capsys.readouterr().out


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
