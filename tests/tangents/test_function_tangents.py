"""Gradients by functions: figure 4, and what a cotangent of a function means in each of the two spaces."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function, trace
from tangents import Block, Calls, grad, represent, value_and_grad, vjp

SPACES = ["environment", "list"]
MUL, ADD, SIN = C.primitive("mul"), C.primitive("add"), C.primitive("sin")
x = C.proj(1)
v = np.array([0.5, -1.0, 2.0])


def R(*shape):
    return C.Tensor(shape, float)


@pytest.fixture(params=SPACES)
def functions(request):
    return request.param


def same(got, expected, tolerance=1e-10):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def per_argument(calls):
    """A list of calls up to the paper's equivalence: the nonzero sum of the cotangents at each argument."""
    sums: dict[tuple, np.ndarray] = {}
    for argument, cotangent in calls:
        key = tuple(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(argument)]).round(9).tolist())
        sums[key] = sums.get(key, 0.0) + np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(cotangent)])
    return {key: total.round(9).tolist() for key, total in sums.items() if np.any(total)}


def meaning(g, f):
    """What a cotangent of the function value f makes of its environment: figure 5's itself, figure 3's calls summed."""
    if not isinstance(g, Calls):
        return g
    of_environment = lambda f, argument: f(argument)
    total = jax.tree.map(jnp.zeros_like, f)
    for argument, cotangent in g:
        (by_f,) = jax.vjp(partial(of_environment, argument=argument), f)[1](cotangent)
        total = jax.tree.map(jnp.add, total, by_f)
    return total


# Figure 4: in each column two arrows with the same value, whose pullbacks must agree. f is (a, b) ↦ a sin b.

F4 = C.prod(C.proj(0), x >> SIN) >> MUL
fst = C.proj(0)
COLUMNS = {
    "Partial Application": (
        # (λ xb → f (a, xb)) b   and   f (a, b)
        C.prod(C.proj(0) >> C.curry(F4), x) >> C.eval,
        F4,
        lambda f, g: (2.0, 3.0),
    ),
    "Forgetting Results": (
        # ((f, g), x) ↦ fst (f x, g x)   and   f x
        C.prod(C.prod(fst >> fst, x) >> C.eval, C.prod(fst >> C.proj(1), x) >> C.eval) >> fst,
        C.prod(fst >> fst, x) >> C.eval,
        lambda f, g: ((f, g), 3.0),
    ),
    "Summing Results": (
        # (f, x) ↦ f x + f x   and   let y = f x in y + y
        C.prod(C.eval, C.eval) >> ADD,
        C.extend(C.eval) >> C.prod(x, x) >> ADD,
        lambda f, g: (f, 3.0),
    ),
}
VALUES = {"Partial Application": 2 * np.sin(3), "Forgetting Results": np.sin(6), "Summing Results": 2 * np.sin(6)}


@pytest.mark.parametrize("column", COLUMNS)
def test_figure_4(column, functions, x64):
    foo1, foo2, arguments = COLUMNS[column]
    scaled = lambda k: C.Closure(C.curry(MUL >> SIN), k)  # y ↦ sin (k y)
    argument = arguments(scaled(2.0), scaled(5.0))
    results = [represent(foo, functions)(*argument) for foo in (foo1, foo2)]
    assert [float(value) for value, _ in results] == [pytest.approx(VALUES[column])] * 2
    for cotangent in (1.0, -0.3):
        one, two = (pullback(jnp.float64(cotangent)) for _, pullback in results)
        leaf = lambda g: isinstance(g, Calls)
        for g, h in zip(jax.tree.leaves(one, is_leaf=leaf), jax.tree.leaves(two, is_leaf=leaf), strict=True):
            assert per_argument(g) == per_argument(h) if leaf(g) else float(g) == pytest.approx(float(h))


