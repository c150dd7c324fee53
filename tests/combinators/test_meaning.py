"""The plain meaning and the types of terms: one table for all combinators, against Python and NumPy."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators import Context
from compile_ccc import lower

SIN, ADD, MUL, NEG = (C.primitive(name) for name in ("sin", "add", "mul", "neg"))
Fold, Scan = type(C.fold), type(C.scan)
Point = namedtuple("Point", "x y")

x, y = np.float32(0.3), np.float32(-1.7)
xs = np.arange(1, 5, dtype=np.float32)
table = np.arange(6, dtype=np.float32).reshape(2, 3)
none = np.zeros((0,), np.float32)
arg = C.proj(-1)
state, element = arg >> C.proj(0), arg >> C.proj(1)

# On a context of k: s, x ↦ k s + x, and what a scan puts out is s x.
HORNER = C.prod(C.prod(C.proj(0), state) >> MUL, element) >> ADD
STEP = C.prod(HORNER, C.prod(state, element) >> MUL)


def over(body, loop, elements=None):
    """(k, s, xs) ⇝ loop (curry body, s, xs), where body captures k."""
    return C.prod(C.prod(Context(C.proj(0))) >> C.curry(body), C.proj(1), elements or C.proj(2)) >> loop


def horner(k, s, xs):
    for element in xs:
        s = k * s + element
    return np.float32(s)


def running(k, s, xs, order):
    out = np.zeros_like(xs)
    for i in order:
        out[i], s = s * xs[i], k * s + xs[i]
    return np.float32(s), out


MEANING = {
    "id": (C.id, x, x),
    "id of a tree": (C.id, {"a": (x, y)}, {"a": (x, y)}),
    "compose": (SIN >> NEG, x, -np.sin(x)),
    "compose of none": (C.compose(), x, x),
    "prod": (C.prod(SIN, C.id), x, (np.sin(x), x)),
    "prod of none": (C.prod(()), x, ()),
    "prod of one": (C.prod((SIN,)), x, (np.sin(x),)),
    "prod, a dict": (C.prod({"a": SIN, "b": C.id}), x, {"a": np.sin(x), "b": x}),
    "prod, a namedtuple": (C.prod(Point(SIN, C.id)), x, Point(np.sin(x), x)),
    "proj": (C.proj(1), (x, y), y),
    "proj by name": (C.proj("y"), Point(x, y), y),
    "swap": (C.prod(C.proj(1), C.proj(0)), (x, y), (y, x)),
    "extend of a context": (C.extend(C.proj(0) >> SIN), Context(x), Context(x, np.sin(x))),
    "extend of another domain": (C.extend(SIN), x, (x, np.sin(x))),
    "extend, then its last": (C.extend(C.proj(0) >> SIN) >> C.proj(-1), Context(x, y), np.sin(x)),
    "a chain of lets": (
        C.extend(C.proj(0) >> SIN) >> C.extend(C.prod(C.proj(0), C.proj(1)) >> MUL) >> C.proj(2),
        Context(x),
        x * np.sin(x),
    ),
    "curry and eval on a pair": (C.prod(C.proj(0) >> C.curry(ADD), C.proj(1)) >> C.eval, (x, y), x + y),
    "curry and eval on a context": (
        C.prod(C.curry(C.prod(C.proj(2), C.proj(0)) >> ADD), C.proj(1)) >> C.eval,
        Context(x, y),
        x + y,
    ),
    "curry twice, with an argument that is not used": (
        C.prod(C.prod(C.curry(C.curry(C.proj(0) >> C.proj(0) >> ADD)), C.proj(1)) >> C.eval, C.const(x)) >> C.eval,
        (x, y),
        x + y,
    ),
    "eval of a closure": (C.eval, (C.Closure(C.curry(MUL), x), y), x * y),
    "a function through a product": (
        C.prod(C.curry(C.proj(1) >> SIN), C.id) >> C.prod(C.proj(0), C.proj(1)) >> C.eval,
        x,
        np.sin(x),
    ),
    "const": (C.const(y), x, y),
    "const of a tree": (C.const({"a": xs, "n": 3}), x, {"a": xs, "n": 3}),
    "primitive of two": (MUL, (x, y), x * y),
    "primitive of many results": (
        C.primitive("sort", dimension=0, is_stable=True, num_keys=1),
        (-xs, xs),
        (-xs[::-1], xs[::-1]),
    ),
    "primitive with parameters": (C.primitive("reduce_sum", axes=(0,)), table, table.sum(0)),
    "primitive of integers": (ADD, (np.int32(2), np.int32(3)), np.int32(5)),
    "primitive of booleans": (C.primitive("not"), np.array([True, False]), np.array([False, True])),
    "fold": (over(HORNER, C.fold), (x, y, xs), horner(x, y, xs)),
    "fold from the last": (over(HORNER, Fold(reverse=True)), (x, y, xs), horner(x, y, xs[::-1])),
    "fold of nothing": (over(HORNER, C.fold), (x, y, none), y),
    "fold over rows": (over(C.prod(state, element) >> ADD, C.fold), (x, np.zeros(3, np.float32), table), table.sum(0)),
    "fold by length": (
        over(C.prod(C.proj(0), state) >> MUL, Fold(length=3), elements=C.const(())),
        (x, y),
        np.float32(x**3 * y),
    ),
    "fold of a dict": (
        over(C.prod({"n": state >> C.proj("n"), "s": C.prod(state >> C.proj("s"), element) >> ADD}), C.fold),
        (x, {"n": np.int32(7), "s": y}, xs),
        {"n": np.int32(7), "s": y + xs.sum()},
    ),
    "fold over a dict": (
        over(C.prod(state, C.prod(element >> C.proj("a"), element >> C.proj("b")) >> MUL) >> ADD, C.fold),
        (x, y, {"a": xs, "b": 2 * xs}),
        np.float32(y + (xs * 2 * xs).sum()),
    ),
    "scan": (over(STEP, C.scan), (x, y, xs), running(x, y, xs, range(4))),
    "scan from the last": (over(STEP, Scan(reverse=True)), (x, y, xs), running(x, y, xs, (3, 2, 1, 0))),
    "scan of nothing": (over(STEP, C.scan), (x, y, none), (y, none)),
    "scan by length": (
        over(C.prod(C.prod(C.proj(0), state) >> MUL, state), Scan(length=3), elements=C.const(())),
        (x, y),
        (np.float32(x**3 * y), np.array([y, x * y, x * x * y])),
    ),
    "map": (C.prod(C.proj(0) >> C.curry(MUL), C.proj(1)) >> C.map, (x, xs), x * xs),
    "map of nothing": (C.prod(C.proj(0) >> C.curry(MUL), C.proj(1)) >> C.map, (x, none), none),
    "map over a tree": (
        C.prod(C.curry(arg >> C.prod({"sum": ADD, "first": C.proj(0)})), C.prod(C.id, C.id)) >> C.map,
        xs,
        {"sum": 2 * xs, "first": xs},
    ),
    "map over rows": (C.prod(C.curry(arg >> C.primitive("reduce_sum", axes=(0,))), C.id) >> C.map, table, table.sum(1)),
}
NAMES = list(MEANING)


def same(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (jnp.shape(a), jnp.result_type(a)) == (jnp.shape(b), jnp.result_type(b))
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_plain_meaning(name):
    term, argument, expected = MEANING[name]
    same(C.evaluate(term, argument), expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_type_of_the_meaning_is_inferred(name):
    term, argument, expected = MEANING[name]
    assert C.infer(term, argument) == C.type_of(expected)
    assert C.infer(term, C.type_of(argument)) == C.type_of(expected)
    structs = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), jax.tree.map(jnp.asarray, argument))
    assert C.infer(term, structs) == C.type_of(expected)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_meaning(name):
    term, argument, expected = MEANING[name]
    arguments = argument if isinstance(argument, tuple) and not hasattr(argument, "_fields") else (argument,)
    same(term(*arguments), expected)
    same(term(argument), expected)
    same(lower(term)(*arguments), expected)
