"""Loops keep and add up no more than they have to: each rewrite gives the same gradient, and the work is gone."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

import combinators as C
from compile_ccc import ccc, function, trace
from tangents import grad, jvp
from tangents.at_once import ahead
from tangents.at_once.contractions import CONTRACTIONS, Joined

SPACES = ["environment", "list"]


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def check(loss, *arguments, functions="environment", directions=2):
    """The gradient by all arguments, against central differences along random directions, in float64."""
    with jax.enable_x64(True):
        gradient = jax.jit(grad(loss, tuple(range(len(arguments))), functions=functions))(*arguments)
        arguments = jax.tree.map(jnp.asarray, arguments)
        for seed in range(directions):
            along = jax.tree.map(lambda x, seed=seed: draw(*x.shape, seed=seed + 7), arguments)
            ends = [jax.tree.map(lambda x, d, t=t: x + t * d, arguments, along) for t in (1e-6, -1e-6)]
            slope = (loss(*ends[0]) - loss(*ends[1])) / 2e-6
            rate = sum(np.sum(g * d) for g, d in zip(gradient, along, strict=True))
            np.testing.assert_allclose(rate, slope, rtol=1e-6)


def loops(f, *arguments):
    """The bodies of all scans in a program, the calls in them opened."""
    found = []

    def visit(jaxpr, inside):
        for e in jaxpr.eqns:
            body = inside if e.primitive.name != "scan" else []
            if e.primitive.name == "scan":
                found.append(body)
            if inside is not None and e.primitive.name != "scan":
                inside.append(e)
            for inner in jax.extend.core.jaxprs_in_params(e.params):
                visit(inner, body)

    visit(jax.make_jaxpr(f)(*arguments).jaxpr, None)
    return found


def names(body):
    return [e.primitive.name for e in body]


def network(keep, read, bias, xs, h):
    cell = lambda h, x: (jnp.tanh(x @ read + h @ keep + bias[None]), None)
    return jnp.sum(jnp.sin(lax.scan(cell, h, xs)[0]))


def test_products_with_a_matrix_are_summed_after_the_loop():
    arguments = draw(3, 3), draw(4, 3), draw(3), draw(5, 8, 4), draw(8, 3)
    check(network, *arguments)
    types = [x.astype("float32") for x in (draw(20, 20), draw(20, 20), draw(20), draw(5, 8, 20), draw(8, 20))]
    forward, backward = loops(grad(network, (0, 1, 2)), *types)
    assert names(forward).count("dot_general") == 2
    assert names(backward).count("dot_general") == 1  # of the state alone
    assert "reduce_sum" not in names(backward)


def test_a_matrix_is_transposed_once_before_a_long_loop():
    def loss(wide, back, xs, h):
        return jnp.sum(jnp.sin(lax.scan(lambda h, x: (jnp.tanh(jnp.sin(h @ wide) @ back + x), None), h, xs)[0]))

    def summed(steps, rows):  # the axes of the matrices over which the loop backwards sums
        shapes = (3, 5), (5, 3), (steps,), (rows, 3)
        body = loops(grad(loss, 3), *(draw(*shape).astype("float32") for shape in shapes))[1]
        return [e.params["dimension_numbers"][0][1] for e in body if e.primitive.name == "dot_general"]

    assert (summed(40, 8), summed(3, 8), summed(40, 1)) == ([(0,), (0,)], [(1,), (1,)], [(1,), (1,)])
    check(loss, draw(3, 5), draw(5, 3), draw(40), draw(8, 3))


def test_what_is_smaller_than_its_rows_is_carried():
    many = [x.astype("float32") for x in (draw(2, 2), draw(2, 2), draw(2), draw(5, 64, 2), draw(64, 2))]
    _, backward = loops(grad(network, (0, 1, 2)), *many)
    assert names(backward).count("dot_general") == 3
    check(network, *(x.astype(float) for x in many))


def test_what_is_smaller_than_what_a_step_keeps_is_carried():
    def loss(w, xs, h, b):  # 81 numbers are carried, or 18 put out; each step keeps 500 anyway
        last, _ = lax.scan(lambda s, x: ((jnp.tanh(s[0] @ w), jnp.sin(s[1] * x)), None), (h, b), xs)
        return jnp.sum(last[0]) + jnp.sum(last[1])

    check(loss, draw(9, 9), draw(4), draw(2, 9), draw(500))
    types = [x.astype("float32") for x in (draw(9, 9), draw(4), draw(2, 9), draw(500))]
    _, backward = loops(grad(loss, (0, 3)), *types)
    assert names(backward).count("dot_general") == 2  # of the state, and of the matrix


def test_a_sum_of_two_is_carried_as_one():
    along = np.array([[0.3, -0.7]])

    def loss(w, xs, h):  # of the cotangents of w one is that of its two products, taken apart 2 + 4 numbers
        return jnp.sum(lax.scan(lambda h, x: (jnp.tanh(h @ w) * (along.astype(w.dtype) @ w) + x, None), h, xs)[0])

    check(loss, draw(2, 2), draw(4), draw(64, 2))
    program = jax.make_jaxpr(grad(loss))(*(x.astype("float32") for x in (draw(2, 2), draw(4), draw(64, 2))))
    *_, backward = scans(program.jaxpr)
    assert sorted(v.aval.shape for v in backward.outvars) == [(2, 2), (64, 2)]


def test_a_cell_that_is_a_call_of_its_own():
    @jax.jit
    def cell(w, h, x):
        return jnp.tanh(x + h @ w)

    loss = lambda w, xs, h: jnp.sum(lax.scan(lambda h, x: (cell(w, h, x), None), h, xs)[0])
    check(loss, draw(3, 3), draw(4, 2, 3), draw(2, 3))
    _, backward = loops(grad(loss), *(x.astype("float32") for x in (draw(9, 9), draw(4, 2, 9), draw(2, 9))))
    assert names(backward).count("dot_general") == 1


@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize("left", [False, True])
def test_parts_of_a_cotangent_and_their_product(functions, left):
    def product(x, w):
        return jnp.split((w.T @ x.T) if left else x @ w, 3, axis=0 if left else 1)

    def loss(w, v, xs, h):  # the cotangents of both products share two parts of three
        def cell(h, x):
            (a, b, c), (d, e, f) = product(x, w), product(h, v)
            new = jnp.cos(b + e) * jnp.tanh(c + jnp.sin(a + d) * f)
            return jnp.sin(a + d).reshape(h.shape) * h + new.reshape(h.shape), h

        last, states = lax.scan(cell, h, xs, reverse=True)
        return jnp.sum(last) + jnp.sum(states**2)

    check(loss, draw(2, 9), draw(3, 9), draw(5, 2, 2), draw(2, 3), functions=functions)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_product_of_rows_in_parts_is_that_of_the_rows(side, axis):
    dot = lambda a, b: lax.dot_general(a, b, (((1,), (1,)), ((), ())))  # rows of (4, 2, 3) and (5, 2, 6)
    (e,) = jax.make_jaxpr(dot)(jnp.ones((4, 2, 3)), jnp.ones((5, 2, 6))).eqns
    rows = [draw(90, 4, 2, 3), draw(90, 5, 2, 6)]
    whole = rows[side]
    parts = Joined([jnp.asarray(part) for part in np.split(whole, [1], axis)], axis)
    given = [jnp.asarray(x) if i != side else parts for i, x in enumerate(rows)]
    expected = np.einsum("tabc,tdbe->acde", *rows)
    np.testing.assert_allclose(CONTRACTIONS["dot_general"].run(e, *given), expected, rtol=1e-4, atol=1e-4)


def test_tables_that_are_read():
    def loss(table, moves, xs):
        def step(s, i):
            row = jnp.sin(table[i] * s)  # a vector of indices: a gather
            return row + lax.dynamic_slice(moves, (i[0], 0), (2, 3)), None  # a window, which is moved into the table

        return jnp.sum(lax.scan(step, xs, np.array([[0, 3], [4, 1], [3, 3]]))[0])

    check(loss, draw(6, 3), draw(5, 3), draw(2, 3))
    types = [x.astype("float32") for x in (draw(60, 3), draw(50, 3), draw(2, 3))]
    _, backward = loops(grad(loss, (0, 1)), *types)
    assert all(v.aval.size < 20 for e in backward for v in e.outvars)  # nothing as large as a table


def test_linear_operations_after_the_sum():
    def loss(w, scale, xs, s):
        def step(s, x):
            matrix = jnp.concatenate([w[:2].T, -w[2:].T], axis=1) / 2.0
            return jnp.sin(s @ jnp.pad(scale * matrix, ((0, 0), (1, 0)))) + x, None

        return jnp.sum(lax.scan(step, s, xs)[0])

    check(loss, draw(4, 5), np.float64(1.3), draw(6, 5, 5), draw(5, 5))


def test_a_map_contracts_its_rows():
    loss = lambda w, xs: jnp.sum(C.map(function(lambda x: jnp.sin(w @ x), C.Tensor((9,), xs.dtype)), xs) ** 2)
    check(loss, draw(9, 9), draw(4, 9))
    program = jax.make_jaxpr(grad(loss))(np.ones((9, 9), "float32"), np.ones((400, 9), "float32"))
    assert max(v.aval.size for e in program.jaxpr.eqns for v in e.outvars) < 400 * 81


def test_a_map_that_keeps_much_contracts_its_rows_too():
    loss = lambda w, xs: jnp.sum(C.map(function(lambda x: jnp.sin(w @ x[:9]) * jnp.sum(jnp.cos(x)), xs[0]), xs))
    check(loss, draw(4, 9), draw(3, 60))
    program = str(jax.make_jaxpr(grad(loss, (0, 1)))(np.ones((4, 9), "float32"), np.ones((400, 60), "float32")))
    assert "[400,4]" in program and "[400,4,9]" not in program


def test_sums_of_no_steps():
    gradient = grad(network, (0, 1, 2))(
        *(draw(*s).astype("float32") for s in ((3, 3), (4, 3), (3,), (0, 8, 4), (8, 3)))
    )
    assert all(np.all(g == 0) for g in gradient)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_state_that_is_needed_before_and_after_is_kept_once(reverse):
    def loss(w, out, xs, h):
        def cell(h, x):
            new = jnp.tanh(x * (h @ w))
            return new, jnp.sum(jnp.sin(new @ out))  # rows of states after the steps are contracted

        return jnp.sum(lax.scan(cell, h, xs, reverse=reverse)[1])

    check(loss, draw(3, 3), draw(3, 3), draw(5), draw(2, 3))
    types = [x.astype("float32") for x in (draw(9, 9), draw(9, 9), draw(5), draw(2, 9))]
    program = jax.make_jaxpr(grad(loss, (0, 1)))(*types)
    (forward,) = [e for e in scans(program.jaxpr) if len(e.outvars) > 1 and e.params["reverse"] is reverse][:1]
    assert sum(v.aval.shape == (5, 2, 9) for v in forward.outvars) == 2  # the states, and their products


def scans(jaxpr):
    for e in jaxpr.eqns:
        if e.primitive.name == "scan":
            yield e
        for inner in jax.extend.core.jaxprs_in_params(e.params):
            yield from scans(inner)


def test_two_states_that_change_places():
    out = lambda w, s, x: jnp.sin(w * s[0] * s[1] ** 2 * x)
    loss = lambda w, xs, a, b: jnp.sum(lax.scan(lambda s, x: ((s[1], s[0]), out(w, s, x)), (a, b), xs)[1])
    check(loss, np.float64(0.7), draw(6), draw(3), draw(3))


def memory(f, *arguments):
    return jax.jit(f).lower(*arguments).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("functions", SPACES)
def test_d4_what_is_cheap_is_not_kept_for_every_step(functions):
    n, size = 50, 64

    def f(named, x, ys):
        z = jnp.ones((size, size))
        term = lambda y: checkpoint_name(y + z, "kept") if named else y + z
        return jnp.mean(lax.scan(lambda c, y: (c + x * term(y), None), jnp.zeros_like(z), ys)[0])

    gradient = grad(partial(f, False), (0, 1), functions=functions)
    by_x, by_ys = gradient(jnp.float32(1.7), jnp.arange(3, dtype="float32"))
    np.testing.assert_allclose(by_x, 3 + 3, rtol=1e-5)  # Σ (y + 1)
    np.testing.assert_allclose(by_ys, np.full(3, 1.7), rtol=1e-5)
    if functions == "list":  # a list has the arguments of its calls
        return
    arguments = jnp.float32(1.0), jnp.ones(n)
    forward = memory(partial(f, False), *arguments)
    assert memory(gradient, *arguments) < forward + 4 * size * size * 4
    kept = memory(grad(partial(f, True), (0, 1), functions=functions), *arguments)
    assert kept > n * size * size * 4  # a name is the user's choice


def test_products_of_inputs_are_worked_out_before_the_loop():
    thin = [x.astype("float32") for x in (draw(9, 9), draw(9, 9), draw(9), draw(5, 1, 9), draw(1, 9))]
    forward, _ = loops(grad(network, (0, 1, 2)), *thin)
    assert names(forward).count("dot_general") == 1
    check(network, *(x.astype(float) for x in thin))
    many = thin[3].repeat(ahead.FEW + 1, 1), thin[4].repeat(ahead.FEW + 1, 0)
    forward, _ = loops(grad(network, (0, 1, 2)), *thin[:3], *many)
    assert names(forward).count("dot_general") == 2


def test_second_derivatives_of_what_is_summed_after_the_loop():
    arguments = draw(3, 3), draw(3, 3), draw(3), draw(4, 1, 3), draw(1, 3)
    slope = lambda *arguments: sum(jnp.sum(jnp.sin(g)) for g in grad(network, (0, 1, 2))(*arguments))
    check(slope, *arguments, directions=1)


@pytest.mark.parametrize("unroll", [3, 0])
@pytest.mark.parametrize("make", [grad, lambda f: lambda *x: jvp(f, x, x), ccc], ids=["grad", "jvp", "ccc"])
def test_unrolled_loops_stay_so(make, unroll):
    loss = lambda w, xs: lax.scan(lambda s, x: (jnp.sin(w * s + x), None), w, xs, unroll=unroll)[0]
    program = jax.make_jaxpr(make(loss))(jnp.float32(0.5), jnp.ones(7))
    assert {e.params["unroll"] for e in scans(program.jaxpr)} == {unroll}


def test_the_gradient_of_a_loop_that_is_unrolled_as_a_whole():
    loss = lambda w, xs: lax.scan(lambda s, x: (w * s + x, None), w, xs, unroll=0)[0]
    w, (a, b, c) = 0.5, (2.0, 3.0, 5.0)  # w⁴ + a w² + b w + c
    assert np.allclose(grad(loss)(w, jnp.array([a, b, c])), 4 * w**3 + 2 * a * w + b)


def test_unroll_is_a_number():
    term = trace(lambda xs: lax.scan(lambda s, x: (s + x, None), 0.0, xs, unroll=2)[0], C.Tensor((4,))).term
    assert "fold[unroll=2]" in str(term)
    assert C.evaluate(term, jnp.arange(4.0)) == 6.0
    with pytest.raises(C.errors.ArgumentError, match="unroll"):
        C.terms.Fold(unroll=-1)
