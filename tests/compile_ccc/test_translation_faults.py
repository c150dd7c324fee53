"""The faults that translations of lambdas to combinators are known for, one program each, in values and in gradients.

The reference is JAX's own run of the program, in which `function(f, domain)` is f itself.
"""

import functools
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from compile_ccc import ccc, function, trace
from tangents import value_and_grad

S, V = C.Tensor(), C.Tensor((3,))
F, FF = C.Function(S, S), C.Function(C.Function(S, S), C.Function(S, S))
a, b, c = np.float32(0.7), np.float32(-1.3), np.float32(1.9)
v = np.array([0.4, -0.8, 1.1], np.float32)


class Point(NamedTuple):
    y: object  # not in the order of the alphabet
    x: object


def twice(f):
    return function(lambda x: f(f(x)), S)


def squared(x, s):
    return x**s


def captured_three_scopes_out(x, y):
    def one(u):
        def two(v):
            def three(w):
                return x * w - y * v + u

            return function(three, S)(v * x)

        return function(two, S)(u - y)

    return function(one, S)(x * y)


def shadowed_by_parameters(x, y):
    f = function(lambda x: function(lambda x: x * x * y, S)(x + y) - x, S)
    return f(x * y) + x


def shadowed_by_a_local(x, y):
    def f(z):
        x = z * y
        return function(lambda y: x - y * z, S)(x)

    return function(f, S)(x) * x


def one_name_in_two_scopes(x, y):
    f = function(lambda z: z * x, S)
    g = (lambda x: function(lambda z: f(z) - z * x * x, S))(y)
    return g(x) + f(y)


def defaults_in_a_loop(x, y):
    fs = [function(lambda z, k=k, w=w: z * k + w, S) for k, w in ((x, y), (y, 2.0), (3.0, x))]
    return fs[0](fs[1](fs[2](x * y)))


def late_binding(x, y):
    fs = []
    for k in (x, y, x * y):
        fs.append(lambda z: z * k)  # noqa: B023  to Python, k is the last one in each
    return fs[0](x) - fs[1](y)


def accumulated(x, y):
    longer = lambda f, k: function(lambda z: f(z) * k - z, S)
    return functools.reduce(longer, (x, y, 0.5), lambda z: z)(x)


def captured_functions_that_capture(x, y):
    f = function(lambda z: z * x, S)
    g = function(lambda z: f(z) - y, S)
    h = function(lambda z: g(f(z)) + g(z * y), S)
    return h(x - y)


def swapped_in_a_fold(x, y, xs):
    step = function(lambda s, e: (s[1] * e - x, s[0] + y * e), (S, S), S)
    p, q = C.fold(step, (x, y), xs)
    return p - 2.0 * q


def swapped_in_a_scan(x, y, xs):
    (p, q), out = lax.scan(lambda s, e: ((s[1] - e * x, s[0] * y), s[0] * s[1] - e), (y, x), xs)
    return p - 2.0 * q + jnp.sum(out * xs)


def loop_in_a_closure(x, y, xs):
    f = function(lambda z: C.fold(function(lambda s, e: jnp.sin(s * y) - e * z, S, S), z * x, xs), S)
    return f(x) - f(y) * f(x * y)