def test_figure_4_as_the_paper_spells_its_lists(x64):
    """[(x, 0)] for a forgotten call and [(x, g), (x, g)] for two: the lists differ, what they mean does not."""
    k = C.Closure(C.curry(MUL, R()), 2.0)
    pull = lambda foo, argument: represent(foo, "list")(*argument)[1](jnp.float64(1.0))
    (f, g), _ = pull(COLUMNS["Forgetting Results"][0], ((k, k), 3.0))
    assert (per_argument(f), per_argument(g)) == ({(3.0,): [1.0]}, {})
    foo1, foo2 = (grad(foo, functions="list")(k, 3.0) for foo in PYTHON["Summing Results"])
    assert sorted((float(a), float(c)) for a, c in foo1) == [(3.0, 1.0), (3.0, 1.0)]
    assert [(float(a), float(c)) for a, c in foo2] == [(3.0, 2.0)]


PYTHON = {
    "Partial Application": (
        lambda a, b: function(lambda xb: a * jnp.sin(xb), C.Tensor())(b),
        lambda a, b: a * jnp.sin(b),
    ),
    "Forgetting Results": (lambda f, g, x: (f(x), g(x))[0], lambda f, g, x: f(x)),
    "Summing Results": (lambda f, x: f(x) + f(x), lambda f, x: (lambda y: y + y)(f(x))),
}


@pytest.mark.parametrize("column", PYTHON)
def test_figure_4_from_lambdas(column, functions):
    k, m = 2.0, 5.0
    f, g = (function(lambda y, k=k: jnp.sin(k * y), C.Tensor()) for k in (k, m))
    arguments = {"Partial Application": (k, 3.0), "Forgetting Results": (f, g, 3.0)}.get(column, (f, 3.0))
    everything = tuple(range(len(arguments)))
    (v1, g1), (v2, g2) = (value_and_grad(foo, everything, functions=functions)(*arguments) for foo in PYTHON[column])
    assert float(v1) == pytest.approx(float(v2)) == pytest.approx(VALUES[column], rel=1e-6)
    for a, b, argument in zip(g1, g2, arguments, strict=True):
        same(meaning(a, argument), meaning(b, argument), 1e-5)


def test_curry_and_eval_are_there_in_the_traced_term():
    text = repr(trace(PYTHON["Partial Application"][0], C.Tensor(), C.Tensor()).term)
    assert "curry(" in text and "eval" in text


# Gradients by a function argument: L(f, rest), with f made from parameters, against JAX's gradient by the parameters.


def affine(w, b):
    return lambda x: w * x + b


def layer(w, b):
    return lambda x: jnp.tanh(w @ x + b["bias"])


def cell(w, b):
    return lambda s, x: jnp.tanh(w * s + b * x)


def of_function(a, b):
    return lambda f: a * f(b) + f(a)


