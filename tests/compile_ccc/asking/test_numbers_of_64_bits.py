"""What an array of NumPy's says of its numbers is what it says outside, where a program has half as many bits.

The functions are linear in x, so the slope is the factor, which NumPy gives.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from tangents import grad

ASKED = {
    "the size of one": lambda a: a.itemsize,
    "the size of one, by its dtype": lambda a: a.dtype.itemsize,
    "the size of all": lambda a: a.nbytes,
    "the rounding": lambda a: float(np.finfo(a.dtype).eps),
    "whether they are of 64 bits": lambda a: 1.0 if a.dtype == np.float64 else 2.0,
    "the memory as integers": lambda a: float(a.view(np.int64 if a.itemsize == 8 else np.int32).reshape(-1)[0] >> 20),
    "what is computed": lambda a: (a * 2.0).dtype.itemsize,
    "of more than one": lambda a: np.result_type(a.dtype, np.float32).itemsize,
}
GIVEN = {
    "an array": np.array([1.5, 2.5]),
    "an array of 32 bits": np.array([1.5, 2.5], np.float32),
    "a number": np.float64(1.5),
    "another number": np.float32(1.5),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("asked", ASKED)
def test_it_says_what_numpy_says(asked, given):
    ask, a = ASKED[asked], GIVEN[given]
    factor = ask(a)
    for _ in range(2):
        np.testing.assert_allclose(grad(lambda x, a: ask(a) * x)(1.0, a), factor, rtol=1e-6)
        np.testing.assert_allclose(grad(lambda x: ask(a) * x)(1.0), factor, rtol=1e-6)


@pytest.mark.parametrize("asked", [lambda a: a.dtype.itemsize, lambda a: (a * 2).dtype.itemsize])
def test_one_that_says_something_else_is_another_program(asked):
    """Though all of them are arrays of 32 bits in it; JAX's own are that outside, too."""
    derivative = grad(lambda x, a: asked(a) * x)
    for _ in range(2):
        for a, size in [(jnp.ones(2), 4), (np.ones(2), 8), (np.ones(2, np.float32), 4), (np.float64(1.0), 8)]:
            assert derivative(1.0, a) == size


def test_what_is_left_of_it_is_what_it_was():
    seen = []

    def f(x, a):
        seen.append(a.dtype)
        return jnp.sum(x * jnp.asarray(a, x.dtype))

    assert grad(f)(jnp.float32(1.0), np.ones(2)) == 2.0
    assert seen == [np.float64]
