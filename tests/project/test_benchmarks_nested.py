"""The benchmarks with derivatives inside: they find what GradBench says that they find, in every nesting."""

import jax
import numpy as np
import pytest

from benchmarks.models.nested import NESTINGS, particle, saddle
from benchmarks.peers import OURS


def found(problem):
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        problem = problem.cast(np.float64)
        return np.asarray(OURS.compiled(problem)(*problem.arguments))


@pytest.mark.parametrize("nesting", NESTINGS)
def test_the_saddle_point(nesting):
    assert np.allclose(found(saddle(nesting)), 8.246324826140356e-06, rtol=1e-9, atol=0)


@pytest.mark.parametrize("nesting", NESTINGS)
def test_the_control_that_sends_the_particle_to_the_origin(nesting):
    assert np.allclose(found(particle(nesting)), 0.2071918746486116, rtol=1e-9, atol=0)
