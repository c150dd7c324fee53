"""The laws of loops, map, fold, scan and while, and of recursion."""

from __future__ import annotations

import numpy as np

from combinators.building import curry, prod, segmented
from combinators.laws.law import Each, Law, both, function, mapped
from combinators.primitives import primitive
from combinators.sums import case, tag
from combinators.terms import Const, Eval, Fix, Fold, Id, Map, Proj, Scan, Term, While
from combinators.types import Function, Tensor

_R = "R"  # the real numbers
_id, _map, _fold, _neg = Id(), Map(), Fold(), primitive("neg")


def _positive(g: Term) -> Term:
    """Whether g : a ⇝ R is positive : a ⇝ bool"""
    return prod(g, g >> _neg) >> primitive("gt")


def _while(g: Term, f: Term, max_steps: int) -> Term:
    """f : a ⇝ a as long as g : a ⇝ R is positive, so many times at most : a ⇝ a"""
    return prod(function(_positive(g)), function(f), _id) >> While(max_steps)


def _times(f: Term, g: Term) -> tuple[Term, Term]:
    """self, (n, x) ↦ f (self (n - 1, g x)), or x if n is 0, in a context of nothing; and its recursion"""
    itself, n, x = Proj(0) >> Proj(1), Proj(1) >> Proj(0), Proj(1) >> Proj(1)
    less = prod(n, Const(np.int32(1))) >> primitive("sub")
    again = prod(itself, prod(less, x >> g)) >> Eval() >> f
    body = prod(_id, n >> tag(2)) >> case(Proj(0) >> x, Proj(0) >> again)
    return body, Fix(body, (Tensor((), np.int32), Tensor()), Tensor())


def _unfolded(f: Term, g: Term) -> tuple[Term, Term]:
    """The recursion of two steps, and its body that gets the recursion as a function"""
    (body, recursion), argument = _times(f, g), prod(Const(np.int32(2)), _id)
    itself = prod(Const(()), Const(()) >> curry(recursion, (Tensor((), np.int32), Tensor())))
    return prod(Const(()), argument) >> recursion, prod(itself, argument) >> body


def _repeated(f: Term, g: Term, most: int) -> Term:
    """f as long as g is positive, so many times at most, by a recursion whose calls of itself are in the last place"""
    itself, n, x = Proj(0) >> Proj(1), Proj(1) >> Proj(0), Proj(1) >> Proj(1)
    goes_on = prod(prod(n, Const(np.int32(0))) >> primitive("gt"), x >> _positive(g)) >> primitive("and")
    again = prod(itself, prod(prod(n, Const(np.int32(1))) >> primitive("sub"), x >> f)) >> Eval()
    body = prod(_id, goes_on >> tag(2)) >> case(Proj(0) >> x, Proj(0) >> again)
    return prod(Const(()), prod(Const(np.int32(most)), _id)) >> Fix(body, (Tensor((), np.int32), Tensor()), Tensor())


def _handed_on(f: Term) -> Term:
    """self, (n, x, h) ↦ h (self (n - 1, x, h)), or x if n is 0, twice, with h = f"""
    itself, n, x, h = Proj(0) >> Proj(1), Proj(1) >> Proj(0), Proj(1) >> Proj(1), Proj(1) >> Proj(2)
    less = prod(n, Const(np.int32(1))) >> primitive("sub")
    again = prod(h, prod(itself, prod(less, x, h)) >> Eval()) >> Eval()
    body = prod(_id, n >> tag(2)) >> case(Proj(0) >> x, Proj(0) >> again)
    argument = (Tensor((), np.int32), Tensor(), Function(Tensor(), Tensor()))
    given = prod(Const(np.int32(2)), _id, curry(Proj(1) >> f, Tensor()))
    return prod(Const(()), given) >> Fix(body, argument, Tensor())


