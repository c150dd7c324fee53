"""The laws of terms: a cartesian closed category with contexts, coproducts and loops.

A law is a value with three readers.  `tangents.check` instantiates it with random types and terms and holds both sides
against each other in every reading; the optimiser applies the oriented ones from left to right; the page of laws in the
documentation is printed from this list.
"""

from __future__ import annotations

import numpy as np

from combinators.building import call, checkpoint, curry, prod
from combinators.context import Context
from combinators.laws.law import Hom, Law, both
from combinators.laws.loops import LOOPS
from combinators.laws.trees import TREES
from combinators.primitives import primitive
from combinators.sums import Sum, case, inject, tag
from combinators.terms import Const, Eval, Extend, Fold, Id, Map, Proj, Term

_R = "R"  # the real numbers
_id, _eval, _map, _fold = Id(), Eval(), Map(), Fold()
_add, _neg = primitive("add"), primitive("neg")


def _split(f: Term) -> Term:
    """f : Δ·τ ⇝ σ for a context of one, as an arrow from the pair"""
    return prod(Context(Proj(0), Proj(1))) >> f


_CATEGORY = [
    Law("name", "category", "a", "b", lambda f: (call(f, "f"), f), {"f": ("a", "b")}, source="the meaning of names"),
    Law(
        "checkpoint", "category", "a", "b", lambda f: (checkpoint(f), f), {"f": ("a", "b")},
        source="what is kept has no meaning",
    ),
    Law("left identity", "category", "a", "b", lambda f: (_id >> f, f), {"f": ("a", "b")}, oriented=True),
    Law("right identity", "category", "a", "b", lambda f: (f >> _id, f), {"f": ("a", "b")}, oriented=True),
    Law(
        "associativity", "category", "a", "d", lambda f, g, h: ((f >> g) >> h, f >> (g >> h)),
        {"f": ("a", "b"), "g": ("b", "c"), "h": ("c", "d")}, oriented=True,
    ),
]  # fmt: skip


def product_beta(n: int, i: int) -> Law:
    """The i-th component of a product of n is its i-th part."""
    arrows = {f"f{j}": ("a", f"b{j}") for j in range(n)}
    sides = lambda **f: (prod(tuple(f.values())) >> Proj(i), f[f"f{i}"])
    return Law(f"β of {n}, component {i}", "products", "a", f"b{i}", sides, arrows, oriented=True)


def _product_laws(n: int) -> list[Law]:
    arrows = {f"f{i}": ("a", f"b{i}") for i in range(n)}
    components = tuple(f"b{i}" for i in range(n))
    projections = prod(tuple(Proj(i) for i in range(n)))
    return [
        *[product_beta(n, i) for i in range(n)],
        Law(f"η of {n}", "products", components, components, lambda: (projections, _id), oriented=True),
        Law(
            f"fusion of {n}", "products", "c", components,
            lambda h, **f: (h >> prod(tuple(f.values())), prod(tuple(h >> g for g in f.values()))),
            {"h": ("c", "a"), **arrows},
        ),
    ]  # fmt: skip


_PRODUCTS = [
    *(law for n in (0, 1, 2, 3) for law in _product_laws(n)),
    Law("unit", "products", "a", (), lambda f: (f, prod(())), {"f": ("a", ())}),
    Law(
        "naturality", "products", ("a", "b"), "c", lambda f, g: (both(f, g) >> Proj(0), Proj(0) >> f),
        {"f": ("a", "c"), "g": ("b", "d")}, oriented=True,
    ),
    Law(
        "let β", "products", "a", "b", lambda e: (Extend(e) >> Proj(-1), e), {"e": ("a", "b")}, oriented=True,
    ),
    Law(
        "let β in a context", "products", Context("a", "b"), "c", lambda e: (Extend(e) >> Proj(-1), e),
        {"e": (Context("a", "b"), "c")},
    ),
    Law(
        "let weakening", "products", Context("a", "b"), "a", lambda e: (Extend(e) >> Proj(0), Proj(0)),
        {"e": (Context("a", "b"), "c")},
    ),
]  # fmt: skip

_EXPONENTIALS = [
    Law(
        "β", "exponentials", ("a", "b"), "c", lambda f: (both(curry(f), _id) >> _eval, f), {"f": (("a", "b"), "c")},
        source="paper 003, figure 4 (partial application); Curien 1986",
    ),
    Law(
        "β by a let", "exponentials", "a", "c", lambda f, e: (prod(curry(f), e) >> _eval, Extend(e) >> f),
        {"f": (("a", "b"), "c"), "e": ("a", "b")}, oriented=True,
    ),
    Law(
        "β in a context", "exponentials", Context("a", "b"), "c",
        lambda f, e: (prod(curry(f), e) >> _eval, Extend(e) >> f),
        {"f": (Context("a", "b", "d"), "c"), "e": (Context("a", "b"), "d")},
    ),
    Law(
        "η", "exponentials", "a", Hom("b", "c"), lambda g: (curry(both(g, _id) >> _eval), g),
        {"g": ("a", Hom("b", "c"))},
    ),
    Law(
        "fusion", "exponentials", "d", Hom("b", "c"), lambda h, f: (h >> curry(f), curry(both(h, _id) >> f)),
        {"h": ("d", "a"), "f": (("a", "b"), "c")},
    ),
    Law(
        "naturality", "exponentials", "a", Hom("b", "d"),
        lambda f, k: (curry(f >> k), curry(f) >> curry(_eval >> k)), {"f": (("a", "b"), "c"), "k": ("c", "d")},
    ),
    Law("η of eval", "exponentials", Hom("a", "b"), Hom("a", "b"), lambda: (curry(_eval), _id)),
]  # fmt: skip

