"""What is not equal by the laws, what stays undecided, and the evidence."""

import numpy as np
import pytest

import combinators as C
from combinators import Context

R, V = C.Tensor(), C.Tensor((3,))
F = C.Function(R, R)
SIN, COS, TANH, EXP, LOG, NEG, ADD, MUL, SUB = (
    C.primitive(name) for name in ("sin", "cos", "tanh", "exp", "log", "neg", "add", "mul", "sub")
)
Fold = type(C.fold)
p0, p1, p2, last = C.proj(0), C.proj(1), C.proj(2), C.proj(-1)
nothing = C.prod(Context())


def call(f, *arguments):
    """f applied to one argument after the other"""
    for x in arguments:
        f = C.prod(f, x) >> C.eval
    return f


def let(e, body):
    return C.extend(e) >> body


def lam(body, argument=R):
    return C.curry(body, argument)


def closed(*code):
    """λ-terms without free variables, one after the other"""
    return nothing >> C.compose(*code)


def numeral(n):
    """λf. λx. f (... (f x))"""
    body = p1
    for _ in range(n):
        body = call(p0, body)
    return lam(lam(body), F)


TWO = closed(numeral(2))


def case(name, left, right, domain, codomain=None):
    return pytest.param(left, right, domain, codomain, id=name)


# Pairs that are not equal

DIFFERENT = [
    case("other primitives", SIN, COS, R),
    case("another order of composition", SIN >> COS, COS >> SIN, R),
    case("another number of steps", SIN >> SIN, SIN >> SIN >> SIN, R),
    case("components in another order", C.prod(p1, p0), C.id, (R, R)),
    case("another component", p0, p1, (R, R)),
    case("another entry of a context", p0, p1, Context(R, R)),
    case("fields in another order", C.prod({"a": C.proj("b"), "b": C.proj("a")}), C.id, {"a": R, "b": R}),
    case("other parameters", C.primitive("integer_pow", y=2), C.primitive("integer_pow", y=3), R),
    case("other constants", C.const(1.0), C.const(2.0), R),
    case("constants of other signs", C.const(0.0), C.const(-0.0), R),
    case("constants in an array", C.const(np.arange(3.0)), C.const(np.arange(3.0)[::-1]), R),
    case("a constant for a variable", C.const(1.0), C.id, R),
    case("addition is opaque: not commutative", ADD, C.prod(p1, p0) >> ADD, (R, R)),
    case("addition is opaque: no zero", C.prod(C.id, C.const(0.0)) >> ADD, C.id, R),
    case("primitives are opaque: no inverses", EXP >> LOG, C.id, R),
    case("primitives are opaque: no involutions", NEG >> NEG, C.id, R),
    case("calls with other arguments", C.prod(call(p0, p1), call(p0, p2)) >> ADD,
         C.prod(call(p0, p1), call(p0, p1)) >> ADD, Context(F, R, R)),
    case("calls of other functions", call(p0, p2), call(p1, p2), Context(F, F, R)),
    case("other functions", p0, p1, Context(F, F)),
    case("f after g and g after f", lam(call(p0, call(p1, p2))), lam(call(p1, call(p0, p2))), Context(F, F)),
    case("arguments in another order", closed(lam(lam(p0))), closed(lam(lam(p1))), Context()),
    case("curried arguments in another order", C.curry(SUB), C.curry(C.prod(p1, p0) >> SUB), R, F),
    case("a capture from the wrong scope", lam(lam(p0)), lam(lam(p1)), Context(R)),
    case("a captured variable for a parameter", lam(p0), lam(p1), Context(R)),
    case("numerals", closed(numeral(2)), closed(numeral(3)), Context()),
    case("2 * 3 is not 5", lam(call(TWO, call(closed(numeral(3)), last)), F), closed(numeral(5)), Context()),
    case("functions given to a functional", call(p0, closed(lam(p0))), call(p0, closed(lam(p0 >> SIN))),
         Context(C.Function(F, R))),
    case("a variable and a constant function", lam(call(p0, lam(p1))), lam(call(p0, lam(p2))),
         Context(C.Function(F, R))),
    case("results of one call in another order", C.prod(call(p0, p1) >> p1, call(p0, p1) >> p0), call(p0, p1),
         Context(C.Function(R, (R, R)), R)),
    case("a let of another value", let(p0 >> SIN, last), let(p0 >> COS, last), Context(R)),
    case("a dead let for a live one", let(p0 >> SIN, p0), let(p0 >> SIN, p1), Context(R)),
    case("a function that ignores its argument", lam(call(p0, p1)), lam(call(p0, last)), Context(F, R)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "domain", "codomain"), DIFFERENT)
