"""A state of a loop that changes is refused before any derivative is traced: where it does, and from what to what."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import combinators as C
from combinators.errors import LoopError
from compile_ccc import function
from tangents import grad
from tangents.api import derivatives

TYPE = {"w": C.Tensor((3,)), "n": (C.Tensor(), C.Tensor((), "int32"))}
START = {"w": jnp.zeros(3), "n": (jnp.float32(1), jnp.int32(0))}
STEPS = {  # what the step gives, where it differs, and how both types are told, by JAX or by us
    "shape": (lambda s: {**s, "w": jnp.ones(4)}, "['w']", r"(f32|float32)\[3\].*(f32|float32)\[4\]"),
    "dtype": (lambda s: {**s, "n": (s["n"][0], 0.5)}, "['n'][1]", r"(i32|int32)\[\].*(f32|float32)\[\]"),
    "structure": (lambda s: {**s, "n": s["n"][0]}, "['n']", r"\(f32\[\], i32\[\]\), then f32\[\]|tuple.*ShapedArray"),
}
LOOPS = {
    "scan": lambda f: lax.scan(lambda s, x: (f(s), None), START, jnp.ones(3))[0],
    "fori_loop": lambda f: lax.fori_loop(0, 3, lambda i, s: f(s), START),
    "fori_loop of traced bounds": lambda f: lax.fori_loop(0, jnp.int32(3), lambda i, s: f(s), START),
    "while_loop": lambda f: lax.while_loop(lambda s: s["n"][0] < 3, f, START),
    "fold": lambda f: C.fold(function(lambda s, x: f(s), TYPE, C.Tensor()), START, jnp.ones(3)),
    "while_": lambda f: C.while_(function(lambda s: s["n"][0] < 3, TYPE), function(f, TYPE), START),
}


@pytest.mark.parametrize("change", STEPS)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_state_that_changes_is_refused(loop, change, monkeypatch):
    step, path, types = STEPS[change]
    represented = []
    monkeypatch.setattr(derivatives, "rep", lambda *x: represented.append(x))
    with pytest.raises(LoopError, match=types) as caught:
        grad(lambda y: y * jnp.sum(jax.tree.leaves(LOOPS[loop](step))[0]))(1.0)
    assert path in str(caught.value)
    assert represented == []
