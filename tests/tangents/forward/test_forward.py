"""Forward mode: values and tangents in float64 against mathematics, JAX and central differences; its work, counted."""

import sys
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import Context
from combinators.terms import Fold, Map, Scan
from compile_ccc import ccc, function, trace
from tangents import check, grad, hessian, hvp, jvp, vjp
from tests.counted import all_equations, chain, equations
from tests.tangents import test_gradients
from tests.tangents.test_gradient_conventions import KINKS
from tests.tangents.test_gradients import PROGRAMS, R, given, same

S, V = C.Tensor(), C.Tensor(3)
SIN, MUL, ADD = map(C.primitive, ("sin", "mul", "add"))
p0, p1, p2 = map(C.proj, range(3))
v = np.array([0.5, -1.0, 2.0])
NUMERIC = ["identity", "constant", "powers", "where", "an argument that is not used", "indexing", "attention"]
STRUCTURED = list(PROGRAMS)[list(PROGRAMS).index("a tree with integers") :]


def direction(x):
    """A tangent of x with different entries; float0 at integers, as JAX has it."""
    leaf = lambda a: np.cos(1.0 + np.arange(np.size(a))).reshape(np.shape(a))
    discrete = lambda a: not np.issubdtype(np.asarray(a).dtype, np.inexact)
    return jax.tree.map(lambda a: np.zeros(np.shape(a), jax.dtypes.float0) if discrete(a) else leaf(a), x)


def along(f, argnums, arguments):
    """f as a function of the asked-for arguments, these, and a direction."""
    numbers = [i % len(arguments) for i in (argnums if isinstance(argnums, tuple) else (argnums,))]
    of_asked = lambda *xs: f(*(xs[numbers.index(i)] if i in numbers else a for i, a in enumerate(arguments)))
    primals = tuple(arguments[i] for i in numbers)
    return of_asked, primals, direction(primals)


# Values and tangents


@pytest.mark.parametrize("name", [name for name in NUMERIC + STRUCTURED if name != "a wrong custom_vjp"])
def test_value_and_tangent(name, monkeypatch, x64):
    f, argnums, *arguments = PROGRAMS[name]
    got = jvp(*along(f, argnums, given(arguments)))
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[test_gradients.__name__], "function", lambda f, *domain: f)
        expected = jax.jit(lambda: jax.jvp(*along(f, argnums, arguments)))()
    same(got, expected)
    assert jax.tree.map(jnp.result_type, got[0]) == jax.tree.map(jnp.result_type, got[1])


@pytest.mark.parametrize("name", KINKS)
def test_at_kinks_and_poles_the_convention_is_jaxs(name, x64):
    f, x = KINKS[name]
    np.testing.assert_array_equal(*(np.asarray(j(f, (x,), (np.ones_like(x),))[1]) for j in (jvp, jax.jvp)))


@pytest.mark.parametrize("name", ["powers", "a scan with outputs", "curried", "functions of functions", "attention"])
def test_the_tangent_is_the_central_difference(name, x64):
    f, primals, t = along(*PROGRAMS[name][:2], given(PROGRAMS[name][2:]))
    at = lambda h: float(ccc(f)(*jax.tree.map(lambda x, d: x + h * d, primals, t)))
    difference = (8 * (at(1e-4) - at(-1e-4)) - (at(2e-4) - at(-2e-4))) / 12e-4
    assert float(jvp(f, primals, t)[1]) == pytest.approx(difference, rel=1e-7)


