"""`fix`: what recursive functions give, compiled and on the host, what is traced and compiled, and what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import errors as E
from compile_ccc import black_box, ccc, fix, function
from tests.counted import equations

F, I = C.Tensor(), C.Tensor((), jnp.int32)
one = np.int32(1)


def choose(*arms):
    return lax.cond(*arms)


factorial = fix(lambda self, n: choose(n == 0, lambda: one, lambda: n * self(n - 1)), I)
power = fix(lambda self, x, n: choose(n == 0, lambda: x / x, lambda: x * self(x, n - 1)), F, I)
fibonacci = fix(lambda self, n: choose(n < 2, lambda: n, lambda: self(n - 1) + self(n - 2)), I)
ackermann = fix(
    lambda self, m, n: choose(
        m == 0, lambda: n + 1, lambda: choose(n == 0, lambda: self(m - 1, one), lambda: self(m - 1, self(m, n - 1)))
    ),
    I,
    I,
)
gcd = fix(lambda self, a, b: choose(b == 0, lambda: a, lambda: self(b, a % b)), I, I)
hanoi = fix(  # a call between two others, and work after a choice in which it calls itself
    lambda self, n: (
        choose(n == 0, lambda: n, lambda: self(n - 1) + self(n - 1)) + choose(n == 0, lambda: n, lambda: one)
    ),
    I,
)
collatz = fix(
    lambda self, n: choose(
        n == 1, lambda: n - n, lambda: one + self(choose(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1))
    ),
    I,
)
even = fix(  # of two functions that call each other: the number says which one is called
    lambda self, which, n: choose(n == 0, lambda: which == 0, lambda: self(1 - which, n - 1)), I, I
)
RESULTS = {
    "factorial": (factorial, (6,), math.factorial(6)),
    "its end": (factorial, (0,), 1),
    "power": (power, (1.5, 5), 1.5**5),
    "fibonacci": (fibonacci, (11,), 89),
    "ackermann": (ackermann, (2, 3), 2 * 3 + 3),
    "gcd": (gcd, (84, 36), math.gcd(84, 36)),
    "hanoi": (hanoi, (5,), 2**5 - 1),
    "collatz": (collatz, (6,), 8),
    "even": (even, (0, 7), False),
    "odd": (even, (1, 7), True),
}


def given(arguments):
    return tuple(jnp.float32(x) if isinstance(x, float) else jnp.int32(x) for x in arguments)


@pytest.mark.parametrize("name", RESULTS)
def test_a_recursive_function(name):
    f, arguments, expected = RESULTS[name]
    np.testing.assert_allclose(f(*given(arguments)), expected, rtol=1e-6)
    x = given(arguments)
    on_host = C.evaluate(C.prod(C.const(f), C.id) >> C.eval, x[0] if len(x) == 1 else x)
    np.testing.assert_allclose(on_host, expected, rtol=1e-6)


@pytest.mark.parametrize(("f", "arguments"), [(ackermann, ([0, 2, 1, 2], [3, 1, 4, 3])), (fibonacci, ([9, 0, 4, 1],))])
def test_each_lane_of_a_vmap_is_right(f, arguments):
    rows = [jnp.array(a, jnp.int32) for a in arguments]
    expected = [int(f(*row)) for row in zip(*rows, strict=True)]
    np.testing.assert_array_equal(jax.jit(jax.vmap(f))(*rows), expected)
    np.testing.assert_array_equal(jax.vmap(ccc(lambda *x: f(*x)))(*rows), expected)


def test_a_recursion_inside_of_a_lambda_captures_its_values():
    @ccc
    def f(w, x):
        series = fix(lambda self, n: choose(n == 0, lambda: w, lambda: w + x * self(n - 1)), I)
        return series(np.int32(4))

    np.testing.assert_allclose(f(2.0, 0.5), 2.0 * sum(0.5**k for k in range(5)), rtol=1e-6)


def test_a_recursion_inside_of_a_recursion():
    outer = fix(lambda self, n: choose(n == 0, lambda: n, lambda: factorial(n) + self(n - 1)), I)
    assert outer(jnp.int32(4)) == 24 + 6 + 2 + 1


def test_trees_of_arrays_and_vectors():
    swapped = fix(
        lambda self, s, n: choose(n == 0, lambda: s, lambda: self({"a": s["b"] + 1.0, "b": s["a"]}, n - 1)),
        {"a": C.Tensor(2), "b": C.Tensor(2)},
        I,
    )
    found = swapped({"a": jnp.zeros(2), "b": jnp.ones(2)}, jnp.int32(3))
    np.testing.assert_array_equal(found["a"], [3.0, 3.0])
    np.testing.assert_array_equal(found["b"], [1.0, 1.0])


def test_the_bound_of_compiled_code():
    f = fix(lambda self, n: choose(n == 0, lambda: n, lambda: one + self(n - 1)), I, max_depth=50)
    compiled = jax.jit(f)
    assert compiled(jnp.int32(50)) == f(jnp.int32(50)) == 50
    for _ in range(2):  # also where the program has been compiled before
        with pytest.raises(E.DepthError, match="deeper than compiled code has room for") as caught:
            f(jnp.int32(51))
        assert "max_depth=" in caught.value.hint and "50" in str(caught.value)
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="at most 50 calls"):
        jax.block_until_ready(compiled(jnp.int32(51)))
    with pytest.raises(E.DepthError):
        function(lambda n: jax.vmap(f)(n), C.Tensor(2, jnp.int32))(jnp.array([3, 51], jnp.int32))


def test_an_exception_of_the_host_keeps_its_type_where_the_program_was_compiled_before():
    def refuses(x):
        if x > 1:
            raise LookupError("above one")
        return x

    f = black_box(refuses, F, F)
    assert f(jnp.float32(1.0)) == 1.0
    for _ in range(2):
        with pytest.raises(LookupError, match="above one"):
            f(jnp.float32(2.0))


def test_a_call_in_the_last_place_needs_no_room():
    f = fix(lambda self, n, x: choose(n == 0, lambda: x, lambda: self(n - 1, x + 1.0)), I, F, max_depth=1)
    assert f(jnp.int32(3000), jnp.float32(0.0)) == 3000.0
    assert equations(f, jnp.int32(0), jnp.float32(0.0))["dynamic_update_slice"] == 0


def test_the_body_is_traced_once_and_compiled_once_for_all_depths(compilations):
    traced = []

    def body(self, n):
        traced.append(None)
        return choose(n < 2, lambda: n, lambda: self(n - 1) + self(n - 2) + self(n - 2))

    f = fix(body, I, codomain=I)
    numbers = [jnp.int32(n) for n in (0, 1, 2, 5, 9)]
    f(numbers[0])
    assert len(traced) == 1
    compilations.new()
    assert [int(f(n)) for n in numbers] == [0, 1, 1, 11, 171]  # (2ⁿ - (-1)ⁿ) / 3
    assert len(traced) == 1 and compilations.new() == 0


def test_many_calls_of_itself_are_no_longer_a_program_than_as_many_operations():
    def of(count):
        body = lambda self, n: choose(
            n < 1, lambda: one, lambda: sum((self(n - 1) for _ in range(count - 1)), self(n - 1))
        )
        return equations(fix(body, I, codomain=I), jnp.int32(2)).total()

    assert of(8) - of(4) <= 1.2 * (of(4) - of(2)) * 2


REFUSED = {
    "mapped": (lambda self, x: jax.vmap(self)(jnp.stack([x, x]))[0], E.UnsupportedError, "vmap"),
    "in a loop": (lambda self, x: lax.fori_loop(0, 3, lambda _, s: self(s), x), E.UnsupportedError, "scan"),
    "in a while": (lambda self, x: lax.while_loop(lambda s: s < 1.0, self, x), E.UnsupportedError, "while"),
    "captured": (lambda self, x: function(lambda y: self(y), F)(x), E.UnsupportedError, "captures"),
    "returned": (lambda self, x: self, E.UnsupportedError, "it is returned"),
    "chosen": (
        lambda self, x: lax.cond(x > 0.0, lambda: self, lambda: function(lambda y: y, F))(x),
        E.UnsupportedError,
        "cond",
    ),
    "arithmetic": (lambda self, x: self + x, E.FunctionArithmeticError, "arithmetic"),
    "another argument": (lambda self, x: self(x, x), E.ArityError, ""),
    "another shape": (lambda self, x: self(jnp.stack([x, x])), E.ArgumentError, ""),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize(
    "make", [lambda f: fix(f, F, codomain=F), lambda f: ccc(lambda x: fix(f, F, codomain=F)(x))(1.0)]
)
def test_what_is_refused(name, make):
    f, error, words = REFUSED[name]
    with pytest.raises(error) as caught:
        make(f)
    assert words in str(caught.value) and caught.value.line.startswith("test_recursion.py:") and caught.value.hint


def test_what_is_no_function_and_what_is_no_bound():
    with pytest.raises(E.ArgumentError, match="made of a function"):
        fix(3, F)  # type: ignore[arg-type]
    with pytest.raises(E.ArgumentError, match="max_depth"):
        fix(lambda self, x: x, F, max_depth=0)


def halves(self, x):
    return choose(x < 1.0, lambda: x, lambda: 0.5 * self(x / 2.0))


@pytest.mark.parametrize("dtype", [float, jnp.float32, np.dtype("float32")])
def test_a_dtype_is_no_type(dtype):
    for make in (lambda: fix(halves, dtype), lambda: fix(halves, F, codomain=dtype), lambda: function(abs, dtype)):
        with pytest.raises(E.ArgumentError, match="a dtype is given") as caught:
            make()
        assert "C.Tensor((), jnp.float32)" in caught.value.hint and caught.value.line.startswith("test_recursion.py:")


@pytest.mark.parametrize("codomain", [I, C.Tensor(3), (F, F), {"y": F}])
def test_a_codomain_that_is_stated_wrongly(codomain):
    """Whether the program can be traced with it or not."""
    with pytest.raises(E.UntypedFunctionError, match="gives another type") as caught:
        fix(halves, F, codomain=codomain)
    assert "the codomain that is stated" in caught.value.expected and caught.value.got == F
    assert caught.value.line.startswith("test_recursion.py:")


def test_an_error_of_the_function_itself_is_not_one_of_its_codomain():
    with pytest.raises(ZeroDivisionError):
        fix(lambda self, x: choose(x < 1.0, lambda: x, lambda: self(x) / (1 // 0)), F, codomain=F)
    with pytest.raises(ZeroDivisionError):
        fix(lambda self, x: x + 1 // 0, F, codomain=I)


@pytest.mark.parametrize("domain", [(), (F, F)])
def test_a_domain_of_another_number_of_arguments(domain):
    with pytest.raises(E.ArityError, match="another number of parameters") as caught:
        fix(halves, *domain)
    assert caught.value.got == "halves(self, x)" and caught.value.expected.startswith(f"{1 + len(domain)}: ")


def test_what_cannot_be_compiled_yet():
    with pytest.raises(E.UnsupportedError, match="random key") as caught:
        fix(lambda self, k, n: choose(n == 0, lambda: k, lambda: self(k, n - 1)), jax.random.key(0), I)
    assert "key_data" in caught.value.hint


def test_recursion_of_python_over_traced_values_is_told_of_fix():
    def endless(x, n):
        return lax.cond(n == 0, lambda: 1.0, lambda: x * endless(x - 1, n - 1))

    with pytest.raises(E.BudgetError) as caught:
        ccc(endless)(5.0, 3)
    assert "fix(lambda self, x: ..." in caught.value.hint
