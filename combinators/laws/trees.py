"""The laws of folds over trees: no schedule matters, and what they have to do with loops and recursion over lists."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from combinators.building import annotate, cata, compose, curry, inherit, prod
from combinators.inductive.constructors import Rec
from combinators.inductive.inductive import Inductive
from combinators.laws.law import Each, Law, function, mapped
from combinators.primitives import primitive
from combinators.sums import case, tag
from combinators.terms import Const, Eval, Fix, Fold, Id, Map, Proj, Scan, Term
from combinators.types import Tensor

_R = "R"  # the real numbers
_neg, _add, _sum = primitive("neg"), primitive("add"), primitive("reduce_sum", axes=(0,))
_LEAF, _NODE = (("c", _R), "s"), (("c", ("s", _R, "s")), "s")  # of functions that captured c
_NUMBERS = (0.5, -1.0, 2.0)


def _number(x: float) -> Any:
    return ("leaf", x)


_TREE = ("node", ("node", _number(0.5), -1.0, _number(2.0)), 1.5, _number(-0.5))
_SUBTREES = [_TREE, *_TREE[1::2], *_TREE[1][1::2]]


def _trees() -> Inductive:
    return Inductive(leaf=Tensor(), node=(Rec, Tensor(), Rec))


def _cata(leaf: Term, node: Term, values: Any, width: int | None = None) -> Term:
    """The fold over these trees, by functions that are made of the domain."""
    trees = _trees()
    return prod({"leaf": leaf, "node": node}, Const(trees.encode(values, width=width))) >> cata(trees)


def _list() -> tuple[Inductive, Any]:
    """The numbers as a value of an inductive type."""
    lists, value = Inductive(nil=(), cons=(Tensor(), Rec)), ("nil",)
    for x in reversed(_NUMBERS):
        value = ("cons", x, value)
    return lists, lists.encode([value])


def _of_list(nil: Term, cons: Term) -> Term:
    """The fold over the numbers as a value of an inductive type."""
    lists, encoded = _list()
    return prod({"nil": nil, "cons": cons}, Const(encoded)) >> cata(lists)


def _numbers() -> Term:
    """The numbers as an array."""
    return Const(np.asarray(_NUMBERS, jax.dtypes.canonicalize_dtype(float)))


def _constructed(f: Term) -> Term:
    """The array of what f gives of the numbers, from constructors of lists: zeros, and a number before others."""
    count = len(_NUMBERS)
    rest = primitive("slice", start_indices=(0,), limit_indices=(count - 1,), strides=None)
    first = compose(prod(Proj(0), Proj(1) >> Proj(0)), f, _one())
    before = prod(first, Proj(1) >> Proj(1) >> rest) >> primitive("concatenate", dimension=0)
    lists = _of_list(curry(Const(np.zeros(count, jax.dtypes.canonicalize_dtype(float)))), curry(before))
    return lists >> primitive("reshape", new_sizes=(count,), dimensions=None, sharding=None)


def _recursion(f: Term) -> Term:
    """c, n ↦ f (c, (the n-th number from behind, the recursion at n - 1)), or c if n is 0; from all numbers on."""
    c, itself, n = Proj(0) >> Proj(0), Proj(0) >> Proj(1), Proj(1)
    count = np.int32(len(_NUMBERS))
    at = prod(Const(count), n) >> primitive("sub")
    slice = primitive("dynamic_slice", slice_sizes=(1,))
    x = prod(_numbers(), at) >> slice >> primitive("reshape", new_sizes=(), dimensions=None, sharding=None)
    again = prod(c, prod(x, prod(itself, prod(n, Const(np.int32(1))) >> primitive("sub")) >> Eval())) >> f
    body = prod(Id(), n >> tag(2)) >> case(Proj(0) >> c, Proj(0) >> again)
    return prod(Id(), Const(count)) >> Fix(body, Tensor((), np.int32), Tensor()) >> _one()


def _states(f: Term) -> Term:
    """The states before each number, and after the last, if they are passed down the list; their sum."""
    lists, encoded = _list()
    down = curry(prod(Proj(0), prod(Proj(1) >> Proj(0), Proj(1) >> Proj(1) >> Proj(0))) >> f >> prod(Const(None), Id()))
    forest = prod({"cons": Proj(0) >> down}, Proj(1) >> _one(), Const(encoded)) >> inherit(lists)
    return _sum_of(forest, "nil", "cons")


def _scanned(f: Term) -> Term:
    """The sum of the states before each number, and after the last."""
    step = curry(prod(f, Proj(1) >> Proj(0)))
    states = prod(Proj(0) >> step, Proj(1), _numbers()) >> Scan()
    return prod(states >> Proj(0), states >> Proj(1) >> _sum) >> _add


def _sum_of(forest: Term, first: str, second: str) -> Term:
    """The sum of what is at the nodes of two constructors."""
    of = lambda name: compose(Proj("payloads"), Proj(name), Proj(1), _sum)
    return forest >> prod(of(first), of(second)) >> _add


def _with(k: Term) -> Term:
    """x ↦ (x, k x)"""
    return prod(Id(), k)


def _firsts() -> Term:
    """What a function of nodes is applied to, with the first parts of the results below."""
    first = lambda i: Proj(1) >> Proj(i) >> Proj(0)
    return prod(Proj(0), prod(first(0), Proj(1) >> Proj(1), first(2)))


def _one() -> Term:
    """A number as the array of it."""
    return primitive("broadcast_in_dim", shape=(1,), broadcast_dimensions=(), sharding=None)


def _every(leaf: Term, node: Term) -> Term:
    """The sum of the results at all nodes."""
    trees = _trees()
    forest = prod({"leaf": function(leaf), "node": function(node)}, Const(trees.encode([_TREE]))) >> annotate(trees)
    return _sum_of(forest, "leaf", "node")


def _passed(f: Term, width: int) -> Term:
    """The sum of the states at all nodes, where f (c, (state, value)) passes them to both sides."""
    trees = _trees()
    below = prod(Proj(0), prod(Proj(1) >> Proj(0), Proj(1) >> Proj(1) >> Proj(1))) >> f >> prod(Id(), Const(None), Id())
    start = Proj(1) >> prod(_one(), _one()) >> primitive("concatenate", dimension=0)
    forest = Const(trees.encode([_TREE, _number(3.0)], width=width))
    return _sum_of(prod({"node": Proj(0) >> curry(below)}, start, forest) >> inherit(trees), "leaf", "node")


def _folded(f: Term) -> Term:
    """The fold over the numbers as an array, from the last one on."""
    step = curry(prod(Proj(0), Proj(1) >> prod(Proj(1), Proj(0))) >> f)
    return prod(Proj(0) >> step, Proj(1), _numbers()) >> Fold(reverse=True) >> _one()


TREES = [
    Law(
        "schedules", "trees", "c", Each("s", count=2),
        lambda leaf, node: (
            _cata(curry(leaf), curry(node), [_TREE, _number(3.0)], width=1),
            _cata(curry(leaf), curry(node), [_TREE, _number(3.0)], width=2),
        ),
        {"leaf": _LEAF, "node": _NODE}, plain=("c", "s"), elements=("s",), source="a schedule says when, not what",
    ),
    Law(
        "cata fusion", "trees", "c", Each(_R, count=1),
        lambda leaf, node: (
            _cata(curry(leaf), curry(node), [_TREE]) >> _neg,
            _cata(
                curry(leaf >> _neg),
                curry(
                    prod(Proj(0), Proj(1) >> prod(Proj(0) >> _neg, Proj(1), Proj(2) >> _neg)) >> node >> _neg
                ),
                [_TREE],
            ),
        ),
        {"leaf": (("c", _R), _R), "node": (("c", (_R, _R, _R)), _R)},
        plain=("c",), source="Meijer, Fokkinga, Paterson 1991; fused with negation",
    ),
    Law(
        "cata and another function", "trees", "c", Each("t", count=1),
        lambda leaf, node, k: (
            _cata(curry(leaf), curry(node), [_TREE]) >> mapped(k),
            _cata(curry(leaf >> _with(k)), curry(_firsts() >> node >> _with(k)), [_TREE]) >> Proj(1),
        ),
        {"leaf": _LEAF, "node": _NODE, "k": ("s", "t")}, plain=("c", "s", "t"), elements=("s", "t"),
        source="Meijer, Fokkinga, Paterson 1991; fused with the pair of id and k",
    ),
    Law(
        "cata of a list is fold", "trees", ("c", _R), Each(_R, count=1),
        lambda f: (
            _of_list(curry(Proj(0) >> Proj(1)), Proj(0) >> curry(f)),
            _folded(f),
        ),
        {"f": (("c", (_R, _R)), _R)}, plain=("c",), source="paper 003, section 2",
    ),
    Law(
        "cata of the constructors", "trees", "c", Each(_R, count=len(_NUMBERS)),
        lambda f: (_constructed(f), prod(curry(f), _numbers()) >> Map()),
        {"f": (("c", _R), _R)}, plain=("c",), source="Meijer, Fokkinga, Paterson 1991; after f, they are map",
    ),
    Law(
        "cata is fix", "trees", _R, Each(_R, count=1),
        lambda f: (_of_list(curry(Proj(0)), curry(f)), _recursion(f)),
        {"f": ((_R, (_R, _R)), _R)}, source="the recursion on a list that ends at 0",
    ),
    Law(
        "inherit of a list is scan", "trees", ("c", _R), _R,
        lambda f: (_states(f), _scanned(f)),
        {"f": (("c", (_R, _R)), _R)}, plain=("c",), source="a state that is passed down a list",
    ),
    Law(
        "schedules of inherit", "trees", ("c", _R), _R,
        lambda f: (_passed(f, 1), _passed(f, 2)),
        {"f": (("c", (_R, _R)), _R)}, plain=("c",), source="a schedule says when, not what",
    ),
    Law(
        "annotate", "trees", "c", _R,
        lambda leaf, node: (
            _every(leaf, node),
            _cata(function(leaf), function(node), _SUBTREES) >> _sum,
        ),
        {"leaf": (_R, _R), "node": ((_R, _R, _R), _R)}, plain=("c",), source="cata of all subtrees",
    ),
]  # fmt: skip