PROGRAMS = {
    "a parameter that is not used": (lambda x, y: x * x, a, b),
    "a parameter that no abstraction uses": (lambda x, y: function(lambda z: x * y, S)(y), a, b),
    "a capture that is not used": (lambda x, y: function(lambda z: (y, z * x)[1], S)(x), a, b),
    "a let that is not used": (lambda x, y: (lambda dead: x * y)(jnp.sin(x) * y), a, b),
    "a call whose result is not used": (lambda x, y: (lambda f: (f(y), f(x))[1])(function(lambda z: z * z, S)), a, b),
    "a constant function": (lambda x, y: function(lambda z: 2.5, S)(x) * y, a, b),
    "a function of nothing": (lambda x, y: function(lambda: x * y)() - y, a, b),
    "the identity": (lambda x, y: function(lambda z: z, S)(x) * y, a, b),
    "a variable used twice": (lambda x, y: x * x * y + x, a, b),
    "a let used twice": (lambda x, y: (lambda z: z * z - z * x)(x * y), a, b),
    "a parameter of an abstraction used twice": (lambda x, y: function(lambda z: z * z * x, S)(x * y), a, b),
    "a capture used twice": (lambda x, y: function(lambda z: x * z - x * y * y, S)(y), a, b),
    "a function used twice": (lambda x, y: (lambda f: f(x) * f(f(y)))(function(lambda z: z * x - y, S)), a, b),
    "free variables in another order than bound": (
        lambda x, y, z: function(lambda w: z * w - y + x / w, S)(y * x), a, b, c
    ),
    "free variables in two orders": (
        lambda x, y, z: function(lambda w: z - y * w, S)(x) * function(lambda w: y - z * w * x, S)(x), a, b, c
    ),
    "three abstractions": (
        lambda x, y, z: function(lambda x: function(lambda y: function(lambda z: x - 2.0 * y * z, S), S), S)(x)(y)(z),
        a, b, c,
    ),
    "three abstractions, applied in another order": (
        lambda x, y, z: function(lambda x: function(lambda y: function(lambda z: x - 2.0 * y * z, S), S), S)(z)(x)(y),
        a, b, c,
    ),
    "an abstraction that ignores the one before": (
        lambda x, y, z: function(lambda x: function(lambda y: function(lambda z: x - z * z, S), S), S)(x)(y)(z),
        a, b, c,
    ),
    "λf. λg. λx. f (g x)": (
        lambda x, y: function(lambda f: function(lambda g: function(lambda x: f(g(x)), S), F), F)(
            function(lambda z: z * x, S)
        )(function(lambda z: z - y * y, S))(y),
        a, b,
    ),
    "λf. λg. λx. g (f x)": (
        lambda x, y: function(lambda f: function(lambda g: function(lambda x: g(f(x)), S), F), F)(
            function(lambda z: z * x, S)
        )(function(lambda z: z - y * y, S))(y),
        a, b,
    ),
    "s f g x = f x (g x)": (
        lambda x, y: function(lambda f, g, z: f(z)(g(z)), C.Function(S, F), F, S)(
            function(lambda u: function(lambda w: u - w * x, S), S), function(lambda u: u * u * y, S), y
        ),
        a, b,
    ),
    "twice twice": (
        lambda x, y: function(lambda t: function(lambda f: t(t(f)), F), FF)(function(twice, F))(
            function(lambda z: z * z * x - y, S)
        )(x),
        a, b,
    ),
    "the identity applied to itself": (
        lambda x, y: function(lambda f: f, F)(function(lambda z: z, S))(x * y) * x, a, b
    ),
    "parameters hide names": (shadowed_by_parameters, a, b),
    "a local variable hides a name": (shadowed_by_a_local, a, b),
    "one name in two scopes": (one_name_in_two_scopes, a, b),
    "captured three scopes out": (captured_three_scopes_out, a, b),
    "defaults in a loop": (defaults_in_a_loop, a, b),
    "late binding": (late_binding, a, b),
    "a function made of itself in a loop": (accumulated, a, b),
    "captured functions that capture": (captured_functions_that_capture, a, b),
    "a keyword default": (lambda x, y: function(lambda z, *, w=x * y: z - w, S)(x), a, b),
    "a partial application": (lambda x, y: function(functools.partial(lambda u, w: u - w * w, x), S)(y), a, b),
    "arguments in another order": (lambda x, y: function(lambda p, q: p - q * q, S, S)(y, x), a, b),
    "a pair swapped": (
        lambda x, y: (lambda p: p[0] - p[1] * x)(function(lambda p: (p[1], p[0]), (S, S))((x, y))), a, b
    ),
    "a triple rotated": (
        lambda p: (lambda q: q[0] - q[1] * q[2] * q[2])(function(lambda x, y, z: (y, z, x), S, S, S)(*p)), (a, b, c)
    ),
    "a pair captured and swapped": (
        lambda p: function(lambda z: (lambda q: q[0] * z - q[1])((p[1], p[0])), S)(p[0] * p[1]), (a, b)
    ),
    "a dict in no order": (
        lambda d: function(lambda d: d["x"] - d["y"] * d["a"] ** 2, {"x": S, "y": S, "a": S})(
            {"y": d["a"], "x": d["y"], "a": d["x"]}
        ),
        {"x": a, "a": b, "y": c},
    ),
    "a named tuple": (
        lambda p: function(lambda p: p.x - p.y * p.y, Point(S, S))(Point(x=p.y, y=p.x)), Point(x=a, y=b)
    ),
    "functions of a dict, swapped": (
        lambda x, y: (lambda d: d["f"](y) - d["g"](x))(
            (lambda d: {"f": d["g"], "g": d["f"]})({"f": function(lambda z: z * x, S), "g": function(jnp.sin, S)})
        ),
        a, b,
    ),
    "a state swapped in a fold": (swapped_in_a_fold, a, b, v),
    "a state swapped in a scan": (swapped_in_a_scan, a, b, v),
    "a loop in a closure": (loop_in_a_closure, a, b, v),
    "captures of a map": (lambda x, y, xs: jnp.sum(C.map(function(lambda e: e * y - x, S), xs) ** 2), a, b, v),
    "captures under vmap": (
        lambda x, y, xs: jnp.sum(jax.vmap(lambda e: function(lambda z: z * e - y * x, S)(e * x))(xs)), a, b, v
    ),
}  # fmt: skip


