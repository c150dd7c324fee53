"""Equality by the laws: pairs that are equal, pairs that are not, and what stays undecided."""

from collections import namedtuple

import jax
import numpy as np
import pytest

import combinators as C
from combinators import Context
from combinators.laws.law import instantiate, variables
from combinators.types import children

R, V = C.Tensor(), C.Tensor((3,))
F = C.Function(R, R)
SIN, COS, TANH, EXP, LOG, ADD, MUL, SUB = (
    C.primitive(name) for name in ("sin", "cos", "tanh", "exp", "log", "add", "mul", "sub")
)
Pair = namedtuple("Pair", "left right")
p0, p1, p2, last = C.proj(0), C.proj(1), C.proj(2), C.proj(-1)
nothing = C.prod(Context())


def call(f, *arguments):
    """f applied to one argument after the other"""
    for x in arguments:
        f = C.prod(f, x) >> C.eval
    return f


def let(e, body):
    return C.extend(e) >> body


def both(f, g):
    return C.prod(p0 >> f, p1 >> g)


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


S = lam(lam(lam(call(p0, p2, call(p1, p2))), C.Function(R, F)), C.Function(R, C.Function(F, R)))
TWO, ANY_TWO = closed(numeral(2)), closed(C.curry(C.curry(call(p0, call(p0, p1)))))


def case(name, left, right, domain, codomain=None):
    return pytest.param(left, right, domain, codomain, id=name)


# Laws of products, for every arity

UNARY = (SIN, COS, TANH, EXP)


def products():
    for n in range(5):
        fs, domain = UNARY[:n], (R,) * n
        projections = C.prod(tuple(map(C.proj, range(n))))
        for i in range(n):
            yield case(f"β of {n}, component {i}", C.prod(fs) >> C.proj(i), fs[i], R)
            yield case(f"β of {n}, from the end, {i}", C.prod(fs) >> C.proj(i - n), fs[i], R)
        yield case(f"η of {n}", projections, C.id, domain)
        yield case(f"η of {n}, as a context", C.prod(Context(*map(C.proj, range(n)))), C.id, Context(*domain))
        yield case(f"fusion of {n}", LOG >> C.prod(fs), C.prod(tuple(LOG >> f for f in fs)), R)
        yield case(
            f"product of {n} arrows", C.prod(tuple(C.proj(i) >> f for i, f in enumerate(fs))) >> projections,
            C.prod(tuple(C.proj(i) >> f for i, f in enumerate(fs))), domain,
        )  # fmt: skip


