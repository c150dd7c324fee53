"""What a function captures: numbers are its environment, read anew at each call; the rest is its code."""

import functools
from collections import namedtuple
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators.errors import TracedAnewWarning
from compile_ccc import ccc, function
from tangents import grad

F32 = C.Tensor()
Point = namedtuple("Point", "x y")
one = jnp.float32(1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scale:
    by: object

    def __call__(self, x):
        return self.by * x


def capture(w):
    return lambda x: x * w


def capture_float_of(n):
    return lambda x: x * float(n)


def capture_first(ws):
    return lambda x: x * ws[0]


def capture_named(ws):
    return lambda x: x * ws["w"]


def capture_deep(w):
    def g(x):
        def h(x):
            return x * w

        return h(x)

    return lambda x: g(x)


def capture_default(w):
    def f(x, w=w):
        return x * w

    return lambda x: f(x)


def capture_keyword_default(w):
    def f(x, *, w=w):
        return x * w

    return lambda x: f(x)


def capture_partial(w):
    f = functools.partial(lambda w, x: x * w, w)
    return lambda x: f(x)


def capture_partial_keyword(w):
    f = functools.partial(lambda x, w: x * w, w=w)
    return lambda x: f(x)


def capture_with_text(w):
    text, unit, flag = "text", None, True
    return lambda x: x * w if text and flag and unit is None else x


def in_a_module(source):
    """The names of a module with this source."""
    module = {"jnp": jnp}
    exec(source, module)
    return module


def global_of(w):
    return in_a_module(f"w = {w!r}\ndef f(x):\n    return x * w")["f"]


ENVIRONMENT = {
    "a float": capture,
    "a NumPy scalar": lambda w: capture(np.float32(w)),
    "a NumPy array": lambda w: capture(np.array(w, np.float32)),
    "a JAX array": lambda w: capture(jnp.float32(w)),
    "in a tuple": lambda w: capture_first((w, "name", 3)),
    "in a list": lambda w: capture_first([w]),
    "in a dict": lambda w: capture_named({"w": w, "n": 3}),
    "in a namedtuple": lambda w: capture_first(Point(w, None)),
    "in a dataclass": lambda w: (lambda scale: lambda x: scale(x))(Scale(w)),
    "a dataclass itself": Scale,
    "a bound method": lambda w: Scale(w).__call__,
    "three deep": capture_deep,
    "a default": capture_default,
    "a keyword default": capture_keyword_default,
    "a partial argument": capture_partial,
    "a partial keyword": capture_partial_keyword,
    "a partial itself": lambda w: functools.partial(lambda w, x: x * w, w),
    "beside text": capture_with_text,
    "a global": global_of,
    "a jitted function": lambda w: (lambda g: lambda x: g(x))(capture(w)),
    "a function value": lambda w: (lambda g: lambda x: g(x))(function(capture(w), F32)),
}


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_numbers_are_environment(name):
    build = ENVIRONMENT[name]
    f, g = function(build(2.0), F32), function(build(5.0), F32)
    assert f.code is g.code
    assert [float(leaf) for leaf in jax.tree.leaves(f.environment)] == [2.0]
    assert (float(f(one)), float(g(one))) == (2.0, 5.0)
    assert (float(ccc(build(2.0))(one)), float(ccc(build(5.0))(one))) == (2.0, 5.0)


CODE = {
    "an int": capture,
    "a NumPy int": lambda w: capture_float_of(np.int32(w)),
    "a string": lambda w: (lambda text: lambda x: x * len(text))("a" * w),
    "bytes": lambda w: (lambda text: lambda x: x * len(text))(b"a" * w),
    "an int in a container": lambda w: capture_first([w]),
    "the keys of a dict": lambda w: (lambda d: lambda x: x * max(d))({w: None}),
    "the size of a container": lambda w: (lambda data: lambda x: x * len(data))([None] * w),
    "a default": capture_default,
    "a partial argument": capture_partial,
    "a const": lambda w: (lambda c: lambda x: x * c.value)(C.const(float(w))),
    "a global int": global_of,
    "a global text": lambda w: in_a_module(f"w = {'a' * w!r}\ndef f(x):\n    return x * len(w)")["f"],
    "a literal": lambda w: eval(f"lambda x: x * {float(w)}"),
    "the name of a helper": lambda w: (lambda g: lambda x: g(x))(eval(f"lambda x: x * {float(w)}")),
}


@pytest.mark.parametrize("name", CODE)
def test_all_else_is_code(name):
    build = CODE[name]
    f, again, g = (function(build(n), F32) for n in (2, 2, 5))
    assert f.code is again.code and f.code is not g.code
    assert jax.tree.leaves(f.environment) == []
    assert (float(f(one)), float(g(one))) == (2.0, 5.0)
    assert (float(ccc(build(2))(one)), float(ccc(build(5))(one))) == (2.0, 5.0)


def test_a_const_can_steer_python():
    steered = lambda w: ccc(lambda x: x * 10.0 if w.value > 1.0 else x)
    assert (float(steered(C.const(2.0))(one)), float(steered(C.const(0.5))(one))) == (10.0, 1.0)


def test_a_closure_holds_only_what_its_body_uses():
    used, unused = 2.0, jnp.ones(3)
    f = function(lambda x: (unused, x * used)[1], F32)
    assert jax.tree.leaves(f.environment) == [2.0]


def test_a_variable_that_two_functions_share_is_captured_once():
    w = 2.0
    g, h = (lambda x: x * w), (lambda x: x + w)
    f = function(lambda x: g(h(x)) * w, F32)
    assert jax.tree.leaves(f.environment) == [2.0]
    assert float(f(one)) == 12.0


def test_equal_numbers_in_two_variables_stay_two():
    v, w = 2.0, 2.0
    f = function(lambda x: v * x + w, F32)
    assert jax.tree.leaves(f.environment) == [2.0, 2.0]
    assert float(C.Closure(f.code, C.Context(3.0, 4.0))(one)) == 7.0


def test_numbers_are_read_at_each_call():
    w = 2.0
    f = ccc(lambda x: x * w)
    assert float(f(one)) == 2.0
    w = 5.0
    assert float(f(one)) == 5.0


@pytest.mark.parametrize("data", [[2.0], {0: 2.0}])
def test_containers_are_read_at_each_call(data):
    f = ccc(lambda x: x * data[0])
    assert float(f(one)) == 2.0
    data[0] = 5.0
    assert float(f(one)) == 5.0


def test_globals_are_read_at_each_call():
    module = in_a_module("w = 2.0\nn = 1\ndef g(x):\n    return x * w\ndef f(x):\n    return g(x) * n + w")
    f = ccc(module["f"])
    assert float(f(one)) == 4.0
    module["w"] = 5.0
    assert float(f(one)) == 10.0
    module["n"] = 3
    assert float(f(one)) == 20.0
    exec("def g(x):\n    return -x", module)
    assert float(f(one)) == 2.0


def test_a_function_value_does_not_change_after_it_is_made():
    w = 2.0
    f = function(lambda x: x * w, F32)
    w = 5.0
    assert (float(f(one)), w) == (2.0, 5.0)


def test_a_counter_in_a_cell_counts():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * 2.0

    ccc(f)(one)
    assert n == 1


def test_a_function_still_appends_to_its_list():
    seen = []

    def f(x):
        seen.append(x.shape)
        return x * 2.0

    assert float(ccc(f)(one)) == 2.0
    assert seen == [()]


def test_the_function_itself_is_left_alone():
    w = 2.0

    def f(x, y=3.0):
        return x * w + y

    f.note = "kept"
    assert float(ccc(f)(one)) == 5.0
    assert (w, f.__defaults__, f.note, f.__closure__[0].cell_contents) == (2.0, (3.0,), "kept", 2.0)


def test_tracers_are_captured():
    square = jax.jit(lambda w: ccc(lambda x: x * w)(w))
    assert float(square(3.0)) == 9.0
    assert float(jax.grad(lambda w: ccc(lambda x: x * w)(2.0))(3.0)) == 2.0


def test_a_weak_number_stays_weak():
    assert ccc(capture(2.0))(jnp.bfloat16(3)).dtype == jnp.bfloat16
    assert function(capture(2.0), C.Tensor((), jnp.bfloat16))(jnp.bfloat16(3)).dtype == jnp.bfloat16


def test_an_object_that_raises_on_any_question_is_read_as_python_reads_it():
    class Guarded:
        def __getattribute__(self, name):
            if name != "w":
                raise RuntimeError(name)
            return 2.0

    guarded = Guarded()
    slope = grad(lambda x: guarded.w * x)
    with pytest.warns(TracedAnewWarning, match="a Guarded"):
        assert [slope(1.0), slope(1.0)] == [2.0, 2.0]


def test_a_masked_array_is_read_as_python_reads_it():
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    slope = grad(lambda x: masked.sum() * x)
    with pytest.warns(TracedAnewWarning, match="MaskedArray"):
        assert [slope(1.0), slope(1.0)] == [4.0, 4.0]
    masked.mask = [1, 1, 0]
    assert slope(1.0) == 3.0
