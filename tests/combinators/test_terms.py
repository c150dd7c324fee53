"""Terms: identity by structure, products of every form, contexts, text, types and plain meaning."""

import copy
import gc
import pickle
import time
import weakref
from dataclasses import FrozenInstanceError, dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators import Context

F32, I32 = jnp.float32, jnp.int32
SIN, ADD, MUL = C.primitive("sin"), C.primitive("add"), C.primitive("mul")


class Pair(NamedTuple):
    left: object
    right: object


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layer:
    W: object
    b: object


def same(got, expected):
    """Equal structure, shapes, dtypes and numbers."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert (jnp.shape(a), jnp.result_type(a)) == (jnp.shape(b), jnp.result_type(b))
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=1e-6)


# Identity

ALIKE = [
    lambda: C.id,
    lambda: C.id >> C.proj(0) >> SIN,
    lambda: C.prod(C.id, C.proj(0)),
    lambda: C.prod({"W": C.id, "b": C.proj(0)}),
    lambda: C.prod(Pair(C.id, C.id)),
    lambda: C.prod(Layer(C.id, C.id)),
    lambda: C.prod(Context(C.id, C.proj(-1))),
    lambda: C.prod(C.id, (C.id, {"a": C.id})),
    lambda: C.curry(C.eval, C.Tensor((3,))),
    lambda: C.curry(C.eval, {"f": C.Function(C.Tensor(), C.Tensor())}),
    lambda: C.extend(C.eval),
    lambda: C.const(1.5),
    lambda: C.const(float("nan")),
    lambda: C.const(jnp.arange(3.0)),
    lambda: C.const({"a": np.arange(3), "b": None}),
    lambda: C.primitive("reduce_sum", axes=(0,)),
    lambda: C.primitive("convert_element_type", new_dtype=jnp.dtype("float32")),
    lambda: C.primitive("pad", padding_config=((1, 2, 0),)),
    lambda: C.fold >> C.scan >> C.map,
    lambda: type(C.fold)(True, 3),
]


@pytest.mark.parametrize("build", ALIKE)
def test_terms_built_alike_are_one_object(build):
    assert build() is build()
    assert build() == build() and hash(build()) == hash(build())


@pytest.mark.parametrize("build", ALIKE)
@pytest.mark.parametrize(
    "again", [lambda t: pickle.loads(pickle.dumps(t)), copy.deepcopy, copy.copy], ids=["pickle", "deepcopy", "copy"]
)
def test_copies_of_a_term_are_the_term(build, again):
    term = build()
    assert again(term) is term


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: C.const(1), lambda: C.const(1.0)),
        (lambda: C.const(1), lambda: C.const(True)),
        (lambda: C.const(0.0), lambda: C.const(-0.0)),
        (lambda: C.const(1.0), lambda: C.const(np.float32(1.0))),
        (lambda: C.const(np.float32(1.0)), lambda: C.const(np.float64(1.0))),
        (lambda: C.const(jnp.ones(3)), lambda: C.const(jnp.ones((3, 1)))),
        (lambda: C.const(jnp.ones(3)), lambda: C.const(jnp.ones(3).at[1].set(2.0))),
        (lambda: C.const((1.0,)), lambda: C.const([1.0])),
        (lambda: C.proj(0), lambda: C.proj("0")),
        (lambda: C.proj(0), lambda: C.proj(-1)),
        (lambda: C.prod(C.id), lambda: C.id),
        (lambda: C.prod((C.id, C.id)), lambda: C.prod([C.id, C.id])),
        (lambda: C.prod({"a": C.id}), lambda: C.prod({"b": C.id})),
        (lambda: C.prod(Pair(C.id, C.id)), lambda: C.prod((C.id, C.id))),
        (lambda: C.prod(Context(C.id)), lambda: C.prod((C.id,))),
        (lambda: C.prod(C.id, C.eval), lambda: C.prod(C.eval, C.id)),
        (lambda: C.curry(C.id), lambda: C.curry(C.id, C.Tensor())),
        (lambda: C.curry(C.id, C.Tensor((3,))), lambda: C.curry(C.id, C.Tensor((3,), int))),
        (lambda: C.curry(C.id), lambda: C.extend(C.id)),
        (lambda: SIN, lambda: C.primitive("cos")),
        (lambda: C.primitive("reduce_sum", axes=(0,)), lambda: C.primitive("reduce_sum", axes=(1,))),
        (lambda: C.fold, lambda: C.scan),
        (lambda: C.fold, lambda: type(C.fold)(True)),
    ],
)
def test_terms_that_differ_are_not_equal(one, other):
    assert one() is not other()
    assert one() != other()


def test_closures_and_nested_data_in_a_const_are_compared_by_content():
    f = lambda w: C.Closure(C.curry(SIN), Context(w))
    assert C.const(f(1.0)) is C.const(f(1.0))
    assert C.const(f(1.0)) is not C.const(f(2.0))


def test_a_term_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        C.proj(0).key = 1


def test_a_term_that_nobody_holds_is_freed():
    term = C.proj("nobody else projects this")
    gone = weakref.ref(term)
    del term
    gc.collect()
    assert gone() is None


def test_long_chains_are_one_object_too():
    assert C.compose(*[SIN] * 100_000) is C.compose(*[SIN] * 50_000) >> C.compose(*[SIN] * 50_000)


# Composition and products


def test_chains_are_flat():
    f, g, h = C.proj(0), SIN, C.primitive("cos")
    chains = [(f >> g) >> h, f >> (g >> h), C.compose(f, g, h), C.compose(f, C.compose(g, h)), C.compose(f >> g, h)]
    assert all(chain is chains[0] for chain in chains)
    assert chains[0].steps == (f, g, h)


def test_chains_of_one_and_none():
    assert C.compose(SIN) is SIN
    assert C.compose() is C.id


FORMS = [
    ((C.id, SIN), lambda a, b: (a, b)),
    ([C.id, SIN], lambda a, b: [a, b]),
    ({"b": SIN, "a": C.id}, lambda a, b: {"a": a, "b": b}),
    (Pair(C.id, SIN), Pair),
    (Layer(C.id, SIN), Layer),
    (Context(C.id, SIN), Context),
    ({"a": (C.id, {"deep": SIN})}, lambda a, b: {"a": (a, {"deep": b})}),
]


@pytest.mark.parametrize(("tree", "form"), FORMS)
def test_a_product_has_the_form_of_its_tree(tree, form):
    x = jnp.float32(0.5)
    same(C.evaluate(C.prod(tree), x), form(x, jnp.sin(x)))
    assert C.infer(C.prod(tree), x) == form(C.Tensor(), C.Tensor())


@pytest.mark.parametrize(
    ("product", "key"),
    [
        ((1, 2.0), 1),
        ((1, 2.0), -1),
        ([1, 2.0], 1),
        ({"a": 1, "b": 2.0}, "b"),
        ({0: 1, 7: 2.0}, 7),
        (Pair(1, 2.0), 1),
        (Pair(1, 2.0), "right"),
        (Layer(1, 2.0), "b"),
        (Context(1, 2.0), 1),
        (Context(1, 2.0), -1),
    ],
)
def test_a_projection_finds_its_component(product, key):
    assert C.evaluate(C.proj(key), product) == 2.0
    assert C.infer(C.proj(key), product) == C.Tensor()


# Contexts


def test_extending_one_context_twice_gives_two_contexts():
    base = Context("a")
    left, right = base.extend("b"), base.extend("c")
    longer = left.extend("d")
    assert [list(ctx) for ctx in (base, left, right, longer)] == [["a"], ["a", "b"], ["a", "c"], ["a", "b", "d"]]
    assert [len(base), len(left), len(longer)] == [1, 2, 3]


def test_a_context_is_a_sequence():
    ctx = Context(1, 2, 3)
    assert (ctx[0], ctx[-1], list(ctx), len(Context())) == (1, 3, [1, 2, 3], 0)
    assert Context(1, 2) == Context(1).extend(2) != Context(2, 1)
    for index in (3, -4):
        with pytest.raises(IndexError):
            ctx[index]
    with pytest.raises(IndexError):
        Context(1)[1]


def test_the_end_of_a_longer_context_is_not_seen_from_the_shorter_one():
    base = Context(1)
    base.extend(2)
    assert (base[-1], list(base), jax.tree.leaves(base)) == (1, [1], [1])
    with pytest.raises(IndexError):
        base[1]


def test_a_context_is_a_pytree():
    ctx = Context({"a": 1}, (2, 3))
    assert jax.tree.leaves(ctx) == [1, 2, 3]
    assert jax.tree.map(lambda n: n + 1, ctx) == Context({"a": 2}, (3, 4))


def test_extending_costs_the_same_at_every_length():
    ctx, start = Context(), time.perf_counter()
    for i in range(200_000):
        ctx = ctx.extend(i)
    assert time.perf_counter() - start < 5  # copying at each step would take minutes
    assert (len(ctx), ctx[-1]) == (200_000, 199_999)


# Text


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (C.id, "id"),
        (C.id >> C.proj(0) >> C.proj("W"), "id >> proj(0) >> proj('W')"),
        (C.prod(C.id, C.proj(0)), "prod(id, proj(0))"),
        (C.prod({"W": C.id, "b": SIN}), "prod(W=id, b=sin)"),
        (C.prod(Pair(C.id, SIN)), "prod(left=id, right=sin)"),
        (C.prod(Context(C.id)), "Context(id)"),
        (C.prod(()), "prod()"),
        (C.curry(C.proj(0) >> C.eval), "curry(proj(0) >> eval)"),
        (C.extend(C.const(2.5)), "extend(const(2.5))"),
        (C.const(jnp.ones((3, 4))), "const(f32[3,4])"),
        (C.const(True), "const(True)"),
        (C.primitive("reduce_sum", axes=(0,)), "reduce_sum[axes=(0,)]"),
        (MUL, "mul"),
        (C.fold, "fold"),
        (C.scan, "scan"),
        (C.map, "map"),
    ],
)
def test_text(term, text):
    assert C.show(term) == repr(term) == text


def test_long_text_is_broken_one_step_a_line():
    term = C.compose(*[C.proj(0)] * 5)
    assert C.show(term, width=20) == "proj(0)" + "\n>> proj(0)" * 4
    assert C.show(term, width=200) == " >> ".join(["proj(0)"] * 5)


def test_lines_are_as_narrow_as_asked():
    term = C.curry(C.compose(*[C.extend(C.prod(C.proj(i), C.proj(i + 1)) >> ADD) for i in range(9)]))
    assert max(map(len, C.show(term, width=40).splitlines())) <= 40


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (C.Tensor(), "f32[]"),
        (C.Tensor((2, 3), jnp.bfloat16), "bf16[2,3]"),
        (C.Tensor(4, bool), "bool[4]"),
        (C.Tensor((), jnp.complex64), "c64[]"),
        (C.Tensor((), jnp.uint8), "u8[]"),
        (C.Function(C.Tensor(), C.Tensor()), "(f32[] ⇝ f32[])"),
        (C.Function((C.Tensor(), C.Tensor((2,), int)), C.Tensor()), "((f32[], i32[2]) ⇝ f32[])"),
    ],
)
def test_text_of_types(type, text):
    assert repr(type) == text


@pytest.mark.parametrize("name", [3, "", None])
def test_a_call_has_a_name(name):
    with pytest.raises(C.errors.ArgumentError, match="has no name"):
        C.call(C.id, name)