def python(monkeypatch, f):
    """The program as Python and JAX alone run it."""

    def run(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[__name__], "function", lambda f, *domain: f)
            patch.setattr(C, "fold", lambda f, state, xs: functools.reduce(lambda s, x: f(s, x), list(xs), state))
            patch.setattr(C, "map", lambda f, xs: jax.vmap(f)(xs))
            return f(*arguments)

    return run


def close(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for g, e in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(e), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_python(name, monkeypatch):
    f, *arguments = PROGRAMS[name]
    places = tuple(range(len(arguments)))
    expected, gradient = jax.value_and_grad(python(monkeypatch, f), places)(*arguments)
    close(ccc(f)(*arguments), expected)
    close(C.evaluate(trace(f, *arguments).term, arguments[0] if len(arguments) == 1 else tuple(arguments)), expected)
    for space in ("environment", "list"):
        close(value_and_grad(f, places, functions=space)(*arguments), (expected, gradient))


def test_a_function_value_holds_what_its_variables_held_when_it_was_made():
    fs = [function(lambda x: x * k, S) for k in (2.0, 3.0, 5.0)]  # noqa: B023
    assert [float(f(a)) for f in fs] == pytest.approx([1.4, 2.1, 3.5])

    def inside(x, y):
        fs = [function(lambda z: z * k, S) for k in (x, y)]  # noqa: B023
        return fs[0](x) - fs[1](y)

    value, gradient = value_and_grad(inside, (0, 1))(a, b)
    close((value, gradient), (a * a - b * b, (2 * a, -2 * b)))


def test_a_closure_holds_its_captures_in_the_order_of_their_use():
    x, y, z = 2.0, 3.0, 5.0
    f = function(lambda w: (z - w) * x - y, S)
    assert list(f.environment) == [5.0, 2.0, 3.0]
    assert float(f(np.float32(1))) == 5.0


def test_what_is_not_used_is_not_held():
    x, y = 2.0, 3.0
    f = function(lambda w: (x, w * y)[1], S)
    assert list(f.environment) == [3.0]
