"""Names of jitted functions survive, in programs and in what XLA is given."""

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest

from compile_ccc import ccc
from tangents import grad

v = np.array([0.5, -1.0, 2.0], np.float32)


@jax.jit
def wave(x):
    return jnp.sin(x) * x


PROGRAMS = {
    "a jitted function": wave,
    "a jitted function in another": jax.jit(lambda x: wave(x) + 1.0),
    "a jitted function under vmap": jax.vmap(wave),
}


def names_of_calls(program):
    return [
        name
        for eqn in program.eqns
        for name in [
            eqn.params.get("name"),
            *(n for p in jex.jaxprs_in_params(eqn.params) for n in names_of_calls(p)),
        ]
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_xla_is_given_has_the_names(name):
    """Both in the value and in the gradient, as `jax.grad` has them: profiles show them."""
    f = PROGRAMS[name]
    for g in (ccc(f), grad(lambda x: jnp.sum(f(x)))):
        assert "wave" in jax.jit(g).lower(v).as_text(debug_info=True)


def test_a_jitted_function_stays_a_call():
    assert "wave" in names_of_calls(jax.make_jaxpr(ccc(wave))(v).jaxpr)
    assert "wave" in names_of_calls(jax.make_jaxpr(grad(lambda x: jnp.sum(wave(x))))(v).jaxpr)
