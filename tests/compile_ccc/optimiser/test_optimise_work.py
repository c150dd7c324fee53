"""The work of the optimiser is linear, however long, deep or shared terms are."""

import gc

import pytest

import combinators as C
from combinators import Context
from compile_ccc import optimise
from compile_ccc.optimiser.optimise import Optimiser
from compile_ccc.optimiser.patterns import Pattern, steps_of
from tests.counted import LONG

ADD, MUL = (C.primitive(name) for name in ("add", "mul"))
p0, last = C.proj(0), C.proj(-1)
f, g = C.primitive("sin"), C.primitive("cos")


def lets(*values):
    return C.compose(*map(C.extend, values))


@pytest.fixture
def no_collection():
    gc.disable()
    yield
    gc.enable()


CHAINS = {
    "lets": lambda n: C.prod(Context(C.id)) >> lets(*[C.prod(last, p0) >> MUL] * n) >> last,
    "identities": lambda n: C.compose(*[f, C.id] * n),
    "products": lambda n: C.compose(*[C.prod(f, g), C.proj(0)] * n),
    "applications": lambda n: C.compose(*[C.prod(C.curry(C.prod(p0, last) >> MUL), f), C.eval] * n),
    "constants": lambda n: C.compose(*[C.prod(C.const(0.5), f), ADD] * n, C.const(1.0)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_work_is_linear(name, monkeypatch):
    """Each n more links cost as many calls more."""
    counts = [0]

    def counting(original):
        def count(*arguments):
            counts[0] += 1
            return original(*arguments)

        return count

    classes = (Optimiser, "optimised"), (Optimiser, "_rewritten"), (Pattern, "_matches")
    for owner, method in classes:
        monkeypatch.setattr(owner, method, counting(getattr(owner, method)))

    def visits(n):
        counts[0] = 0
        optimise(CHAINS[name](n))
        return counts[0]

    small, medium, large = map(visits, (100, 300, 2_300))
    assert large - medium == 10 * (medium - small) > 0


def test_many_steps(no_collection):
    assert len(steps_of(optimise(CHAINS["identities"](LONG)))) == LONG


def test_doublings_stay_shared():
    """Of forty nested ones, each part is optimised once."""
    double = shorter = C.id
    for _ in range(40):
        double, shorter = C.prod(double, double >> C.id) >> ADD, C.prod(shorter, shorter) >> ADD
    assert optimise(double) is shorter


def test_terms_that_nest_deeply():
    longer = shorter = f
    for _ in range(2_000):
        longer, shorter = C.prod(C.id >> longer, C.id) >> C.id >> MUL, C.prod(shorter, C.id) >> MUL
    assert optimise(longer) is optimise(shorter) is shorter
