"""What ran before does not show: names and lines are those of the call at hand, and so is what is refused."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators.errors import ArgumentError, NotDifferentiableError
from compile_ccc import ccc, function, lower
from tangents import J, custom, grad, hessian, jacobian, jvp, value_and_grad, vjp

R = C.Tensor()
HALF = np.float32(0.5)


def of_weight(value):
    weight = jnp.asarray(value)
    return function(lambda x: weight * x, R)


def of_bias(value):
    bias = jnp.asarray(value)
    return function(lambda x: bias * x, R)


def holding(inner):
    return function(lambda x: inner(inner(x)), R)


def makes_gains():
    return function(lambda gain: function(lambda x: gain * x, R), R)


def makes_rates():
    return function(lambda rate: function(lambda x: rate * x, R), R)


THROUGH = {
    "grad": lambda f: grad(lambda f: f(1.0) ** 2)(f),
    "grad of one of two": lambda f: grad(lambda x, f: f(x) ** 2, 1)(2.0, f),
    "value_and_grad": lambda f: value_and_grad(lambda fs: fs["f"](1.0) ** 2)({"f": f})[1]["f"],
    "an auxiliary result": lambda f: grad(lambda x, f: (f(x), f), has_aux=True)(2.0, f)[1],
    "a captured function as an auxiliary result": lambda f: grad(lambda x: (f(x), f), has_aux=True)(2.0)[1],
    "vjp": lambda f: vjp(lambda x, f: f(x), 2.0, f)[1](HALF)[1],
    "jvp": lambda f: jvp(lambda f: f, (f,), (f,))[1],
    "jacobian": lambda f: jacobian(lambda f: f(2.0) * jnp.ones(2))(f),
    "jacobian, forward": lambda f: jacobian(lambda f: f(2.0) * jnp.ones(2), mode="forward")(f),
    "hessian": lambda f: hessian(lambda f: f(2.0) ** 2)(f),
    "J": lambda f: J(f)(2.0)[1](HALF)[0],
    "J of a function of functions": lambda f: J(lambda f: f(1.0))(J(f))[1](HALF)[1],
    "an arrow": lambda f: ccc(lambda f, i: jax.lax.cond(i, lambda: f, lambda: f))(f, True),
    "a term": lambda f: C.proj(1)(2.0, f),
    "lower": lambda f: lower(C.id)(f),
    "evaluate": lambda f: C.evaluate(C.proj(0), (f, 1.0)),
    "a gradient inside": lambda f: ccc(lambda f: grad(lambda f: f(2.0))(f))(f),
    "a gradient inside, of the second": lambda f: ccc(lambda x, g, f: grad(lambda f: f(x))(f))(1.0, of_weight(5.0), f),
    "vmap": lambda f: jax.vmap(lambda x: grad(lambda f: f(x))(f))(jnp.ones(2)),
    "jax.grad": lambda f: jax.grad(lambda f: f(1.0))(f),
    "jax.tree.map": lambda f: jax.tree.map(jnp.negative, f),
}


@pytest.mark.parametrize("first", [of_weight, of_bias])
@pytest.mark.parametrize("name", THROUGH)
def test_a_function_keeps_the_names_of_its_own_variables(name, first):
    made = {of_weight: "weight", of_bias: "bias"}
    for make in (first, *(made.keys() - {first}), first):
        assert list(THROUGH[name](make(3.0)).captured) == [made[make]]


def test_captured_functions_keep_the_names_of_their_own_variables():
    for make, name in ((of_weight, "weight"), (of_bias, "bias"), (of_weight, "weight")):
        g = grad(lambda f: f(1.0))(holding(make(3.0)))
        assert [list(g.captured), list(g.captured["inner"].captured)] == [["inner"], [name]]


def test_functions_that_are_made_have_the_names_of_their_makers():
    for make, name in ((makes_gains, "gain"), (makes_rates, "rate"), (makes_gains, "gain")):
        assert make()(2.0).captured == {name: 2.0}
        assert ccc(lambda maker, x: maker(x))(make(), 2.0).captured == {name: 2.0}


def test_names_that_a_program_has_twice_for_one_code_are_not_guessed():
    both = ccc(lambda w, b: (function(lambda x: w * x, R), function(lambda x: b * x, R)))(2.0, 3.0)
    assert [f.captured for f in both] == [{0: 2.0}, {0: 3.0}]


@pytest.mark.parametrize("through", [lambda f, *x: f(*x), lambda f, *x: vjp(f, *x)[0], lambda f, *x: jvp(f, x, x)[0]])
def test_functions_that_pass_through_one_call_in_several_programs(through):
    same = C.call(C.id, "same")
    for term in (C.proj(1) >> same, C.prod(C.proj(0) >> same, C.proj(1) >> same) >> C.proj(1)):
        assert list(through(term, of_weight(2.0), of_bias(3.0)).captured) == ["bias"]
    assert list(through(same, of_weight(2.0)).captured) == ["weight"]


def test_functions_that_pass_through_one_derivative_in_several_programs():
    def at_two(f):
        return f(2.0)

    assert list(ccc(lambda f: grad(at_two)(f))(of_weight(2.0)).captured) == ["weight"]
    assert list(ccc(lambda f, g: grad(at_two)(g))(of_weight(2.0), of_bias(3.0)).captured) == ["bias"]


def test_rules_of_derivatives_read_what_they_are_given_by_name():
    def pullback(primals, y, g):
        f, x = primals
        assert list(f.captured) == ["weight"]
        return [(x, g)], g * f(1.0)

    applied = custom(lambda f, x: f(x), pullback)
    assert float(grad(applied, 1)(of_weight(3.0), 2.0)) == 3.0


def test_a_jit_of_the_users_names_nothing_by_the_variables_of_another_function():
    """JAX keeps one program for both, so that there are no names in it; the function itself reads its cotangents."""
    step = jax.jit(lambda f: (f, grad(lambda f: f(1.0) ** 2)(f), vjp(lambda f: f(1.0), f)[1]))
    for make, name in ((of_weight, "weight"), (of_bias, "bias")):
        f = make(3.0)
        same, g, pullback = step(f)
        assert [list(h.captured) for h in (same, g, pullback(np.float32(1))[0])] == [[0]] * 3
        assert f.gradient(g) == {name: 6.0}


def test_a_jit_of_the_users_reads_what_it_is_given_by_name():
    penalised = jax.jit(lambda f: f(1.0) + f.captured["weight"] ** 2)
    assert penalised(of_weight(3.0)) == 12.0
    refused = jax.jit(lambda f, x: grad(lambda x: f(x))(x))
    for f, after in ((plain, 1), (with_a_name, 2), (plain, 1)):
        assert lines_of(lambda f=f: refused(function(lambda x: f(HALF * x), R), 1.0)) == [here(f, after)]


def test_pullbacks_through_a_jit_of_the_users():
    through = jax.jit(lambda pullback: pullback)
    for make in (of_weight, of_bias):
        pullback = vjp(lambda x, f: x * f(x), 2.0, make(3.0))[1]
        assert list(through(pullback)(HALF)[1].captured) == [0]


def test_constants_of_terms_have_no_names_of_others():
    first, second = C.const(of_weight(2.0)), C.const(of_bias(2.0))
    assert first is second and list(C.evaluate(second, ()).captured) == [0]


# lines ---------------------------------------------------------------------------------------------------------------

NUMBER = jax.ShapeDtypeStruct((), jnp.float32)


def lines_of(run):
    with pytest.raises(NotDifferentiableError) as error:
        run()
    return [int(n) for n in re.findall(re.escape(Path(__file__).name) + r":(\d+)", str(error.value))]


def here(f, after=1):
    return f.__code__.co_firstlineno + after


def plain(x):
    return jax.pure_callback(np.sin, NUMBER, x)


def with_a_name(x):
    y = x
    return jax.pure_callback(np.sin, NUMBER, y)


def in_a_loop(x):
    step = lambda x, _: (jax.pure_callback(np.sin, NUMBER, x), None)
    return jax.lax.scan(step, x, None, length=2)[0]


REFUSED = {
    "grad": lambda f: grad(f)(1.0),
    "vjp": lambda f: vjp(f, 1.0)[1](np.float32(1)),
    "jvp": lambda f: jvp(f, (1.0,), (1.0,)),
    "hessian": lambda f: hessian(f)(1.0),
    "J": lambda f: J(f)(1.0)[1](np.float32(1)),
    "a function value": lambda f: grad(lambda f, x: f(x), 1)(function(f, R), 1.0),
    "a gradient inside": lambda f: ccc(lambda x: grad(f)(x))(1.0),
    "jit": lambda f: jax.jit(grad(f))(1.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_has_the_line_of_the_function_at_hand(name):
    for f, after in ((plain, 1), (with_a_name, 2), (in_a_loop, 1), (plain, 1)):
        assert lines_of(lambda f=f: REFUSED[name](f)) == [here(f, after)]


def test_an_error_in_a_jitted_function_has_the_line_there_for_all_that_call_it():
    helper = jax.jit(lambda x: jax.pure_callback(np.cos, NUMBER, x))
    for f in (lambda x: helper(x), lambda x: helper(2.0 * x), lambda x: helper(x)):
        assert lines_of(lambda f=f: grad(f)(1.0)) == [here(helper.__wrapped__, 0)]


def test_an_operation_of_two_lines_has_both():
    def twice(x):
        y = jax.pure_callback(np.tan, NUMBER, jax.lax.stop_gradient(x))
        return y + jax.pure_callback(np.tan, NUMBER, x)

    assert lines_of(lambda: grad(twice)(1.0)) == [here(twice), here(twice, 2)]


# families ------------------------------------------------------------------------------------------------------------


def pair_of(f):
    return jax.tree.map(lambda a: jnp.stack([a, a]), f)


APPLIED = {
    "called": lambda f: f(2.0),
    "an argument": lambda f: ccc(lambda f, x: f(x))(f, 2.0),
    "an argument of a term": lambda f: C.eval(f, 2.0),
    "differentiated": lambda f: grad(lambda f: jnp.sum(f(2.0)))(f),
    "captured": lambda f: ccc(lambda x: f(x))(2.0),
    "under jit": jax.jit(lambda f: f(2.0)),
}


@pytest.mark.parametrize("name", APPLIED)
def test_what_is_refused_does_not_depend_on_what_was_made_before(name):
    make = lambda w: function(lambda x: x * jnp.cos(w), R)
    family = pair_of(make(jnp.ones(3)))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="a family of 2 functions"):
            APPLIED[name](family)
        APPLIED[name](make(jnp.ones((2, 3))))  # one function, whose leaves have the same shapes


def test_families_of_functions_that_a_program_made():
    make = ccc(lambda w: function(lambda x: x * jnp.cos(w), R))
    family = jax.vmap(make)(jnp.ones((2, 3)))
    with pytest.raises(ArgumentError, match="a family of 2 functions"):
        family(2.0)
    assert jax.vmap(lambda f: f(2.0))(family).shape == (2, 3)
    assert make(jnp.ones((2, 3)))(2.0).shape == (2, 3)
