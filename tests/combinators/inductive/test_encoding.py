"""Trees of Python objects as forests of arrays, and back; what is malformed is refused, with its path."""

import ast
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcurry import C, ccc, fix, grad

TREE = C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Tensor(), C.Rec))
LIST = C.Inductive(nil=(), cons=(C.Tensor(), C.Rec))
ROSE = C.Inductive(nil=(), cons=(C.Tensor((), jnp.int32), C.Rec, C.Rec))
LEAF = ("leaf", 0.5)


def test_what_is_encoded_comes_back():
    trees = [("node", ("leaf", 1.0), 2.0, ("node", ("leaf", 3.0), -0.5, LEAF)), LEAF, ("node", LEAF, 4.0, LEAF)]
    for width in (None, 1, 2, 5):
        assert TREE.decode(TREE.encode(trees, width=width)) == trees
    assert TREE.decode(TREE.encode([])) == []
    assert LIST.decode(LIST.encode([("nil",)])) == [("nil",)]


def test_parts_may_be_any_pytree_and_payloads_any_numbers():
    kinds = C.Inductive(
        end={"x": C.Tensor(2), "i": C.Tensor((), jnp.int32)},
        one=C.Rec,
        both={"l": C.Rec, "r": (C.Rec, C.Tensor((), bool))},
    )
    end = lambda i: ("end", {"x": [1.0, i], "i": i})
    trees = [("both", {"l": ("one", end(1)), "r": (end(2), True)}), ("one", ("one", end(3)))]
    forest = kinds.encode(trees)
    ((_, both), (_, (_, three))) = kinds.decode(forest)
    assert both["r"][1] is True and both["r"][0][1]["i"] == 2
    np.testing.assert_array_equal(three[1]["x"], [1.0, 3.0])
    assert forest.payloads["end"]["i"].dtype == jnp.int32


def test_rows_that_are_no_node_repeat_one():
    forest = TREE.encode([("node", ("leaf", 3.0), 2.0, ("leaf", 3.0))])
    np.testing.assert_array_equal(forest.payloads["leaf"], 3.0)
    assert int(forest.valid["leaf"].sum()) == 2 and int(forest.valid["node"].sum()) == 1


@dataclass
class Leaf:
    x: float


@dataclass
class Node:
    left: object
    right: object


def test_dataclasses_are_nodes_of_their_names():
    trees = C.Inductive(Leaf=C.Tensor(), Node=(C.Rec, C.Rec))
    value = Node(Node(Leaf(1.0), Leaf(2.0)), Leaf(3.0))
    forest = trees.encode([value])
    assert trees.decode(forest) == [("Node", ("Node", ("Leaf", 1.0), ("Leaf", 2.0)), ("Leaf", 3.0))]
    build = lambda name, parts: Leaf(parts) if name == "Leaf" else Node(*parts)
    assert trees.decode(forest, build) == [value]


def test_fields_of_dataclasses_are_a_dict_where_it_is_declared():
    trees = C.Inductive(Leaf=C.Tensor(), Node={"right": C.Rec, "left": C.Rec})
    (found,) = trees.decode(trees.encode([Node(left=Leaf(1.0), right=Leaf(2.0))]))
    assert found == ("Node", {"left": ("Leaf", 1.0), "right": ("Leaf", 2.0)})
    with pytest.raises(C.errors.MalformedError, match="other parts than its constructor 'Node'"):
        C.Inductive(Leaf=C.Tensor(), Node={"l": C.Rec, "r": C.Rec}).encode([Node(Leaf(1.0), Leaf(2.0))])


def test_a_view_reads_other_objects():
    sums = C.Inductive(number=C.Tensor(), add=(C.Rec, C.Rec), minus=C.Rec)

    def view(node):
        match node:
            case ast.Constant(value=value):
                return "number", value
            case ast.BinOp(left=left, right=right):
                return "add", (left, right)
            case ast.UnaryOp(operand=operand):
                return "minus", operand
            case _:
                raise TypeError(f"{type(node).__name__} is no sum")

    parsed = lambda text: ast.parse(text, mode="eval").body
    (found,) = sums.decode(sums.encode([parsed("1 + -(2 + 3)")], view))
    number = lambda x: ("number", x)
    assert found == ("add", number(1.0), ("minus", ("add", number(2.0), number(3.0))))
    with pytest.raises(C.errors.MalformedError, match=r"\[0\]\.add\[1\]\.minus\n(.|\n)*Name is no sum"):
        sums.encode([parsed("1 + -x")], view)