_CONSTANTS = [
    Law(
        "const absorbs", "const", "a", "c", lambda f, v: (f >> Const(v), Const(v)), {"f": ("a", "b")}, {"v": "c"},
        oriented=True,
    ),
    Law(
        "const function", "const", "a", "c", lambda e, v: (prod(curry(Const(v)), e) >> _eval, Const(v)),
        {"e": ("a", "b")}, {"v": "c"}, oriented=True,
    ),
]  # fmt: skip


def coproduct_beta(n: int, i: int) -> Law:
    """The i-th of n alternatives goes to the i-th branch."""
    arrows = {f"f{j}": (f"a{j}", "b") for j in range(n)}
    sides = lambda **f: (inject(i, n) >> case(*f.values()), f[f"f{i}"])
    return Law(f"β of {n}, alternative {i}", "coproducts", f"a{i}", "b", sides, arrows, oriented=True)


def _coproduct_laws(n: int) -> list[Law]:
    arrows = {f"f{i}": (f"a{i}", "b") for i in range(n)}
    alternatives = tuple(f"a{i}" for i in range(n))
    return [
        *[coproduct_beta(n, i) for i in range(n)],
        Law(
            f"η of {n}", "coproducts", Sum(*alternatives), Sum(*alternatives),
            lambda: (case(*(inject(i, n) for i in range(n))), _id), plain=alternatives,
        ),
        Law(
            f"fusion of {n}", "coproducts", Sum(*alternatives), "c",
            lambda h, **f: (case(*f.values()) >> h, case(*(g >> h for g in f.values()))), {"h": ("b", "c"), **arrows},
            plain=(*alternatives, "b", "c"),
        ),
    ]  # fmt: skip


def tag_beta(n: int, i: int) -> Law:
    """The number i, as a tag of n, is the i-th alternative."""
    sides = lambda: (Const(np.int32(i)) >> tag(n), Const(()) >> inject(i, n))
    source = "a finite set is a sum of units"
    return Law(f"tag of {n}, number {i}", "coproducts", "a", Sum(*[()] * n), sides, oriented=True, source=source)


def _tag_laws(n: int) -> list[Law]:
    units, numbers = Sum(*[()] * n), [np.int32(i) for i in range(n)]
    return [
        *[tag_beta(n, i) for i in range(n)],
        Law(
            f"number of {n}", "coproducts", units, units, lambda: (case(*map(Const, numbers)) >> tag(n), _id),
            source="a finite set is a sum of units",
        ),
    ]  # fmt: skip


_distribute = case(inject(0, 2), inject(1, 2))

_COPRODUCTS = [
    *(law for n in (1, 2, 3) for law in _coproduct_laws(n)),
    *_tag_laws(2),
    Law(
        "environment", "coproducts", ("c", Sum("a", "b")), "d",
        lambda h, f, g: (both(h, _id) >> case(f, g), case(both(h, _id) >> f, both(h, _id) >> g)),
        {"h": ("c", "e"), "f": (("e", "a"), "d"), "g": (("e", "b"), "d")}, plain=("a", "b", "d"),
    ),
    Law(
        "distributivity", "coproducts", ("c", Sum("a", "b")), "d",
        lambda f, g: (_distribute >> case(f, g), case(f, g)), {"f": (("c", "a"), "d"), "g": (("c", "b"), "d")},
        plain=("a", "b", "c", "d"),
    ),
    Law(
        "distributivity inverse", "coproducts", ("c", Sum("a", "b")), ("c", Sum("a", "b")),
        lambda: (_distribute >> case(both(_id, inject(0, 2)), both(_id, inject(1, 2))), _id), plain=("a", "b", "c"),
    ),
    Law(
        "context", "coproducts", Context("c", Sum("a", "b")), "d",
        lambda f, g: (prod(Proj(0), Proj(1)) >> case(_split(f), _split(g)), case(f, g)),
        {"f": (Context("c", "a"), "d"), "g": (Context("c", "b"), "d")}, plain=("a", "b", "d"),
    ),
]  # fmt: skip

_FIGURE_4 = [
    Law(
        "partial application", "paper 003, figure 4", ("a", "b"), "c",
        lambda f: (prod(Proj(0) >> curry(f), Proj(1)) >> _eval, f), {"f": (("a", "b"), "c")},
        source="paper 003, figure 4, left",
    ),
    Law(
        "forgetting results", "paper 003, figure 4", ((Hom("a", "b"), Hom("a", "c")), "a"), "b",
        lambda: (
            prod(both(Proj(0), _id) >> _eval, both(Proj(1), _id) >> _eval) >> Proj(0),
            both(Proj(0), _id) >> _eval,
        ),
        source="paper 003, figure 4, middle",
    ),
    Law(
        "summing results", "paper 003, figure 4", (Hom("a", _R), "a"), _R,
        lambda: (prod(_eval, _eval) >> _add, _eval >> prod(_id, _id) >> _add), source="paper 003, figure 4, right",
    ),
]  # fmt: skip

LAWS: tuple[Law, ...] = (*_CATEGORY, *_PRODUCTS, *_EXPONENTIALS, *_CONSTANTS, *_COPRODUCTS, *LOOPS, *TREES, *_FIGURE_4)
