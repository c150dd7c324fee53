"""The work of the optimiser is linear, however long, deep or shared terms are."""

import gc

import pytest

import combinators as C
from combinators import Context
from combinators.text.show import parts
from compile_ccc import optimise
from compile_ccc.optimiser.liveness import Uses, steps_of
from compile_ccc.optimiser.optimise import Optimiser, Rewriting
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


def chain(n):
    """n lets, every other of which nobody reads"""
    return (
        C.prod(Context(C.id)) >> lets(*(C.prod(C.proj(i), p0) >> MUL for i in range(0, n, 2) for _ in (0, 1))) >> last
    )


CHAINS = {
    "lets": lambda n: C.prod(Context(C.id)) >> lets(*[C.prod(last, p0) >> MUL] * n) >> last,
    "dead lets": chain,
    "lets of variables": lambda n: C.prod(Context(C.id)) >> lets(*[last] * n) >> last,
    "lets that are all dead": lambda n: C.prod(Context(C.id)) >> lets(*[C.prod(last, p0) >> MUL] * n) >> p0,
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

    classes = (Optimiser, "optimised"), (Rewriting, "_rewritten"), (Uses, "_step_reads")
    for owner, method in classes:
        monkeypatch.setattr(owner, method, counting(getattr(owner, method)))

    def visits(n):
        counts[0] = 0
        optimise(CHAINS[name](n))
        return counts[0]

    small, medium, large = map(visits, (100, 300, 2_300))
    assert large - medium == 10 * (medium - small) > 0


@pytest.mark.parametrize("name", ["lets of variables", "identities"])
def test_many_steps(name, no_collection):
    optimised = optimise(CHAINS[name](LONG))
    assert len(steps_of(optimised)) == (1 if name == "lets of variables" else LONG)


def test_doublings_stay_shared():
    """Of forty nested ones, and of a function that is called in forty places, each part is optimised once."""
    double, call = C.id, C.curry(C.prod(p0, last) >> MUL >> C.id)
    for _ in range(40):
        double = C.prod(double, double >> C.id) >> ADD
        call = C.curry(C.prod(C.prod(C.prod(call, p0) >> C.eval, last) >> ADD, C.prod(call, last) >> C.eval) >> MUL)
    for term in (double, C.prod(call, f) >> C.eval):
        seen, todo = set(), [optimise(term)]
        while todo:
            part = todo.pop()
            if part not in seen:
                seen.add(part)
                todo += parts(part)
        assert len(seen) < 1_000


def test_terms_that_nest_deeply():
    longer = shorter = f
    for _ in range(2_000):
        longer, shorter = C.prod(C.id >> longer, C.id) >> C.id >> MUL, C.prod(shorter, C.id) >> MUL
    assert optimise(longer) is optimise(shorter) is shorter
