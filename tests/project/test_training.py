"""Training scripts as people write them give, step by step, what they give under JAX's derivatives."""

import importlib
from contextlib import nullcontext

import jax
import numpy as np
import pytest

import tangents
from combinators.errors import TracedAnewWarning

FILES = ("optimisers", "models", "libraries", "styles", "sciences", "keeping")
SCRIPTS = [script for file in FILES for script in importlib.import_module(f"tests.training.{file}").SCRIPTS]


ANEW = (  # which change what they read: a counter, statistics, a key; or read a class with methods of Equinox's
    "losses_from_a_table",
    "running_statistics_in_attributes",
    "a_key_split_inside_of_the_loss",
    "equinox_with_state",
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_script_trains_as_under_jax(script, x64):
    """It is traced anew at each call, with a warning, only where it changes what it reads."""
    expected = pytest.warns(TracedAnewWarning) if script.__name__ in ANEW else nullcontext()
    with expected, jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        ours, theirs = script(tangents), script(jax)
    assert len(ours) == len(theirs) >= 3
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert jax.tree.structure(a) == jax.tree.structure(b), f"step {step}"
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12, err_msg=f"step {step}")


def test_there_are_enough_scripts():
    assert len({script.__name__ for script in SCRIPTS}) >= 39
