"""Bad input: each mistake is one of our errors, shows where it is, what was expected and what came, and a hint."""

import linecache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback

import combinators as C
from combinators import errors as E
from compile_ccc import ccc, function, trace
from tangents import add, define, grad, jvp, represent, value_and_grad, vjp, zero

F32 = C.Tensor()
F = C.Function(F32, F32)
SIN, ADD, ID = C.primitive("sin"), C.primitive("add"), C.id
double = function(lambda x: 2.0 * x, F32)
triple = function(lambda x: 3.0 * x, F32)
one, three = jnp.float32(1), jnp.ones(3)
step = C.curry(C.proj(-1) >> C.proj(0))


def loop(body, arrow, elements=three):
    return C.prod(body, ID, C.const(elements)) >> arrow


# Terms: the class, and the text of the term with the mark on the offending part

TERMS = {
    "types that do not meet": (SIN >> C.prod(ID, ID) >> SIN, one, E.CompositionError, "sin >> prod(id, id) >> ▶ sin ◀"),
    "a dtype that does not fit": (ID >> SIN, jnp.int32(1), E.CompositionError, "id >> ▶ sin ◀"),
    "shapes that do not fit": (C.prod(ID, C.const(jnp.ones(2))) >> ADD, three, E.CompositionError, "▶ add ◀"),
    "a product among arguments": (C.prod(ID, C.prod(ID, ID)) >> ADD, one, E.CompositionError, "▶ add ◀"),
    "a missing parameter": (ID >> C.primitive("reduce_sum"), three, E.CompositionError, "▶ reduce_sum ◀"),
    "out of range": (ID >> C.proj(2), (one, one), E.ProjectionError, "id >> ▶ proj(2) ◀"),
    "out of range, from the end": (ID >> C.proj(-3), (one, one), E.ProjectionError, "id >> ▶ proj(-3) ◀"),
    "no such name": (ID >> C.proj("w"), {"W": one}, E.ProjectionError, "id >> ▶ proj('w') ◀"),
    "out of a context": (C.extend(C.proj(0)) >> C.proj(2), C.Context(one), E.ProjectionError, "▶ proj(2) ◀"),
    "a component of an array": (ID >> C.proj(0), three, E.ProjectionError, "▶ proj(0) ◀"),
    "a component of a function": (ID >> C.proj(0), double, E.ProjectionError, "▶ proj(0) ◀"),
    "in a product": (C.prod(ID, C.prod({"a": C.proj(5)})), (one, one), E.ProjectionError, "prod(a=▶ proj(5) ◀))"),
    "in a let": (C.extend(ID >> C.proj(5)), (one, one), E.ProjectionError, "extend(id >> ▶ proj(5) ◀)"),
    "in a function that is applied": (
        C.prod(C.curry(C.proj(1) >> C.proj(7)), ID) >> C.eval, one, E.ProjectionError, "curry(proj(1) >> ▶ proj(7) ◀)"
    ),
    "in the step of a loop": (loop(C.curry(C.proj(7)), C.fold), one, E.ProjectionError, "curry(▶ proj(7) ◀)"),
    "eval of no pair": (ID >> C.eval, one, E.CompositionError, "id >> ▶ eval ◀"),
    "eval of no function": (C.prod(ID, ID) >> C.eval, one, E.EvalError, "prod(id, id) >> ▶ eval ◀"),
    "eval at another type": (C.prod(C.const(double), ID) >> C.eval, three, E.ArgumentError, "▶ eval ◀"),
    "a fold of no function": (loop(ID, C.fold), one, E.EvalError, "▶ fold ◀"),
    "a map of no function": (C.prod(ID, ID) >> C.map, three, E.EvalError, "▶ map ◀"),
    "a scan of no function": (loop(ID, C.scan), one, E.EvalError, "▶ scan ◀"),
    "a fold over numbers": (loop(step, C.fold, 1.0), one, E.CompositionError, "▶ fold ◀"),
    "a fold over two lengths": (loop(step, C.fold, (three, jnp.ones(2))), one, E.CompositionError, "▶ fold ◀"),
    "a fold that changes the dtype": (loop(C.curry(C.const(jnp.int32(1))), C.fold), one, E.LoopError, "▶ fold ◀"),
    "a fold that changes the shape": (loop(C.curry(C.const(three)), C.fold), one, E.LoopError, "▶ fold ◀"),
    "a scan whose step gives no pair": (loop(step, C.scan), one, E.LoopError, "▶ scan ◀"),
    "a tag of no integer": (ID >> C.tag(2), one, E.CompositionError, "id >> ▶ tag(2) ◀"),
    "a sine of a function": (C.prod(C.const(double), ID) >> ADD, one, E.FunctionArithmeticError, "▶ add ◀"),
}  # fmt: skip


