"""`check` draws trees of any shape that there is room for, and compiles a loop once for all examples."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given

import combinators as C
from combinators.types import type_of
from tangents import check, custom
from tangents.checking.report import LawError
from tangents.strategies import values_of

PAIRS = C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Tensor(), C.Rec))
SUMS = C.Inductive(none=(), number=C.Tensor(2), minus=C.Rec, add={"left": C.Rec, "right": C.Rec})
FORESTS = {
    "one leaf": (PAIRS, PAIRS.encode([("leaf", 1.0)])),
    "twenty trees": (PAIRS, PAIRS.encode([("leaf", 1.0)] * 20)),
    "three at a time": (SUMS, SUMS.encode([("none",), ("minus", ("number", [1.0, 2.0]))], width=3)),
    "a leaf for each tree": (SUMS, SUMS.encode([("none",)] * 8 + [("number", [1.0, 2.0])] * 8)),
    "no trees": (SUMS, SUMS.encode([])),
}


@pytest.mark.parametrize("name", FORESTS)
def test_what_is_drawn_is_a_forest_of_the_type(name):
    inductive, forest = FORESTS[name]
    shapes = set()

    @given(values_of(type_of(forest)))
    def draw(drawn):
        assert jax.tree.flatten(type_of(drawn)) == jax.tree.flatten(type_of(forest))
        trees = inductive.decode(drawn)
        again = inductive.encode(trees, None, forest.width, {c.name: forest.room(c) for c in forest.constructors})
        assert jax.tree.flatten(type_of(again)) == jax.tree.flatten(type_of(forest))
        assert repr(inductive.decode(again)) == repr(trees)
        shapes.add(str(drawn.numbers))

    draw()
    assert len(shapes) > 1 or not forest.count


def total(w, forest):
    algebra = {"leaf": lambda x: jnp.sin(w * x), "node": lambda left, v, right: left * v + right}
    return C.cata(PAIRS)(algebra, forest)


def test_a_fold_over_trees_is_checked_and_compiled_once(compilations):
    domain = 2.0, FORESTS["one leaf"][1]
    numbers = []
    for examples in (2, 2, 12):
        assert check(total, *domain, examples=examples).ok
        numbers.append(compilations.new())
    assert numbers[2] == numbers[1] < numbers[0]


def test_a_wrong_pullback_in_a_fold_is_seen():
    wrong = custom(lambda x: jnp.sin(x), lambda primals, y, g: (2.0 * g * jnp.cos(primals[0]),))
    with pytest.raises(LawError, match="central differences"):
        algebra = {"leaf": lambda x: wrong(x), "node": lambda left, v, right: left * v + right}
        check(lambda forest: C.cata(PAIRS)(algebra, forest), FORESTS["one leaf"][1], examples=3)
