"""Scalar operations, counted by hand, and the cheap gradient principle as an assertion."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import combinators as C
from benchmarks.models import MODELS
from compile_ccc import ccc, function
from tangents import assert_cheap_gradient
from tangents.checking.cost import CostError
from tangents.checking.operations import operations

F32 = C.Tensor()
x, v = jnp.float32(0.5), jnp.ones(3)


def matrix(*shape):
    return jnp.ones(shape)


def steps(f, length):
    return lambda x: lax.scan(lambda s, _: (f(s), None), x, None, length=length)[0]


@jax.custom_jvp
def with_rule(v):
    return jnp.sin(v)


with_rule.defjvp(lambda primals, tangents: (with_rule(*primals), jnp.cos(primals[0]) * tangents[0]))


FROM_THE_END = {"lt": 3, "add": 3, "select_n": 3}  # of three indices: negative ones count from there
COUNTS = {  # worked out by hand from shapes
    "elementwise": (lambda v: jnp.sin(v) * v, (v,), {"sin": 3, "mul": 3}),
    "a reduction": (lambda a: jnp.sum(a, 0), (matrix(4, 5),), {"reduce_sum": 20}),
    "a product": (jnp.matmul, (matrix(2, 3), matrix(3, 4)), {"dot_general": 2 * 2 * 3 * 4}),
    "products of a batch": (
        jax.vmap(jnp.matmul),
        (matrix(7, 2, 3), matrix(7, 3, 4)),
        {"dot_general": 7 * 2 * 2 * 3 * 4},
    ),
    "a convolution": (
        lambda a, k: lax.conv(a, k, (1, 1), "VALID"),
        (matrix(2, 3, 8, 8), matrix(5, 3, 3, 3)),
        {"conv_general_dilated": 2 * (2 * 5 * 6 * 6) * (3 * 3 * 3)},
    ),
    "what moves entries": (lambda a: a.T.reshape(20)[2:5], (matrix(4, 5),), {}),
    "a scatter": (lambda v: jnp.zeros(100).at[jnp.array([1, 5, 5])].add(v), (v,), {"scatter-add": 3, **FROM_THE_END}),
    "a running sum": (lambda v: lax.cumsum(v), (v,), {"cumsum": 3}),
    "a sort": (lambda v: lax.sort(v), (matrix(8),), {"sort": 8 * 3}),
    "dead code": (lambda v: (jnp.exp(v), jnp.sin(v))[1], (v,), {"sin": 3}),
    "dead code in a call": (lambda v: jax.jit(lambda v: (jnp.exp(v), jnp.sin(v)))(v)[1], (v,), {"sin": 3}),
    "dead code in a checkpoint": (lambda v: jax.checkpoint(lambda v: (jnp.exp(v), jnp.sin(v)))(v)[1], (v,), {"sin": 3}),
    "rows that no step reads": (
        lambda v: lax.scan(lambda s, _: (jnp.sin(s), None), v, jnp.exp(v))[0],
        (v,),
        {"sin": 9},
    ),
    "a call": (jax.jit(jnp.sin), (v,), {"sin": 3}),
    "a rule of one's own": (with_rule, (v,), {"sin": 3}),
    "a loop": (steps(jnp.sin, 1000), (v,), {"sin": 3000}),
    "a loop in a loop": (steps(steps(jnp.sin, 10), 20), (v,), {"sin": 600}),
    "dead code in a loop": (
        lambda v: lax.scan(lambda s, _: ((jnp.sin(s[0]), jnp.exp(s[1])), None), (v, v), None, length=7)[0][0],
        (v,),
        {"sin": 21},
    ),
    "what a loop needs for a later step": (
        lambda v: lax.scan(lambda s, _: ((s[1], jnp.exp(s[1])), None), (v, v), None, length=7)[0][0],
        (v,),
        {"exp": 21},
    ),
    "branches": (
        lambda v: lax.cond(v[0] > 0, lambda v: jnp.sin(jnp.sin(v)), jnp.exp, v),
        (v,),
        {"gt": 1, "sin": 6, "clamp": 1},
    ),
    "a loop without a bound": (
        lambda x: lax.while_loop(lambda s: s < 9.0, lambda s: jnp.exp(s), x),
        (x,),
        {"lt": 1, "exp": 1},
    ),
    "a function value": (lambda v: function(lambda y: y * v, C.Tensor(3))(v), (v,), {"mul": 3}),
}


@pytest.mark.parametrize("name", COUNTS)
def test_operations_are_counted(name):
    f, arguments, expected = COUNTS[name]
    found = {name: count for name, count in operations(ccc(f), *arguments).items() if count}
    assert found == expected


def test_a_scan_counts_what_it_uses_only():
    counts = [operations(steps(jnp.tanh, n), v).total() for n in (1, 10, 10_000)]
    assert counts == [3, 30, 30_000]


# The cheap gradient principle


def chain(n):
    def f(x):
        for _ in range(n):
            x = jnp.sin(x) * x
        return x

    return f


CHEAP = {
    "a chain": (chain(50), (x,)),
    "a product": (lambda v: jnp.prod(jnp.stack([v[i] for i in range(3)])), (v,)),
    "a loop": (steps(lambda s: jnp.sin(s) * s, 100), (x,)),
    "a division": (lambda x, y: x / y, (x, x)),
    "a function value": (lambda f, x: f(f(x)), (function(lambda y: y * jnp.sin(y), F32), x)),
    "a term": (C.primitive("sin"), (x,)),
    "an identity": (lambda x: x, (x,)),
}


@pytest.mark.parametrize("name", CHEAP)
def test_gradients_are_cheap(name):
    f, arguments = CHEAP[name]
    argnums = tuple(range(len(arguments)))
    assert assert_cheap_gradient(f, *arguments, argnums=argnums).ratio <= 5


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if not model.smaller().nested])
def test_gradients_of_models_are_cheap(name):
    problem = MODELS[name].smaller()
    with jax.numpy_rank_promotion("allow"):
        assert 1 < assert_cheap_gradient(problem.loss, *problem.arguments).ratio <= 5


def test_the_ratio_does_not_depend_on_the_number_of_variables_or_steps():
    energy = lambda v: jnp.sum(jnp.sin(v) * v)
    few, many = (assert_cheap_gradient(energy, jnp.ones(n)).ratio for n in (10, 100_000))
    assert few == pytest.approx(many, rel=0.2)
    short, long = (assert_cheap_gradient(steps(lambda s: jnp.sin(s) * s, n), x).ratio for n in (10, 10_000))
    assert short == pytest.approx(long, rel=0.2)


def test_the_cost_of_a_dense_layer():
    """One product forward; backward one for w and one for a."""
    w, a = matrix(30, 40), matrix(20, 30)
    cost = assert_cheap_gradient(lambda w, a: jnp.sum(a @ w), w, a, argnums=(0, 1))
    product = 2 * 20 * 30 * 40
    assert cost.function["dot_general"] == product
    assert cost.gradient["dot_general"] == 3 * product
    assert assert_cheap_gradient(lambda w, a: jnp.sum(a @ w), w, a).gradient["dot_general"] == 2 * product


@jax.custom_vjp
def lavish(v):
    return jnp.sum(v * v)


def _lavish_pullback(v, g):
    ones = jnp.ones((v.size, v.size))
    return (2.0 * g * v + 0.0 * (ones @ ones @ ones @ v),)


lavish.defvjp(lambda v: (jnp.sum(v * v), v), _lavish_pullback)


def test_a_lavish_gradient_is_refused():
    n = 20
    with pytest.raises(CostError) as caught:
        assert_cheap_gradient(lavish, jnp.ones(n))
    error, text = caught.value, str(caught.value)
    assert isinstance(error, AssertionError)
    assert error.cost.function.total() == 2 * n
    assert error.cost.gradient["dot_general"] == 2 * (2 * n**3) + 2 * n * n
    assert "at most 5 times" in text and "assert_cheap_gradient(lavish" in text
    rows = [line.split() for line in text.splitlines()[-7:]]
    assert ["dot_general", "0", f"{error.cost.gradient['dot_general']:,}"] in rows
    assert ["all", "40", f"{error.cost.gradient.total():,}"] in rows
    assert assert_cheap_gradient(lavish, jnp.ones(n), factor=1_000).ratio > 5


def test_what_has_no_gradient_has_no_cost():
    with pytest.raises(C.errors.NotDifferentiableError):
        assert_cheap_gradient(lambda v: v, v)


def test_nothing_is_computed():
    """Types are enough."""
    of_types = assert_cheap_gradient(lambda v: jnp.sum(v * v), jax.ShapeDtypeStruct((3,), jnp.float32))
    assert of_types == assert_cheap_gradient(lambda v: jnp.sum(v * v), v)