STEP = C.prod(p1 >> p0 >> SIN, C.prod(p0, p1 >> p1) >> MUL) >> ADD  # (c, (s, x)) ↦ sin s + c x
TERMS = {
    "id": (C.id, S),
    "compose": (SIN >> C.primitive("exp") >> SIN, V),
    "prod": (C.prod(SIN, C.id) >> MUL, S),
    "prod of names": (C.prod({"a": SIN, "b": C.id}), S),
    "proj": (C.proj(1) >> SIN, (S, S)),
    "extend": (C.extend(p0 >> SIN) >> C.prod(C.proj(-1), p1) >> MUL, Context(S, S)),
    "curry": (C.prod(C.curry(MUL), SIN) >> C.eval, S),
    "eval": (C.eval, (C.Function(S, S), S)),
    "const": (C.prod(C.const(2.0), C.id) >> MUL, S),
    "primitive of two results": (C.primitive("sort", dimension=0, is_stable=True, num_keys=1), V),
    "call": (C.call(SIN >> SIN, "sines"), S),
    "inject": (SIN >> C.inject(1, 2), S),
    "case": (C.case(MUL, C.prod(p0 >> SIN, p1) >> MUL), (S, C.Sum(S, S))),
    "case of a constant": (C.case(C.const(0.5), SIN), C.Sum(S, S)),
    "case of a known tag": (C.prod(p0, p1 >> C.inl) >> C.case(MUL, p0), (S, S)),
    "fold": (C.prod(C.curry(STEP), SIN, C.const(np.ones(3))) >> Fold(), S),
    "fold from the last": (C.prod(p0 >> C.curry(STEP), p0, p1) >> Fold(reverse=True), (S, V)),
    "scan": (C.prod(p0 >> C.curry(C.prod(STEP, p1 >> p0)), p0, p1) >> Scan(), (S, V)),
    "map": (C.prod(p0 >> C.curry(MUL), p1) >> Map(), (S, V)),
}  # fmt: skip


@pytest.mark.parametrize("name", TERMS)
def test_every_combinator_is_dual_to_its_pullback(name):
    """⟨g, push t⟩ = ⟨pull g, t⟩, and the pullback agrees with central differences."""
    with jax.disable_jit():  # compiling a loop takes longer than running it step by step
        rows = check(TERMS[name][0], TERMS[name][1], examples=2).rows
    assert ("duality", "forward") in [(row.property, row.reading) for row in rows]


# Arguments and results


def test_integers_take_any_zero_and_have_zero_tangents():
    f = lambda x, n: {"power": n * x**n, "n": n}
    for zero in (0, np.zeros((), jax.dtypes.float0), jnp.int32(0)):
        y, t = jvp(f, (1.2, 3), (1.0, zero))
        assert y["n"] == 3 and t["n"] == 0 and t["n"].dtype == jnp.int32
        assert float(y["power"]) == pytest.approx(3 * 1.2**3) and float(t["power"]) == pytest.approx(9 * 1.2**2)


def test_the_tangent_of_a_function_is_that_of_what_it_captured():
    w = 3.0
    triple = function(lambda x: w * x, S)
    y, t = jvp(lambda f, x: f(f(x)), (triple, 2.0), (jax.tree.map(lambda _: 1.0, triple), 0.5))
    assert (y, t) == (18.0, 2 * 3.0 * 2.0 + 9.0 * 0.5)


def test_results_of_a_stated_pullback_that_do_not_vary_have_no_tangent(x64):
    cube = lambda x: (0.0, x**3, 7)
    stated = jax.custom_vjp(cube)
    stated.defvjp(lambda x: (cube(x), x), lambda x, g: (3.0 * x**2 * g[1],))

    def f(x):
        zero, y, n = stated(x)
        return n * x * y + jnp.sqrt(zero)

    assert jvp(f, (2.0,), (1.0,)) == (7 * 2.0**4, 28 * 2.0**3)
    assert hessian(f)(2.0) == 84 * 2.0**2


def test_a_function_that_comes_out_has_a_closure_as_its_tangent():
    f, t = jvp(lambda w: function(lambda x: w * w * x, S), (3.0,), (2.0,))
    assert isinstance(t, C.Closure) and t.code is f.code and f(2.0) == 18.0
    assert jvp(lambda f: f(2.0), (f,), (t,)) == (18.0, 2 * 3.0 * 2.0 * 2.0)