@pytest.mark.parametrize("way", ["infer", "call", "lower"])
@pytest.mark.parametrize("name", TERMS)
def test_the_offending_part_of_a_term_is_marked(name, way):
    term, x, error, marked = TERMS[name]
    run = {"infer": lambda: C.infer(term, x), "call": lambda: term(x), "lower": lambda: trace(term, x)}[way]
    with pytest.raises(error) as caught:
        run()
    message = " ".join(str(caught.value).split())
    assert marked in message
    assert all(field in message for field in ("expected: ", "got: ", "at: test_errors.py:", "hint: "))


def test_only_the_neighbours_of_a_marked_step_are_shown():
    term = C.compose(*[ID] * 50, C.proj(3), *[ID] * 50)
    with pytest.raises(E.ProjectionError, match="… >> id >> id >> id >> ▶ proj\\(3\\) ◀ >> id >> id >> id >> …"):
        C.infer(term, one)


# Programs: the class, words of the message, and the user's own line

leaked = []


def leak(f, x):
    leaked.append(f)
    return x


def called_after_its_trace():
    ccc(leak)(double, one)
    return leaked[-1](one)  # LINE


def returned_from_another_trace():
    ccc(leak)(double, one)
    f = leaked[-1]
    return ccc(lambda x: f)(one)  # LINE


def called_in_another_trace():
    ccc(leak)(double, one)
    f = leaked[-1]
    return ccc(lambda x: f(x))(one)  # LINE


def ordered_callback(x):
    return io_callback(lambda a: a, jax.ShapeDtypeStruct((), jnp.float32), x, ordered=True)  # LINE


def callback(x):
    return io_callback(lambda a: a, jax.ShapeDtypeStruct((), jnp.float32), x)  # LINE


def array_of_functions(xs):
    return jax.vmap(lambda a: function(lambda b: a * b, F32))(xs)  # LINE


def branch(x):
    if x > 0.0:  # LINE
        return x
    return -x


def branch_in_a_function(x):
    return function(branch, F32)(x)


def numpy_on_a_tracer(x):
    return np.sin(x)  # LINE


def masked(x):
    return jnp.sum(x[x > 0])


def as_text(x):
    return len(f"{x:.2f}") * x


def as_index(i):
    return [1.0, 2.0][i]  # LINE


def underivable(x):
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x)  # LINE


