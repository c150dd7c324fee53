"""The optimiser: which laws it applies, and that instances of these keep their meaning and their pullbacks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import combinators as C
from combinators import Context
from combinators.laws.law import instantiate, variables
from compile_ccc import optimise
from tangents import READINGS
from tangents.checking.laws import observation
from tangents.strategies import contexts, terms, types, values_of
from tests.executed import costs_no_more, counting

p0, p1 = C.proj(0), C.proj(1)
f = C.primitive("sin")
ORIENTED = {str(law): law for law in C.LAWS if law.oriented}


@pytest.fixture(scope="module")
def executed():
    with counting() as count:
        yield count


# The laws


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
    assert optimise(start >> left) is optimise(start >> right)
    assert left is right or optimise(start >> left) is not start >> left


@pytest.mark.parametrize("i", range(5))
def test_products_and_sums_of_any_size_have_the_laws_of_the_small_ones(i):
    parts = [type(f)(name) for name in "abcde"]
    products = tuple(parts), dict(zip("klmno", parts, strict=True)), Context(*parts)
    keys = i, "klmno"[i], i
    assert [optimise(C.prod(p) >> C.proj(key)) for p, key in zip(products, keys, strict=True)] == [parts[i]] * 3
    for number in (np.int32(i), jnp.int32(i), np.array(i, np.int32)):  # which are one constant, whoever made it first
        assert optimise(C.const(number) >> C.tag(5) >> C.case(*parts)) is C.const(()) >> parts[i]


SIN, COS = f, C.primitive("cos")
LEFT_ALONE = {  # each is equal to something shorter on values of some type, and not of others
    "the components of a pair": C.prod(p0, p1),
    "the last component": C.extend(SIN) >> p1,
    "the identity on some arrays": C.prod(C.curry(p1), C.id) >> C.map,
    "a function of a pair": C.prod(p0 >> C.curry(p1), p1) >> C.eval,
    "the alternatives of a sum": C.case(C.inl, C.inr),
    "a fold over no elements": C.prod(C.curry(C.proj(-1) >> p0), p0, p1) >> C.fold,
    "a number that is no tag": C.const(np.int32(7)) >> C.tag(2),
    "a product without the component": C.prod(SIN, COS) >> C.proj(7),
    "an alternative of another sum": C.inject(0, 3) >> C.case(SIN, COS),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_depends_on_the_type_is_left_alone(name):
    assert optimise(LEFT_ALONE[name]) is LEFT_ALONE[name]


def test_a_function_that_a_law_makes_would_have_no_annotation():
    mapped = lambda g: C.prod(C.curry(C.proj(-1) >> g, C.Tensor()), C.id) >> C.map
    assert optimise(mapped(SIN) >> mapped(COS)) is mapped(SIN) >> mapped(COS)


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
    agrees(term, domain, codomain, data.draw, executed)
