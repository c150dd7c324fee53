"""What is asked of the class of inputs inside of installed packages, and of what Python computes of them."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tangents
from combinators.errors import UntypedFunctionError
from combinators.memo import caches
from compile_ccc import ccc
from tangents import grad

SOURCE = """
import collections.abc, numbers
import jax, numpy as np
ARRAYS = (jax.Array, tuple)
of_jax = lambda n: isinstance(n, jax.Array)
of_jax_by_a_name = lambda n: isinstance(n, ARRAYS)
sum_of_jax = lambda n: isinstance(n + n, jax.Array)
typed = lambda n: type(n) in (int, np.ndarray)
typed_sum = lambda n: type(n + n) in (int, np.ndarray)
half = lambda n: isinstance(n // 2, int)
half_integral = lambda n: isinstance(n // 2, numbers.Integral)
negative = lambda n: isinstance(-n, float)
compared = lambda n: isinstance(n > 2, bool)
sum_has_dtype = lambda n: hasattr(n + 1, "dtype")
sum_has_bits = lambda n: hasattr(n + 1, "bit_length")
first = lambda n: isinstance(n if np.ndim(n) == 0 else n[0], np.floating)
iterable = lambda n: isinstance(n, collections.abc.Iterable)
sized = lambda n: isinstance(n, collections.abc.Sized)
has_length = lambda n: hasattr(n, "__len__")
hashable = lambda n: isinstance(n, collections.abc.Hashable)
def matched(n):
    match n:
        case jax.Array():
            return True
    return False
"""
VALUES = [4, 2.0, np.arange(3.0), jnp.arange(3.0), np.int32(3), jnp.int32(3), np.float32(3.0), jnp.asarray(2.0)]
NAMES = [line.split(" = ")[0] for line in SOURCE.splitlines() if " = lambda" in line]


def imported(folder, name):
    folder.mkdir()
    (folder / f"{name}.py").write_text(SOURCE)
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standing")
    return imported(folder / "site-packages", "installed"), imported(folder / "src", "own")


@pytest.mark.parametrize("name", [*NAMES])
def test_an_answer_about_a_class_is_that_of_the_value(modules, name):
    """Each derivative sees all the values, in both orders: an answer is not kept for a value of another class."""
    for module in modules:
        asks = getattr(module, name)
        derivative = grad(lambda x, n, asks=asks: x * (2.0 if asks(n) else 3.0))
        for n in (*VALUES, *reversed(VALUES)):
            assert derivative(1.0, n) == (2.0 if asks(n) else 3.0), (module.__name__, n)


@pytest.mark.parametrize("n", [2.0, np.arange(3.0)])
def test_so_it_is_of_what_is_captured(modules, n):
    for name in ("of_jax", "sum_of_jax", "typed_sum", "negative", "iterable"):
        asks = getattr(modules[0], name)
        assert grad(lambda x, asks=asks: x * (2.0 if asks(n) else 3.0))(1.0) == (2.0 if asks(n) else 3.0)


def test_patterns_ask_for_classes(modules):
    derivative = grad(lambda x, n: x * (2.0 if modules[1].matched(n) else 3.0))
    assert [derivative(1.0, n) for n in (2.0, jnp.float32(2.0), 3.0)] == [3.0, 2.0, 3.0]


def test_a_question_about_arrays_of_jax_makes_no_code_of_them(modules):
    derivative = grad(lambda x, n: x * (n if modules[0].sum_of_jax(n) else 3.0))
    assert [derivative(1.0, jnp.float32(n)) for n in (2.0, 3.0)] == [2.0, 3.0]
    before = caches()
    assert derivative(1.0, jnp.float32(5.0)) == 5.0
    assert caches() == before


def test_arithmetic_of_numbers_that_nobody_asks_about_compiles_nothing():
    derivative = grad(lambda x, n: x * (n // 2 + 1))
    assert [derivative(1.0, n) for n in (4, 8)] == [3.0, 5.0]
    before = caches()
    assert derivative(1.0, 6) == 4.0
    assert caches() == before


def test_what_arrays_of_numpy_have_and_those_of_jax_have_not():
    rows = np.array([1.0, 2.0, 3.0])
    assert grad(lambda x: x * sum(rows.flat))(1.0) == 6.0
    assert grad(lambda x, a: x * a.flat[1])(1.0, rows) == 2.0


def test_integers_that_no_array_holds_are_code():
    derivative = grad(lambda x, n: x * float(n["big"] % 7))
    assert [derivative(1.0, {"big": n}) for n in (10**30, 2**40, -(2**31) - 3, 5)] == [1.0, 2.0, 2.0, 5.0]
    assert jax.grad(lambda x, n: x * float(n % 7))(1.0, 10**30) == 10**30 % 7 == 1


def test_text_and_dtypes_are_arguments_of_arrows():
    def f(x, mode, options, by=1.0):
        y = {"sin": jnp.sin, "cos": jnp.cos}[mode](x).astype(options["dtype"])
        return y * options["scale"] * by

    arrow = ccc(f)
    for mode, y in (("sin", np.sin(0.5)), ("cos", np.cos(0.5)), ("sin", np.sin(0.5))):
        for scale in (2.0, 3.0):
            options = {"dtype": jnp.float16, "scale": scale}
            got = arrow(jnp.float32(0.5), mode, options), arrow(jnp.float32(0.5), mode=mode, options=options, by=2.0)
            np.testing.assert_allclose(np.asarray(got), [y * scale, 2 * y * scale], rtol=2e-3)
    by_name = ccc(lambda x, *, mode: jnp.sin(x) if mode == "sin" else x)
    assert [by_name(jnp.float32(0.5), mode=mode) for mode in ("none", "sin")] == [0.5, jnp.sin(jnp.float32(0.5))]
    two = ccc(lambda x, mode: x if mode == "a" else -x) >> (lambda y: 3.0 * y)
    assert [two(2.0, mode) for mode in "aba"] == [6.0, -6.0, 6.0]
    assert ccc(lambda x: arrow(x, "cos", {"dtype": jnp.float32, "scale": 1.0}))(0.0) == 1.0
    with pytest.raises(UntypedFunctionError):
        ccc(lambda x, g: g(x))(1.0, jnp.sin)


def test_the_order_of_an_array_by_numpy():
    rows = np.array([1.0, 3.0, 2.0], np.float32)
    first = lambda x, a: x * jnp.asarray([2.0, 5.0, 7.0])[np.argsort(a)[1]]
    slopes = grad(first)(1.0, rows), grad(first)(1.0, jnp.asarray(rows)), grad(lambda x: first(x, rows))(1.0)
    assert slopes == (7.0, 7.0, 7.0)
    by_place = jnp.arange(3.0)
    by_rows = grad(lambda a: jnp.sum(a[np.argsort(a)] * by_place))(jnp.asarray(rows))
    np.testing.assert_array_equal(by_rows, [0.0, 2.0, 1.0])


WHOLE = {  # questions about a whole number n, with their answers as Python has them
    "class": (lambda n: isinstance(n, int), 3, True),
    "numpy": (lambda n: isinstance(n, np.ndarray), np.arange(3), True),
    "truth value": (lambda n: n is True or isinstance(n, bool), True, True),
    "half": (lambda n: n // 2, -3, -2),
    "mean": (lambda n: n.mean(), np.arange(4), 1.5),
    "power": (lambda n: n**-1, 2, 0.5),
    "range": (lambda n: len(range(n)), 3, 3),
}
ALONG = {
    "grad": lambda f, x, n: tangents.value_and_grad(f, (0, 1), allow_int=True)(x, n)[0],
    "vjp": lambda f, x, n: tangents.vjp(f, x, n)[0],
    "jvp": lambda f, x, n: tangents.jvp(f, (x, n), (1.0, None))[0],
    "linearize": lambda f, x, n: tangents.linearize(f, x, n)[0],
    "a dict": lambda f, x, n: tangents.value_and_grad(lambda d: f(d["x"], d["n"]), allow_int=True)({"x": x, "n": n})[0],
}


@pytest.mark.parametrize("question", WHOLE)
@pytest.mark.parametrize("mode", ALONG)
def test_whole_numbers_beside_what_varies_are_what_python_has(mode, question):
    """They have no derivative, whether one is asked for or not."""
    asks, n, answer = WHOLE[question]
    for x in (2.0, 4.0):
        assert ALONG[mode](lambda x, n: x * float(asks(n)), x, n) == x * answer
