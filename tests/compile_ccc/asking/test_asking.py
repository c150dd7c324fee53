"""Python asks for values while a function is traced: the path is the one that Python takes for these arguments."""

import enum
import math
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import DetachedWarning, TracedBranchError
from combinators.memo import caches
from compile_ccc import ccc, function, trace
from tangents import grad, hessian, jacobian, jvp, value_and_grad, vjp

THREE = jnp.array([1.0, -2.0, 3.0])


def squared_until(x):
    """x, squared n times until it is 100 or more, times n; for x < 0, -x."""
    if x < 0:
        return -x
    n = 0
    while x < 100:
        x, n = x * x, n + 1
    return n * x


SLOPES = [(-3.0, -1.0), (4.0, 2 * 4 * 4.0**3), (20.0, 2 * 20.0), (2.0, 3 * 8 * 2.0**7), (-1.0, -1.0), (5.0, 1000.0)]


def test_a_derivative_takes_the_path_of_each_call():
    derivative = grad(squared_until)
    for x, slope in [*SLOPES, *SLOPES]:
        np.testing.assert_allclose(derivative(x), slope, rtol=1e-6)


@pytest.mark.parametrize(
    "slope_of",
    [
        lambda x: value_and_grad(squared_until)(x)[1],
        lambda x: vjp(squared_until, x)[1](1.0)[0],
        lambda x: jvp(squared_until, (x,), (1.0,))[1],
        lambda x: jacobian(squared_until)(x),
        lambda x: grad(lambda x: ccc(squared_until)(x))(x),
    ],
)
def test_so_does_every_way_to_ask_for_it(slope_of):
    for x, slope in SLOPES[:3]:
        np.testing.assert_allclose(slope_of(x), slope, rtol=1e-6)


def test_second_derivatives():
    for second in (hessian(squared_until), grad(grad(squared_until))):
        np.testing.assert_allclose([second(4.0), second(-4.0), second(20.0)], [2 * 4 * 3 * 4.0**2, 0.0, 2.0], rtol=1e-6)


def test_a_path_that_was_taken_compiles_nothing():
    derivative = grad(squared_until)
    derivative(4.0), derivative(20.0), derivative(4.0)
    before = caches()
    np.testing.assert_allclose([derivative(4.5), derivative(21.0)], [8 * 4.5**3, 42.0], rtol=1e-6)
    assert caches() == before


def test_nor_does_another_number_on_the_same_path():
    height = 9.0
    derivative = grad(lambda x: x * math.sqrt(height))
    assert derivative(2.0) == 3.0
    height = 16.0
    assert derivative(2.0) == 4.0
    programs = {name: size for name, size in caches().items() if "gradients" in name}
    height = 25.0
    assert derivative(2.0) == 5.0
    assert {name: caches()[name] for name in programs} == programs


rate = 0.5


def test_paths_that_were_taken_are_found_without_a_look_at_the_function():
    w = 1.0

    def f(x):
        return w * x * x if x * w > 1.0 else 3.0 * x

    derivative, calls, entered = grad(f), [], set()
    slope = lambda x: 2.0 * w * x if x * w > 1.0 else 3.0
    for x in (2.0, 0.5) * 3:
        derivative(x)
    for w, x in [(1.0, 2.0), (1.0, 0.5), (4.0, 0.5), (4.0, 0.125), (-1.0, 2.0), (-1.0, -2.0), (1.0, 3.0)]:  # noqa: B007 - f reads w
        sys.setprofile(lambda frame, *_: entered.add(frame.f_code.co_name))
        try:
            calls.append((derivative(x), slope(x)))
        finally:
            sys.setprofile(None)
    np.testing.assert_allclose(*zip(*calls, strict=True), rtol=1e-6)
    assert entered.isdisjoint({"f", "captures", "traced"})


def test_captured_numbers_are_told_as_they_are_now():
    global rate
    derivative = grad(lambda x: x**3 if rate > 1 else x * math.exp(rate))
    for new, slope in ((0.5, math.exp(0.5)), (2.0, 12.0), (0.25, math.exp(0.25)), (3.0, 12.0)):
        rate = new
        np.testing.assert_allclose(derivative(2.0), slope, rtol=1e-6)


def test_arrays_of_numpy_are_told_as_they_are_now():
    lengths = np.array([3.0, 4.0])
    derivative = grad(lambda x: x * np.linalg.norm(lengths))
    assert derivative(2.0) == 5.0
    lengths[:] = 6.0, 8.0
    assert derivative(2.0) == 10.0


@pytest.mark.parametrize(
    ("f", "slopes"),
    [
        (lambda x: jnp.sum(x[x > 0] ** 2), ([2.0, 0.0, 6.0], [0.0, 4.0, 0.0])),
        (lambda x: jnp.sum(x[np.asarray(x > 0)] ** 2), ([2.0, 0.0, 6.0], [0.0, 4.0, 0.0])),
        (lambda x: sum(c * c for c in x if c > 0), ([2.0, 0.0, 6.0], [0.0, 4.0, 0.0])),
        (lambda x: x[jnp.nonzero(x > 0)[0]].sum(), ([1.0, 0.0, 1.0], [0.0, 1.0, 0.0])),
        (lambda x: sorted(x)[-1] ** 2, ([0.0, 0.0, 6.0], [0.0, 4.0, 0.0])),
        (lambda x: max(x, key=abs), ([0.0, 0.0, 1.0], [0.0, 0.0, 1.0])),
    ],
)
def test_masks_and_orders_are_those_of_each_call(f, slopes):
    derivative = grad(f)
    for x, slope in ((THREE, slopes[0]), (-THREE, slopes[1]), (THREE, slopes[0])):
        np.testing.assert_allclose(derivative(x), slope)


