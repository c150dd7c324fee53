"""`compare`: all ways to a gradient agree on right programs, and a wrong derivative is found and named."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from benchmarks.models import MODELS
from compile_ccc import black_box, ccc, function
from tangents import assert_cheap_gradient, compare
from tangents.checking.comparison import GradientError
from tangents.checking.ways import directions
from tests.mutants.breaking import broken
from tests.mutants.of_rows import MUTANTS as OF_ROWS
from tests.mutants.of_spaces import MUTANTS as OF_SPACES

F32 = C.Tensor()
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
WAYS = ["environment", "list", "JAX", "forward mode", "central differences"]
v = jnp.array([0.5, -1.0, 2.0])


def perceptron(params, xs, n=2):
    return jnp.mean(jnp.tanh(xs @ params["w"] + jnp.expand_dims(params["b"], 0)) ** n)


def weights():
    return {"w": jnp.linspace(-1.0, 1.0, 6).reshape(3, 2), "b": jnp.array([0.25, -0.5]), "size": 3}


def wave(w):
    return function(lambda x: w * jnp.sin(x), F32)


xs = jnp.linspace(-1.0, 2.0, 12).reshape(4, 3)
RIGHT = {
    "parameters": (perceptron, (weights(), xs), {}),
    "parameters and data": (perceptron, (weights(), xs), {"argnums": (0, 1)}),
    "the last argument": (perceptron, (weights(), xs), {"argnums": -1}),
    "an auxiliary result": (lambda x: (jnp.sum(x**2), "text" and x), (v,), {"has_aux": True}),
    "a function": (lambda f, x: f(f(x)) * x, (wave(3.0), 2.0), {"argnums": (0, 1)}),
    "a function over an array": (lambda f, xs: jnp.sum(C.map(f, xs)), (wave(3.0), v), {"argnums": (0, 1)}),
    "a loop": (lambda w, xs: lax.scan(lambda s, x: (jnp.tanh(w * s + x), None), w, xs)[0], (jnp.float32(0.5), v), {}),
    "an arrow": (ccc(jnp.sin) >> C.primitive("exp"), (2.0,), {}),
    "a term": (C.primitive("mul"), (2.0, 3.0), {"argnums": (0, 1)}),
    "nothing in an array": (lambda x, y: jnp.sum(x) * y, (jnp.zeros((0, 3)), 2.0), {"argnums": (0, 1)}),
    "a gradient of zero": (lambda x, y: 0.0 * jnp.sum(x) + y, (v, 2.0), {"argnums": (0, 1)}),
    "complex numbers": (lambda z: jnp.real(jnp.sum(z * z * jnp.conj(z))), (jnp.array([1 + 2j, 0.5j]),), {}),
    "a large value": (lambda x: 1e6 + jnp.sin(x), (2.0,), {}),
    "random numbers": (lambda p: p["w"] * jax.random.normal(p["key"]), ({"key": jax.random.key(0), "w": 1.0},), {}),
    "half precision": (
        lambda x: jnp.sum(x.astype(jnp.float32) ** 2),
        (jnp.linspace(1.0, 2.0, 5).astype(jnp.bfloat16),),
        {},
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_all_ways_agree(name):
    f, arguments, options = RIGHT[name]
    found = compare(f, *arguments, **options)
    assert found.ok and found.failures == ()
    assert [row.way for row in found.rows] == WAYS
    assert all(row.error is not None for row in found.rows[1:])
    assert "agrees" in str(found) and str(found).count("\n") == 4


@pytest.mark.parametrize("name", ["sort", *["mlp", "lstm", "kalman"] * NIGHTLY])  # seconds of XLA
def test_all_ways_agree_on_models(name):
    problem = MODELS[name].smaller()
    with jax.numpy_rank_promotion("allow"):
        assert compare(problem.loss, *problem.arguments).ok


def test_differences_are_sharp_where_a_program_runs_in_float64():
    """Their error is far below what float32 could show."""
    cubic = lambda x: jnp.sum(x**3)
    assert compare(cubic, v).rows[-1].allowed <= 1e-3
    (row,) = [row for row in compare(cubic, v, tolerance=1e-5).rows if row.way == "central differences"]
    assert row.error < 1e-6
    held = jnp.sum(v)
    with jax.numpy_dtype_promotion("strict"):  # a captured float32 cannot be joined with float64
        assert compare(lambda x: held * jnp.sum(x**3), v).ok


def test_a_sharp_comparison_in_float64(x64):
    found = compare(
        perceptron, jax.tree.map(lambda a: jnp.asarray(a, float), {**weights(), "size": 1.0}), xs.astype(float)
    )
    assert all(row.error < 1e-9 for row in found.rows[1:])


# What is wrong is found


@jax.custom_vjp
def scale(b, x):
    return b * x


scale.defvjp(lambda b, x: (b * x, (b, x)), lambda r, g: (jnp.sum(g) * 0.5, g * r[0]))


def test_a_wrong_rule_is_found_and_its_leaf_is_named():
    """The derivative of Σ (b w)² by b is 2 b Σ w²; the rule, whose residual is forgotten, gives 2 b Σ w / 2."""
    params = {"b": jnp.float32(2), "w": jnp.arange(3.0)}
    loss = lambda params: jnp.sum(scale(params["b"], params["w"]) ** 2)
    with pytest.raises(GradientError, match=r"params\['b'\]: 20 instead of 6") as caught:
        compare(loss, params)
    (row,) = caught.value.comparison.failures
    assert (row.way, row.leaf) == ("central differences", "params['b']")
    assert row.error == pytest.approx(14 / 20, rel=1e-3)
    assert "compare(loss, params)" in str(caught.value)
    assert isinstance(caught.value, AssertionError)


def test_jaxs_gradient_is_another_where_a_row_of_ours_is_broken():
    x = jnp.array([2.0, 3.0])
    with broken(OF_ROWS["mul forgets a factor"][1]), pytest.raises(GradientError) as caught:
        compare(lambda x, y: jnp.sum(x * y), x, 5.0 * x, argnums=(0, 1))
    rows = {row.way: row for row in caught.value.comparison.failures}
    assert {"JAX", "central differences"} <= set(rows)
    assert rows["JAX"].leaf in ("x[0]", "x[1]", "y[0]", "y[1]")


def test_the_spaces_differ_where_one_is_broken():
    def program(w, x):
        return function(lambda y: jnp.sin(w * y + 0.25), F32)(x)

    with broken(OF_SPACES["eval drops the cotangent of what was captured"][1]), pytest.raises(GradientError) as caught:
        compare(program, jnp.float32(2), jnp.float32(3), argnums=(0, 1))
    assert "list" in {row.way for row in caught.value.comparison.failures}


def test_a_kink_is_seen_as_a_difference():
    """At 0 the derivative of relu is 0 by convention, and central differences give 1/2."""
    with pytest.raises(GradientError, match=r"by x: 0\.[45]\d* instead of 0"):
        compare(jax.nn.relu, 0.0)
    assert compare(jax.nn.relu, 0.0, tolerance=1.5).ok


def test_what_is_not_finite_is_equal_to_its_like_alone():
    with pytest.raises(GradientError, match="nan"):
        compare(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0), 0.0)


def test_a_gradient_that_is_not_finite_is_said_to_be():
    """Of √x at -1 all ways give nan; they agree, and the table says so."""
    found = compare(lambda p: jnp.sum(jnp.sqrt(p["x"])), {"x": jnp.array([-1.0, 4.0])})
    assert found.ok
    assert found.rows[0].words.endswith("NOT FINITE by p['x']")
    assert "FINITE" not in str(compare(jnp.sin, 2.0))


def test_arrays_of_numpy_are_arguments_as_for_grad():
    assert compare(lambda x: jnp.sum(x.at[0].set(1.0) ** 2), np.arange(3.0, dtype=np.float32)).ok


def test_what_is_asked_for_is_held_to():
    square = lambda x: jnp.sum(x**2)
    with pytest.raises(GradientError, match="allowed is 0"):
        compare(lambda x: jnp.sum(jnp.sin(x)), v, tolerance=0.0)
    with pytest.raises(C.errors.ArgumentError, match="no pair"):
        compare(square, v, has_aux=True)
    for wrong in ({"tolerance": -1.0}, {"tolerance": float("nan")}, {"seed": "a"}):
        with pytest.raises(C.errors.ArgumentError, match=next(iter(wrong))):
            compare(square, v, **wrong)
    for factor in (float("nan"), "5", 0):
        with pytest.raises(C.errors.ArgumentError, match="above 0"):
            assert_cheap_gradient(square, v, factor=factor)


@pytest.mark.parametrize("seed", range(8))
def test_a_wrong_rule_for_one_number_is_found_in_any_direction(seed):
    with pytest.raises(GradientError, match="20 instead of 6"):
        compare(lambda b, w: jnp.sum(scale(b, w) ** 2), jnp.float32(2), jnp.arange(3.0), seed=seed)


def test_directions_have_length_1_and_lead_uphill():
    gradient = [jnp.float32(2), -v, jnp.array([1 + 2j, 3j]), jnp.zeros(4), jnp.zeros((0, 3)), jnp.full(2, jnp.nan)]
    for seed in range(10):
        for g, t in zip(gradient, directions(gradient, seed), strict=True):
            assert t.shape == g.shape and np.linalg.norm(t) == pytest.approx(float(g.size > 0))
            assert not np.any(g != 0) or np.isnan(g).any() or np.real(np.sum(g * t)) >= 0.7 * np.linalg.norm(g)


def test_the_seed_draws_the_direction():
    f = lambda x: jnp.sum(jnp.sin(x) * x)
    errors = lambda seed: [row.error for row in compare(f, v, seed=seed).rows]
    assert errors(1) == errors(1)


# What there is not


def test_a_way_that_there_is_not_says_why():
    """No mode of JAX differentiates a call of the host, and neither do ours."""
    sine = lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), x.dtype), x)
    held = lambda x: jnp.sin(x) * sine(lax.stop_gradient(x) * 0.0 + 0.5)
    assert all(row.error is not None for row in compare(held, jnp.float32(0.5)).rows if row.way == "forward mode")
    right = jax.custom_vjp(jnp.sin)
    right.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
    found = {row.way: row for row in compare(lambda x: right(x) * x, 0.5).rows}
    assert found["forward mode"].agrees and found["central differences"].agrees and found["JAX"].agrees


def test_a_black_box_has_calls_alone():
    box = black_box(np.sin, F32, F32)
    rows = {row.way: row for row in compare(lambda f, x: f(2.0) * x, box, 3.0, argnums=(0, 1)).rows}
    assert "black box" in rows["environment"].words
    assert "held against" in rows["list"].words


@pytest.mark.parametrize(
    ("f", "arguments", "words"),
    [
        (lambda x: x, (v,), "no real scalar"),
        (lambda n: jnp.float32(1), (1,), "discrete"),
        (lambda f: f(2.0), (black_box(np.sin, F32, F32),), "no gradient to compare"),
    ],
)
def test_without_a_gradient_there_is_nothing_to_compare(f, arguments, words):
    with pytest.raises(C.errors.NotDifferentiableError, match=words):
        compare(f, *arguments)


def test_a_program_that_jax_cannot_run_is_compared_as_an_arrow():
    """lax.cond takes functions of one code from outside of a traced lambda."""
    line = lambda w: function(lambda x: w * x + w, F32)
    two = lambda w, x: jax.lax.cond(x > 0.0, lambda: line(w), lambda: function(lambda x: jnp.sin(w * x), F32))(x)
    rows = compare(two, jnp.float32(0.7), jnp.float32(1.3)).rows
    assert {row.way for row in rows if row.agrees} >= {"JAX", "forward mode", "central differences"}
