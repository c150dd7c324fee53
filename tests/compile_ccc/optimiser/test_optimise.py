"""The optimiser: which laws it applies, and that instances of these keep their meaning and their pullbacks."""

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import combinators as C
from combinators import Context
from combinators.laws.law import Each, instantiate, variables
from compile_ccc import optimise
from tangents import READINGS
from tangents.checking.laws import check_law, observation
from tangents.strategies import contexts, terms, types, values_of
from tests.executed import costs_no_more, counting

p0, p1, p2 = C.proj(0), C.proj(1), C.proj(2)
f = C.primitive("sin")
ORIENTED = {str(law): law for law in C.LAWS if law.oriented}


def lets(*values):
    return C.compose(*map(C.extend, values))


@pytest.fixture(scope="module")
def executed():
    with counting() as count:
        yield count


# The laws

ALONE = {
    "coproducts: η of": "whether the domain is this sum alone is a matter of types",
    "distributivity inverse": "the same",
    "coproducts: context": "the same",
    "map of a composition": "the functions would have to be seen not to capture anything",
    "fold after map": "the same",
    "fold of nothing": "the number of elements is a matter of types",
}


def is_left_alone(name):
    return any(text in name for text in ALONE)


def visible(scheme, names=None):
    """An arrow into a type, which shows what product the type is."""
    names = iter("abcdef") if names is None else names
    match scheme:
        case tuple():
            return C.prod(tuple(visible(part, names) for part in scheme))
        case Context():
            return C.prod(Context(*(visible(part, names) for part in scheme)))
        case _:
            return type(f)(next(names))


@pytest.mark.parametrize("name", ORIENTED)
def test_the_left_side_of_a_law_becomes_its_right_side(name):
    law = ORIENTED[name]
    arrows = {name: type(f)(name) for name in law.arrows}
    left, right = law.sides(**arrows, **{name: name for name in law.values})
    start = visible(law.domain)
    assert (optimise(start >> left) is optimise(start >> right)) == (not is_left_alone(name))


def missing(name, group, domain, codomain, sides, arrows, **rest):
    return C.Law(name, group, domain, codomain, sides, arrows, oriented=True, **rest)


RESTRICTED = [  # laws in the form in which the optimiser applies them, where `C.LAWS` has them in another
    missing(
        "β, of a function that captures some variables", "exponentials", Context("a", "b"), "c",
        lambda k, e: (
            C.prod(C.prod(Context(p1)) >> C.curry(k), e) >> C.eval,
            C.prod(Context(p1, e)) >> k,
        ),
        {"k": (Context("b", "d"), "c"), "e": (Context("a", "b"), "d")},
    ),
    missing(
        "let weakening, of what reads other variables", "products", Context("a", "b"), "d",
        lambda e, k: (lets(e) >> C.prod(Context(p0, p1)) >> k, k),
        {"e": (Context("a", "b"), "c"), "k": (Context("a", "b"), "d")},
    ),
    missing(
        "β, of several projections", "products", "a", Context("d", "b", "d"),
        lambda i, j, k: (C.prod(i, j, k) >> C.prod(Context(p2, p0, p2)), C.prod(Context(k, i, k))),
        {"i": ("a", "b"), "j": ("a", "c"), "k": ("a", "d")},
    ),
    missing(
        "β, in a context", "coproducts", Context("a", "b"), "d",
        lambda e, i, j: (lets(e >> C.inl) >> C.case(i, j), lets(e) >> i),
        {"e": (Context("a", "b"), "c"), "i": (Context("a", "b", "c"), "d"), "j": (Context("a", "b", "b"), "d")},
    ),
    missing(
        "β, on a pair", "coproducts", ("a", "b"), "d",
        lambda i, j: (C.prod(p0, p1 >> C.inr) >> C.case(i, j), j), {"i": (("a", "a"), "d"), "j": (("a", "b"), "d")},
    ),
    missing(
        "fold is a silent scan, whose outputs nobody reads", "map and fold", ("s", Each("a")), "s",
        lambda k: (
            C.prod(C.curry(p1 >> k), p0, p1) >> C.scan >> p0,
            C.prod(C.curry(p1 >> k >> p0), p0, p1) >> C.fold,
        ),
        {"k": (("s", "a"), ("s", "o"))}, plain=("s", "o"), elements=("a", "o"),
    ),
]  # fmt: skip


@pytest.mark.parametrize("law", RESTRICTED, ids=str)
def test_laws_as_they_are_applied(law):
    rows = check_law(law, READINGS.values(), 2, 0)
    assert [row.counterexample for row in rows if row.counterexample] == []


def instance(draw, law, size):
    """Random terms for the metavariables of a law: its left side, with the types of its domain and codomain."""

    def candidates(name):
        plain = name in law.plain or name in law.elements
        found = types(functions=not plain, sums=name not in law.elements, depth=1)
        return found.filter(jax.tree.leaves) if plain else found

    chosen = {name: draw(candidates(name)) for name in variables(law)}
    of = lambda scheme: instantiate(scheme, chosen, 2)
    arrows = {name: draw(terms(of(dom), of(cod), size=size)) for name, (dom, cod) in law.arrows.items()}
    values = {name: draw(values_of(of(type))) for name, type in law.values.items()}
    return law.sides(**arrows, **values)[0], of(law.domain), of(law.codomain)


def agrees(term, domain, codomain, draw, executed):
    """The optimised term is optimised, costs no more, and has the same meaning and the same pullbacks."""
    optimised = optimise(term)
    assert optimise(optimised) is optimised
    if optimised is term:
        return
    assert C.equal(term, optimised, domain, codomain=codomain).verdict is not False
    x = draw(values_of(domain))
    assert costs_no_more(executed, optimised, term, x)
    observed = observation(codomain, lambda type: draw(values_of(type)))
    sides = [C.compose(side, observed) for side in (term, optimised)]
    for reading in READINGS.values():
        left, right = (reading.cases(side, x) for side in sides)
        assert reading.compare(left, right, C.infer(observed, codomain), lambda type: draw(values_of(type))) is None


@given(st.data())
def test_instances_of_laws(executed, data):
    law = data.draw(st.sampled_from(list(ORIENTED.values())))
    agrees(*instance(data.draw, law, 4), data.draw, executed)


@settings(max_examples=max(20, settings.get_profile(settings.get_current_profile_name()).max_examples))
@given(st.data())
def test_random_terms(executed, data):
    domain, codomain = data.draw(contexts() | types(depth=1)), data.draw(types(depth=1))
    term = data.draw(terms(domain, codomain, size=data.draw(st.sampled_from([8, 16]))))
    if isinstance(domain, Context):  # which is seen only where it is made
        term = C.prod(Context(*map(C.proj, range(len(domain))))) >> term
    agrees(term, domain, codomain, data.draw, executed)
