"""Users' pullbacks of functions of functions: the calls that they state reach what was captured, in both spaces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from compile_ccc import ccc, function, trace
from tangents import Block, Calls, custom, grad, jvp, value_and_grad, vjp

NUMBER = C.Tensor()
xs = jnp.array([1.0, 2.0, 3.0])
both = pytest.mark.parametrize("functions", ["environment", "list"])


def tenfold(primals, y, g):
    """The derivative of f(x), with 10 times what the call gets, and 100 times g for x."""
    return [(primals[1], 10.0 * g)], 100.0 * g


apply = custom(lambda f, x: f(x), tenfold)


def scaled(w):
    return function(lambda t: w * t**2, NUMBER)


@both
def test_stated_calls_reach_what_was_captured(functions):
    value, gradient = value_and_grad(lambda w, x: apply(scaled(w), x), (0, 1), functions=functions)(3.0, 2.0)
    assert value == 12.0 and gradient == (10.0 * 4.0, 100.0)


def test_the_calls_are_the_list_tangent():
    (call,) = grad(lambda f, x: apply(f, x), functions="list")(scaled(3.0), 2.0)
    assert call == (2.0, 10.0)
    assert scaled(3.0).gradient(grad(lambda f, x: apply(f, x))(scaled(3.0), 2.0)) == {"w": 40.0}


@both
def test_many_calls_are_stated_at_once(functions):
    def everywhere(primals, y, g):
        return Calls(Block(primals[1], g, axes=1)), None

    mapped = custom(lambda f, xs: C.map(f, xs), everywhere)
    by_w = grad(lambda w: jnp.sum(mapped(scaled(w), xs) ** 2), functions=functions)(3.0)
    np.testing.assert_allclose(by_w, np.sum(2 * 3.0 * np.array(xs) ** 4))


@both
def test_a_captured_function_gets_its_part(functions):
    def program(w):
        inner = scaled(w)
        return apply(function(lambda t: inner(t) + inner(2.0 * t), NUMBER), 1.0)

    assert grad(program, functions=functions)(3.0) == 10.0 * (1.0 + 4.0)


@both
def test_functions_in_trees_are_arguments_too(functions):
    def first(model, x):
        return model["f"](x) * model["w"]

    def pullback(primals, y, g):
        model, x = primals
        return {"f": [(x, model["w"] * g)], "w": 7.0 * g}, None

    rule = custom(first, pullback)
    gradient = grad(lambda a, w: rule({"f": scaled(a), "w": w}, 2.0), (0, 1), functions=functions)(3.0, 5.0)
    assert gradient == (5.0 * 4.0, 7.0)


def test_it_runs_everywhere():
    f = scaled(3.0)
    assert apply(f, 2.0) == ccc(apply)(f, 2.0) == jax.jit(apply)(f, 2.0) == 12.0
    assert jax.grad(lambda f: apply(f, 2.0))(f).captured == {"w": 40.0}
    assert grad(lambda xs: jnp.sum(jax.vmap(lambda x: apply(scaled(x), x))(xs)))(xs).tolist() == [110.0, 140.0, 190.0]
    assert jax.vmap(lambda x: grad(lambda w: apply(scaled(w), x))(2.0))(xs).tolist() == [10.0, 40.0, 90.0]
    step = lambda s, x: apply(function(lambda t: s * t, NUMBER), x)
    fold = lambda xs: C.fold(function(step, NUMBER, NUMBER), 1.0, xs)
    assert grad(fold)(xs[:2]).tolist() == [2000.0, 100.0]
    pullback = jax.jit(lambda w: vjp(lambda w: apply(scaled(w), 2.0), w)[1])(3.0)
    assert pullback(1.0) == (40.0,)


def test_its_derivative_is_a_program():
    """f(x)² with the rule of its derivative written down: all further derivatives follow."""

    def pullback(primals, y, g):
        f, x = primals
        value, pb = vjp(f, x)
        return [(x, 2.0 * value * g)], pb(2.0 * value * g)[0]

    squared = custom(lambda f, x: f(x) ** 2, pullback)
    f = lambda w: squared(function(lambda t: w**2 * t, NUMBER), 3.0)  # 9 w⁴
    assert grad(grad(f))(2.0) == 9 * 12 * 4.0
    assert grad(grad(grad(f)))(2.0) == 9 * 24 * 2.0
    assert grad(lambda x: grad(lambda w: squared(scaled(w), x))(2.0))(1.0) == 2 * 2 * 4.0  # w² x⁴


def test_forward_mode_is_the_transpose_of_the_rule():
    f = lambda w, x: apply(scaled(w), x)
    assert jvp(f, (3.0, 2.0), (1.0, 0.0)) == (12.0, 40.0) and jvp(f, (3.0, 2.0), (1.0, 2.0)) == (12.0, 240.0)
    assert jvp(lambda x: apply(scaled(3.0), 2.0) + x, (1.0,), (1.0,)) == (13.0, 1.0)


def test_a_rule_sees_what_is_wanted():
    seen = []

    def pullback(primals, y, g, wanted):
        seen.append(wanted)
        return [(primals[1], g)], g

    rule = custom(lambda f, x: f(x), pullback)
    grad(lambda w: rule(scaled(w), 2.0))(3.0)
    grad(lambda w, x: rule(scaled(w), x), 1)(3.0, 2.0)
    assert seen == [(True, False), (False, True)]


def test_a_function_that_is_not_translated_may_ask_for_derivatives():
    def pullback(primals, y, g):
        return [(primals[1], g)], None

    def halving(f, x):
        return jax.lax.while_loop(lambda x: f(x) > 1.0, lambda x: x - grad(f)(x) / 8.0, x)

    rule = custom(halving, pullback, lambda f, x: x)
    assert ccc(rule)(scaled(1.0), 4.0) == 0.75**5 * 4.0
    assert grad(lambda w: rule(scaled(w), 4.0))(1.0) == 16.0
    wrong = custom(lambda f, x: jnp.stack([x, x]), pullback, lambda f, x: x)
    with pytest.raises(C.errors.ArgumentError, match="another type"):
        ccc(wrong)(scaled(1.0), 4.0)


def test_equal_rules_are_one_program():
    make = lambda: custom(lambda f, x: f(x), tenfold)
    codes = {trace(lambda w, make=make: make()(scaled(w), 2.0), NUMBER).term for _ in range(2)}
    assert len(codes) == 1
    other = custom(lambda f, x: f(x), lambda primals, y, g: ([(primals[1], g)], g))
    domain = (C.Function(NUMBER, NUMBER), NUMBER)
    terms = [trace(lambda f, x, rule=rule: rule(f, x), *domain).term for rule in (apply, other)]
    assert terms[0] is not terms[1] and not C.equal(*terms, domain) and C.equal(terms[0], terms[0], domain)
    assert "custom(" in str(terms[0])


WRONG = {
    "no tuple": (lambda p, y, g: g, C.errors.ArityError, "one cotangent"),
    "too few": (lambda p, y, g: (g,), C.errors.ArityError, "one cotangent"),
    "no calls": (lambda p, y, g: (g, g), C.errors.ArgumentError, "no list of its calls"),
    "calls of another type": (lambda p, y, g: ([(jnp.ones(2), g)], g), C.errors.ArgumentError, "no list of its calls"),
    "another shape": (lambda p, y, g: ([], jnp.ones(2)), C.errors.ArgumentError, "not the type of its primal"),
    "another structure": (lambda p, y, g: ([], (g, g)), C.errors.ArgumentError, "its primal"),
}


@both
@pytest.mark.parametrize(("pullback", "error", "match"), WRONG.values(), ids=list(WRONG))
def test_what_does_not_fit_is_refused(pullback, error, match, functions):
    rule = custom(lambda f, x: f(x), pullback)
    with pytest.raises(error, match=match):
        grad(lambda w, x: rule(scaled(w), x), (0, 1), functions=functions)(3.0, 2.0)


@both
def test_what_the_function_itself_captured_has_no_cotangent(functions):
    def program(w, x):
        return custom(lambda f, x: w * f(x), tenfold)(scaled(x), x)

    with pytest.raises(C.errors.NotDifferentiableError, match="captured"):
        grad(program, functions=functions)(3.0, 2.0)
    assert grad(program, 1, functions=functions)(3.0, 2.0) == 10.0 * 4.0 + 100.0


def test_what_is_no_rule_is_refused():
    with pytest.raises(C.errors.ArgumentError, match="one's own"):
        custom(lambda x: x, 3.0)
    with pytest.raises(C.errors.UntypedFunctionError):
        ccc(lambda x: apply(lambda t: t, x))(2.0)


@pytest.mark.parametrize("pullback", [lambda: None, lambda primals, y: (None,), lambda primals, y, g, more: (None,)])
def test_a_pullback_that_takes_other_arguments_is_refused_where_it_is_given(pullback):
    with pytest.raises(C.errors.ArityError, match=r"pullback\(primals, result, cotangent\)") as caught:
        custom(lambda x: x, pullback)
    assert "custom(lambda x: x, pullback)" in str(caught.value)


def test_a_pullback_may_be_told_what_is_wanted_in_every_way_to_take_a_name():
    for pullback in (lambda p, y, g, wanted: (3.0 * g,), lambda p, y, g, *, wanted: (3.0 * g,)):
        assert grad(custom(lambda x: x, pullback))(2.0) == 3.0
