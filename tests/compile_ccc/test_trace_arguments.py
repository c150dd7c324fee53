"""Arguments of `trace` that are no values: they are code, as in a call of `ccc(f)`, and no part of the domain."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators.errors import ArgumentError, ArityError, UntypedFunctionError
from compile_ccc import ccc, trace

NUMBER = C.Tensor()


def wave(x, how="sin", scale=1.0):
    return scale * getattr(jnp, how)(x)


class Settings:
    power = 3


CASES = {  # how it is traced, and what it is at 0.5
    "text": (lambda: ccc(wave).trace(NUMBER, "cos"), np.cos(0.5)),
    "by name": (lambda: ccc(wave).trace(NUMBER, how="cos"), np.cos(0.5)),
    "a shape": (lambda: trace(wave, jax.ShapeDtypeStruct((), "float32"), "sin"), np.sin(0.5)),
    "first": (lambda: trace(lambda kind, x: x.astype(kind) / 2, jnp.dtype("float16"), NUMBER), 0.25),
    "a class": (lambda: trace(lambda x, kind: x.astype(kind) / 2, NUMBER, np.float16), 0.25),
    "an object": (lambda: trace(lambda x, s: x**s.power, NUMBER, Settings()), 0.125),
    "an integer that no array holds": (lambda: trace(lambda n, x: x * (n % 7), 10**12, NUMBER), 0.5 * (10**12 % 7)),
    "of a chain": (lambda: (ccc(wave) >> C.primitive("neg")).trace(NUMBER, "cos"), -np.cos(0.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_no_value_is_code(name):
    traced = CASES[name][0]()
    assert C.type_of(traced.domain) == NUMBER
    np.testing.assert_allclose(traced.closure(np.float32(0.5)), CASES[name][1], rtol=1e-6)
    np.testing.assert_allclose(traced.term(np.float32(0.5)), CASES[name][1], rtol=1e-6)


def test_the_others_are_the_domain():
    assert ccc(wave).trace(NUMBER, "cos", NUMBER).domain == (NUMBER, NUMBER)
    assert trace(lambda text: jnp.ones(len(text)), "abc").codomain == C.Tensor(3)


def test_what_cannot_be_is_refused():
    with pytest.raises(UntypedFunctionError):
        trace(lambda x, f: f(x), NUMBER, jnp.sin)
    with pytest.raises(ArgumentError, match="'text' of type str"):
        trace(lambda d: d["a"], {"a": NUMBER, "b": "text"})
    with pytest.raises(ArgumentError, match="'cos' of type str"):
        trace(C.primitive("neg"), "cos")
    with pytest.raises(ArityError, match="shift"):
        ccc(wave).trace(NUMBER, shift=1)
