"""What is discrete does not vary: its tangents and cotangents are zero, and everything else is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.dtypes import float0

import combinators as C
from combinators.errors import ArgumentError
from compile_ccc import ccc, function
from tangents import Block, Calls, add, check, custom, grad, hvp, inner, jvp, represent, vjp, zero

THREE = jnp.ones(3)
KEY = jax.random.key(0)
double = function(lambda x: 2.0 * x, C.Tensor())

ZEROS = [0, 0.0, False, None, (), np.zeros((), float0), np.zeros(3, int), np.zeros(3, float0), jnp.zeros(3)]
OTHERS = [
    1,
    1.0,
    True,
    np.arange(3),
    np.ones(3, int),
    jnp.float32(2.0),
    float("nan"),
    "a",
    np.zeros(2),
    (0.0,),
    C.Tensor(),
    KEY,
]


@pytest.mark.parametrize("n", [jnp.arange(3), jnp.arange(3) > 1], ids=["integers", "truth values"])
@pytest.mark.parametrize("t", ZEROS, ids=repr)
def test_zeros_are_zeros_in_whatever_clothes(n, t):
    f = lambda x, n: x**3 * jnp.sum(n.astype(float))
    value, tangent = jvp(f, (2.0, n), (1.0, t))
    assert value == 8.0 * int(n.sum()) and tangent == 12.0 * int(n.sum())
    along_x, along_n = hvp(f, (2.0, n), (1.0, t))
    assert along_x == 12.0 * int(n.sum()) and not np.any(np.asarray(along_n))
    _, pullback = vjp(lambda x: (x**2, n), 3.0)
    assert pullback((1.0, t)) == (6.0,)


@pytest.mark.parametrize("t", OTHERS, ids=repr)
def test_other_tangents_are_refused(t):
    n, f = jnp.arange(3), lambda x, n: x * jnp.sum(n.astype(float))
    for refused in (
        lambda: jvp(f, (2.0, n), (1.0, t)),
        lambda: hvp(f, (2.0, n), (1.0, t)),
        lambda: jvp(lambda p: f(p["x"], p["n"]), ({"x": 2.0, "n": n},), ({"x": 1.0, "n": t},)),
        lambda: vjp(lambda x: (x, n), 2.0)[1]((1.0, t)),
        lambda: represent(C.prod(C.id, C.const(n)))(2.0)[1]((1.0, t)),
    ):
        with pytest.raises(ArgumentError):
            refused()


def test_a_key_has_the_zero_alone():
    f = lambda x, key: x * jax.random.uniform(key)
    assert jvp(f, (2.0, KEY), (1.0, np.zeros((), float0)))[1] == jax.random.uniform(KEY)
    with pytest.raises(ArgumentError, match="is not zero"):
        jvp(f, (2.0, KEY), (1.0, KEY))


def test_a_pullback_gives_the_zero_of_a_key():
    _, pullback = vjp(lambda key, x: (jax.random.split(key)[0], x * jax.random.uniform(key)), KEY, 2.0)
    of_key, of_x = pullback((np.zeros((), float0), 1.0))
    assert of_key.dtype == float0 and of_key.shape == ()
    assert of_x == jax.random.uniform(KEY)
    assert jax.jit(pullback)((None, 3.0))[1] == 3.0 * of_x


def test_of_a_traced_tangent_the_dtype_is_known():
    along = lambda t: jvp(lambda x, n: x * n, (2.0, 3), (1.0, t))[1]
    assert jax.jit(along)(0) == 3.0
    with pytest.raises(ArgumentError, match="is not zero"):
        jax.jit(along)(0.0)
    with pytest.raises(ArgumentError, match="is not zero"):
        ccc(along)(0.0)


def test_a_rule_that_moves_an_integer_is_refused():
    power = lambda n_bar: custom(lambda p: p["x"] ** p["n"], lambda p, y, g: ({"x": 12.0 * g, "n": n_bar(g)},))
    at = {"x": jnp.float32(2.0), "n": 3}
    assert grad(power(lambda g: 0))(at)["x"] == grad(power(lambda g: None))(at)["x"] == 12.0
    for moved in (lambda g: g, lambda g: 1):
        with pytest.raises(ArgumentError, match="component n"):
            grad(power(moved))(at)


SUMS = {
    "of numbers": (1.0, 2.0, 3.0),
    "of a number and an array": (jnp.float32(1.0), 2.0, 3.0),
    "of products": ((1.0, {"a": THREE}), (2.0, {"a": 2 * THREE}), (3.0, {"a": 3 * THREE})),
    "of what is discrete": ((0, 0), (np.zeros((), float0), 0), (0, 0)),
    "of calls": (Calls(Block(1.0, 2.0)), Calls(), Calls(Block(1.0, 2.0))),
}


@pytest.mark.parametrize("name", SUMS)
def test_cotangents_of_one_value_are_added(name):
    g, h, total = SUMS[name]
    found, form = jax.tree.flatten(add(g, h))
    assert form == jax.tree.structure(total)
    for a, b in zip(found, jax.tree.leaves(total), strict=True):
        np.testing.assert_array_equal(np.asarray(a).astype(float), np.asarray(b).astype(float))


MIXED = {
    "a vector and a number": (THREE, 1.0),
    "a number and a vector": (1.0, THREE),
    "a row and a column": (jnp.ones((1, 3)), jnp.ones((3, 1))),
    "two dtypes": (THREE, jnp.ones(3, jnp.float16)),
    "a real and a complex one": (jnp.float32(1), 1j),
    "a real and a discrete one": (jnp.float32(1), jnp.int32(1)),
    "two structures": ((1.0, 2.0), [1.0, 2.0]),
    "two lengths": ((1.0, 2.0), (1.0, 2.0, 3.0)),
    "a number and a pair": (1.0, (1.0, 2.0)),
    "calls and a number": (Calls(), 1.0),
    "a number and calls": (1.0, Calls()),
    "functions and numbers": (double, 1.0),
    "text": (1.0, "a"),
    "a type": (jnp.float32(1), C.Tensor()),
}


@pytest.mark.parametrize("name", MIXED)
def test_cotangents_of_two_values_are_neither_added_nor_paired(name):
    g, h = MIXED[name]
    for pairing in (add, inner):
        with pytest.raises(ArgumentError):
            pairing(g, h)


def test_integers_are_not_added():
    with pytest.raises(ArgumentError, match="is not zero"):
        add((1.0, 3), (1.0, 4))


def test_the_pairing_counts_what_varies():
    assert inner((2.0, 5, {"a": THREE}), (3.0, 7, {"a": 2 * THREE})) == 12.0
    assert inner(Calls(Block(1.0, 3.0)), double) == 6.0


@pytest.mark.parametrize(
    "x",
    ["a", C.Tensor(3), C.Function(C.Tensor(), C.Tensor()), jnp.sin, object()],
    ids=["text", "a tensor", "a type", "sin", "an object"],
)
def test_the_zero_of_what_is_no_value(x):
    with pytest.raises((ArgumentError, C.errors.BareFunctionError)):
        zero(x)
    with pytest.raises(ArgumentError):
        zero(1.0, "tree")


BLOCKS = {
    "text": lambda: Block("a", 1.0),
    "a type": lambda: Block(C.Tensor(), 1.0),
    "axes that are a word": lambda: Block(THREE, THREE, "one"),
    "more axes than there are": lambda: Block(1.0, 1.0, 1),
    "two lengths": lambda: Block(THREE, jnp.ones(2), 1),
    "a mask of another length": lambda: Block(THREE, THREE, 1, jnp.array([True])),
    "a mask of numbers": lambda: Block(THREE, THREE, 1, THREE),
    "no block": lambda: Calls(1.0),
    "calls for a block": lambda: Calls(Calls()),
    "calls and a number": lambda: Calls() + 1,
    "a number and calls": lambda: 1 + Calls(),
    "a condition that is a vector": lambda: Calls(Block(1.0, 1.0)).where(THREE > 0),
    "a condition that is a word": lambda: Calls(Block(1.0, 1.0)).where("yes"),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_what_are_no_calls(name):
    with pytest.raises(ArgumentError):
        BLOCKS[name]()


def test_calls_are_a_pytree_of_whatever_is_put_in():
    calls = Calls(Block(THREE, 2 * THREE, 1, jnp.array([True, False, True])))
    names = jax.tree.map(lambda leaf: str(leaf.dtype), calls)
    assert jax.tree.leaves(names) == ["float32", "float32", "bool"]
    assert [float(g) for _, g in calls] == [2.0, 2.0] and len(calls.where(False)) == 3


@pytest.mark.parametrize("g", [1j, jnp.complex64(1), jnp.float16(1), THREE, C.Tensor(), None, "a"], ids=repr)
def test_a_cotangent_of_a_real_result_is_real(g):
    _, pullback = vjp(jnp.sin, jnp.float32(0.0))
    assert pullback(2) == pullback(2.0) == (2.0,)
    for refused in (lambda: pullback(g), lambda: jvp(jnp.sin, (jnp.float32(0.0),), (g,))):
        with pytest.raises(ArgumentError):
            refused()


@pytest.mark.parametrize(
    ("f", "domain"),
    [
        (lambda x: (2.0 * x, jnp.argmax(x), x > 0.0), [C.Tensor(3)]),
        (lambda n: (n, 2 * n), [C.Tensor((), int)]),
        (lambda x, key: (x * 2.0, key), [C.Tensor(), C.type_of(KEY)]),
        (C.case(C.id, C.id), [C.Sum(C.Tensor(), C.Tensor())]),
    ],
    ids=["results", "integers alone", "keys", "sums"],
)
def test_arrows_with_discrete_parts_obey_the_laws(f, domain):
    assert check(f, *domain, examples=3).ok
