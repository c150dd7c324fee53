"""Refs that a program makes: derivatives are those of the same program on NumPy's arrays, which change in place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, fix, function
from tangents import grad, hvp, jvp, value_and_grad
from tests.compile_ccc.reading.refs_in_numpy import InNumpy

X = np.array([0.7, -0.4, 1.3, 0.2])


class InJax:
    """What the programs are written in."""

    xp, new, add = jnp, staticmethod(jax.new_ref), staticmethod(jax.ref.addupdate)
    at = staticmethod(lambda r, i: r.at[i])
    swap, inner, again = staticmethod(jax.ref.swap), staticmethod(jax.jit), staticmethod(jax.checkpoint)
    fori = staticmethod(lambda n, f: lax.fori_loop(0, n, lambda i, c: f(i) or c, 0.0))

    @staticmethod
    def cond(p, f, g):
        lax.cond(p, lambda: [f(), ()][1], lambda: [g(), ()][1])

    @staticmethod
    def repeat(going, f):
        lax.while_loop(lambda i: going(), lambda i: f(i) or i + 1, 0)

    @staticmethod
    def rows(f, r, xs):
        lax.scan(lambda c, e: (f(*e) or c, None), 0.0, (r, xs))


def straight(p, x):
    r = p.new(x[0])
    before = p.swap(r, ..., p.xp.sin(r[...]) * x[1])
    r[...] *= x[2]
    return r[...] * before + p.xp.cos(r[...])


def entries(p, x):
    r = p.new(p.xp.outer(x, x))
    r[1] = x * x[0]
    r[2:, 1] = r[0, :2] * 2.0
    r[-1, 0] = x[1] ** 2
    r[p.xp.array([0, 3]), 1:3] = r[::3, ::2] * x[2]
    q = p.new(p.xp.reshape(r[...], (2, 2, 4)))
    p.at(p.at(q, slice(0, 1)), 0)[1, 2:] = x[:2]
    lines = q[p.xp.array([0, 1, 1]), :, p.xp.array([2, 3, 2])]  # its places are in front
    q[p.xp.array([0, 1]), :, p.xp.array([1, 1])] = lines[1:] * x[3]
    return p.xp.sum(r[...] ** 2) + p.xp.sum(lines[0] ** 3) + p.xp.sum(q[...] ** 2)


def additions(p, x):
    r = p.new(x * 1.0)
    p.add(r, p.xp.array([1, 1, 2]), x[:3] ** 2)
    p.add(r, 3, x[0])
    p.add(r, (slice(0, 2),), x[2:])
    p.add(r, ..., x**3)
    return p.xp.sum(r[...] ** 2)


def a_loop(p, x):
    r, s = p.new(x * 1.0), p.new(x[0])

    def step(i):
        s[...] = p.xp.sin(s[...]) + r[i]
        r[i] = s[...] * x[1]

    p.fori(4, step)
    return p.xp.sum(r[...] * x) + s[...]


def a_ref_that_is_only_read(p, x):
    r, s = p.new(x**2), p.new(1.0 + 0 * x[0])
    p.fori(4, lambda i: s.__setitem__(..., s[...] * (1.0 + r[i])))
    return s[...]


def a_ref_row_by_row(p, x):
    r, s = p.new(p.xp.outer(x, x)), p.new(x[3])

    def step(row, k):
        s[...] = s[...] * k + row[1]
        row[0] = s[...] * x[1]

    p.rows(step, r, x)
    return p.xp.sum(r[...] * r[...]) + s[...]


def branches(p, x):
    r, s = p.new(x[0]), p.new(x[1])
    for y in (x[2], x[1]):
        p.cond(y > 0, lambda: r.__setitem__(..., r[...] * s[...]), lambda: s.__setitem__(..., p.xp.exp(r[...])))
    return r[...] * s[...] + s[...]


def a_while(p, x):
    r, n = p.new(x[0]), p.new(0.0 * x[0])

    def step(_):
        r[...] = r[...] * (1.5 + x[1] ** 2)
        n[...] += x[2]

    p.repeat(lambda: r[...] < 5.0, step)
    return r[...] * n[...]


def calls_and_checkpoints(p, x):
    r = p.new(x[0])
    twice = p.inner(lambda r, y: r.__setitem__(..., r[...] * y + y))
    twice(r, x[1])
    twice(r, x[2])
    y = p.again(lambda y: r.__setitem__(..., p.xp.sin(r[...]) * y) or y * r[...])(x[3])
    return y + r[...] ** 2


def loops_in_branches_in_loops(p, x):
    r, s = p.new(x[0]), p.new(x * 1.0)

    def step(i):
        grow = lambda: p.fori(2, lambda j: s.__setitem__(j, s[j] * r[...] + x[i]))
        p.cond(x[i] > 0.5, grow, lambda: r.__setitem__(..., p.xp.cos(r[...]) + s[i]))

    p.fori(4, step)
    return p.xp.sum(s[...] ** 2) * r[...]


def indices_in_refs(p, x):
    n, r = p.new(p.xp.array(0)), p.new(0.0 * x)

    def step(i):
        r[n[...]] = x[i] ** 2
        n[...] += 2

    p.fori(2, step)
    return p.xp.sum(r[...] * x)


PROGRAMS = [
    straight, entries, additions, a_loop, a_ref_that_is_only_read, a_ref_row_by_row, branches, a_while,
    calls_and_checkpoints, loops_in_branches_in_loops, indices_in_refs,
]  # fmt: skip


def slope(f, x, v, h=1e-6):
    return (f(x + h * v) - f(x - h * v)) / (2 * h)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives_of_programs_with_refs(program, x64):
    f, right = lambda x: program(InJax, x), lambda x: program(InNumpy, x)
    slopes = np.array([slope(right, X, v) for v in np.eye(4)])
    close = lambda got, right: np.testing.assert_allclose(got, right, rtol=2e-6, atol=2e-7)
    v = np.array([0.3, 1.0, -0.5, 0.8])
    value, gradient = value_and_grad(f)(X)
    close(value, right(X))
    close(gradient, slopes)

    @jax.jit
    def others(x):  # compiled at once
        calls, (value, tangent), lanes = grad(f, functions="list")(x), jvp(f, (x,), (v,)), jnp.stack([x, x + 0.01])
        reverse_over_reverse = grad(lambda x: grad(f)(x) @ v)(x)
        return (calls, jax.vmap(grad(f))(lanes)[0]), (value, tangent), (hvp(f, (x,), (v,)), reverse_over_reverse)

    gradients, (value, tangent), seconds = others(X)
    close(gradients, [slopes, slopes])
    close((value, tangent), (right(X), slopes @ v))
    second = slope(lambda x: value_and_grad(f)(x)[1], X, v)
    close(seconds, [second, second])


def test_refs_in_function_values_and_recursions(x64):
    def powers(x):
        def squared(y):
            r = jax.new_ref(y)
            r[...] *= x
            return r[...] * y

        f = function(squared, C.Tensor())
        return f(f(x))  # x (x x²)² = x⁷

    def factorial(self, n):
        r = jax.new_ref(n)
        r[...] -= 1.0
        return lax.cond(n < 1.5, lambda: n, lambda: n * self(r[...]))

    for functions in ("environment", "list"):
        np.testing.assert_allclose(grad(powers, functions=functions)(1.1), 7 * 1.1**6)
    np.testing.assert_allclose(grad(fix(factorial, C.Tensor()))(3.0), 2 * 1 + 3 * 1 + 3 * 2)
    np.testing.assert_allclose(ccc(powers)(1.1), 1.1**7)


def test_lanes_of_a_while_write_as_long_as_they_run(x64):
    def power(n, x):
        r = jax.new_ref(1.0 + 0.0 * x)
        lax.while_loop(lambda i: i < n, lambda i: (r.__setitem__(..., r[...] * x), i + 1)[1], 0)
        return r[...]

    n = np.arange(4)
    np.testing.assert_allclose(
        grad(lambda x: jnp.sum(jax.vmap(power, (0, None))(n, x)))(1.5), np.sum(n * 1.5 ** (n - 1))
    )


def test_python_asks_for_what_a_ref_holds_now(x64):
    def f(x):
        r, count = jax.new_ref(x), 0
        lax.fori_loop(0, 2, lambda i, c: r.__setitem__(..., r[...] * x) or c, 0)  # x³
        first = r[...]
        while r[...] < 50.0:
            r[...] *= x
            count += 1
        return r[...] * count if first < r[...] else r[...]

    derivative = grad(f)
    np.testing.assert_allclose(derivative(2.0), 3 * 6 * 2.0**5)
    np.testing.assert_allclose(derivative(3.0), 1 * 4 * 3.0**3)
    np.testing.assert_allclose(derivative(4.0), 3 * 4.0**2)