def test_a_function_that_a_case_chooses():
    multiple = C.curry(MUL, S)
    chosen = C.prod(C.case(C.prod(SIN, C.id) >> p0 >> multiple, multiple), C.const(3.0)) >> C.eval
    at = lambda tag: C.Sum(jnp.float32(0.5), jnp.float32(2.0), tag=jnp.int32(tag))
    one = C.Sum(jnp.float32(1.0), jnp.float32(1.0), tag=0)
    for tag, value, slope in ((0, 3.0 * np.sin(0.5), 3.0 * np.cos(0.5)), (1, 6.0, 3.0)):
        same(jvp(chosen, (at(tag),), (C.Sum(*one.alternatives, tag=jnp.int32(0)),)), (value, slope), 1e-6)


def test_arrows_terms_and_closures():
    w = 2.0
    for f in (SIN, ccc(jnp.sin), function(jnp.sin, S), ccc(lambda x: x) >> SIN):
        same(jvp(f, (0.5,), (2.0,)), (np.sin(0.5), 2.0 * np.cos(0.5)), 1e-6)
    assert jvp(function(lambda x: w * x, S), (3.0,), (1.0,)) == (6.0, 2.0)
    assert hvp(C.prod(C.id, C.prod(C.id, C.id) >> MUL) >> MUL, (2.0,), (3.0,)) == 6 * 2.0 * 3.0


def test_tangents_that_do_not_fit_are_refused():
    f = lambda x, y: x * y
    with pytest.raises(C.errors.ArityError, match="as many tangents"):
        jvp(f, (1.0, 2.0), (1.0,))
    with pytest.raises(C.errors.ArityError, match="comma"):
        jvp(jnp.sin, 1.0, 1.0)
    with pytest.raises(C.errors.ArgumentError, match="not the structure"):
        jvp(lambda p: p["a"], ({"a": 1.0},), ({"b": 1.0},))
    for wrong in (jnp.ones(2), jnp.int32(1), np.zeros((), jax.dtypes.float0)):
        with pytest.raises(C.errors.ArgumentError, match="not the type"):
            jvp(jnp.sin, (jnp.float32(1.0),), (wrong,))


def test_a_primitive_without_forward_mode_is_refused_with_its_line():
    callback = lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float32), x)
    with pytest.raises(C.errors.NotDifferentiableError, match="forward-mode") as caught:
        jvp(lambda x: callback(x) * x, (2.0,), (1.0,))
    assert "jax.custom_jvp" in caught.value.hint and "test_forward.py" in caught.value.line
    assert jvp(lambda x: callback(lax.stop_gradient(x)) * x, (2.0,), (1.0,))[1] == np.sin(np.float32(2.0))


# Work


def tangent_of(f):
    return lambda x: jvp(f, (x,), (jnp.ones_like(x),))


def operations(f, x):
    return equations(f, x).total() - equations(f, x)["jit"]


@pytest.mark.parametrize("n", [100, 1000])
def test_a_chain_has_no_more_equations_than_jaxs(n):
    f, x = chain(n, "forward"), jnp.float32(0.5)
    jaxs = lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))
    assert operations(tangent_of(f), x) <= operations(jaxs, x) <= 3.5 * n


def test_zeros_are_not_computed():
    held = jnp.arange(3.0)
    f = lambda x: (x * 2.0, jnp.exp(jnp.sum(jnp.sin(held))) + jnp.floor(x))
    found = equations(tangent_of(f), jnp.float32(0.5))
    assert "cos" not in found and found["mul"] == 2 and found["add"] == 1


def test_a_scan_is_one_scan_over_the_state_that_is_active():
    def f(x):
        step = lambda s, e: ((s[0] * x + e, jnp.sin(s[1])), s[1])
        return lax.scan(step, (0.5, jnp.float32(1.0)), jnp.arange(3.0))

    found = [eqn for eqn in all_equations(tangent_of(f), jnp.float32(2.0)) if eqn.primitive.name == "scan"]
    assert len(found) == 1 and len(found[0].params["jaxpr"].jaxpr.outvars) == 4  # two of the state, a tangent, outputs
    assert "cos" not in equations(tangent_of(f), jnp.float32(2.0))


def test_a_state_becomes_active_through_another():
    shifted = lambda x: lax.scan(lambda s, _: ((s[0] * x, s[0], s[1]), None), (1.0, 1.0, 1.0), None, length=3)[0]
    assert jvp(shifted, (2.0,), (1.0,)) == ((8.0, 4.0, 2.0), (12.0, 4.0, 1.0))


