"""Functions that are chosen at run time: by cond, switch and select, from arrays of functions, in the state of loops.

The reference is the same program in plain JAX, in which the branches apply the functions.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.meaning.infer import carried
from compile_ccc import ccc, function, trace
from tangents import grad, hessian, jvp, represent, value_and_grad

pytestmark = pytest.mark.usefixtures("x64")
A = np.array([1.0, 2.0, -0.5])
x = 0.7
SPACES = ("environment", "list")


def R():
    """The type of a real number, in the precision of the running test."""
    return C.Tensor()


def members(a):
    """Three functions of different code, each of which captures a."""
    return [
        function(lambda y: a[0] * jnp.sin(a[0] * y), R()),
        function(lambda y: jnp.exp(a[1] * y) - a[0], R()),
        function(lambda y: y * y * a[2], R()),
    ]


def applied(a, i, y):
    return (a[0] * jnp.sin(a[0] * y), jnp.exp(a[1] * y) - a[0], y * y * a[2])[i]


def by_switch(a, y, i):
    fs = members(a)
    return lax.switch(i, [lambda f=f: f for f in fs])(y)


def made_in_branches(a, y, i):
    return lax.switch(i, [lambda k=k: members(a)[k] for k in range(3)])(y)


def applied_in_branches(a, y, i):
    return lax.switch(i, [lambda f=f: f(y) for f in members(a)])


def by_index(a, y, i):
    fs = jax.tree.map(lambda *f: jnp.stack(f), *members(a))
    return jax.tree.map(lambda f: f[i], fs)(y)


def by_where(a, y, i):
    pick = lambda c, f, g: jax.tree.map(lambda f, g: jnp.where(c, f, g), f, g)
    f, g, h = members(a)
    return pick(i == 0, f, pick(i == 1, g, h))(y)


def in_a_record(a, y, i):
    f, g, h = members(a)
    chosen = lax.switch(i, [lambda: {"f": f, "w": a[0]}, lambda: {"f": g, "w": a[1]}, lambda: {"f": h, "w": 1.0}])
    return chosen["f"](y) * chosen["w"] / jnp.array([a[0], a[1], 1.0])[i]


PROGRAMS = [by_switch, made_in_branches, applied_in_branches, by_index, by_where, in_a_record]


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("i", range(3))
def test_a_choice_has_the_gradient_of_what_was_chosen(program, i, functions):
    value, gradient = value_and_grad(program, (0, 1), functions=functions)(A, x, i)
    expected, slope = jax.value_and_grad(lambda a, y: applied(a, i, y), (0, 1))(A, x)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    jax.tree.map(lambda g, h: np.testing.assert_allclose(g, h, rtol=1e-12), gradient, slope)


@pytest.mark.parametrize("program", PROGRAMS)
def test_forward_mode_and_second_derivatives_go_through_a_choice(program):
    plain = lambda a, y: applied(a, 1, y)
    found = jvp(lambda a, y: program(a, y, 1), (A, x), (np.ones(3), 2.0))
    expected = jax.jvp(plain, (A, x), (np.ones(3), 2.0))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    h = hessian(lambda y: program(A, y, jnp.int32(1)))(x)
    np.testing.assert_allclose(h, jax.hessian(lambda y: plain(A, y))(x), rtol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_choice_is_made_lane_by_lane(program):
    which, ys = jnp.array([2, 0, 1, 0]), jnp.array([0.1, 0.5, -0.3, 2.0])
    total = lambda a: jnp.sum(jax.vmap(lambda i, y: program(a, y, i))(which, ys))
    plain = lambda a: sum(applied(a, int(i), y) for i, y in zip(which, ys, strict=True))
    value, gradient = value_and_grad(total)(A)
    np.testing.assert_allclose(value, plain(A), rtol=1e-12)
    np.testing.assert_allclose(gradient, jax.grad(plain)(A), rtol=1e-12)


def test_the_environment_that_ran_gets_the_cotangent():
    a, b = np.array(2.0), np.array(3.0)
    f, g = (lambda a: function(lambda y: a * y, R()))(a), (lambda b: function(lambda y: jnp.sin(b * y), R()))(b)
    choose = lambda f, g, c, y: lax.cond(c, lambda: f, lambda: g)(y)
    of_f, of_g = grad(choose, (0, 1))(f, g, True, x)
    assert (f.gradient(of_f), g.gradient(of_g)) == ({"a": pytest.approx(x)}, {"b": 0.0})
    of_f, of_g = grad(choose, (0, 1))(f, g, False, x)
    assert (f.gradient(of_f), g.gradient(of_g)) == ({"a": 0.0}, {"b": pytest.approx(x * np.cos(3.0 * x))})
    of_f, of_g = grad(choose, (0, 1), functions="list")(f, g, True, x)
    assert [(float(y), float(c)) for y, c in of_f] == [(x, 1.0)] and list(of_g) == []


def test_no_nan_comes_from_a_function_that_was_not_chosen():
    root = lambda w, y: lax.cond(
        y > 0, lambda: function(lambda z: jnp.sqrt(w * z), R()), lambda: function(lambda z: z, R())
    )
    total = lambda w: jnp.sum(jax.vmap(lambda y: root(w, y)(y))(jnp.array([4.0, -1.0, 9.0])))
    value, gradient = value_and_grad(total)(1.0)
    assert (float(value), float(gradient)) == (2.0 - 1.0 + 3.0, 0.5 * (2.0 + 3.0))


def test_a_chosen_function_comes_out_as_a_closure():
    make = lambda a, i: lax.cond(i, lambda: members(a)[0], lambda: members(a)[2])
    f = ccc(make)(A, False)
    assert f.type == C.Function(R(), R())
    np.testing.assert_allclose(f(x), applied(A, 2, x), rtol=1e-12)
    np.testing.assert_allclose(jax.jit(lambda f, y: f(y))(f, x), applied(A, 2, x), rtol=1e-12)
    np.testing.assert_allclose(grad(lambda f, y: f(y), 1)(f, x), 2 * x * A[2], rtol=1e-12)
    np.testing.assert_allclose(grad(lambda a: make(a, False)(x))(A), [0.0, 0.0, x * x], rtol=1e-12)


def test_equal_codes_are_one_alternative():
    make = lambda w: function(lambda y: w * y, R())
    f = ccc(lambda a, i: lax.switch(i, [lambda: make(a[0]), lambda: make(a[1]), lambda: make(a[0] + a[1])]))(A, 2)
    assert f.code is ccc(lambda a: make(a))(1.0).code
    assert f.captured == {"w": 3.0}


@pytest.mark.parametrize("functions", SPACES)
def test_different_functions_are_folded_over(functions):
    def folded(a, y):
        fs = jax.tree.map(lambda *f: jnp.stack(f), *members(a))
        return lax.scan(lambda s, f: (f(s), s), y, fs)[0]

    plain = lambda a, y: applied(a, 2, applied(a, 1, applied(a, 0, y)))
    value, gradient = value_and_grad(folded, (0, 1), functions=functions)(A, x)
    expected, slope = jax.value_and_grad(plain, (0, 1))(A, x)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    jax.tree.map(lambda g, h: np.testing.assert_allclose(g, h, rtol=1e-12), gradient, slope)


def test_functions_take_turns_in_the_state_of_a_loop():
    def turns(a, y):
        f, g, _ = members(a)
        (f, _), ys = lax.scan(lambda s, _: ((s[1], s[0]), s[0](y)), (f, g), None, length=3)
        return jnp.sum(ys) * f(y)

    def plain(a, y):
        f, g = applied(a, 0, y), applied(a, 1, y)
        return (f + g + f) * g

    value, gradient = value_and_grad(turns, (0, 1))(A, x)
    expected, slope = jax.value_and_grad(plain, (0, 1))(A, x)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    jax.tree.map(lambda g, h: np.testing.assert_allclose(g, h, rtol=1e-12), gradient, slope)
    tangents = (np.array([1.0, -1.0, 2.0]), 0.5)
    np.testing.assert_allclose(jvp(turns, (A, x), tangents), jax.jvp(plain, (A, x), tangents), rtol=1e-12)


def test_a_function_replaced_in_a_loop():
    def program(w, y):
        step = lambda i, f: lax.cond(i == 1, lambda: function(lambda z: z - w, R()), lambda: f)
        return lax.fori_loop(0, 3, step, function(lambda z: w * z, R()))(y)

    assert [float(g) for g in grad(program, (0, 1))(2.0, x)] == [-1.0, 1.0]


def test_functions_of_one_code_that_hold_each_other_pass_through_a_loop():
    def tower(a, height):
        f = function(lambda y: y, C.Tensor(()))
        for _ in range(height):
            f = function(lambda y, f=f: a * f(y), C.Tensor(()))
        return f

    def loss(a):
        state = lax.fori_loop(0, 3, lambda _, s: (s[1], tower(a, 12)), (tower(a, 1), tower(a, 2)))
        return state[0](1.0)

    assert np.allclose(grad(loss)(1.1), 12 * 1.1**11)


def test_the_state_of_a_loop_is_the_sum_of_what_it_may_be():
    f, g = C.Closure(C.curry(C.proj(-1), R()), C.Context()), C.Closure(C.curry(C.const(1.0), R()), C.Context())
    swap = C.Closure(C.curry(C.proj(-1) >> C.proj(0) >> C.prod(C.proj(1), C.proj(0))), C.Context())
    state = carried(C.fold, swap, (f, g), C.Tensor((3,)))
    assert [len(h.environment[0].alternatives) for h in state] == [2, 2]


def test_terms_choose_by_numbers():
    which = C.prod(C.proj(0), C.proj(1) >> C.tag(3)) >> C.case(
        C.proj(0) >> C.primitive("sin"), C.proj(0) >> C.primitive("exp"), C.proj(0) >> C.primitive("neg")
    )
    for i, (f, slope) in enumerate([(np.sin, np.cos), (np.exp, np.exp), (np.negative, lambda _: -1.0)]):
        y, pullback = represent(which)(np.float64(x), jnp.int32(i))
        np.testing.assert_allclose((y, pullback(np.float64(1.0))[0]), (f(x), slope(x)), rtol=1e-12)
    assert float(which(x, -4)) == pytest.approx(np.sin(x)) and float(which(x, 9)) == -x


def test_results_of_different_types_are_a_sum():
    """A loss with an auxiliary value, or nothing: no dummies of the right shapes are made up by the user."""
    pair = C.proj(0) >> C.prod(C.prod(C.id, C.id) >> C.primitive("mul"), C.primitive("sin"))
    result = C.prod(C.proj(0), C.proj(1) >> C.tag(2)) >> C.case(C.prod() >> C.inr, pair >> C.inl)
    three = C.proj(1) >> C.prod(C.id, C.const(3.0)) >> C.primitive("mul")
    program = result >> C.case(C.prod(C.proj(0), three) >> C.primitive("add"), C.const(7.0))
    loss = ccc(lambda y, counter: (y, counter >= 10)) >> program
    for counter, value, slope in ((12, 4 + 3 * np.sin(2.0), 4 + 3 * np.cos(2.0)), (5, 7.0, 0.0)):
        for functions in SPACES:
            found = value_and_grad(loss, functions=functions)(2.0, counter)
            np.testing.assert_allclose(found, (value, slope), rtol=1e-12)


def test_the_text_of_a_choice():
    text = str(trace(by_switch, A, x, 1).lambda_term)
    assert "tag(3)" in text and "case " in text and text.count("λ ") == 7


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize("w", [0.7, 0.2, -0.4])
def test_a_choice_inside_a_choice(w, functions):
    def nested(w):
        f, g = function(lambda x: jnp.sin(w * x), R()), function(lambda x: x * w + w, R())
        inner = lambda: lax.cond(w > 0.5, lambda: f, lambda: g)
        return lax.cond(w > 0.0, inner, lambda: function(lambda x: jnp.exp(-x * w), R()))(1.3)

    plain = lambda w: jnp.sin(w * 1.3) if w > 0.5 else 1.3 * w + w if w > 0.0 else jnp.exp(-1.3 * w)
    found = value_and_grad(nested, functions=functions)(w)
    np.testing.assert_allclose(found, (plain(w), jax.grad(plain)(w)), rtol=1e-12)
    np.testing.assert_allclose(jvp(nested, (w,), (2.0,)), jax.jvp(plain, (w,), (2.0,)), rtol=1e-12)
    np.testing.assert_allclose(hessian(nested)(w), jax.hessian(plain)(w), rtol=1e-12)


FAMILIES = {
    "scalars": lambda w: function(lambda x: jnp.sin(w * x), R()),
    "what broadcasts with the argument": lambda w: function(lambda x: jnp.sum(w * x), C.Tensor(3)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_of_functions_is_not_one(name):
    """Applied as one it would mix them up: a leaf of shape (3,) broadcasts with an argument of that shape."""
    family = jax.vmap(FAMILIES[name])(A)
    at = jnp.ones(FAMILIES[name](1.0).code.argument.shape)
    programs = (lambda: family(at), lambda: grad(lambda f: f(at))(family), lambda: ccc(lambda f, x: f(x))(family, at))
    for run in (*programs, lambda: family.type, lambda: ccc(lambda x: jax.vmap(lambda f: f(x))(family))(at)):
        with pytest.raises(C.errors.ArgumentError, match="a family of 3 functions"):
            run()
    expected = [float(FAMILIES[name](w)(at)) for w in A]
    np.testing.assert_allclose(jax.vmap(lambda f: f(at))(family), expected, rtol=1e-12)
    assert jax.vmap(grad(lambda f: f(at)))(family).environment[0].shape == (3,)


def test_calls_of_functions_of_one_code_that_captured_different_alternatives():
    """Where the two meet, the number of the alternative is an array; each of them had known its own."""
    body = C.curry(C.proj(0))  # Δ·x ↦ the sum that was captured
    made = [C.prod(C.Context(C.proj(0) >> injection)) >> body for injection in (C.inl, C.inr)]
    chosen = C.prod(C.case(*made), C.proj(0)) >> C.eval >> C.case(C.primitive("sin"), C.primitive("exp"))
    for tag, slope in ((0, np.cos(0.5)), (1, np.exp(0.5))):
        x = (jnp.float32(0.5), C.Sum((), (), tag=jnp.int32(tag)))
        for functions in ("environment", "list"):
            _, pullback = represent(chosen, functions=functions)(x)
            assert float(pullback(jnp.float32(1.0))[0]) == pytest.approx(slope, rel=1e-6)


def test_chosen_functions_that_captured_functions_of_which_no_derivative_is_asked():
    """In the list space a function that captured nothing is a constant as a whole; here two of them meet as well."""
    sine, cube = (C.prod(C.Context()) >> C.curry(C.proj(-1) >> f) for f in (C.primitive("sin"), C.primitive("exp")))
    body = C.curry(C.prod(C.prod(C.proj(1), C.proj(2)) >> C.eval, C.proj(0)) >> C.primitive("mul"))
    other = C.curry(C.prod(C.prod(C.proj(1), C.proj(2)) >> C.eval, C.proj(0)) >> C.primitive("add"))
    for first, second in ((body, body), (body, other)):
        made = [C.prod(C.Context(C.proj(0), h)) >> code for h, code in ((sine, first), (cube, second))]
        chosen = C.prod(C.case(*made), C.proj(0)) >> C.eval  # sin x · x, or exp x · x, or exp x + x
        last = np.exp(0.5) * 1.5 if second is body else np.exp(0.5) + 1.0
        for tag, slope in ((0, np.sin(0.5) + 0.5 * np.cos(0.5)), (1, last)):
            x = (jnp.float32(0.5), C.Sum((), (), tag=jnp.int32(tag)))
            for functions in ("environment", "list"):
                _, pullback = represent(chosen, functions=functions)(x)
                assert float(pullback(jnp.float32(1.0))[0]) == pytest.approx(slope, rel=1e-6)