EQUAL = [
    *products(),
    case("left identity", C.id >> SIN, SIN, R),
    case("right identity", SIN >> C.id, SIN, R),
    case("associativity, by lets", let(let(p0 >> SIN, last >> COS), last >> TANH), p0 >> SIN >> COS >> TANH,
         Context(R)),
    case("naturality of the first component", both(SIN, COS) >> p0, p0 >> SIN, (R, R)),
    case("interchange", both(SIN, COS) >> both(TANH, EXP), both(SIN >> TANH, COS >> EXP), (R, R)),
    case("swap twice", C.prod(p1, p0) >> C.prod(p1, p0), C.id, (R, R)),
    case("reassociate there and back",
         C.prod(p0 >> p0, C.prod(p0 >> p1, p1)) >> C.prod(C.prod(p0, p1 >> p0), p1 >> p1), C.id, ((R, R), R)),
    case("unit", SIN >> C.prod(()), C.prod(()), R),
    case("unit, as a constant", C.const(()), C.prod(()), V),
    case("unit, from itself", C.id, C.prod(()), ()),
    case("η of a dict", C.prod({"a": C.proj("a"), "b": C.proj("b")}), C.id, {"a": R, "b": V}),
    case("η of a NamedTuple, by name and by place", C.prod(Pair(C.proj("left"), p1)), C.id, Pair(R, V)),
    case("η of nested products", C.prod(p0, C.prod({"w": p1 >> C.proj("w")})), C.id, (R, {"w": (R, ())})),
    case("equal calls are one", C.prod(SIN, SIN) >> ADD, SIN >> C.prod(C.id, C.id) >> ADD, R),
    # Contexts
    case("let β", let(p0 >> SIN, last), p0 >> SIN, Context(R)),
    case("let β, used twice", let(p0 >> SIN, C.prod(last, last) >> ADD), C.prod(p0 >> SIN, p0 >> SIN) >> ADD,
         Context(R)),
    case("let weakening", let(p0 >> SIN, p0 >> COS), p0 >> COS, Context(R)),
    case("lets in another order",
         let(p0 >> SIN, let(p0 >> COS, C.prod(p1, p2) >> ADD)),
         let(p0 >> COS, let(p0 >> SIN, C.prod(p2, p1) >> ADD)), Context(R)),
    case("a let of a let", let(let(p0 >> SIN, last >> COS), last), let(p0 >> SIN, let(last >> COS, last)), Context(R)),
    case("a let on a pair", let(p0, C.prod(p1, p0 >> p1)), C.id, (R, R)),
    case("a let that is done twice", let(p0 >> SIN, let(p0 >> SIN, C.prod(p1, p2))), p0 >> SIN >> C.prod(C.id, C.id),
         Context(R)),
    # Exponentials
    case("β", both(lam(MUL), C.id) >> C.eval, MUL, (R, R)),
    case("β on a context", call(lam(C.prod(p0, last) >> MUL), p0 >> SIN), C.prod(p0, p0 >> SIN) >> MUL, Context(R)),
    case("β under λ", lam(call(lam(C.prod(last, p0) >> MUL), last)), lam(C.prod(last, p0) >> MUL), Context(R)),
    case("η", lam(both(C.id, C.id) >> C.eval), C.id, F),
    case("η on a context", lam(call(p0, last)), p0, Context(F)),
    case("η of two arguments", lam(lam(call(p0, p1, p2))), p0, Context(C.Function(R, F))),
    case("η of a function of a pair", lam(call(p0, C.prod(last >> p0, last >> p1)), (R, R)), p0,
         Context(C.Function((R, R), R))),
    case("η of a function to a pair", lam(C.prod(call(p0, last) >> p0, call(p0, last) >> p1)), p0,
         Context(C.Function(R, (R, R)))),
    case("η of a function of nothing", lam(call(p0, C.const(())), ()), p0, Context(C.Function((), R))),
    case("functions to the unit are one", p0, p1, Context(C.Function(R, ()), C.Function(R, ()))),
    case("η of a functional", lam(call(p0, lam(call(p1, p2))), F), p0, Context(C.Function(F, R))),
    case("η of eval", C.curry(C.eval), C.id, F, F),
    case("fusion", SIN >> C.curry(ADD), C.curry(both(SIN, C.id) >> ADD), R, F),
    case("naturality", C.curry(ADD >> SIN), C.curry(ADD) >> C.curry(C.eval >> SIN), R, F),
    case("curry after uncurry", C.curry(both(C.curry(ADD), C.id) >> C.eval), C.curry(ADD), R, F),
    case("curry takes arguments in order", call(closed(lam(lam(C.prod(p0, p1) >> SUB))), p0, p1), SUB, (R, R)),
    case("a captured variable moves", lam(p0 >> SIN), let(p0 >> SIN, lam(p1)), Context(R)),
    case("a function of the same value by two ways", let(lam(last >> SIN), C.prod(call(p1, p0), call(p1, p0)) >> ADD),
         p0 >> SIN >> C.prod(C.id, C.id) >> ADD, Context(R)),
    case("equal up to names, at two depths", let(call(p0, closed(lam(p0 >> SIN))), lam(p1)),
         lam(call(p0, closed(lam(p0 >> SIN)))), Context(C.Function(F, R))),
    case("equal up to names, in functions that skip a level",
         lam(lam(call(p0, lam(C.prod(p1, last) >> ADD)))), lam(let(call(p0, lam(C.prod(p1, last) >> ADD)), lam(p2))),
         Context(C.Function(F, R))),
    case("λf. λg. λx. f (g x)", call(closed(lam(lam(lam(call(p0, call(p1, p2))), F), F)), p0, p1),
         lam(call(p0, call(p1, last))), Context(F, F)),
    case("S K K is the identity", call(closed(S), closed(lam(lam(p0, F))), closed(lam(lam(p0)))), closed(lam(p0)),
         Context()),
    case("2 after 2 is 4", lam(call(TWO, call(TWO, last)), F), closed(numeral(4)), Context()),
    case("2 + 3 is 5", lam(lam(call(TWO, p0, call(closed(numeral(3)), p0, p1))), F), closed(numeral(5)), Context()),
    case("2 at two types", call(ANY_TWO, ANY_TWO, p0, p1), call(p0, call(p0, call(p0, call(p0, p1)))), Context(F, R)),
    # Constants
    case("const absorbs", SIN >> C.const(1.5), C.const(1.5), R),
    case("const of a product", C.const((1.5, 2)), C.prod(C.const(1.5), C.const(2)), R),
    case("const of an array, by content", C.const(np.arange(3.0)), C.const(np.arange(3.0)), R),
    case("const of a closure", C.const(C.Closure(lam(C.prod(p0, last) >> MUL), Context(1.5))),
         lam(C.prod(C.const(1.5), last) >> MUL), R),
    case("a constant function", call(lam(C.const(1.5)), SIN), C.const(1.5), R),
    # Paper 003, figure 4
    case("partial application", C.prod(p0 >> lam(SUB), p1) >> C.eval, SUB, (R, R)),
    case("partial application of a variable",
         lam(let(lam(call(p0, C.prod(p1 >> p0, last))), call(last, p1 >> p1)), (R, R)), p0,
         Context(C.Function((R, R), R))),
    case("forgetting results", lam(C.prod(call(p0, last), call(p1, last)) >> p0), p0, Context(F, F)),
    case("summing results", lam(C.prod(call(p0, last), call(p0, last)) >> ADD),
         lam(let(call(p0, last), C.prod(last, last) >> ADD)), Context(F)),
    # Loops with equal functions, and sums with known tags
    case("equal steps of a fold", C.prod(lam(last >> C.prod(p0, p1 >> SIN) >> ADD, (R, R)), p0, p1) >> C.fold,
         C.prod(lam(let(last >> p1 >> SIN, C.prod(p2 >> p0, last) >> ADD), (R, R)), p0, p1) >> C.fold, Context(R, V)),
    case("a fold of a function variable", C.fold, C.prod(C.curry(call(p0 >> p0, p1)), p1, p2) >> C.fold,
         (C.Function((R, R), R), R, V)),
    case("what a map captures", C.prod(p0 >> SIN >> C.curry(MUL), p1) >> C.map,
         C.prod(p0 >> C.curry(both(SIN, C.id) >> MUL), p1) >> C.map, (R, V)),
    *(
        case(f"β of {n} alternatives, {i}", C.inject(i, n) >> C.case(*UNARY[:n]), UNARY[i], R)
        for n in (1, 2, 3) for i in range(n)
    ),
    case("equal branches", C.case(SIN >> C.id, C.prod(COS, SIN) >> p0), C.case(SIN, COS), C.Sum(R, R)),
    case("a branch and what it captures", C.prod(p0 >> SIN, p1) >> C.case(ADD, p1),
         C.case(both(SIN, C.id) >> ADD, p1), (R, C.Sum(R, R))),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "domain", "codomain"), EQUAL)
