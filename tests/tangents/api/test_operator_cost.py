"""Paper 004's operator: what each application costs."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import combinators as C
from benchmarks.equations import equations
from compile_ccc import function
from tangents import J
from tests.tangents.api.test_operator import F32


def iterated(x):
    for _ in range(20):
        x = lax.sin(lax.mul(x, x))
    return x


def horner(x):
    total = x
    for _ in range(20):
        total = lax.add(lax.mul(total, x), jnp.float32(1))
    return total


def products(x):
    a, b, c = x
    for _ in range(8):
        a, b, c = lax.mul(a, b), lax.add(b, c), lax.sub(lax.mul(c, a), b)
    return lax.mul(a, lax.mul(b, c))


def looped(x):
    return lax.scan(lambda s, _: (lax.sin(lax.mul(s, x)), None), x, None, length=5)[0]


def perceptron(p):
    w1, w2 = p
    return jnp.sum(jnp.tanh(w2 @ jnp.tanh(w1 @ jnp.ones(3))))


PROGRAMS = {
    "iterated": (iterated, jnp.float32(0.5)),
    "horner": (horner, jnp.float32(0.5)),
    "products": (products, (jnp.float32(0.5), jnp.float32(2), jnp.float32(3))),
    "looped": (looped, jnp.float32(0.5)),
    "perceptron": (perceptron, (jnp.ones((4, 3)), jnp.ones((2, 4)))),
}
programs = pytest.mark.parametrize("name", PROGRAMS)


def count(f, x):
    """The equations that are left of f when calls are inlined and dead code is removed."""
    return equations(jax.make_jaxpr(lambda x: f(x))(x).jaxpr)


def both_phases(f):
    """(x, g) ↦ (y, ḡ): J f at x, and its backpropagator at g."""

    def run(argument):
        x, g = argument
        y, backpropagator = J(f)(x)
        return y, backpropagator(g)[1]

    return run


@programs
def test_the_forward_phase_does_the_operations_of_the_function(name):
    """Paper 004, section 4: evaluating J f x takes the arithmetic of f x; so does J (J f) x, and so on."""
    f, x = PROGRAMS[name]
    expected, image = count(f, x), f
    for _ in range(3):
        image = J(image)
        assert count(image, x) == expected


# An operation runs once forward. On the way back each of its operands, at most two, costs one product with the partial
# derivative, and one sum if the operand has other uses: 1 + 2 · 2 for a product of two. An operation of one operand has
# a partial derivative to work out first, in at most two operations: 1 + 2 + 2. Five is the bound of Baur and Strassen,
# and of Griewank's cheap gradient principle; it holds at each level because what J gives is again such a program.
CHEAP = 5


@programs
def test_each_application_costs_a_constant_factor(name):
    f, x = PROGRAMS[name]
    counts = [count(f, x)]
    for _ in range(3):
        x = (x, jax.tree.map(lambda t: jnp.ones(t.shape, t.dtype), jax.eval_shape(f, x)))
        f = both_phases(f)
        counts.append(count(f, x))
    # The backward phase visits each operation at least once, so the factor is 2 at the least.
    assert all(2 * before <= after <= CHEAP * before for before, after in pairwise(counts)), counts


@pytest.mark.parametrize("images", [(), (1.0,), (1.0, 2.0, 3.0)])
def test_a_wrong_number_of_images_is_refused(images):
    product = lambda x, y: x * y
    for f in (product, function(product, F32, F32)):
        with pytest.raises(C.errors.DiffcurryError, match=r"x, y|f32\[\], f32\[\]|2") as caught:
            J(f)(*images)
        assert "J(f)(*images)" in str(caught.value)
