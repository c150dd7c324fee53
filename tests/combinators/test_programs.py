"""Programs that we have JAX write, against `jax.make_jaxpr`: the same equations, constants and parameters of calls."""

import jax
import jax.core
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from combinators import staging
from combinators.identity.identity import function_key, key_of
from combinators.memo import caches, clear_caches
from combinators.primitives import traced
from compile_ccc.jaxprs.programs import Program, literal_of
from compile_ccc.jaxprs.recording import record
from compile_ccc.jaxprs.scans import scan

v, met = jnp.array([0.5, -1.0, 2.0]), jnp.array([1.0, 2.0, 4.0])

FUNCTIONS = {
    "an operation": lambda x: [jnp.sin(x)],
    "what it met": lambda x: [x * met, 2.0, x],
    "a jitted function": lambda x: [jax.jit(lambda y: y * y)(x)],
    "a rule": lambda x: [jax.nn.relu(x), x],
    "a loop": lambda x: list(lax.scan(lambda s, row: (s * row, s), 1.0, x)),
    "nothing": lambda x: [],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_is_that_of_make_jaxpr(name):
    ours, jaxs = staging.program(FUNCTIONS[name], [jax.typeof(v)]), jax.make_jaxpr(FUNCTIONS[name])(v)
    assert str(ours) == str(jaxs)
    assert [c is d for c, d in zip(ours.consts, jaxs.consts, strict=True)] == [True] * len(jaxs.consts)


def operations(jaxpr):
    """The equations of a program, and of those in it, that hold no program themselves."""
    for equation in jaxpr.eqns:
        inner = list(jex.jaxprs_in_params(equation.params))
        yield from (e for p in inner for e in operations(p)) if inner else [equation]


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_an_operation_in_a_program_jax_is_not_asked_again(name, x64, monkeypatch):
    clear_caches()
    with jax.enable_x64(x64):
        program = staging.program(FUNCTIONS[name], [jax.typeof(v)])
        monkeypatch.setattr(staging, "_worked_out", lambda *_: pytest.fail("JAX is asked again"))
        for equation in operations(program):
            types = tuple(v.aval for v in equation.invars)
            found, effects = staging.results(equation.primitive, equation.params, types, staging.settings())
            expected, _ = equation.primitive.abstract_eval(*types, **equation.params)
            assert found == (expected if equation.primitive.multiple_results else [expected])
            assert not effects


def test_results_are_known_by_all_that_they_depend_on():
    clear_caches()
    weak, strong = (jax.core.ShapedArray((), "float32", weak_type=w) for w in (True, False))
    asked = [(jex.primitives.add_p, {}, (a, b)) for a in (weak, strong) for b in (weak, strong)]
    asked += [(jex.primitives.integer_pow_p, {"y": y}, (strong,)) for y in (2, 3)]
    found = [staging.results(*question, staging.settings())[0][0].weak_type for question in asked]
    assert found == [True, False, False, False, False, False]
    assert caches()["results of operations"] == len(asked)


def test_an_operation_with_a_parameter_without_a_hash_is_asked_for_each_time():
    listed = jex.Primitive("listed")
    listed.def_abstract_eval(lambda x, names: x)
    for _ in range(2):
        assert staging.results(listed, {"names": ["a"]}, (jax.typeof(v),), staging.settings()) == (
            [jax.typeof(v)],
            set(),
        )
    assert traced(listed, {"names": ["a"]}) is not traced(listed, {"names": ["b"]})


STEPS = {
    "a state and rows": (lambda s, x: (s * x, s), 2.0, v),
    "what it met": (lambda s, x: (jnp.dot(s, met) * x + s, jnp.sum(s)), v, v),
    "two states, and no rows": (lambda s, _: ((s[1], s[0] * s[1]), ()), (v, met), None),
    "rows in a pair": (lambda s, x: (s + x[0] * x[1]["a"], {"b": x[0] - s, "c": s}), jnp.float32(1), (v, {"a": v})),
    "a state that stays": (lambda s, x: ((s[0], s[1] * x), s[1]), (2.0, jnp.float32(1)), v),
    "rows that come out": (lambda s, x: (s * x, x), jnp.float32(1), v),
    "a loop in a loop": (lambda s, x: (lax.scan(lambda t, y: (t * y, None), s, met * x)[0], s), jnp.float32(1), v),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_a_loop_is_what_jax_writes(name, reverse):
    step, state, xs = STEPS[name]
    length = None if xs is not None else 4
    program = record(lambda state, xs: scan(step, state, xs, length, reverse), state, xs)
    of_jax = lambda state, xs: lax.scan(step, state, xs, length, reverse)
    (ours,), (jaxs,) = (
        [e for e in operations_and_loops(p) if e.primitive is jex.primitives.scan_p][:1]
        for p in (program.jaxpr, jax.make_jaxpr(of_jax)(state, xs).jaxpr)
    )
    assert [v.aval for v in ours.outvars] == [v.aval for v in jaxs.outvars]
    assert len(ours.invars) == len(jaxs.invars)
    for key in ("ft_in", "ft_out", "length", "reverse", "unroll"):
        assert ours.params[key] == jaxs.params[key]
    for got, expected in zip(
        jax.tree.leaves(program(*jax.tree.leaves((state, xs)))), jax.tree.leaves(of_jax(state, xs)), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def operations_and_loops(jaxpr):
    """The equations of a program and of the calls in it."""
    for equation in jaxpr.eqns:
        yield from operations_and_loops(equation.params["jaxpr"]) if equation.primitive.name == "jit" else [equation]


@pytest.mark.parametrize("outputs", [1, 2, 3, 5])
@pytest.mark.parametrize("inputs", [0, 1, 2, 3, 7])
def test_a_call_has_the_parameters_that_jax_gives_it(inputs, outputs):
    def f(*xs):
        return [lax.sin(x) for x in (*xs, *[1.0] * outputs)][:outputs]

    written = jax.make_jaxpr(jax.jit(f))(*[0.5] * inputs).eqns[0]
    program = Program.of(written.params["jaxpr"], jax.tree.structure([0] * outputs))
    called = jax.make_jaxpr(program)(*[0.5] * inputs).eqns[0]
    assert called.primitive is written.primitive
    assert {**called.params, "jaxpr": None, "name": None} == {**written.params, "jaxpr": None, "name": None}
    assert str(called.params["jaxpr"]) == str(written.params["jaxpr"])


def test_scalars_that_are_equal_and_not_the_same_are_two_literals():
    values = [0.0, -0.0, 0, False, np.float32(0.0), np.int32(0)]
    literals = [literal_of(value) for value in values]
    assert len({id(x) for x in literals}) == len(values)
    assert [(x.aval.dtype, x.aval.weak_type) for x in literals] == [
        (jax.typeof(value).dtype, jax.typeof(value).weak_type) for value in values
    ]
    assert [np.signbit(x.val) for x in literals[:2]] == [False, True]
    assert literal_of(0.0) is literals[0]


def test_programs_are_one_by_their_equations():
    def key(f):
        return key_of(jax.make_jaxpr(f)(v))

    assert key(lambda x: jnp.sin(x) * x) == key(lambda y: jnp.sin(y) * y)
    assert key(lambda x: jnp.sin(x) * x) != key(lambda x: x * jnp.sin(x))
    assert key(lambda x: jnp.where(x > 0.0, x, 0.0)) != key(lambda x: jnp.where(x > 0.0, x, -0.0))
    same, other = met + 0.0, met + 1.0
    assert key(lambda x: x * met) == key(lambda x: x * same)
    assert key(lambda x: x * met) != key(lambda x: x * other)
    assert key_of(((1, 0), (1,))) != key_of(((True, False), (1,))) != key_of(((1.0, 0.0), (1,)))


def test_a_rule_of_jax_is_one_and_a_rule_made_anew_is_known_by_what_it_captures():
    def rule(slope):
        f = jax.custom_jvp(lambda x: x)
        f.defjvp(lambda primals, tangents: (primals[0], slope * tangents[0]))
        return f

    assert function_key(rule(2.0).jvp) == function_key(rule(2.0).jvp)
    assert function_key(rule(2.0).jvp) != function_key(rule(3.0).jvp)
    assert function_key(jax.nn.relu.jvp) == function_key(jax.nn.relu.jvp)
    assert function_key(jax.nn.relu.jvp) != function_key(jax.nn.relu6.jvp)
