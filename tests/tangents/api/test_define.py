"""Primitives of one's own keep their pullbacks wherever JAX takes them."""

import jax
import jax.numpy as jnp
import pytest

import combinators as C
from compile_ccc import ccc, function
from tangents import check, define, grad, vjp
from tangents.checking.report import LawError

R = C.Tensor(())
# a pullback that is no derivative shows where it is used
marked = define("marked_square", lambda x: x * x, lambda g, y, x: 100 * g)
weighted = define("weighted", lambda x, w: x * w, lambda g, y, x, w: g * w, lambda g, y, x, w: g * x)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: marked(x),
        lambda x: jax.jit(marked)(x),
        lambda x: jax.vmap(marked)(x[None])[0],
        lambda x: jax.lax.cond(x > 0, marked, lambda v: v, x),
        lambda x: jax.lax.switch(1, [lambda v: v, marked], x),
        lambda x: jax.checkpoint(marked)(x),
        lambda x: jax.lax.scan(lambda s, _: (marked(s), None), x, None, length=1)[0],
        lambda x: function(lambda v: marked(v), R)(x),
        lambda x: C.map(function(lambda v: marked(v), R), x[None])[0],
    ],
)
def test_the_pullback_is_the_authors(program):
    for functions in ("environment", "list"):
        assert grad(program, functions=functions)(jnp.float32(1.5)) == 100.0


def test_jaxs_own_derivatives_use_it_too():
    assert jax.grad(marked)(1.5) == 100.0
    assert jax.grad(ccc(lambda x: marked(x)))(1.5) == 100.0
    assert jax.vmap(jax.grad(marked))(jnp.ones(2)).tolist() == [100.0, 100.0]


def test_two_arguments_and_the_laws():
    value, pullback = vjp(lambda x, w: weighted(x, w), 2.0, 3.0)
    assert value == 6.0 and pullback(1.0) == (3.0, 2.0)
    assert check(weighted, R, R, examples=10).ok


def test_a_pullback_that_is_no_derivative_fails_its_laws():
    with pytest.raises(LawError, match="central differences"):
        check(marked, R, examples=10)


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (C.errors.ArityError, lambda: define("none", lambda x: x)),
        (C.errors.ArityError, lambda: define("two", lambda x: x, lambda g, y, x: g, lambda g, y, x: g)),
        (C.errors.ArgumentError, lambda: define("sin", jnp.sin, lambda g, y, x: g)),
        (C.errors.ArgumentError, lambda: define("three", 3, lambda g, y, x: g)),
        (C.errors.ArgumentError, lambda: define("pair", lambda x: (x, x), lambda g, y, x: g)(1.0)),
        (
            C.errors.ArgumentError,
            lambda: grad(define("summed", lambda x: jnp.sum(x), lambda g, y, x: g))(jnp.ones(3)),
        ),
    ],
)
def test_bad_definitions_are_refused(error, make):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.expected is not None and caught.value.got is not None


def test_the_points_of_a_check_can_be_chosen():
    from hypothesis import strategies as st

    assert check(lambda x: jnp.log(x), R, examples=5, points=st.floats(0.5, 2.0)).ok


def test_a_name_that_is_defined_again_has_its_new_meaning():
    program = lambda x: again(x) * x
    for factor in (2.0, 3.0):
        again = define("again", lambda x, k=factor: k * x, lambda g, y, x, k=factor: k * g)
        assert (again(1.5), ccc(program)(1.5), grad(program)(1.5)) == (1.5 * factor, 2.25 * factor, 3 * factor)
        assert jax.grad(lambda x, again=again: jax.jit(again)(x))(1.5) == factor