W = np.linspace(-1, 1, 9).reshape(3, 3)
LOSSES = {
    "one call": (lambda f: f(2.0) ** 2, affine, (1.5, -0.5), [()], ()),
    "no call": (lambda f, x: x * x, affine, (1.5, -0.5), [()], (3.0,)),
    "two calls": (lambda f, x: f(x) * f(2.0 * x), affine, (1.5, -0.5), [()], (3.0,)),
    "a call of a call": (lambda f, x: f(f(f(x))), affine, (1.5, -0.5), [()], (3.0,)),
    "a call that is forgotten": (lambda f, x: (f(x), f(2.0 * x))[0], affine, (1.5, -0.5), [()], (3.0,)),
    "a call without effect": (lambda f, x: f(x) + 0.0 * f(2.0 * x), affine, (1.5, -0.5), [()], (3.0,)),
    "a tree of parameters": (lambda f, x: jnp.sum(f(f(x))), layer, (W, {"bias": v}), [(3,)], (v,)),
    "vmap": (lambda f, xs: jnp.sum(jax.vmap(f)(xs) ** 2), affine, (1.5, -0.5), [()], (v,)),
    "nested vmap": (lambda f, xs: jnp.sum(jax.vmap(jax.vmap(f))(xs) ** 2), affine, (1.5, -0.5), [()], (W,)),
    "vmap of vectors": (lambda f, xs: jnp.sum(jax.vmap(f)(xs) ** 2), layer, (W, {"bias": v}), [(3,)], (W,)),
    "a fold": (
        lambda f, s, xs: lax.scan(lambda s, x: (f(s, x), None), s, xs)[0], cell, (0.7, -0.3), [(), ()], (0.2, v)
    ),
    "a scan": (
        lambda f, s, xs: jnp.sum(lax.scan(lambda s, x: (f(s, x), f(x, s)), s, xs)[1]),
        cell, (0.7, -0.3), [(), ()], (0.2, v),
    ),
    "a fold in a map": (
        lambda f, xs: jnp.sum(jax.vmap(lambda s: lax.scan(lambda s, x: (f(s, x), None), s, xs)[0])(xs)),
        cell, (0.7, -0.3), [(), ()], (v,),
    ),
    "a fold in a fold": (
        lambda f, xs: lax.scan(lambda t, y: (lax.scan(lambda s, x: (f(s, x) * y, None), t, xs)[0], None), 0.1, xs)[0],
        cell, (0.7, -0.3), [(), ()], (v,),
    ),
    "captured by another": (
        lambda f, x: function(lambda y: f(y) * y, R())(x) + f(x), affine, (1.5, -0.5), [()], (3.0,)
    ),
    "captured by another in a fold": (
        lambda f, xs: lax.scan(lambda s, x: (function(lambda y: f(y) * s, R())(x), None), 0.3, xs)[0],
        affine, (1.5, -0.5), [()], (v,),
    ),
    "under cond": (lambda f, x: jnp.where(x > 0.0, f(x), f(-x) * 2.0), affine, (1.5, -0.5), [()], (3.0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_by_a_function_means_the_gradient_by_its_parameters(name, functions, x64):
    loss, make, parameters, shapes, rest = LOSSES[name]
    of_parameters = lambda p: loss_in_python(loss, make(*p), rest)
    value, expected = jax.value_and_grad(of_parameters)(jax.tree.map(jnp.asarray, parameters))
    f = function(make(*parameters), *(R(*shape) for shape in shapes))
    got_value, g = value_and_grad(loss, functions=functions)(f, *rest)
    assert isinstance(g, Calls if functions == "list" else C.Closure)
    assert float(got_value) == pytest.approx(float(value), rel=1e-12)
    by_parameter = dict(zip(names_of(f, parameters), jax.tree.leaves(meaning(g, f)), strict=True))
    for i, leaf in enumerate(jax.tree.leaves(expected)):
        np.testing.assert_allclose(np.asarray(by_parameter[i]), np.asarray(leaf), rtol=1e-10, atol=1e-12)
    jitted = jax.jit(grad(loss, functions=functions))(f, *rest)
    same(jitted, g)


def loss_in_python(loss, f, rest):
    """The loss with `function` meaning nothing, so that JAX differentiates plain Python."""
    module = {**globals(), "function": lambda f, *domain: f}
    return type(loss)(loss.__code__, module, closure=loss.__closure__)(f, *rest)


def names_of(f, parameters):
    """The number of the parameter that each leaf of f's environment is."""
    leaves = jax.tree.leaves(parameters)
    return [next(i for i, p in enumerate(leaves) if np.array_equal(p, leaf)) for leaf in jax.tree.leaves(f.environment)]


def test_the_closure_of_cotangents_is_a_tree_like_the_function():
    f = function(affine(1.5, -0.5), C.Tensor())
    g = grad(lambda f: f(2.0) ** 2)(f)
    assert jax.tree.structure(g) == jax.tree.structure(f)
    same(list(g.environment), [10.0, 5.0])  # f 2 = 2.5: (2 f(2) 2, 2 f(2))
    stepped = jax.tree.map(lambda p, g: p - 0.1 * g, f, g)
    assert float(stepped(2.0)) == pytest.approx(0.0)  # (1.5 - 1) 2 + (-0.5 - 0.5)


def test_a_fold_is_one_block_of_calls():
    f = function(cell(0.7, -0.3), C.Tensor(), C.Tensor())
    fold = lambda f, s, xs: lax.scan(lambda s, x: (f(s, x), None), s, xs)[0]
    calls = grad(fold, functions="list")(f, 0.2, v.astype(np.float32))
    (block,) = calls.blocks
    assert (block.axes, len(block), len(calls)) == (1, 3, 3)
    states = [0.2]
    for element in v:
        states.append(np.tanh(0.7 * states[-1] - 0.3 * element))
    np.testing.assert_allclose(np.asarray(block.argument[0]), states[:3], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(block.argument[1]), v)
    assert float(block.cotangent[-1]) == 1.0


def test_calls_are_a_monoid():
    one, two = Calls(Block(jnp.float32(1), jnp.float32(2))), Calls(Block(jnp.arange(3.0), jnp.ones(3), 1))
    assert (len(Calls()), len(one + two), len(two + one)) == (0, 4, 4)
    assert per_argument(one + two) == per_argument(two + one) == {(0.0,): [1.0], (1.0,): [3.0], (2.0,): [1.0]}
    assert jax.tree.structure(jax.tree.map(lambda a: a, one + two)) == jax.tree.structure(one + two)


def test_a_result_that_is_a_function():
    value, pullback = vjp(lambda a: function(lambda x: jnp.sin(a * x), C.Tensor()), 2.0)
    cotangent = grad(lambda f: f(3.0))(value)
    (by_a,) = pullback(cotangent)
    assert float(by_a) == pytest.approx(3 * np.cos(6.0), rel=1e-6)


def test_the_list_cotangent_of_a_result_that_is_a_function():
    """Figure 3's curry: the function runs again for each call, and the cotangents of its capture are summed."""
    term = C.curry(MUL >> SIN)  # a ↦ (y ↦ sin (a y))
    f, pullback = represent(term, "list")(2.0)
    calls = Calls(Block(jnp.float32(3), jnp.float32(1)), Block(jnp.array([0.5, 1.0]), jnp.array([2.0, -1.0]), 1))
    expected = 3 * np.cos(6) + 2 * 0.5 * np.cos(1) - np.cos(2)
    assert float(f(3.0)) == pytest.approx(np.sin(6), rel=1e-6)
    assert float(pullback(calls)) == pytest.approx(expected, rel=1e-6)
    assert float(pullback(Calls())) == 0.0


def test_functions_in_data():
    f, g = (function(affine(w, 0.0), C.Tensor()) for w in (2.0, 3.0))
    by = grad(lambda d, x: d["f"](x) * d["g"](x) * d["k"])({"f": f, "g": g, "k": 1.0}, 5.0)
    # f x g x = w_f w_g x²: by w_f it is 75, by k it is 150
    assert float(jax.tree.leaves(by["f"])[0]) == 75.0
    assert float(by["k"]) == 150.0


def test_an_argument_of_a_function_argument_is_a_function():
    h = function(of_function(2.0, 3.0), C.Function(C.Tensor(), C.Tensor()))
    term = lambda h, w: h(function(lambda x: jnp.sin(w * x), C.Tensor()))
    expected = jax.grad(lambda w: of_function(2.0, 3.0)(lambda x: jnp.sin(w * x)))(0.7)
    for space in SPACES:
        assert float(grad(term, 1, functions=space)(h, 0.7)) == pytest.approx(float(expected), rel=1e-5)
    assert float(ccc(term)(h, 0.7)) == pytest.approx(2 * np.sin(2.1) + np.sin(1.4), rel=1e-6)
