"""Rules of users that do not fit their functions, or fail: what comes out names the rule, or is what it raised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import ArgumentError, NotDifferentiableError, TracedBranchError, UnsupportedError
from compile_ccc import function
from tangents import grad, jvp


def with_vjp(bwd, fwd=lambda x: (jnp.sin(x), x)):
    f = jax.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(fwd, bwd)
    return f


def with_jvp(rule, f=lambda x: jnp.sin(x)):
    f = jax.custom_jvp(f)
    f.defjvp(rule)
    return f


MODES = {
    "reverse": lambda f: grad(lambda x: f(x))(2.0),
    "forward": lambda f: jvp(lambda x: f(x), (2.0,), (1.0,)),
}
MISFITS = {
    "three for a number": with_vjp(lambda x, g: (jnp.ones(3) * g,)),
    "no tuple": with_vjp(lambda x, g: g),
    "two for one": with_vjp(lambda x, g: (g, g)),
    "no residuals": with_vjp(lambda x, g: (g,), fwd=lambda x: jnp.sin(x)),
    "no pair": with_jvp(lambda x, t: t[0]),
    "three tangents": with_jvp(lambda x, t: (jnp.sin(x[0]), jnp.ones(3))),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rule", MISFITS)
def test_a_rule_that_does_not_fit_its_function_is_what_the_error_names(rule, mode):
    with pytest.raises(NotDifferentiableError, match="rule of a derivative does not fit its function") as found:
        MODES[mode](MISFITS[rule])
    assert "correct the rule" in found.value.hint
    assert found.value.line.startswith("test_faulty_rules.py:")


def of_a_pair(of_p):
    """p ↦ p.x * p.y with a rule that gives this cotangent of p."""
    f = jax.custom_vjp(lambda scale, p: scale * p["x"] * p["y"], nondiff_argnums=(0,))
    f.defvjp(lambda scale, p: (f(scale, p), p), lambda scale, p, g: (of_p(scale * g, p),))
    return lambda p: f(1.0, p)


PAIR = {"x": 2.0, "y": 3.0}
BY_PAIR = {
    "reverse": lambda f: grad(f)(PAIR),
    "forward": lambda f: jvp(f, (PAIR,), ({"x": 1.0, "y": 1.0},)),
    "mapped": lambda f: grad(lambda p: jnp.sum(jax.vmap(f)(p)))(jax.tree.map(lambda v: jnp.array([v]), PAIR)),
}


@pytest.mark.parametrize("mode", BY_PAIR)
def test_one_cotangent_for_several_numbers_is_refused(mode):
    """JAX copies it to each of them."""
    with pytest.raises(NotDifferentiableError, match="one cotangent for the 2 numbers of argument 0\n"):
        BY_PAIR[mode](of_a_pair(lambda g, p: g * p["y"]))


def test_what_stands_for_zeros_may_stand_for_several():
    for zero in (None, 0.0):
        assert grad(of_a_pair(lambda g, p, zero=zero: zero))(PAIR) == {"x": 0.0, "y": 0.0}
    right = grad(of_a_pair(lambda g, p: {"x": g * p["y"], "y": g * p["x"]}))(PAIR)
    assert right == {"x": 3.0, "y": 2.0}


class Mine(ValueError):
    pass


def raises(*_):
    raise Mine("of the rule")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "f", [with_vjp(raises), with_vjp(lambda x, g: (g,), fwd=raises), with_jvp(raises)], ids=["bwd", "fwd", "jvp"]
)
def test_what_a_rule_raises_comes_out(f, mode):
    with pytest.raises(Mine, match="of the rule"):
        MODES[mode](f)


@pytest.mark.parametrize("mode", MODES)
def test_an_operation_that_fails_in_a_rule_is_no_missing_derivative(mode):
    with pytest.raises(TypeError, match="dot_general requires") as found:
        MODES[mode](with_vjp(lambda x, g: (jnp.ones(3) @ jnp.ones(4) * g,)))
    assert not isinstance(found.value, NotDifferentiableError)


def branches(x, g):
    if x > 0:  # the line that is named
        return (g,)
    return (2 * g,)


@pytest.mark.parametrize("mode", MODES)
def test_a_rule_that_branches_on_a_number_under_jit_has_its_line_in_the_error(mode):
    with pytest.raises(TracedBranchError, match="the value of a traced array") as found:
        MODES[mode](jax.jit(with_vjp(branches)))
    assert "if x > 0:  # the line that is named" in found.value.line


def test_what_jax_cannot_differentiate_in_a_rule_is_still_a_missing_derivative():
    asks = lambda x: jax.pure_callback(np.sin, jax.typeof(x), x)
    f = with_jvp(lambda x, t: (jnp.sin(x[0]), jax.jvp(asks, x, t)[1]))
    with pytest.raises(NotDifferentiableError, match="do not support JVP"):
        grad(lambda x: f(x))(2.0)


def test_a_function_value_that_a_rule_is_given_is_named_as_such():
    f = jax.custom_jvp(lambda g, x: g(x), nondiff_argnums=(0,))
    f.defjvp(lambda g, x, t: (g(*x), t[0]))
    triple = function(lambda x: 3.0 * x, C.Tensor())
    with pytest.raises(UnsupportedError, match="or captured, a function value") as found:
        grad(lambda x: f(triple, x))(1.0)
    assert "custom(f, pullback)" in found.value.hint and "f.defjvp(lambda g" in found.value.line


def test_a_rule_that_captured_what_is_mapped_is_named_as_such():
    def row(x, z):
        g = jax.custom_vjp(lambda y: x * y)
        g.defvjp(lambda y: (x * y, None), lambda _, g: (x * g,))
        return g(z)

    with pytest.raises(UnsupportedError, match="captured a value of a program"):
        grad(lambda z: jnp.sum(jax.vmap(lambda x: row(x, z))(jnp.arange(3.0))))(1.0)


# The result of a function is one for all rows, and that of its rule is not.

CONSTANT = {
    "jvp": with_jvp(lambda x, t: (jnp.zeros(()), t[0]), f=lambda x: np.zeros(x.shape, x.dtype)),
    "vjp": jax.custom_vjp(lambda x: np.zeros(x.shape, x.dtype)),
}
CONSTANT["vjp"].defvjp(lambda x: (x * 0, x), lambda x, g: (g,))


@pytest.mark.parametrize("kind", CONSTANT)
def test_a_rule_whose_result_is_mapped_where_that_of_its_function_is_not(kind):
    rows = jax.vmap(CONSTANT[kind])
    np.testing.assert_array_equal(jax.vmap(grad(CONSTANT[kind]))(np.ones(3, np.float32)), 1)
    if kind == "vjp":
        with pytest.raises(ArgumentError, match="gives another type than its function") as found:
            grad(lambda x: rows(x).sum())(np.ones(3, np.float32))
        assert "let the result of the function depend" in found.value.hint


def test_a_rule_for_vmap_of_another_type_than_its_function():
    f = jax.custom_batching.custom_vmap(lambda x: x * jnp.ones(3))
    f.def_vmap(lambda size, mapped, xs: (xs * 1.0, True))  # a row of it is a number
    with jax.enable_checks(True), pytest.raises(ArgumentError, match=r"for jax\.vmap gives another type"):
        jax.vmap(lambda x, t: jvp(f, (x,), (t,)))(jnp.arange(3.0), jnp.ones(3))


@pytest.mark.parametrize("mode", MODES)
def test_functions_with_rules_that_are_objects_of_jax_work_where_loops_hoist_them(mode):
    """The call depends on no state of the loop, so that it is worked out before it."""
    before = jax.config.jax_custom_jvp3
    jax.config.update("jax_custom_jvp3", True)
    try:
        f = jax.custom_jvp(lambda a, b: a @ b)
        f.defjvp(lambda x, t: (f(*x), x[0] @ t[1] + t[0] @ x[1]))
        loop = lambda t: lax.scan(lambda q, _: (q + f(jnp.eye(2), jnp.ones(2) * t)[0], None), 0.0, None, 4)[0]
        assert jax.tree.leaves(MODES[mode](loop))[-1] == 4.0
    finally:
        jax.config.update("jax_custom_jvp3", before)
