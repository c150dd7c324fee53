"""What JAX and Python refuse while they trace is an error of ours, with the user's line and what to do about it."""

import functools
import linecache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators.errors import (
    BudgetError,
    CompositionError,
    LoopError,
    NotDifferentiableError,
    TracedBranchError,
    UnsupportedError,
)
from compile_ccc import ccc, function
from tangents import custom, define, grad, hessian, jvp, vjp

NUMBER = C.Tensor()
four = jnp.arange(4.0)
jitted = jax.jit(lambda x, n: x * n, static_argnums=1)

NEEDS_VALUE = {  # functions of x and a size, and their slopes at x = 2 and the size 3
    "a shape": (lambda x, size: jnp.zeros(size).sum() * x, 0.0),
    "one size of a shape": (lambda x, size: jnp.broadcast_to(x, (2, size)).sum(), 6.0),
    "a new shape": (lambda x, size: (x * four).reshape(size - 1, -1).sum(), 6.0),
    "a static argument": (lambda x, size: jitted(x, size), 3.0),
    "an axis": (lambda x, size: jnp.sum(x * four, axis=size - 3), 6.0),
    "a window": (lambda x, size: (x * four)[:size].sum(), 3.0),
    "a repetition": (lambda x, size: jnp.tile(x, size).sum(), 3.0),
    "an exponent": (lambda x, size: lax.integer_pow(x, size), 12.0),
    "a number of steps": (lambda x, size: lax.scan(lambda s, _: (s * x, None), x, None, length=size)[0], 32.0),
    "a key of a dict": (lambda x, size: {3: x}[size], 1.0),
    "a place in a list": (lambda x, size: [x, x, x, 5.0 * x][size], 5.0),
    "an element of a set": (lambda x, size: x if size in {3} else -x, 1.0),
    "a range": (lambda x, size: sum(x for _ in range(size)), 3.0),
    "an array of NumPy": (lambda x, size: np.ones(size).sum() * x, 3.0),
    "a truth value": (lambda x, size: x if size > 2 else -x, 1.0),
    "text": (lambda x, size: x * len(f"{size:03d}"), 3.0),
}


@pytest.mark.parametrize("name", NEEDS_VALUE)
def test_python_gets_the_value_of_an_argument_that_is_known(name):
    f, slope = NEEDS_VALUE[name]
    assert grad(f)(2.0, 3) == slope


@pytest.mark.parametrize("name", NEEDS_VALUE)
def test_what_is_traced_has_no_value(name):
    f, _ = NEEDS_VALUE[name]
    for run in (lambda: jax.jit(grad(f))(2.0, 3), lambda: function(f, NUMBER, C.Tensor((), "int32"))):
        with pytest.raises(TracedBranchError) as caught:
            run()
        assert caught.value.line.startswith(f"test_complaints.py:{f.__code__.co_firstlineno}")
        assert "argument" in caught.value.hint


@pytest.mark.parametrize("f", [lambda x: {3.0: 1.0}[x] * x, lambda x: len({x}) * x, functools.lru_cache(lambda x: x)])
def test_what_is_differentiated_has_a_value_and_no_hash(f):
    with pytest.raises(TracedBranchError, match="hash") as caught:
        grad(lambda x: f(x))(3.0)
    assert "float(x)" in caught.value.hint
    assert grad(lambda x: {3: 2.0}[int(x)] * x)(3.0) == 2.0


def test_a_function_without_a_result_is_told():
    with pytest.raises(NotDifferentiableError) as caught:
        grad(lambda x: None)(1.0)
    assert "None" in caught.value.got and "return" in caught.value.hint


def endless(x):
    return endless(x)


def there(x):
    return 2.0 * back(x)


def back(x):
    return there(x)


def factorial(n):
    return jnp.where(n <= 0, 1.0, n * factorial(n - 1))


def in_functions(x):
    return function(lambda y: in_functions(y), NUMBER)(x)


again = ccc(lambda x: again(x))
ruled = custom(lambda x: ruled(x), lambda primals, y, g: (g,))
pulled = custom(lambda x: 2.0 * x, lambda primals, y, g: (endless(g),))
RECURSIONS = {  # and the function at whose line the stack ended, where that is certain
    "itself": (endless, ccc(endless)),
    "its gradient": (endless, grad(endless)),
    "each other": (None, ccc(there)),
    "a condition that is traced": (None, grad(factorial)),
    "function values": (in_functions, ccc(in_functions)),
    "an arrow": (None, again),
    "the gradient of an arrow": (None, grad(again)),
    "a function with a rule": (None, ruled),
    "a rule": (endless, grad(pulled)),
    "derivatives": (None, lambda x: grad(deeper)(x)),
}


def deeper(x):
    return grad(deeper)(x)


@pytest.mark.parametrize("name", RECURSIONS)
def test_a_recursion_without_end(name):
    where, run = RECURSIONS[name]
    with pytest.raises(BudgetError, match="deeper than Python's stack") as caught:
        run(1.0)
    assert caught.value.line.startswith("test_complaints.py:") and "lax" in caught.value.hint
    if where:
        number = where.__code__.co_firstlineno + 1
        assert caught.value.line == f"test_complaints.py:{number}: {linecache.getline(__file__, number).strip()}"


def test_a_recursion_with_an_end():
    power = lambda x, n: x if n == 1 else x * power(x, n - 1)
    assert grad(lambda x: power(x, 5))(2.0) == 80.0


