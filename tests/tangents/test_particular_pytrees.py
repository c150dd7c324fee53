"""Users' pytrees whose `__init__` checks or converts its fields: only arrays go through the class, as in JAX."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import ArgumentError
from combinators.records import as_records, from_records
from compile_ccc import black_box, ccc, function, lower, trace
from tangents import (
    J,
    add,
    compare,
    custom,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    linear_transpose,
    linearize,
    represent,
    root,
    value_and_grad,
    vjp,
    zero,
)


class Point:
    """Makes its field an array."""

    def __init__(self, place):
        self.place = jnp.asarray(place)


jax.tree_util.register_pytree_node(Point, lambda p: ((p.place,), None), lambda _, parts: Point(*parts))


@jax.tree_util.register_pytree_with_keys_class
class Line:
    """Takes two arrays of one shape."""

    def __init__(self, a, b):
        if not isinstance(a, jax.Array | np.ndarray) or not isinstance(b, jax.Array | np.ndarray) or a.shape != b.shape:
            raise TypeError(f"no line from {a!r} to {b!r}")
        self.a, self.b = a, b

    def tree_flatten_with_keys(self):
        return ((jax.tree_util.GetAttrKey("a"), self.a), (jax.tree_util.GetAttrKey("b"), self.b)), "solid"

    @classmethod
    def tree_unflatten(cls, _, parts):
        return cls(*parts)


@partial(jax.tree_util.register_dataclass, data_fields=["w", "n"], meta_fields=["name"])
@dataclass
class Model:
    """A dataclass that checks its ranks and dtypes."""

    w: jax.Array
    n: jax.Array
    name: str = "model"

    def __post_init__(self):
        assert self.w.ndim == 1 and jnp.issubdtype(self.n.dtype, jnp.integer)


one, two = np.array([1.0, 2.0], "float32"), np.array([3.0, 4.0], "float32")
CASES = {  # a value, a function of it, the leaves of the gradient, and of the function's Hessian times the value
    "conversion": (Point(one), lambda p: jnp.sum(p.place**2), [2 * one], [2 * one]),
    "check": (
        Line(one, two),
        lambda line: jnp.sum(line.a**2 * line.b),
        [2 * one * two, one**2],
        [2 * two * one + 2 * one * two, 2 * one**2],
    ),
    "dataclass": (
        Model(jnp.array(one), jnp.array([3, 4])),
        lambda m: jnp.sum(m.w**2 * m.n.astype("float32")),
        [2 * one * two, [0, 0]],
        [2 * two * one, [0, 0]],
    ),
}
NUMBER = C.Tensor()

GRADIENTS = {
    "grad": lambda f, x: grad(f)(x),
    "list": lambda f, x: grad(f, functions="list")(x),
    "value_and_grad": lambda f, x: value_and_grad(f)(x)[1],
    "aux": lambda f, x: grad(lambda x: (f(x), x), has_aux=True)(x)[0],
    "vjp": lambda f, x: vjp(f, x)[1](1.0)[0],
    "container": lambda f, x: grad(lambda d: f(d["a"][0]))({"a": [x], "b": None})["a"][0],
    "argnums": lambda f, x: grad(lambda a, x: a * f(x), argnums=(1, 0))(1.0, x)[0],
    "jit": lambda f, x: jax.jit(grad(jax.jit(f)))(x),
    "function value": lambda f, x: grad(lambda x: function(f, x)(x))(x),
    "its list tangent": lambda f, x: grad(lambda x: function(f, x)(x), functions="list")(x),
    "captured": lambda f, x: grad(lambda x: function(lambda t: f(x) * t, NUMBER)(1.0))(x),
    "result of a function": lambda f, x: grad(lambda x: f(function(lambda y: y, x)(x)))(x),
    "closure": lambda f, x: grad(lambda g, x: g(x), argnums=1)(function(f, x), x),
    "scan": lambda f, x: grad(lambda x: f(lax.scan(lambda c, _: (c, None), x, None, length=2)[0]))(x),
    "fold": lambda f, x: grad(lambda x: f(C.fold(function(lambda s, t: s, x, NUMBER), x, jnp.ones(2))))(x),
    "cond": lambda f, x: grad(lambda x: f(lax.cond(True, lambda y: y, lambda y: y, x)))(x),
    "cond of functions": lambda f, x: grad(
        lambda x: f(lax.cond(True, lambda: function(lambda y: y, x), lambda: function(lambda y: y, x))(x))
    )(x),
    "checkpoint": lambda f, x: grad(jax.checkpoint(f))(x),
    "custom": lambda f, x: grad(lambda x: f(custom(lambda y: y, lambda p, y, g: (g,))(x)))(x),
    "represent": lambda f, x: represent(trace(f, x).term)(x)[1](1.0),
    "J": lambda f, x: J(f)(x)[1](1.0)[1],
}


def same(got, right):
    got = jax.tree.leaves(got)
    assert len(got) == len(right)
    for a, b in zip(got, right, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("way", GRADIENTS)
@pytest.mark.parametrize("case", CASES)
def test_gradients_have_the_class_of_the_argument(case, way):
    x, f, right, _ = CASES[case]
    got = GRADIENTS[way](f, x)
    assert type(got) is type(x)
    same(got, right)


@pytest.mark.parametrize("case", CASES)
def test_values_and_directions(case):
    x, f, right, second = CASES[case]
    leaves = jax.tree.leaves(x)
    for identity in (
        ccc(lambda x: x),
        function(lambda y: y, x),
        lower(trace(lambda x: x, x).term),
        black_box(lambda y: y, x, x),
    ):
        assert type(identity(x)) is type(x)
        same(identity(x), leaves)
    along_itself = jax.tree.map(lambda leaf: leaf if jnp.issubdtype(leaf.dtype, jnp.floating) else 0 * leaf, x)
    value, along = jvp(f, (x,), (along_itself,))
    same(value, [f(x)])
    same(along, [sum(np.sum(np.asarray(g) * np.asarray(leaf)) for g, leaf in zip(right, leaves, strict=True))])
    assert type(jvp(lambda x: x, (x,), (along_itself,))[1]) is type(x)
    same(hvp(f, (x,), (along_itself,)), second)
    same(zero(x), [0 * np.asarray(leaf) for leaf in leaves])
    same(add(grad(f)(x), grad(f)(x)), [2 * np.asarray(g) for g in right])
    assert compare(f, x)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_jacobians_and_rows(mode):
    by_point = jacobian(lambda p: p.place * 3.0, mode=mode)(Point(one))
    same(by_point, [3 * np.eye(2)])
    rows = Point(np.stack([one, two]))
    same(jax.vmap(grad(CASES["conversion"][1]))(rows), [2 * rows.place])
    same(grad(lambda q: jnp.sum(C.map(function(CASES["conversion"][1], Point(one)), q)))(rows), [2 * rows.place])


def test_a_hessian_by_such_a_class_says_that_it_has_no_room_for_it():
    """It has a Line at each field of a Line, which the class refuses."""
    line = Line(jnp.ones(2), jnp.array([2.0, 3.0]))
    with pytest.raises(ArgumentError, match="where a class takes arrays alone") as found:
        hessian(lambda line: jnp.sum(line.a**2 * line.b))(line)
    assert "class Line" in found.value.expected and "hessian(lambda a, b:" in found.value.hint
    assert not any(word in str(found.value) for word in ("Record", "Wire"))
    by_fields = hessian(lambda a, b: jnp.sum(a**2 * b), argnums=(0, 1))(line.a, line.b)
    np.testing.assert_array_equal(by_fields[0][0], np.diag(2.0 * line.b))


def test_solvers_and_captured_values():
    x, f, _, _ = CASES["check"]
    by_number = grad(lambda t: t * f(x))(2.0)
    same(by_number, [np.sum(one**2 * two)])
    by_start = grad(lambda a: root(lambda q: Point(q.place**2 - a), Point(jnp.ones(1))).place[0])(2.0)
    same(by_start, [1 / (2 * np.sqrt(2.0))])


def test_errors_show_the_class_and_its_fields():
    x, f, _, _ = CASES["check"]
    with pytest.raises(ArgumentError) as raised:
        vjp(lambda x: x, x)[1](Point(one))
    assert "Line(a=f32[2], b=f32[2])" in str(raised.value)
    with pytest.raises(ArgumentError):
        function(f, x)(Point(one))
    assert str(trace(f, x).domain) == "Line(a=f32[2], b=f32[2])"


def test_records_are_opened_and_closed_again():
    x = {"a": CASES["check"][0], "b": (Point(one), 2.0, None)}
    held = as_records(x)
    assert jax.tree.structure(held) != jax.tree.structure(x)
    assert as_records(held) is held
    assert from_records(x) is x
    assert jax.tree.structure(from_records(held)) == jax.tree.structure(x)
    assert as_records({"a": (1.0, [2.0])}) == {"a": (1.0, [2.0])}
    assert held["a"] == as_records(x)["a"] and held["a"] != held["b"][0]


def test_a_class_that_takes_anything_stays_as_it_is():
    @partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=[])
    @dataclass
    class Plain:
        w: jax.Array

    assert type(trace(lambda p: p, Plain(jnp.ones(2))).codomain) is Plain


def test_a_term_that_is_evaluated_gives_the_class():
    term = trace(lambda p: Point(2.0 * p.place), Point(one)).term
    for found in (C.evaluate(term, Point(one)), term(Point(one))):
        assert type(found) is Point
        np.testing.assert_allclose(found.place, 2.0 * one)


class Named:
    """Takes a dict of two arrays, as its one part."""

    def __init__(self, arrays):
        self.arrays = {name: arrays[name] for name in ("weight", "bias")}


jax.tree_util.register_pytree_node(Named, lambda n: ((n.arrays,), None), lambda _, parts: Named(*parts))


def test_a_class_may_look_into_the_parts_that_it_takes():
    named = Named({"weight": jnp.array([1.0, 2.0]), "bias": 3.0})
    (back,) = vjp(lambda n: n, named)[1](named)
    np.testing.assert_array_equal(back.arrays["weight"], [1.0, 2.0])
    partial_ = jax.tree_util.Partial(jnp.multiply, 2.0)  # whose class takes a tuple
    (back,) = vjp(lambda f: f, partial_)[1](partial_)
    assert back.args == (2.0,)


def test_linear_maps_take_and_give_the_class():
    line = Line(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    turned = lambda of: Line(-of.b, 2.0 * of.a)
    y, linear = linearize(turned, line)
    for got in (y, linear(line), jax.jit(lambda x: linearize(turned, x)[1](x))(line)):
        np.testing.assert_array_equal((got.a, got.b), [[-3.0, -4.0], [2.0, 4.0]])
    (back,) = linear_transpose(turned, line)(line)
    np.testing.assert_array_equal((back.a, back.b), [[6.0, 8.0], [-1.0, -2.0]])


def test_dicts_of_several_classes_are_several_types():
    loss = lambda p: p["w"] ** 2
    for kind in (dict, OrderedDict, partial(defaultdict, list), partial(defaultdict, dict), dict):
        given = kind({"w": 3.0})
        gradient = grad(loss)(given)
        assert type(gradient) is type(given) and gradient == {"w": 6.0}
        assert getattr(gradient, "default_factory", None) is getattr(given, "default_factory", None)
