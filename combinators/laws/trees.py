"""The laws of folds over trees: no schedule matters, and what cata has to do with fold and with annotate."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from combinators.building import annotate, cata, compose, curry, prod
from combinators.inductive.constructors import Rec
from combinators.inductive.inductive import Inductive
from combinators.laws.law import Each, Law, function
from combinators.primitives import primitive
from combinators.terms import Const, Fold, Proj, Term
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


def _of_list(nil: Term, cons: Term) -> Term:
    """The fold over the numbers as a value of an inductive type."""
    lists, value = Inductive(nil=(), cons=(Tensor(), Rec)), ("nil",)
    for x in reversed(_NUMBERS):
        value = ("cons", x, value)
    return prod({"nil": nil, "cons": cons}, Const(lists.encode([value]))) >> cata(lists)


def _every(leaf: Term, node: Term) -> Term:
    """The sum of the results at all nodes."""
    trees = _trees()
    forest = prod({"leaf": function(leaf), "node": function(node)}, Const(trees.encode([_TREE]))) >> annotate(trees)
    of = lambda name: compose(Proj("payloads"), Proj(name), Proj(1), _sum)
    return forest >> prod(of("leaf"), of("node")) >> _add


def _folded(f: Term) -> Term:
    """The fold over the numbers as an array, from the last one on."""
    step = curry(prod(Proj(0), Proj(1) >> prod(Proj(1), Proj(0))) >> f)
    xs = Const(np.asarray(_NUMBERS, jax.dtypes.canonicalize_dtype(float)))
    one = primitive("broadcast_in_dim", shape=(1,), broadcast_dimensions=(), sharding=None)
    return prod(Proj(0) >> step, Proj(1), xs) >> Fold(reverse=True) >> one


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
        "cata of a list is fold", "trees", ("c", _R), Each(_R, count=1),
        lambda f: (
            _of_list(curry(Proj(0) >> Proj(1)), Proj(0) >> curry(f)),
            _folded(f),
        ),
        {"f": (("c", (_R, _R)), _R)}, plain=("c",), source="paper 003, section 2",
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
