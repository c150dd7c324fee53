"""`check` of terms with loops beside functions and sums, of which any alternative may be there."""

import jax.numpy as jnp
import pytest
from jax import lax

import combinators as C
from tangents import check, custom
from tangents.checking.report import LawError

F, SUM, XS = C.Function(C.Tensor(), C.Tensor()), C.Sum(C.Tensor(), C.Tensor(3)), C.Tensor(4)
product = lambda s, x: s * x
RIGHT = {  # by what they are: how many examples have all alternatives, the program, and its domain
    "fold": (2, lambda f, xs: C.fold(lambda s, x: f(s) * x, 1.0, xs), F, XS),
    "scan": (2, lambda f, xs: lax.scan(lambda s, x: (f(s) * x, f(x)), 1.0, xs), F, XS),
    "a sum": (5, C.prod(C.proj(0), C.proj(1) >> (lambda xs: C.fold(product, 1.0, xs))), SUM, XS),
    "sums in a tuple": (
        5,
        C.prod(C.proj(1) >> (lambda xs: C.fold(product, 1.0, xs)), C.proj(0)),
        ((SUM, C.Tensor()), SUM),
        XS,
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_loop_is_right_beside_a_function_or_a_sum(name):
    examples, program, *domain = RIGHT[name]
    assert check(program, *domain, examples=examples).ok


def test_a_wrong_pullback_beside_a_function_is_seen():
    wrong = custom(lambda x: jnp.sin(x), lambda primals, y, g: (2.0 * g * jnp.cos(primals[0]),))
    with pytest.raises(LawError, match="central differences"):
        check(lambda f, xs: C.fold(lambda s, x: f(s) * wrong(x), 1.0, xs), F, XS, examples=3)