LOOPS = [
    Law("map of id", "map and fold", Each("a"), Each("a"), lambda: (mapped(_id), _id), elements=("a",), oriented=True),
    Law(
        "map of a composition", "map and fold", Each("a"), Each("c"),
        lambda f, g: (mapped(f) >> mapped(g), mapped(f >> g)), {"f": ("a", "b"), "g": ("b", "c")},
        elements=("a", "b", "c"), oriented=True,
    ),
    Law(
        "map captures", "map and fold", ("c", Each("a")), Each("b"),
        lambda f, h: (
            prod(Proj(0) >> h >> curry(f), Proj(1)) >> _map,
            prod(Proj(0) >> curry(both(h, _id) >> f), Proj(1)) >> _map,
        ),
        {"f": (("d", "a"), "b"), "h": ("c", "d")}, elements=("a", "b"),
    ),
    Law(
        "fold of nothing", "map and fold", ("s", Each("a", count=0)), "s",
        lambda f: (prod(function(f), Proj(0), Proj(1)) >> _fold, Proj(0)), {"f": (("s", "a"), "s")},
        plain=("s",), elements=("a",), source="Meijer, Fokkinga, Paterson 1991",
    ),
    Law(
        "fold after map", "map and fold", ("s", Each("a")), "s",
        lambda f, g: (
            prod(function(f), Proj(0), Proj(1) >> mapped(g)) >> _fold,
            prod(function(both(_id, g) >> f), Proj(0), Proj(1)) >> _fold,
        ),
        {"f": (("s", "b"), "s"), "g": ("a", "b")}, plain=("s",), elements=("a", "b"), oriented=True,
        source="Meijer, Fokkinga, Paterson 1991",
    ),
    Law(
        "fold fusion", "map and fold", (_R, Each("a")), _R,
        lambda f: (
            prod(function(f), Proj(0), Proj(1)) >> _fold >> _neg,
            prod(function(both(_neg, _id) >> f >> _neg), Proj(0) >> _neg, Proj(1)) >> _fold,
        ),
        {"f": ((_R, "a"), _R)}, elements=("a",), source="Meijer, Fokkinga, Paterson 1991; fused with negation",
    ),
    Law(
        "fold is a silent scan", "map and fold", ("s", Each("a")), "s",
        lambda f: (
            prod(function(prod(f, prod(()))), Proj(0), Proj(1)) >> Scan() >> Proj(0),
            prod(function(f), Proj(0), Proj(1)) >> _fold,
        ),
        {"f": (("s", "a"), "s")}, plain=("s",), elements=("a",), oriented=True, source="the definition of scan",
    ),
    Law(
        "scan after map", "map and fold", ("s", Each("a")), ("s", Each("c")),
        lambda f, g: (
            prod(function(f), Proj(0), Proj(1) >> mapped(g)) >> Scan(),
            prod(function(both(_id, g) >> f), Proj(0), Proj(1)) >> Scan(),
        ),
        {"f": (("s", "b"), ("s", "c")), "g": ("a", "b")}, plain=("s",), elements=("a", "b", "c"),
        source="Meijer, Fokkinga, Paterson 1991; to the left, by `tangents.at_once.ahead`, where it pays",
    ),
    Law(
        "fold captures", "map and fold", ("c", "s", Each("a")), "s",
        lambda f, h: (
            prod(Proj(0) >> h >> curry(f), Proj(1), Proj(2)) >> _fold,
            prod(Proj(0) >> curry(both(h, _id) >> f), Proj(1), Proj(2)) >> _fold,
        ),
        {"f": (("d", ("s", "a")), "s"), "h": ("c", "d")}, plain=("s",), elements=("a",),
        source="motion of loop invariants",
    ),
    Law(
        "fold in segments", "map and fold", ("s", Each(Each("a"))), "s",
        lambda f: (
            prod(function(f), Proj(0), Proj(1)) >> segmented(_fold),
            prod(function(prod(function(f), Proj(0), Proj(1)) >> _fold), Proj(0), Proj(1)) >> _fold,
        ),
        {"f": (("s", "a"), "s")}, plain=("s",), elements=("a",), source="the definition of segments",
    ),
    Law(
        "while of false", "map and fold", "s", "s",
        lambda f: (prod(curry(Const(np.bool_(False))), function(f), _id) >> While(), _id),
        {"f": ("s", "s")}, plain=("s",), source="the definition of while",
    ),
    Law(
        "while is unrolled", "map and fold", "s", "s",
        lambda f, g: (
            _while(g, f, 3),
            prod(_id, _positive(g) >> tag(2)) >> case(Proj(0), Proj(0) >> f >> _while(g, f, 2)),
        ),
        {"f": ("s", "s"), "g": ("s", _R)}, plain=("s",), source="the definition of while",
    ),
    Law(
        "fix is its unfolding", "recursion", _R, _R, _unfolded, {"f": (_R, _R), "g": (_R, _R)},
        source="the definition of fix",
    ),
    Law(
        "a tail recursion is a while", "recursion", _R, _R, lambda f, g: (_repeated(f, g, 3), _while(g, f, 3)),
        {"f": (_R, _R), "g": (_R, _R)}, source="the definitions of fix and while",
    ),
    Law(
        "a function that is handed on", "recursion", _R, _R,
        lambda f: (_handed_on(f), prod(Const(()), prod(Const(np.int32(2)), _id)) >> _times(f, _id)[1]),
        {"f": (_R, _R)}, source="lambda lifting",
    ),
]  # fmt: skip
