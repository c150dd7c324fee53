"""The trees of the library's functions, and the programs that are compared on them: all have JAX's gradients."""

import ast
import json
from itertools import chain

import jax
import numpy as np
import pytest

from benchmarks.command import main
from benchmarks.trees import by_hand, in_torch, rows
from benchmarks.trees.by_shape import BY_SHAPE
from benchmarks.trees.flat import flatten, steps
from benchmarks.trees.model import initial
from examples.syntax_trees import LIBRARY, WORDS, Leaf, Node, binary, functions, modules, size, split, word, words

FILES = [LIBRARY / name for name in ("bisect.py", "heapq.py", "queue.py", "textwrap.py", "types.py")]
LOOPS = ast.For | ast.AsyncFor | ast.While


@pytest.fixture(autouse=True)
def as_users_write():
    """The model is written as most are, with vectors added to matrices."""
    with jax.numpy_rank_promotion("allow"):
        yield


def binary_of(source):
    return binary(ast.parse(source).body[0])


def test_a_tree_has_the_words_of_its_syntax_in_order():
    tree = binary_of("def f(x):\n while x: x = -x")
    kinds = ["FunctionDef", "arguments", "arg", "stmt", "Name", "Assign", "Name", "UnaryOp", "USub", "Name"]
    assert words(tree) == [WORDS[kind] for kind in kinds]


def test_loops_have_no_word_of_their_own():
    whiles, ifs = (binary_of(f"def f(x):\n {kind} x: pass") for kind in ("while", "if"))
    fors, withs = (binary_of(f"def f(x):\n {loop}: continue") for loop in ("for y in x", "with y as x"))
    assert words(whiles) == words(ifs) and words(fors) == words(withs)
    assert [tree.loop for tree in (whiles, ifs, fors, withs)] == [True, False, True, False]


def parts(tree):
    yield tree
    if isinstance(tree, Node):
        yield from parts(tree.left)
        yield from parts(tree.right)


def test_labels_say_where_loops_are():
    for syntax in functions(LIBRARY / "textwrap.py"):
        tree = binary(syntax)
        loops = sum(isinstance(node, LOOPS) for node in ast.walk(syntax))
        assert sum(part.loop for part in parts(tree) if isinstance(part, Leaf)) == loops
        assert tree.loop == (loops > 0)
        assert all(part.loop == (part.left.loop or part.right.loop) for part in parts(tree) if isinstance(part, Node))
        assert size(tree) == len(words(tree)) == len([p for p in parts(tree) if isinstance(p, Leaf)])


def test_held_out_trees_are_others():
    training, test = split(FILES, 5, 40)
    assert training and test and not {*training} & {*test}
    assert len({*training}) == len(training) and len({*test}) == len(test)
    assert all(5 <= size(tree) <= 40 for tree in training + test)
    assert (training, test) == split(FILES, 5, 40)


def test_the_library_has_hundreds_of_modules_and_none_of_its_tests():
    names = [path.relative_to(LIBRARY).parts for path in modules()]
    assert len(names) > 300 and ("textwrap.py",) in names
    assert not [parts for parts in names if {"test", "site-packages"} & {*parts}]


def word_of(source):
    return word(ast.parse(source).body[0])


def test_words_of_statements():
    assert {word_of("for x in y: z"), word_of("if x: y"), word_of("try: x\nfinally: y")} == {"stmt"}
    assert {word_of("pass"), word_of("break")} == {"Pass"} and word_of("x") == "Expr"


def comb(length):
    """A tree in which each node is joined after the one before."""
    tree = Leaf(0, False)
    for place in range(length):
        tree = Node(tree, Leaf(place, True), True)
    return tree


def full(depth):
    return Node(full(depth - 1), full(depth - 1), False) if depth else Leaf(depth, False)


def test_steps_join_each_node_once_and_after_its_parts():
    trees = [binary(syntax) for syntax in functions(LIBRARY / "heapq.py")] + [comb(9), full(3), Leaf(1, True)]
    flat = flatten(trees)
    for width in (1, 3, 1000):
        order = steps(flat, width)
        when = {node: step for step, taken in enumerate(order) for node in taken}
        assert sorted(when) == [*np.flatnonzero(flat.left >= 0)] == sorted(chain(*order))
        assert all(when[node] < when[flat.parent[node]] for node in when if flat.parent[node] >= 0)
        assert max(map(len, order)) <= width