def test_integers_are_told_and_are_exponents_and_numbers_of_steps():
    powers = grad(lambda x, n: x**n)
    assert [powers(3.0, n) for n in (2, 3, 0, 2)] == [6.0, 27.0, 0.0, 6.0]
    assert powers(0.0, 2) == 0.0
    steps = grad(lambda x, n: lax.fori_loop(0, n, lambda _, s: s * x, 1.0))
    assert [steps(2.0, n) for n in (3, 1, 3)] == [12.0, 1.0, 12.0]


def test_a_body_that_jax_traces_gets_its_flag_as_code():
    def f(x, product):
        step = lambda s, _: (s * x if product else s + x, None)
        return lax.scan(step, x, None, length=3)[0]

    derivative = grad(f)
    assert [derivative(2.0, flag) for flag in (True, False, True)] == [32.0, 4.0, 32.0]


class Kind(enum.Enum):
    CUBE = 1
    LINE = 2


@pytest.mark.parametrize(
    ("f", "given", "slopes"),
    [
        (lambda x, name: {"sin": jnp.sin, "double": lambda x: 2.0 * x}[name](x), ("sin", "double"), (1.0, 2.0)),
        (lambda x, h: h(x), (jnp.sin, jnp.exp), (1.0, 1.0)),
        (lambda x, kind: x**3 if kind is Kind.CUBE else x, (Kind.CUBE, Kind.LINE), (0.0, 1.0)),
        (lambda x, o: x * o.scale, (types.SimpleNamespace(scale=3.0), types.SimpleNamespace(scale=4.0)), (3.0, 4.0)),
        (lambda x, s: x * s["by"] if s["on"] else x, ({"by": 3.0, "on": "y"}, {"by": 5.0, "on": ""}), (3.0, 1.0)),
        (lambda x, dtype: x.astype(dtype) * 2.0, (jnp.float32, np.float32), (2.0, 2.0)),
    ],
)
def test_what_is_no_value_is_code(f, given, slopes):
    derivative = grad(f)
    assert [derivative(0.0, one) for one in (*given, *given)] == [*slopes, *slopes]


def test_an_object_that_changes_is_seen():
    settings = types.SimpleNamespace(scale=3.0)
    derivative = grad(lambda x, o: x * o.scale)
    assert derivative(1.0, settings) == 3.0
    settings.scale = 4.0
    assert derivative(1.0, settings) == 4.0


def test_under_jit_only_what_is_captured_is_known():
    height = 9.0
    assert jax.jit(grad(lambda x: x * math.sqrt(height)))(2.0) == 3.0
    for run in (
        lambda: jax.jit(grad(squared_until))(2.0),
        lambda: jax.vmap(grad(squared_until))(THREE),
        lambda: trace(squared_until, C.Tensor(())),
        lambda: function(squared_until, C.Tensor(())),
    ):
        with pytest.raises(TracedBranchError, match="if x < 0"):
            run()


def test_a_number_that_python_takes_out_carries_no_derivative_and_this_is_said():
    with pytest.warns(DetachedWarning, match=r"test_asking.py:\d+: .*math.sin") as warned:
        assert grad(lambda x: math.sin(x) * x)(2.0) == np.float32(math.sin(2.0))
    assert warned[0].filename == __file__


def test_nothing_is_said_of_what_is_held_fixed(recwarn):
    assert grad(lambda x: math.sin(lax.stop_gradient(x)) * x)(2.0) == np.float32(math.sin(2.0))
    assert not [w for w in recwarn if w.category is DetachedWarning]


def test_integers_and_truths_are_no_such_numbers(recwarn):
    assert grad(lambda x: int(jnp.floor(x)) * x if x > 0 else x)(2.5) == 2.0
    assert not [w for w in recwarn if w.category is DetachedWarning]


def test_what_an_inner_function_asks_is_a_question_of_the_whole():
    def f(x, y):
        inner = grad(lambda z: z**2 if z > x else 3.0 * z)
        return inner(y) * x

    derivative = grad(f)
    assert [derivative(1.0, 2.0), derivative(5.0, 2.0), derivative(1.5, 2.0)] == [4.0, 3.0, 4.0]


def test_what_is_differentiated_is_no_code():
    table = {2.0: 5.0, 3.0: 7.0}
    f = lambda x, n: x * table[n] + n * x
    assert grad(f)(2.0, 3.0) == 10.0
    assert ccc(f)(2.0, 3.0) == 20.0
    with pytest.raises(TracedBranchError, match="table"):
        grad(f, 1)(2.0, 3.0)
    g = lambda x, n: x * n if hash(n) else n
    assert grad(g)(2.0, 3.0) == 3.0
    assert grad(lambda x, n: grad(g)(x, 3.0) * n, 1)(2.0, 5.0) == 3.0


def test_no_tracer_outlives_its_trace():
    with jax.checking_leaks():
        assert grad(squared_until)(20.0) == 40.0
        assert grad(lambda x, n: x**n if n > 1 else x)(2.0, 3) == 12.0


def test_truth_values_stay_beside_numbers_that_python_was_told():
    h = 2.0
    f = lambda x, flag: jnp.where(flag, x, x * math.sqrt(h))
    for flag, slope in [(False, math.sqrt(2.0)), (True, 1.0), (np.bool_(False), math.sqrt(2.0))]:
        np.testing.assert_allclose(grad(lambda x, flag=flag: f(x, flag))(2.0), slope, rtol=1e-6)
