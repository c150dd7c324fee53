"""Products in the branches of a choice: in no step of a loop backwards is there a matrix, and the gradient is right."""

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.memo import clear_caches
from compile_ccc import fix
from tangents import grad, value_and_grad
from tangents.control import whiles

D, N = 24, 7
PLACE = C.Tensor((), jnp.int32)
pytestmark = pytest.mark.usefixtures("x64")


@pytest.fixture(params=[None, 4])
def rows(request, monkeypatch):
    """How many rows and slots a while has; with few of them it goes backwards in several blocks."""
    clear_caches()
    if request.param:
        monkeypatch.setattr(whiles, "_LEAST", request.param)
        monkeypatch.setattr(whiles, "_MOST", request.param)
    yield
    clear_caches()


def step(i, x, w, table):
    """By the number: two products with one matrix, one of them transposed; a row of a table; a product or none."""
    twice = lambda: jnp.tanh(w @ x + x @ w)
    row = lambda: jnp.sin(x + table[i])
    inner = lambda: lax.cond(x[0] > 0.0, lambda: 0.5 * x, lambda: w @ jnp.tanh(1.0 / x))
    return lax.switch(i % 3, [twice, row, inner])


def step_of_numpy(i, x, w, table):
    match i % 3:
        case 0:
            return np.tanh(w @ x + x @ w)
        case 1:
            return np.sin(x + table[i])
        case _:
            return 0.5 * x if x[0] > 0.0 else w @ np.tanh(1.0 / x)


def by_scan(w, table, x):
    return lax.scan(lambda x, i: (step(i, x, w, table), None), x, jnp.arange(N))[0]


def by_while(w, table, x):
    return lax.fori_loop(0, jnp.int32(N), lambda i, x: step(i, x, w, table), x)


def by_recursion(w, table, x):
    again = lambda self, i: lax.cond(i == 0, lambda: x, lambda: step(i - 1, self(i - 1), w, table))
    return fix(again, PLACE, codomain=C.Tensor(D))(np.int32(N))


def drawn():
    rng = np.random.default_rng(3)
    return rng.normal(size=(D, D)) / np.sqrt(D), rng.normal(size=(D, D)), rng.normal(size=D)


def loss_of_numpy(w, table, x):
    for i in range(N):
        x = step_of_numpy(i, x, w, table)
    return np.sum(np.sin(x))


LOOPS = {"scan": by_scan, "while": by_while, "recursion": by_recursion}


@pytest.mark.parametrize("name", LOOPS)
def test_the_gradient_is_right(name, rows):
    loss = lambda *x: jnp.sum(jnp.sin(LOOPS[name](*x)))
    arguments, h, rng = drawn(), 1e-6, np.random.default_rng(5)
    value, gradient = jax.jit(value_and_grad(loss, (0, 1, 2)))(*arguments)
    np.testing.assert_allclose(value, loss_of_numpy(*arguments), rtol=1e-12)
    for of in range(3):  # along a direction of each argument
        along = [rng.normal(size=x.shape) * (i == of) for i, x in enumerate(arguments)]
        ends = [loss_of_numpy(*(x + t * d for x, d in zip(arguments, along, strict=True))) for t in (h, -h)]
        np.testing.assert_allclose(np.sum(gradient[of] * along[of]), (ends[0] - ends[1]) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("name", LOOPS)
def test_each_lane_is_right(name):
    loss = lambda x, w, table: jnp.sum(jnp.sin(LOOPS[name](w, table, x)))
    w, table, x = drawn()
    xs = np.stack([x, -x])
    found = jax.jit(jax.vmap(grad(loss, (0, 1)), (0, None, None)))(xs, w, table)
    for lane, x in enumerate(xs):
        along = np.random.default_rng(lane).normal(size=(D, D))
        ends = [loss_of_numpy(w + t * along, table, x) for t in (1e-6, -1e-6)]
        np.testing.assert_allclose(np.sum(found[1][lane] * along), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def innermost(jaxpr):
    """The programs of the loops in which there is no other."""
    for e in jaxpr.eqns:
        programs = list(jex.jaxprs_in_params(e.params))
        within = [loop for p in programs for loop in innermost(p)]
        yield from within or (programs if e.primitive.name in ("scan", "while") else ())


def made(jaxpr):
    """The shapes of all that a program works out, in its branches too."""
    for e in jaxpr.eqns:
        yield from (v.aval.shape for v in e.outvars)
        for p in jex.jaxprs_in_params(e.params):
            yield from made(p)


@pytest.mark.parametrize("name", LOOPS)
def test_no_step_makes_a_matrix(name):
    loss = lambda *x: jnp.sum(jnp.sin(LOOPS[name](*x)))
    jaxpr = jax.make_jaxpr(grad(loss, (0, 1, 2)))(*drawn()).jaxpr
    loops = list(innermost(jaxpr))
    assert loops and not [shape for loop in loops for shape in made(loop) if shape == (D, D)]