def test_equal(left, right, domain, codomain):
    found = C.equal(left, right, domain, codomain=codomain)
    assert found.verdict is True
    assert found.left is found.right is C.normalise(left, domain, codomain=codomain)
    assert found.right is C.normalise(right, domain, codomain=codomain)


# Laws as they are listed


def arrow(name, domain, codomain):
    """An arrow that stands for a metavariable: it uses all that its domain holds, in a way of its own."""
    seen = C.const(float(int.from_bytes(name.encode())))

    def use(path, type):
        nonlocal seen
        if isinstance(type, C.Function):
            use(call(path, build(C.const(0.5), type.dom)), type.cod)
        elif isinstance(type, C.Tensor):
            seen = C.prod(path, seen) >> ADD
        else:
            for key, part in children(type)[0]:
                use(path >> C.proj(key), part)

    def build(value, type):
        if isinstance(type, C.Function):
            return C.curry(build(C.const(0.25) if value is None else value, type.cod), type.dom)
        if isinstance(type, C.Tensor):
            return seen if value is None else value
        return C.prod(jax.tree.map(lambda part: build(value, part), type))

    use(C.id, domain)
    return build(None, codomain)


KINDS = {"arrays": R, "products": (R, {"w": R}), "functions": F, "mixed": (F, ())}
LOOPS = ("map and fold", "recursion", "trees")
LISTED = [(law, kind) for law in C.LAWS for kind in KINDS if law.group not in LOOPS or kind in ("arrays", "products")]


@pytest.mark.parametrize(("law", "kind"), LISTED, ids=[f"{law}, {kind}" for law, kind in LISTED])
def test_listed_laws(law, kind):
    """Those of products, exponentials and constants are decided, those of sums and loops never denied."""
    types = {name: R if name in law.plain else KINDS[kind] for name in variables(law)}
    of = lambda scheme: instantiate(scheme, types, 2)
    arrows = {name: arrow(name, of(dom), of(cod)) for name, (dom, cod) in law.arrows.items()}
    values = {name: C.evaluate(arrow(name, (), of(scheme)), ()) for name, scheme in law.values.items()}
    found = C.equal(*law.sides(**arrows, **values), of(law.domain), codomain=of(law.codomain))
    decided = law.group not in ("coproducts", *LOOPS) or law.name.startswith(("β", "map captures"))
    assert found.verdict is True if decided else found.verdict is not False