PAIR = (jnp.float32(1.0), jnp.float32(2.0))
LOOPS = {  # and words of what was found: the place, and both types
    "a state that grows": (
        lambda x: lax.scan(lambda s, _: ((*s, x), None), PAIR, None, 2), "length 2", "length 3"
    ),
    "a state that loses a key": (
        lambda x: lax.scan(lambda s, _: ({"a": s["a"]}, None), {"a": x, "b": x}, None, 2), "2 children", "1 child"
    ),
    "a state of another shape": (
        lambda x: lax.scan(lambda s, _: ({"a": jnp.stack([x, x])}, None), {"a": x}, None, 2), "['a']", "float32[2]"
    ),
    "a state of another dtype": (
        lambda x: lax.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0], jnp.int32(1)), (x, x)), "float32[]", "int32[]"
    ),
    "a while that loses a part": (
        lambda x: lax.while_loop(lambda s: s[0] < 3.0, lambda s: s[:1], (x, x)), "length 2", "length 1"
    ),
    "a step that gives no pair": (lambda x: lax.scan(lambda s, _: s, x, None, 2), "float32[]", "pair"),
    "a condition that is a number": (lambda x: lax.while_loop(lambda s: s, lambda s: s, x), "float32", "boolean"),
}  # fmt: skip
BRANCHES = {
    "a branch that gives a pair": (lambda x: lax.cond(x > 0.0, lambda x: x, lambda x: (x, x), x), "tuple", "leaf"),
    "a branch of another shape": (
        lambda x: lax.cond(x > 0.0, lambda x: x, lambda x: jnp.stack([x, x]), x), "float32[]", "float32[2]"
    ),
    "an alternative that gives a pair": (lambda x: lax.switch(1, [lambda x: x, lambda x: (x, x)], x), "tuple", "leaf"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*LOOPS, *BRANCHES])
def test_a_state_or_a_branch_of_another_type(name):
    f, *words = (LOOPS | BRANCHES)[name]
    for run in (ccc(f), grad(f)):
        with pytest.raises(LoopError if name in LOOPS else CompositionError) as caught:
            run(jnp.float32(1.0))
        assert all(word in str(caught.value) for word in (*words, "expected: ", "hint: ", "at: test_complaints.py:"))


RULES = {
    "a pullback": custom(lambda x: 2.0 * x, lambda primals, y, g: (g if primals[0] > 0.0 else -g,)),
    "a pullback of a primitive": define("branches", lambda x: 2.0 * x, lambda g, y, x: g if x > 0.0 else -g),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_branches_on_what_is_traced(name):
    f = RULES[name]
    for run in (lambda: grad(f)(1.0), lambda: vjp(f, 1.0), lambda: hessian(f)(1.0)):
        with pytest.raises(TracedBranchError) as caught:
            run()
        assert "if " in caught.value.line


def test_a_ref_is_no_value():
    ref = jax.new_ref(jnp.ones(3))
    total = lambda r: jnp.sum(r[...])
    for run in (
        lambda: grad(total)(ref), lambda: ccc(total)(ref), lambda: vjp(total, ref), lambda: C.id(ref),
        lambda: jvp(total, (ref,), (jnp.ones(3),)), lambda: C.type_of(ref), lambda: function(total, ref),
        lambda: ccc(lambda x: jax.new_ref(x))(1.0), lambda: grad(lambda x: jnp.sum(x * ref[...]))(1.0),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match="Ref"):
            run()
    assert grad(total)(ref[...]).tolist() == [1.0] * 3


def test_what_is_no_complaint_of_tracing_keeps_its_type():
    def fails(error):
        def f(x):
            raise error

        return f

    for error in (TypeError("mine"), ValueError("mine"), KeyError("mine"), IndexError("mine"), ZeroDivisionError()):
        for run in (ccc(fails(error)), grad(fails(error))):
            with pytest.raises(type(error)) as caught:
                run(1.0)
            assert caught.value is error


@pytest.mark.parametrize("kind", [jax.custom_jvp, jax.custom_vjp])
def test_a_function_whose_rule_is_not_there_yet(kind):
    without = kind(lambda x: x)
    with pytest.raises(C.errors.NotDifferentiableError, match="has none yet") as error:
        grad(lambda x: without(x))(2.0)
    assert "test_complaints.py" in str(error.value)


MASK = np.array([True, False, True])
FORGOTTEN = {  # what is written of a ref where its value is meant
    "times": lambda r: r * 2.0,
    "from the left": lambda r: 2.0 - r,
    "negative": lambda r: -r,
    "compared": lambda r: 1.0 if r > 0 else 2.0,
    "an operation": lambda r: jnp.sin(r),
    "a method": lambda r: r.sum(),
    "a number of Python": lambda r: int(r),
    "each of it": lambda r: sum(v for v in r),
    "a mask": lambda r: r[MASK].sum(),
    "a traced mask": lambda r: r[r[...] > 0].sum(),
    "a mask that is written": lambda r: r.__setitem__(MASK, jnp.ones(3)),
    "backwards": lambda r: r[::-1].sum(),
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_ref_in_the_place_of_what_it_holds(name):
    use = FORGOTTEN[name]
    with pytest.raises(UnsupportedError, match="a ref ") as caught:
        grad(lambda x: (use(jax.new_ref(x * jnp.ones(3))), x)[1])(2.0)
    assert caught.value.line.startswith(f"test_complaints.py:{use.__code__.co_firstlineno}")
    assert "ref[...]" in caught.value.hint or "read the ref" in caught.value.hint