def test_a_case_is_one_switch_and_a_map_one_loop_free_program():
    case = C.case(p0 >> SIN, MUL)
    sum = C.Sum(jnp.float32(1.0), jnp.float32(2.0), tag=jnp.int32(1))
    found = equations(lambda x: jvp(case, ((x, sum),), ((jnp.ones_like(x), sum),)), jnp.float32(0.5))
    assert found["cond"] == 1 and found["sin"] == found["cos"] == 1
    mapped = lambda x: C.map(function(lambda e: jnp.sin(e * x), S), jnp.arange(3.0))
    assert equations(tangent_of(mapped), jnp.float32(0.5))["sin"] == 1


def test_a_named_call_stays_one_and_is_written_down_once():
    @jax.jit
    def cell(x):
        return jnp.sin(x) * x

    f = lambda x: cell(cell(cell(x)))
    program = jax.make_jaxpr(tangent_of(f))(jnp.float32(0.5))
    names = Counter(
        eqn.params["name"] for eqn in all_equations(tangent_of(f), jnp.float32(0.5)) if "name" in eqn.params
    )
    assert names["cell_jvp"] == 3, program
    same(jvp(f, (0.5,), (1.0,)), jax.jvp(f, (0.5,), (1.0,)), 1e-6)


def test_a_fresh_but_equal_function_compiles_nothing(compilations):
    make = lambda w: lambda x: jnp.sin(w * x)
    jvp(make(2.0), (0.5,), (1.0,))
    compilations.new()
    assert float(jvp(make(3.0), (0.5,), (1.0,))[1]) == pytest.approx(3.0 * np.cos(1.5))
    assert compilations.new() == 0


def test_jvp_is_an_ordinary_function_of_jax():
    f = lambda x: jvp(lambda y: jnp.sin(x * y), (x,), (1.0,))[1]  # x cos x²
    closed = lambda x: x * jnp.cos(x * x)
    x = jnp.float32(0.7)
    same(jax.jit(f)(x), closed(x), 1e-6)
    same(jax.vmap(f)(jnp.stack([x, 2 * x])), closed(jnp.stack([x, 2 * x])), 1e-6)
    same(jax.grad(f)(x), jax.grad(closed)(x), 1e-6)
    same(jvp(f, (x,), (1.0,))[1], jax.grad(closed)(x), 1e-6)
    same(f(x), closed(x), 1e-6)


def test_the_pullback_and_the_tangent_are_adjoint(x64):
    f = lambda w, s: jnp.sin(w @ s) * s
    primals, tangents = (np.eye(3) + 0.1, v), (np.ones((3, 3)), np.cos(v))
    _, t = jvp(f, primals, tangents)
    pulled = vjp(f, *primals)[1](jnp.asarray(v))
    assert float(v @ t) == pytest.approx(sum(float(np.vdot(a, b)) for a, b in zip(pulled, tangents, strict=True)))


def test_the_term_of_a_derivative_is_a_term():
    term = trace(lambda x, t: jvp(lambda y: jnp.sin(x * y), (x,), (t,))[1], S, S).term
    assert float(C.evaluate(term, (0.5, 2.0))) == pytest.approx(2.0 * 0.5 * np.cos(0.25))
    assert float(grad(term)(0.5, 2.0)) == pytest.approx(2.0 * (np.cos(0.25) - 0.5 * 2 * 0.5 * np.sin(0.25)), rel=1e-5)


def test_the_program_under_disable_jit():
    f = lambda x: lax.scan(lambda s, e: (s * x + e, None), x, jnp.arange(3.0))[0]
    with jax.disable_jit():
        same(jvp(f, (2.0,), (1.0,)), jax.jvp(f, (2.0,), (1.0,)))


def test_real_types_are_kept(x64):
    assert R() == C.Tensor((), np.float64)
    y, t = jvp(lambda x: x * 2, (np.float32(1.0),), (np.float32(1.0),))
    assert y.dtype == t.dtype == np.float32