def test_steps_are_as_few_as_can_be():
    assert len(steps(flatten([comb(9)] * 4), 4)) == 9
    assert [len(taken) for taken in steps(flatten([full(3), comb(4)]), 4)] == [4, 3, 2, 2]  # 11 nodes, 4 deep
    assert len(steps(flatten([full(3)]), 1)) == 7


METHODS = {**rows.OURS, **rows.PEERS}


@pytest.fixture(scope="module")
def expected():
    """Weights in float64, some trees, and JAX's gradient of the recursion over them."""
    trees = [*split(FILES, 4, 6)[0][:2], Leaf(2, False), comb(2)]
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        params = jax.tree.map(lambda array: array.astype(float), initial(3, 2))
        return params, trees, BY_SHAPE.gradient(params, trees)


def test_the_reference_is_the_model(expected):
    """One word and one joint, in NumPy."""
    params, *_ = expected
    sigmoid = lambda x: 1 / (1 + np.exp(-x))

    def leaf(place):
        o, c = np.split(params["words"][place] @ params["read"] + params["read_bias"], 2)
        return sigmoid(o) * np.tanh(c), c

    def entropy(h, label):
        scores = h @ params["head"] + params["head_bias"]
        return np.log(np.sum(np.exp(scores))) - scores[label]

    (h1, c1), (h2, c2) = leaf(3), leaf(5)
    i, left, right, o, u = np.split(np.concatenate([h1, h2]) @ params["join"] + params["join_bias"], 5)
    h = sigmoid(o) * np.tanh(sigmoid(i) * np.tanh(u) + sigmoid(left) * c1 + sigmoid(right) * c2)
    tree = Node(Leaf(3, False), Leaf(5, True), True)
    with jax.enable_x64(True):
        value, _ = BY_SHAPE.gradient(params, [tree])
    np.testing.assert_allclose(value, entropy(h1, 0) + entropy(h2, 1) + entropy(h, 1), rtol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_gradients_agree(name, expected):
    if name.startswith("torch") and in_torch.torch is None:
        pytest.skip("PyTorch is in the extra `trees`")
    params, trees, (value, gradient) = expected
    with jax.enable_x64(True):
        got, derivatives = METHODS[name].gradient(params, trees)
        np.testing.assert_allclose(got, value, rtol=1e-12)
        assert set(derivatives) == set(gradient)
        for key, array in gradient.items():
            np.testing.assert_allclose(derivatives[key], array, rtol=0, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("width", [1, 3])
def test_gradients_by_hand_agree_for_any_width(width, expected, monkeypatch):
    monkeypatch.setattr(by_hand, "WIDTHS", (width, 1))
    monkeypatch.setattr(by_hand, "WASTE", 10)
    test_gradients_agree("jax by hand", expected)


def test_rows_of_trees(capsys, monkeypatch):
    monkeypatch.setattr(rows, "TREES", 2)
    monkeypatch.setattr(rows, "trees", lambda: [comb(2), full(2)])
    monkeypatch.setattr(rows, "initial", lambda: initial(3, 2))
    monkeypatch.setattr(in_torch, "torch", None)
    assert main(["trees", "--only", "levels 25", "--rounds", "1", "--json"]) == 0
    captured = capsys.readouterr()
    (row,) = json.loads(captured.out)
    assert (row["name"], row["peer"]) == ("levels 25, jax by hand", "jax by hand")
    assert row["epoch_time_ratio"] > 0 and row["prepare_seconds"] > 0
    assert all(len(row[key]) == 2 and min(row[key]) > 0 for key in ("epoch_seconds", "first_seconds"))
    assert "PyTorch is not installed" in captured.err and "torch recursion" in captured.err
    assert main(["trees", "--only", "levels 1, jax", "--rounds", "1"]) == 0
    assert "levels 1, jax by hand" in capsys.readouterr().out
