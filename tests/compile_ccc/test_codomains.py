"""The type of what a recursive function gives: that of a way through it without calls of itself, or what is wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import errors as E
from compile_ccc import ccc, fix
from compile_ccc.recursion import codomains
from tangents import grad

F, I, B = C.Tensor(), C.Tensor((), jnp.int32), C.Tensor((), bool)
V = C.Tensor(3)
cond = lax.cond


def through_choices(self, n, x):
    """Two choices after each other, in each of which one branch calls it, and one is in another."""
    first = cond(n > 4, lambda: self(n - 1, x), lambda: {"w": x, "n": n})
    inner = lambda: cond(n < 0, lambda: first, lambda: self(n - 1, first["w"]))
    return lax.switch(n, [lambda: self(n - 2, x), inner, lambda: first])


def after_loops(self, n, x):
    """What it gives is the state of loops and of maps."""
    doubled = lambda: lax.fori_loop(0, 3, lambda _, s: 2.0 * s, jax.vmap(lambda y: y + 1.0)(x))
    return cond(n == 0, doubled, lambda: self(n - 1, x))


CODOMAINS = {
    "of the argument": (lambda self, x: cond(x < 1.0, lambda: x, lambda: self(x - 1.0)), (F,), F),
    "of another argument": (lambda self, n, x: cond(n == 0, lambda: x, lambda: self(n - 1, x)), (I, V), V),
    "a number, from an integer": (lambda self, n: cond(n == 0, lambda: 1.0, lambda: 0.5 * self(n - 1)), (I,), F),
    "a number that promotes": (lambda self, n: cond(n > 0, lambda: n * self(n - 1), lambda: 1), (I,), I),
    "a truth value": (lambda self, n: cond(n < 2, lambda: n == 0, lambda: self(n - 2)), (I,), B),
    "of a part": (
        lambda self, p: cond(p["n"] == 0, lambda: p["w"], lambda: self({**p, "n": p["n"] - 1})),
        ({"n": I, "w": C.Tensor(2)},),
        C.Tensor(2),
    ),
    "no type that came up before": (
        lambda self, x: cond(x < 1.0, lambda: (x, jnp.zeros((2, 5)), x > 0.0), lambda: self(x - 1.0)),
        (F,),
        (F, C.Tensor((2, 5)), B),
    ),
    "after the choice": (
        lambda self, n: jnp.stack([cond(n == 0, lambda: 1.0, lambda: jnp.sum(self(n - 1))), 2.0]),
        (I,),
        C.Tensor(2),
    ),
    "of the last of three": (
        lambda self, n: lax.switch(n, [lambda: self(n + 1), lambda: self(n + 1), lambda: 1.5]),
        (I,),
        F,
    ),
    "in choices": (through_choices, (I, F), {"w": F, "n": I}),
    "of loops": (after_loops, (I, V), V),
    "of jitted functions": (
        lambda self, n: jax.jit(lambda n: cond(n == 0, lambda: 1.0, lambda: self(n - 1)))(n),
        (I,),
        F,
    ),
    "of one that does not call itself": (lambda self, x: (x, 1), (F,), (F, I)),
}


@pytest.mark.parametrize("name", CODOMAINS)
def test_the_codomain_is_found(name):
    f, domain, expected = CODOMAINS[name]
    assert fix(f, *domain).type.cod == expected == fix(f, *domain, codomain=expected).type.cod


def test_the_codomain_is_found_within_a_lambda_where_a_static_value_ends_the_recursion():
    def total(flag):
        end = lambda self, n: 2.0 * n.astype(float) if flag else cond(n == 0, lambda: 0.5, lambda: self(n - 1))
        return ccc(lambda n: fix(end, I)(n))(np.int32(3))

    assert total(True) == 6.0 and total(False) == 0.5


def test_it_is_found_for_recursions_within_each_other_and_beside_choices_of_other_programs():
    """Σ over k = 1, ..., n of k (x + k), by a recursion in each step; both branches of what is derived count."""
    slope = grad(lambda x: cond(x > 0.0, lambda: x * x / 2.0, lambda: -x))
    inner = lambda x: fix(lambda f, m, y: cond(m == 0, lambda: 0.0, lambda: slope(x) + y + f(m - 1, y)), I, F)
    outer = lambda self, n, x: cond(n == 0, lambda: 0.0, lambda: inner(x)(n, n.astype(float)) + self(n - 1, x))
    f = fix(outer, I, F)
    assert f(np.int32(3), np.float32(2.0)) == 1 * 3 + 2 * 4 + 3 * 5
    assert f(np.int32(3), np.float32(-2.0)) == 1 * 0 + 2 * 1 + 3 * 2


def test_it_is_of_the_precision_that_is_set():
    with jax.enable_x64(True):
        f = fix(lambda self, n: cond(n == 0, lambda: 1.0, lambda: 0.1 * self(n - 1)), I)
        assert f.type.cod == C.Tensor((), jnp.float64)
        np.testing.assert_allclose(f(np.int32(3)), 0.001, rtol=1e-15)


def test_each_branch_is_tried_once_and_not_each_way():
    """Ten choices before a call of itself are 1,024 ways, of which one is enough."""
    traced = []

    def body(self, x):
        traced.append(None)
        for _ in range(10):
            x = cond(x > 0.0, lambda x=x: x + 1.0, lambda x=x: x - 1.0)
        return self(x)

    with pytest.raises(E.UntypedFunctionError, match="whichever branches"):
        fix(body, F)
    assert len(traced) == 1


REFUSED = {
    "Python asks": (lambda self, n: 0.0 if n == 0 else self(n - 1), E.TracedBranchError, "bool[]"),
    "too many arguments": (lambda self, n: cond(n == 0, lambda: 0.0, lambda: self(n, n)), E.ArityError, "got: 2"),
    "another shape": (
        lambda self, n: cond(n == 0, lambda: 0.0, lambda: self(jnp.stack([n, n]))),
        E.ArgumentError,
        "i32[2]",
    ),
    "a name": (lambda self, n: cond(n == 0, lambda: 0.0, lambda: self(n=n)), E.ArityError, "by name"),
    "branches that differ": (
        lambda self, n: cond(n == 0, lambda: 1, lambda: self(n - 1) > 0),
        E.CompositionError,
        "bool[]",
    ),
    "ends that differ": (
        lambda self, n: cond(n == 0, lambda: 1.0, lambda: cond(n == 1, lambda: (2.0,), lambda: self(n - 1))),
        E.CompositionError,
        "branches of a case",
    ),
    "no end": (
        lambda self, n: cond(n == 0, lambda: self(n), lambda: 0.5 * self(n - 1)),
        E.UntypedFunctionError,
        "whichever branches",
    ),
    "no end in where": (lambda self, n: jnp.where(n == 0, 1.0, self(n - 1)), E.UntypedFunctionError, "jnp.where"),
    "arithmetic": (lambda self, n: cond(n == 0, lambda: 1.0, lambda: self + n), E.FunctionArithmeticError, ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said(name):
    f, error, words = REFUSED[name]
    with pytest.raises(error) as caught:
        fix(f, I)
    assert words in str(caught.value) and caught.value.line.startswith("test_codomains.py:") and caught.value.hint


def test_a_stated_codomain_has_to_be_right():
    with pytest.raises(E.UntypedFunctionError, match="gives another type") as caught:
        fix(lambda self, x: x, F, codomain=I)
    assert "codomain=" in caught.value.hint
    with pytest.raises(E.UntypedFunctionError, match="whichever branches"):
        fix(lambda self, x: self(x - 1.0), F, codomain=F)
    with pytest.raises(ZeroDivisionError):
        fix(lambda self, x: 1 // 0, F)


def in_a_loop(loop):
    return lambda self, x: cond(x < 0.0, lambda: loop(x), lambda: self(x - 1.0))


def test_loops_on_the_way(monkeypatch):
    """Of a loop whose number of steps is not known no step is taken, even if it is; others run step by step."""
    endless = lambda x: lax.while_loop(lambda s: s[0] < 10**6, lambda s: (s[0] + 1, 2.0 * s[1]), (0, x))[1]
    assert fix(in_a_loop(endless), F).type.cod == F
    monkeypatch.setattr(codomains, "_MOST", 100)
    with pytest.raises(E.BudgetError, match="long loops") as caught:
        fix(in_a_loop(lambda x: lax.fori_loop(0, 100, lambda _, y: jnp.sin(y) * x, x)), F)
    nothing = in_a_loop(lambda x: lax.scan(lambda s, _: (s, s), x, None, 0)[0])
    with pytest.raises(E.UnsupportedError, match="no steps") as again:
        fix(nothing, F)
    assert "codomain=" in caught.value.hint and "codomain=" in again.value.hint
    assert fix(nothing, F, codomain=F)(jnp.float32(1.5)) == -0.5


def test_choices_in_a_checkpoint_end_nothing():
    f = jax.checkpoint(lambda self, x: cond(x < 1.0, lambda: x, lambda: self(x - 1.0)))
    with pytest.raises(E.UntypedFunctionError) as caught:
        fix(f, F)
    assert "checkpoint" in caught.value.hint
    with pytest.raises(E.UnsupportedError, match="remat"):
        fix(f, F, codomain=F)