ARITHMETIC = {
    "f + 1": lambda f, x: f + 1.0,
    "2 * f": lambda f, x: 2.0 * f,
    "x @ f": lambda f, x: jnp.stack([x, x]) @ f,
    "f == 1": lambda f, x: f == 1.0,
    "f != f": lambda f, x: f != f,
    "f < 1": lambda f, x: f < 1.0,
    "-f": lambda f, x: -f,
    "f[0]": lambda f, x: f[0],
    "len(f)": lambda f, x: len(f),
    "iter(f)": lambda f, x: list(f),
    "float(f)": lambda f, x: float(f),
    "if f": lambda f, x: x if f else -x,
    "jnp.sin(f)": lambda f, x: jnp.sin(f),
    "jnp.stack": lambda f, x: jnp.stack([f, f]),
    "f.carrier": lambda f, x: f.carrier + f.carrier,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_on_a_function(name):
    with pytest.raises(E.FunctionArithmeticError) as caught:
        ccc(ARITHMETIC[name])(double, one)
    message = str(caught.value)
    assert f'"{name}": lambda f, x:' in caught.value.line
    assert all(words in message for words in ("expected: an array", "got: ", "hint: call it first"))


PROGRAMS = {
    "a lambda returned": (lambda: ccc(lambda x: lambda y: x)(one), E.BareFunctionError, "function(f, domain)"),
    "a lambda in data": (lambda: ccc(lambda x: {"f": lambda y: x})(one), E.BareFunctionError, "function(f, domain)"),
    "a lambda by a function": (lambda: function(lambda x: lambda y: x, F32), E.BareFunctionError, "function(f, "),
    "a lambda for a function": (
        lambda: ccc(lambda h: h(lambda y: y))(function(lambda f: f(one), F)), E.BareFunctionError, "function(f, domain)"
    ),
    "a lambda for an array": (lambda: double(lambda x: x), E.ArgumentError, "expected: f32[]"),
    "an untyped function": (lambda: ccc(lambda f: f(one))(lambda x: x), E.UntypedFunctionError, "function(f, domain)"),
    "its gradient": (lambda: grad(lambda f: f(one))(lambda x: x), E.UntypedFunctionError, "function(f, domain)"),
    "a code without annotation": (lambda: C.Closure(step, 1.0).type, E.UntypedFunctionError, "curry(f, argument=τ)"),
    "too few arguments": (lambda: ccc(lambda x, y: x)(one), E.ArityError, "expected: <lambda>(x, y)"),
    "too many arguments": (lambda: ccc(lambda x: x)(one, one), E.ArityError, "got: 2"),
    "a wrong keyword": (lambda: ccc(lambda x: x)(z=one), E.ArityError, "expected: <lambda>(x)"),
    "a domain of another arity": (lambda: function(lambda x, y: x, F32), E.ArityError, "expected: <lambda>(x, y)"),
    "too many for a function value": (lambda: double(one, one), E.ArityError, "expected: 1"),
    "too many inside": (lambda: ccc(lambda f, x: f(x, x))(double, one), E.ArityError, "expected: 1"),
    "another structure": (lambda: function(lambda p: p["a"], {"a": F32})({"b": one}), E.ArgumentError, "{'b': f32[]}"),
    "another shape": (lambda: double(three), E.ArgumentError, "got: f32[3]"),
    "another dtype": (lambda: double(jnp.int32(1)), E.ArgumentError, "got: i32[]"),
    "a float for an int": (lambda: function(lambda n: n, C.Tensor((), int))(2.5), E.ArgumentError, "expected: i32[]"),
    "another dtype inside": (lambda: ccc(lambda f, n: f(n))(double, jnp.int32(1)), E.ArgumentError, "got: i32[]"),
    "an array for a function": (lambda: function(lambda f: f(one), F)(one), E.ArgumentError, "(f32[] ⇝ f32[])"),
    "text": (lambda: ccc(lambda x: x)("a"), E.ArgumentError, "'a' of type str"),
    "no function": (lambda: ccc(3.0)(one), E.ArgumentError, "got: 3.0"),
    "a mask of traced values": (lambda: jax.jit(grad(masked))(three), E.TracedBranchError, "jnp.where"),
    "the text of a traced value": (lambda: jax.jit(ccc(as_text))(one), E.TracedBranchError, "format"),
    "a lambda for a term": (lambda: C.equal(lambda x: x, ID, F32), E.ArgumentError, "trace(f, domain).term"),
    "text for a term": (lambda: C.normalise("x", F32), E.ArgumentError, "got: 'x'"),
    "a meaning without a signature": (lambda: define("most", max, lambda g, y, x: g), E.ArgumentError, "signature"),
    "text as a result": (lambda: vjp(lambda x: (x, "a"), one), E.ArgumentError, "out of arguments and"),
    "no term": (lambda: C.compose(ID, 1), E.ArgumentError, "argument 1 of compose"),
    "an unknown primitive": (lambda: C.primitive("sine"), E.UnknownPrimitiveError, "such as sin"),
    "a gradient by an int": (lambda: grad(lambda n: n * 2)(3), E.NotDifferentiableError, "2.0 for 2"),
    "a gradient by integers": (lambda: grad(lambda n: n * 1.0)(jnp.arange(3)), E.NotDifferentiableError, "got: i32[3]"),
    "a gradient by a bool": (lambda: grad(lambda b: 1.0)(True), E.NotDifferentiableError, "got: bool[]"),
    "a gradient by a key": (lambda: grad(lambda k: 1.0)(jax.random.key(0)), E.NotDifferentiableError, "got: key"),
    "argnums out of range": (lambda: grad(lambda x: x, 3)(one), E.ArityError, "got: 3"),
    "argnums below range": (lambda: grad(lambda x: x, (0, -2))(one), E.ArityError, "got: -2"),
    "argnums that are none": (lambda: grad(lambda x: x, "x")(one), E.ArgumentError, "got: 'x'"),
    "a vector as result": (lambda: grad(lambda x: x)(three), E.NotDifferentiableError, "got: f32[3]"),
    "a pair as result": (lambda: value_and_grad(lambda x: (x, x))(one), E.NotDifferentiableError, "(f32[], f32[])"),
    "an int as result": (lambda: grad(lambda x: 3)(one), E.NotDifferentiableError, "got: i32[]"),
    "a complex number as result": (lambda: grad(lambda x: x + 0j)(1.0), E.NotDifferentiableError, "got: c64[]"),
    "a function": (lambda: grad(lambda x: function(lambda y: x, F32))(one), E.NotDifferentiableError, "scalar"),
    "no auxiliary result": (lambda: grad(lambda x: x, has_aux=True)(one), E.ArgumentError, "expected: (scalar, aux)"),
    "an unknown tangent space": (lambda: grad(lambda x: x, functions="lists"), E.ArgumentError, "got: 'lists'"),
    "a cotangent of another structure": (lambda: vjp(lambda x: (x, x), one)[1](one), E.ArgumentError, "(f32[], f32[])"),
    "a cotangent of another shape": (lambda: vjp(lambda x: x, one)[1](three), E.ArgumentError, "got: f32[3]"),
    "a missing cotangent": (lambda: vjp(lambda x: x, one)[1](None), E.ArgumentError, "got: None"),
    "an array for a list of calls": (lambda: represent(ID, "list")(double)[1](one), E.ArgumentError, "Calls"),
    "a list of unknown length": (
        lambda: vjp(lambda a: function(lambda x: a * x, F32), one, functions="list"), E.UnsupportedError, "fixed size"
    ),
    "no rule of a derivative": (lambda: grad(underivable)(one), E.NotDifferentiableError, "pure_callback"),
    "a derivative along an unknown function": (
        lambda: ccc(lambda f, x: jvp(lambda f: f(x), (f,), (f,)))(double, one), E.UnsupportedError, "from outside"
    ),
    "the list of calls of what is differentiated inside": (
        lambda: grad(lambda f, x: grad(f)(x), functions="list")(double, one), E.UnsupportedError, "environment"
    ),
    "JAX's derivative of one": (
        lambda: ccc(lambda f, x: jax.grad(lambda y: f(y))(x))(double, one), E.NotDifferentiableError, "tangents.grad"
    ),
    "two cotangents for a pullback": (lambda: vjp(jnp.sin, one)[1](one, one), E.ArityError, "one cotangent"),
    "zeros in the place of a function": (
        lambda: ccc(lambda f: jax.tree.map(jnp.zeros_like, f))(double), E.FunctionArithmeticError, "zeros_like"
    ),
    "the zero of an unknown function": (lambda: ccc(lambda f: zero(f))(double), E.UnsupportedError, "from outside"),
    "the sum of unknown functions": (lambda: ccc(lambda f: add(f, f))(double), E.UnsupportedError, "from outside"),
    "an array in the place of a function": (
        lambda: ccc(lambda f, x: jax.tree.map(lambda leaf: x, f))(double, one), E.FunctionArithmeticError, "float32[]"
    ),
    "arithmetic on a function in a loop": (
        lambda: ccc(lambda f, x: lax.fori_loop(0, 2, lambda _, s: jax.tree.map(lambda v: v * x, s), f))(double, one),
        E.FunctionArithmeticError, "a function",
    ),
    "a function that grows in a loop": (
        lambda: ccc(lambda f, x: lax.fori_loop(0, 3, lambda _, s: function(lambda y: s(s(y)), F32), f)(x))(double, one),
        E.LoopError, "▶ fold ◀",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_bad_program_is_refused(name):
    run, error, words = PROGRAMS[name]
    with pytest.raises(error) as caught:
        run()
    message = str(caught.value)
    assert words in message
    assert all(f"{field}: " in message for field in ("expected", "got", "hint"))
    assert caught.value.line.startswith("test_errors.py:")


LINES = {
    "called after its trace": (called_after_its_trace, called_after_its_trace, E.LeakedFunctionError),
    "called in another trace": (called_in_another_trace, called_in_another_trace, E.LeakedFunctionError),
    "returned from another trace": (returned_from_another_trace, returned_from_another_trace, E.LeakedFunctionError),
    "an ordered effect": (ordered_callback, lambda: ccc(ordered_callback)(one), E.UnsupportedError),
    "an io_callback": (callback, lambda: ccc(callback)(one), E.UnsupportedError),
    "an array of functions": (array_of_functions, lambda: ccc(array_of_functions)(three), E.UnsupportedError),
    "an if": (branch, lambda: jax.jit(ccc(branch))(one), E.TracedBranchError),
    "an if in a function": (branch, lambda: ccc(branch_in_a_function)(one), E.TracedBranchError),
    "an if under grad": (branch, lambda: jax.jit(grad(branch))(one), E.TracedBranchError),
    "NumPy": (numpy_on_a_tracer, lambda: jax.jit(ccc(numpy_on_a_tracer))(one), E.TracedBranchError),
    "an index": (as_index, lambda: jax.jit(ccc(as_index))(jnp.int32(1)), E.TracedBranchError),
    "no derivative": (underivable, lambda: grad(underivable)(one), E.NotDifferentiableError),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_the_users_own_line_is_named(name):
    where, run, error = LINES[name]
    with pytest.raises(error) as caught:
        run()
    first = where.__code__.co_firstlineno
    number = next(n for n in range(first, first + 6) if "# LINE" in linecache.getline(__file__, n))
    assert f"at: test_errors.py:{number}: {linecache.getline(__file__, number).strip()}" in str(caught.value)
    assert all(f"{field}: " in str(caught.value) for field in ("expected", "got", "hint"))
