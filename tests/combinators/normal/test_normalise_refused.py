"""Terms that have no normal form are refused, as inference refuses them."""

import pytest

import combinators as C
from combinators import Context

R, V = C.Tensor(), C.Tensor((3,))
F, F2 = C.Function(R, R), C.Function((R, R), R)
G = C.Function(F, R)
SIN, COS, ADD = (C.primitive(name) for name in ("sin", "cos", "add"))
first, last = C.proj(0), C.proj(-1)


def call(f, x):
    return C.prod(f, x) >> C.eval


ILL_TYPED = [
    (SIN >> C.proj(0), R),
    (C.prod(SIN, C.proj(3) >> SIN), (R, R)),
    (C.proj(2), (R, R)),
    (C.proj("x"), Context(R)),
    (ADD, (V, C.Tensor((2,)))),
    (ADD, R),
    (SIN, F),
    (SIN, ((R, R), R)),
    (C.eval, (R, R)),
    (C.eval, R),
    (C.eval, (F, V)),
    (call(C.curry(last >> SIN, V), C.id), R),
    (call(C.curry(last >> C.proj(1)), C.id), R),
    (call(first, C.curry(last, V)), Context(G)),
    (call(first, C.curry(C.const((1.0, 1.0)))), Context(G)),
    (call(C.curry(first, F), C.curry(last >> C.proj(0))), Context(R)),
    (C.fold, (F, R, V)),
    (C.fold, (F2, R, R)),
    (C.prod(C.curry(C.const(1)), first, last) >> C.fold, (R, V)),
    (C.prod(C.curry(C.const(1.0)), first, last) >> C.scan, (R, V)),
    (C.map, (F, R)),
    (C.map, (R, V)),
    (C.case(SIN, COS), R),
    (C.case(SIN, COS), C.Sum(R, R, R)),
    (C.case(SIN, C.proj(0)), C.Sum(R, R)),
    (C.case(SIN, C.prod(C.id, C.id)), C.Sum(R, R)),
    (C.inr >> C.case(SIN, C.proj(0) >> COS), R),
]


@pytest.mark.parametrize(("term", "domain"), ILL_TYPED, ids=[f"{t} on {d}" for t, d in ILL_TYPED])
def test_ill_typed_terms_are_refused_as_inference_refuses_them(term, domain):
    with pytest.raises(C.errors.DiffcurryError) as expected:
        C.infer(term, domain)
    for refused in (lambda: C.normalise(term, domain), lambda: C.equal(term, term, domain)):
        with pytest.raises(type(expected.value)) as error:
            refused()
        assert (error.value.what, error.value.path) == (expected.value.what, expected.value.path)
        assert error.value.whole is expected.value.whole


def test_a_function_whose_argument_is_not_known_needs_a_codomain():
    with pytest.raises(C.errors.UntypedFunctionError):
        C.normalise(C.curry(last), Context())
    assert C.normalise(C.curry(last), Context(), codomain=F) is C.normalise(C.curry(last, R), Context())
    with pytest.raises(C.errors.CompositionError):
        C.normalise(SIN, R, codomain=V)


def test_loops_that_carry_functions_are_refused():
    step = C.curry(last >> C.proj(0), (F, R))
    with pytest.raises(C.errors.UnsupportedError, match="a loop carries functions"):
        C.normalise(C.prod(step, first, last) >> C.fold, (F, V))