def test_trees_may_be_as_deep_as_they_like():
    deep = LEAF
    for i in range(10_000):
        deep = ("node", deep, float(i), LEAF)
    forest = TREE.encode([deep])
    assert int(forest.valid["node"].sum()) == int(forest.order().steps) == 10_000
    (found,) = TREE.decode(forest)
    for i in reversed(range(10_000)):
        assert found[2] == float(i)
        found = found[1]
    assert found == LEAF


def test_a_node_with_many_children_is_a_chain_of_siblings():
    siblings = ("nil",)
    for i in reversed(range(1000)):
        siblings = ("cons", i, ("nil",), siblings)
    (found,) = ROSE.decode(ROSE.encode([("cons", -1, siblings, ("nil",))]))
    assert found == ("cons", -1, siblings, ("nil",))


def test_shared_parts_are_copied():
    shared = ("node", LEAF, 1.0, LEAF)
    assert int(TREE.encode([("node", shared, 2.0, shared)]).valid["node"].sum()) == 3


CYCLE = ["node", LEAF, 1.0]
CYCLE.append(CYCLE)
MALFORMED = {
    "a cycle": (("node", LEAF, 1.0, CYCLE), r"a tree holds itself, at \[1\]\.node\[2\]\.node\[2\]"),
    "a missing child": (("node", LEAF, 1.0, None), r"a child is missing, at \[1\]\.node\[2\]\n"),
    "too few parts": (("node", LEAF, ("node", LEAF)), r"other parts than its constructor 'node', at \[1\]"),
    "a wrong tag": (("node", ("lead", 1.0), 1.0, LEAF), r"of no constructor of its type, at \[1\]\.node\[0\]\n"),
    "a tag that is none": (("node", (["leaf"], 1.0), 1.0, LEAF), r"at \[1\]\.node\[0\]\n"),
    "no tree": (("node", 7, 1.0, LEAF), r"at \[1\]\.node\[0\]\n"),
    "a payload of another shape": (("node", LEAF, 1.0, ("leaf", [1.0])), r"payload at \[1\]\.node\[2\]\.leaf"),
    "a payload that is no number": (("node", LEAF, "x", LEAF), r"payload at \[1\]\.node does not fit"),
    "a payload of another kind": (("node", LEAF, 1j, LEAF), r"payload at \[1\]\.node does not fit"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_refused_with_its_path(name):
    value, message = MALFORMED[name]
    listed = lambda x: ("node", tuple(x[1:])) if isinstance(x, list) else (x[0], x[1:])
    with pytest.raises(C.errors.MalformedError, match=message):
        TREE.encode([LEAF, value], view=listed if name == "a cycle" else None)


def test_integers_are_not_cut():
    numbers = C.Inductive(leaf=C.Tensor((), jnp.int8))
    assert numbers.decode(numbers.encode([("leaf", -128)])) == [("leaf", -128)]
    for wrong in (128, 1.0, True):
        with pytest.raises(C.errors.MalformedError, match=r"payload at \[0\]\.leaf"):
            numbers.encode([("leaf", wrong)])


def test_types_are_checked():
    with pytest.raises(C.errors.ArgumentError, match="no constructor without C"):
        C.Inductive(node=(C.Rec, C.Rec))
    with pytest.raises(C.errors.ArgumentError, match="nothing that an array can hold"):
        C.Inductive(leaf=C.Function(C.Tensor(), C.Tensor()))
    with pytest.raises(C.errors.ArgumentError, match="no inductive type"):
        C.cata(C.Tensor())
    with pytest.raises(C.errors.ArgumentError, match="width of a schedule"):
        TREE.encode([LEAF], width=0)
    for room in (1000, {"typo": 1000}):
        with pytest.raises(C.errors.ArgumentError, match="no such room"):
            TREE.encode([], room=room)
    assert C.cata(TREE) is C.cata(C.Inductive(leaf=C.Tensor(), node=(C.Rec, C.Tensor(), C.Rec)))
    assert C.cata(TREE) is not C.annotate(TREE) and C.cata(LIST) is not C.cata(ROSE)


def test_one_size_class_holds_many_shapes():
    shapes = [("node", LEAF, 1.0, LEAF), LEAF, ("node", ("node", LEAF, 1.0, LEAF), 2.0, LEAF)]
    types = [C.type_of(TREE.encode([tree])) for tree in shapes]
    assert all(C.Function(t, C.Tensor()) == C.Function(types[0], C.Tensor()) for t in types)
    roomy = TREE.encode(shapes, room={"leaf": 100, "node": 100})
    assert len(roomy.valid["leaf"]) >= 100 and len(roomy.valid["node"]) >= 100
    assert TREE.decode(roomy) == shapes


def test_other_payloads_on_the_same_shape():
    forest = TREE.encode([("node", ("leaf", 1.0), 2.0, ("leaf", 3.0))])
    doubled = replace(forest, payloads={**forest.payloads, "leaf": 2 * forest.payloads["leaf"]})
    assert TREE.decode(doubled) == [("node", ("leaf", 2.0), 2.0, ("leaf", 6.0))]


@pytest.mark.parametrize("one", [("nil",), "nil", 3.0, None], ids=repr)
def test_one_tree_is_no_list_of_trees(one):
    with pytest.raises(C.errors.ArgumentError, match=r"several trees at once(.|\n)*encode\(\[tree\]\)"):
        C.Inductive(nil=(), cons=(C.Tensor(), C.Rec)).encode(one)


def test_no_forest_is_not_decoded():
    with pytest.raises(C.errors.ArgumentError, match=r"decode takes a forest(.|\n)*encode"):
        C.Inductive(nil=(), cons=(C.Tensor(), C.Rec)).decode(3)


ALGEBRA = {"leaf": lambda x: x * x, "node": lambda left, v, right: left * v + right}


def test_a_gradient_has_no_trees_before_its_payloads_are_put_into_the_forest():
    forest = TREE.encode([("node", ("leaf", 1.0), 2.0, ("leaf", 3.0))])
    gradient = grad(lambda forest: C.cata(TREE)(ALGEBRA, forest)[0])(forest)
    with pytest.raises(C.errors.ArgumentError, match=r"no nodes(.|\n)*replace\(forest, payloads=gradient.payloads\)"):
        TREE.decode(gradient)
    (found,) = TREE.decode(replace(forest, payloads=gradient.payloads))  # x² v + y²
    assert found == ("node", ("leaf", 4.0), 1.0, ("leaf", 6.0))


@pytest.mark.parametrize("other", [LIST, C.Inductive(leaf=C.Tensor(), knot=(C.Rec, C.Tensor(), C.Rec))], ids=repr)
def test_a_forest_of_another_type_is_not_decoded(other):
    forest = TREE.encode([LEAF])
    for reader, given in ((other, forest), (TREE, C.annotate(TREE)(ALGEBRA, forest))):
        with pytest.raises(C.errors.ArgumentError, match=r"of another type(.|\n)*T.annotated"):
            reader.decode(given)


@pytest.mark.parametrize("traced", [jax.jit, jax.vmap, lambda f: jax.jit(ccc(f))])
def test_values_that_python_does_not_know_are_neither_encoded_nor_decoded(traced):
    forests = jax.tree.map(lambda *rows: jnp.stack(rows), *[TREE.encode([("leaf", x)]) for x in (1.0, 2.0)])
    for run in (
        lambda: traced(lambda x: TREE.encode([("leaf", x)]).payloads["leaf"])(jnp.ones(2)),
        lambda: traced(lambda forest: TREE.decode(forest)[0][1])(forests),
    ):
        with pytest.raises(C.errors.TracedBranchError, match="trees are read by Python") as caught:
            run()
        assert "test_encoding.py" in str(caught.value) and "replace(forest, payloads=...)" in str(caught.value)


def test_hints_are_about_what_was_given():
    step = lambda self, x: jax.lax.cond(x < 1.0, lambda: x, lambda: jax.grad(self)(x - 1.0))
    hints = {
        "is the nearest": lambda: TREE.encode([LEAF], width=0),
        "ints of Python": lambda: TREE.encode([LEAF], width=1.5),
        "a fold is of a type first": lambda: C.cata(3),
        "of a recursion the whole is": lambda: fix(step, C.Tensor())(3.0),
    }
    for words, run in hints.items():
        with pytest.raises(C.errors.DiffcurryError, match=rf"hint: .*{words}"):
            run()
    with pytest.warns(C.errors.DetachedWarning, match=r"test_encoding.py(.|\n)*payloads=") as warned:
        grad(lambda x: x * C.cata(TREE)(ALGEBRA, TREE.encode([("leaf", x)]))[0])(2.0)
    assert {each.filename for each in warned} == {__file__}