def test_different(left, right, domain, codomain):
    found = C.equal(left, right, domain, codomain=codomain)
    assert found.verdict is False
    assert found.left is C.normalise(left, domain, codomain=codomain)
    assert found.right is C.normalise(right, domain, codomain=codomain)
    assert found.left is not found.right


# What is not decided

add_up, neg_up = C.curry(p1 >> ADD), C.curry(p1 >> C.prod(p0, p1 >> NEG) >> SUB)

UNDECIDED = [
    case("fold of other steps that are equal",
         C.prod(add_up, p0, p1) >> C.fold, C.prod(neg_up, p0, p1) >> C.fold, (R, V)),
    case("fold of nothing", C.prod(add_up, p0, p1) >> C.fold, p0, (R, C.Tensor((0,)))),
    case("map of id", C.prod(C.curry(p1), C.id) >> C.map, C.id, V),
    case("map of a composition", C.prod(C.curry(p1 >> SIN >> COS), C.id) >> C.map,
         C.prod(C.curry(p1 >> SIN), C.id) >> C.map >> C.prod(C.curry(p1 >> COS), C.id) >> C.map, V),
    case("a fold and a scan", C.prod(add_up, p0, p1) >> C.fold,
         C.prod(C.curry(p1 >> C.prod(ADD, p0)), p0, p1) >> C.scan >> p0, (R, V)),
    case("η of sums", C.case(C.inl, C.inr), C.id, C.Sum(R, R)),
    case("fusion of a case", C.case(SIN, COS) >> EXP, C.case(SIN >> EXP, COS >> EXP), C.Sum(R, R)),
    case("distributivity", C.case(C.inl, C.inr) >> C.case(ADD, MUL), C.case(ADD, MUL), (R, C.Sum(R, R))),
    case("a case that does not matter", C.case(C.const(1.0), C.const(1.0)), C.const(1.0), C.Sum(R, R)),
    case("from the empty sum", p1, p2, Context(C.Sum(), R, R)),
    case("other loops, in fact", C.prod(add_up, p0, p1) >> C.fold, C.prod(add_up, p0, p1) >> Fold(True), (R, V)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "domain", "codomain"), UNDECIDED)
def test_loops_and_sums_may_obey_further_laws(left, right, domain, codomain):
    found = C.equal(left, right, domain, codomain=codomain)
    assert found.verdict is None
    assert "obeys more laws" in found.reason
    assert (found.left, found.right) == (C.normalise(left, domain), C.normalise(right, domain))


def test_loops_that_no_result_needs_do_not_matter():
    dead = C.prod(C.prod(add_up, p0, p1) >> C.fold, p0 >> SIN) >> p1
    assert C.equal(dead, p0 >> SIN, (R, V)).verdict is True
    assert C.equal(dead, p0 >> COS, (R, V)).verdict is False


def test_an_undecided_equality_is_no_truth_value():
    undecided = C.equal(C.case(C.inl, C.inr), C.id, C.Sum(R, R))
    with pytest.raises(C.errors.UndecidedError, match="a sum is left"):
        bool(undecided)
    assert C.equal(SIN, SIN, R)
    assert not C.equal(SIN, COS, R)


def tower(n):
    """Δ = f, x: 2^n applications of f"""
    return let(
        p0, C.compose(*[C.extend(call(nothing >> C.curry(C.curry(call(p0, call(p0, p1)))), last))] * n, call(last, p1))
    )


