import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from compile_ccc import ccc
from tangents import value_and_grad, vjp


def test_a6():
    @ccc
    def g(x, use_sin):
        pb = lax.cond(use_sin, lambda: vjp(jnp.sin, x)[1], lambda: vjp(jnp.cos, x)[1])
        return pb(1.0)[0]

    for c, v, s in ((True, np.cos(0.8), -np.sin(0.8)), (False, -np.sin(0.8), -np.cos(0.8))):
        np.testing.assert_allclose(value_and_grad(g)(0.8, c), (v, s), rtol=1e-6)
        np.testing.assert_allclose(jax.jit(value_and_grad(g))(0.8, c), (v, s), rtol=1e-6)
