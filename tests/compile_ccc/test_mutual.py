"""`mutual`: functions that call each other, what they give, their derivatives, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import errors as E
from compile_ccc import ccc, fix, function, mutual
from tangents import grad, jvp, value_and_grad

I = C.Tensor((), jnp.int32)
SPACES = ["environment", "list"]
cond = lax.cond


def central(f, x, h=1e-5):
    return (f(x + h) - f(x - h)) / (2 * h)


def test_even_and_odd():
    even, odd = mutual(
        (lambda even, odd, n: cond(n == 0, lambda: True, lambda: odd(n - 1)), I),
        (lambda even, odd, n: cond(n == 0, lambda: False, lambda: even(n - 1)), I),
    )
    assert even.type == odd.type == C.Function(I, C.Tensor((), bool))
    assert [bool(even(n)) for n in range(5)] == [True, False, True, False, True]
    assert [bool(odd(n)) for n in range(5)] == [False, True, False, True, False]
    assert jax.vmap(even)(jnp.arange(4, dtype=jnp.int32)).tolist() == [True, False, True, False]
    assert not even(2_001)  # calls in the last place have no bound


def test_hofstadter_s_sequences():
    """F n = n - M (F (n - 1)), M n = n - F (M (n - 1)), calls of both within each other."""
    female, male = mutual(
        (lambda f, m, n: cond(n == 0, lambda: 1, lambda: n - m(f(n - 1))), I),
        (lambda f, m, n: cond(n == 0, lambda: 0, lambda: n - f(m(n - 1))), I),
    )
    assert [int(female(n)) for n in range(8)] == [1, 1, 2, 2, 3, 3, 4, 5]
    assert [int(male(n)) for n in range(8)] == [0, 0, 1, 2, 2, 3, 4, 4]


END, NUMBER, PLUS, TIMES, OPEN, CLOSE = range(6)
_KINDS = {"+": PLUS, "*": TIMES, "(": OPEN, ")": CLOSE}


def tokens(text):
    words = text.replace("(", "( ").replace(")", " )").split()
    kinds = [*(_KINDS.get(word, NUMBER) for word in words), END]
    return jnp.array(kinds, jnp.int32), np.array([*(0.0 if w in _KINDS else float(w) for w in words), 0.0])


def parsed(kinds, numbers):
    """The value of an expression by recursive descent: sum ::= product [+ sum], product ::= atom [* product]."""

    def binary(first, again, kind, combined):
        def parser(at):
            left, after = first(at)

            def more():
                right, end = again(after + 1)
                return combined(left, right), end

            return cond(kinds[after] == kind, more, lambda: (left, after))

        return parser

    def total(total, product, atom, at):
        return binary(product, total, PLUS, jnp.add)(at)

    def product(total, product, atom, at):
        return binary(atom, product, TIMES, jnp.multiply)(at)

    def atom(total, product, atom, at):
        def inside():
            value, end = total(at + 1)
            return value, end + 1

        return cond(kinds[at] == OPEN, inside, lambda: (numbers[at], at + 1))

    return mutual((total, I), (product, I), (atom, I))[0](np.int32(0))[0]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("functions", SPACES)
@pytest.mark.parametrize("text", ["2", "2 + 3 * 4", "2 * (3 + 4) * (5 + 6 * (7 + 1)) + 1"])
def test_a_parser_and_its_gradient_by_the_numbers_that_it_reads(text, functions):
    kinds, numbers = tokens(text)
    value, g = value_and_grad(lambda numbers: parsed(kinds, numbers), functions=functions)(numbers)
    np.testing.assert_allclose(value, eval(text), rtol=1e-12)
    words = text.replace("(", "( ").replace(")", " )").split()
    for place in np.flatnonzero(kinds == NUMBER):
        moved = lambda x, place=place: eval(" ".join([*words[:place], repr(float(x)), *words[place + 1 :]]))
        np.testing.assert_allclose(g[place], central(moved, numbers[place]), rtol=1e-7)
    assert not np.any(g[kinds != NUMBER])


def pair(w):
    """a (n, x) = sin (w b (n - 1, x)₀) and b (n, {y}) = (w a (n - 1, y + 1), n), of other arguments and results"""
    first = lambda a, b, n, x: cond(n == 0, lambda: x, lambda: jnp.sin(w * b(n - 1, {"y": x})[0]))
    second = lambda a, b, n, d: cond(n == 0, lambda: (d["y"], n), lambda: (w * a(n - 1, d["y"] + 1.0), n))
    return mutual((first, I, C.Tensor()), (second, I, {"y": C.Tensor()}))


def pair_by_hand(w, n, x, second=False):
    if n == 0:
        return x
    return w * pair_by_hand(w, n - 1, x + 1.0) if second else np.sin(w * pair_by_hand(w, n - 1, x, True))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("functions", SPACES)
def test_derivatives_of_functions_of_other_types(functions):
    n, w, x = np.int32(5), 0.7, 0.3
    found = grad(lambda w, x: pair(w)[0](n, x), (0, 1), functions=functions)(w, x)
    by_w = central(lambda w: pair_by_hand(w, 5, x), w)
    np.testing.assert_allclose(found, (by_w, central(lambda x: pair_by_hand(w, 5, x), x)), rtol=1e-8)
    by_second = grad(lambda w: pair(w)[1](n, {"y": x})[0], functions=functions)(w)
    np.testing.assert_allclose(by_second, central(lambda w: pair_by_hand(w, 5, x, True), w), rtol=1e-8)


@pytest.mark.usefixtures("x64")
def test_forward_mode_and_what_they_captured():
    w, x = 0.7, 0.3
    slope = central(lambda w: pair_by_hand(w, 5, x), w)
    np.testing.assert_allclose(jvp(lambda w: pair(w)[0](np.int32(5), x), (w,), (2.0,))[1], 2 * slope, rtol=1e-8)
    f = pair(w)[0]
    np.testing.assert_allclose(f.gradient(grad(lambda f: f(np.int32(5), x))(f))["w"], slope, rtol=1e-8)


def test_functions_as_arguments_within_a_lambda():
    """even_sum (n, g) = g n + odd_sum (n - 1, g), and the other way round with - g n."""
    real = C.Tensor()
    arrow = C.Function(real, real)

    @ccc
    def alternating(w, n):
        plus, _ = mutual(
            (lambda p, m, n, g: cond(n < 0.5, lambda: 0.0, lambda: g(n) + m(n - 1.0, g)), real, arrow),
            (lambda p, m, n, g: cond(n < 0.5, lambda: 0.0, lambda: p(n - 1.0, g) - g(n)), real, arrow),
        )
        return plus(n, function(lambda x: w * x * x, real))

    assert alternating(2.0, 4.0) == 2.0 * (16 - 9 + 4 - 1)
    assert grad(alternating)(2.0, 4.0) == 16 - 9 + 4 - 1


def test_functions_as_results_beside_numbers():
    """scale x = λ y. x y for x < 0, else scale (x - less x), with less x = 1."""
    real = C.Tensor()
    scale, less = mutual(
        (lambda s, l, x: cond(x < 0.0, lambda: function(lambda y: x * y, real), lambda: s(x - l(x))), real),
        (lambda s, l, x: cond(x < 2.0, lambda: 1.0, lambda: s(-x)(1.0) + x + 1.0), real),
    )
    assert scale(2.5)(4.0) == -0.5 * 4.0 and less(3.0) == 1.0
    assert grad(lambda x: scale(x)(4.0))(2.5) == 4.0


def test_one_function_is_a_recursion():
    (factorial,) = mutual((lambda f, n: cond(n == 0, lambda: 1, lambda: n * f(n - 1)), I))
    assert factorial(5) == fix(lambda f, n: cond(n == 0, lambda: 1, lambda: n * f(n - 1)), I)(5) == 120


def test_the_bound_of_compiled_code():
    f, _ = mutual(
        (lambda f, g, n: cond(n == 0, lambda: 0, lambda: 1 + g(n - 1)), I),
        (lambda f, g, n: cond(n == 0, lambda: 0, lambda: 1 + f(n - 1)), I),
        max_depth=10,
    )
    assert f(10) == 10
    with pytest.raises(E.DepthError, match="at most 10 calls"):
        f(11)


REFUSED = {
    "no end": ((lambda f, g, n: g(n), I), (lambda f, g, n: f(n), I), E.UntypedFunctionError, "whichever branches"),
    "types that differ": (
        (lambda f, g, n: cond(n == 0, lambda: 1.0, lambda: g(n - 1)), I),
        (lambda f, g, n: cond(n == 0, lambda: 1, lambda: f(n - 1)), I),
        E.CompositionError,
        "branches",
    ),
    "another argument": (
        (lambda f, g, n: cond(n == 0, lambda: 1.0, lambda: g(n, n)), I),
        (lambda f, g, n: cond(n == 0, lambda: 1.0, lambda: f(n - 1)), I),
        E.ArityError,
        "got: 2",
    ),
    "mapped": (
        (lambda f, g, n: cond(n == 0, lambda: 1.0, lambda: jnp.sum(jax.vmap(g)(jnp.stack([n, n])))), I),
        (lambda f, g, n: cond(n == 0, lambda: 1.0, lambda: f(n - 1)), I),
        E.UnsupportedError,
        "vmap",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said(name):
    first, second, error, words = REFUSED[name]
    with pytest.raises(error) as caught:
        mutual(first, second)
    assert words in str(caught.value) and caught.value.line.startswith("test_mutual.py:") and caught.value.hint


def test_what_is_no_domain():
    last = lambda f, g, n: n
    with pytest.raises(E.ArgumentError, match="a dtype is given"):
        mutual((last, I), (last, int))
    for wrong in (lambda f, n: n, lambda f, g, n, m: n):
        with pytest.raises(E.ArityError, match="another number of parameters") as caught:
            mutual((last, I), (wrong, I))
        assert caught.value.expected.startswith("3: ") and caught.value.line.startswith("test_mutual.py:")
    with pytest.raises(E.UnsupportedError, match="random key"):
        mutual((last, I), (last, jax.random.key(0)))


@pytest.mark.parametrize("functions", [(), (3,), ((3, I),), (lambda f, n: n,)])
def test_what_is_no_function_with_its_domain(functions):
    with pytest.raises(E.ArgumentError, match="given by tuples"):
        mutual(*functions)