def test_beyond_the_budget_the_answer_is_what_was_found():
    domain = Context(F, R)
    found = C.equal(tower(30), tower(2), domain, steps=10_000)
    assert found.verdict is None
    assert found.left is None
    assert found.right is C.normalise(tower(2), domain)
    assert "10000 steps" in found.reason
    assert found.laws["exponentials: β"] > 100
    assert C.equal(tower(5), tower(5), domain, steps=10_000).verdict is True
    assert C.equal(tower(5), tower(6), domain, steps=10_000).verdict is False


def test_a_term_is_equal_to_itself_even_beyond_the_budget():
    assert C.equal(tower(40), tower(40), Context(F, R), steps=1_000).verdict is True


def test_loops_that_carry_functions_are_not_decided():
    loop = C.prod(closed(lam(last >> p0, (F, R))), p0, p1) >> C.fold
    found = C.equal(loop, p0, Context(F, V))
    assert found.verdict is None
    assert "carries functions" in found.reason
    assert (found.left, found.right) == (None, C.normalise(p0, Context(F, V)))


def test_arrows_of_two_types_are_not_compared():
    for left, right in ((SIN, C.prod(C.id, C.id)), (C.id, C.const(np.ones(3))), (C.id, lam(p0)), (lam(p0), lam(p0, V))):
        with pytest.raises(C.errors.CompositionError, match="one type"):
            C.equal(left, right, R)


# Evidence


def test_evidence_of_equality():
    assert str(C.equal(C.prod(SIN, SIN) >> p0 >> C.id, SIN, R)) == (
        "equal by the laws\n"
        "  both are:\n"
        "    Context(id) >> proj(0) >> sin\n"
        "  laws applied: category: associativity (1), category: identity (1), products: β (1)"
    )


def test_evidence_of_a_difference():
    assert str(C.equal(SIN, SIN >> COS, R)) == (
        "not equal by the laws\n"
        "  left:\n"
        "    Context(id) >> proj(0) >> sin\n"
        "  right:\n"
        "    Context(id) >> extend(proj(0) >> sin) >> proj(1) >> cos\n"
        "  laws applied: category: associativity (1)"
    )


def test_evidence_of_no_decision():
    text = str(C.equal(C.prod(add_up, p0, p1) >> C.fold, p0, (R, V)))
    assert text.startswith("undecided: a loop is left, which obeys more laws than normal forms know\n  left:")
    assert "left:\n    not found" in str(C.equal(tower(30), tower(31), Context(F, R), steps=1_000))


def test_evidence_of_a_difference_in_long_programs_is_the_place_where_they_differ():
    chain = lambda f: C.compose(*[SIN] * 500, f, *[SIN] * 500)
    text = str(C.equal(chain(COS), chain(TANH), R))
    assert "▶ cos ◀" in text and "▶ tanh ◀" in text
    assert len(text) < 2_000
    same = str(C.equal(chain(COS), chain(COS) >> C.id, R))
    assert "both are:\n    a term of 4005 combinators" in same  # 4 a let, and 5


@pytest.mark.parametrize(
    ("left", "right", "domain", "laws"),
    [
        (C.id >> SIN, SIN, R, {"category: associativity": 1, "category: identity": 1}),
        (C.prod(SIN, COS) >> p0, SIN, R, {"category: associativity": 1, "products: β": 1}),
        (C.id, C.id, (R, (R, R)), {"category: identity": 2, "products: η": 4}),
        (C.id, C.id, (), {"category: identity": 2, "products: unit": 2}),
        (C.id, C.id, F, {"category: identity": 2, "exponentials: η": 2}),
        (let(p0, last), p0, Context(R), {"category: associativity": 1, "products: let β": 3, "products: η": 2}),
        (call(lam(p1 >> SIN), C.id), SIN, R,
         {"category: associativity": 2, "category: identity": 1, "exponentials: β": 1, "products: β": 1}),
        (C.const((1.0, 2.0)), C.prod(C.const(1.0), C.const(2.0)), R, {"const: of a product or a closure": 1}),
        (C.inl >> C.case(SIN, COS), SIN, R, {"category: associativity": 1, "coproducts: β": 1}),
    ],
)  # fmt: skip
def test_laws_are_counted(left, right, domain, laws):
    assert C.equal(left, right, domain).laws == laws
