"""The table against JAX's rules for the same primitives, in float64: both directions, equations, what is kept.

Each case is one equation of `lax`, and says what the row is handed whatever the version of JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters.partial_eval import dce_jaxpr

import combinators as C
from combinators.primitives import traced
from tangents import represent, vjp
from tangents.cotangents.sparse import ZERO, Sparse
from tangents.rows.kinds import Rule
from tangents.rows.matrices import MATRICES
from tangents.rows.spectral import SPECTRAL
from tangents.rows.table import CONSTANT, NATIVE, push_of, row_for
from tests.tangents.rows.cases import CASES, KINKS

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
FAULTS = {("pad", 1)}  # JAX fails at the cotangent of the value alone

UNEVEN = {"rem", "pow"}  # keep arguments where JAX keeps a factor


def hermitian(a, lower):
    """The matrices of which one triangle is given."""
    strict = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    return (
        strict + jnp.swapaxes(strict.conj(), -1, -2) + jnp.where(np.eye(a.shape[-1], dtype=bool), a, jnp.zeros_like(a))
    )


# What has the derivative that is meant where JAX's rule fails at a bound of rank 0, takes bits for steps, or takes it
# that matrices are symmetric of which one triangle is read; and what JAX of 0.11 takes for a step.
INSTEAD = {
    "clamp": lambda f, **_: lambda a, x, b: f(jnp.broadcast_to(a, x.shape), x, jnp.broadcast_to(b, x.shape)),
    "bitcast_convert_type": lambda f, **_: lambda x: x * jnp.ones_like(x),
    "eigh": lambda f, lower, **_: lambda a: f(hermitian(a, lower)),
    "sign": lambda f, **_: lambda x: x / jnp.abs(x).astype(x.dtype),
}


def spread(like, start):
    """cos of start, start + 1, ...; with an imaginary part for complex numbers; () for what is discrete."""
    if not jnp.issubdtype(like.dtype, np.inexact):
        return np.zeros(like.shape, jax.dtypes.float0)
    v = np.cos(start + np.arange(like.size)).reshape(like.shape)
    return (v * (1 - 2j) if jnp.issubdtype(like.dtype, np.complexfloating) else v).astype(like.dtype)


def equation(f, arguments):
    """The one equation of a case, whose operands are its arguments."""
    program = jax.make_jaxpr(f)(*arguments)
    (eqn,) = program.eqns
    assert eqn.invars == program.jaxpr.invars
    return eqn


def is_active(x):
    return jnp.issubdtype(x.dtype, np.inexact)


class Case:
    """One equation at some arguments, with a cotangent and tangents."""

    def __init__(self, name, f, *arguments):
        self.arguments = tuple(map(jnp.asarray, arguments))
        eqn = equation(f, self.arguments)
        assert eqn.primitive.name == name
        self.term = traced(eqn.primitive, eqn.params)
        self.f, self.params = f, eqn.params
        self.reference = INSTEAD[name](f, **eqn.params) if name in INSTEAD else f
        self.row = row_for(name, self.arguments, eqn.params)
        self.asked = tuple(i for i, x in enumerate(self.arguments) if is_active(x))
        y = jax.eval_shape(f, *self.arguments)
        self.several = isinstance(y, tuple | list)
        self.g = jax.tree.map(lambda r: spread(r, 1.0), y)
        self.t = tuple(spread(x, 2.0 + i) for i, x in enumerate(self.arguments))

    def pull(self, g, y, *arguments):
        parts = Sparse({i: p for i, p in enumerate(g) if p.dtype != jax.dtypes.float0}) if self.several else g
        return self.row.pull(self.asked, parts, y, *arguments, **self.params)

    def ours(self, g, t, *arguments):
        y = self.f(*arguments)
        tangents = [t[i] if i in self.asked else ZERO for i in range(len(arguments))]
        pushed = self.row.push(tangents, y, *arguments, **self.params)
        return self.pull(g, y, *arguments), [p for p in (pushed if self.several else [pushed]) if p is not ZERO]

    def jaxs(self, g, *arguments):
        with jax.numpy_dtype_promotion("standard"):  # JAX's rule of pow promotes an integer exponent
            _, pullback = jax.vjp(self.reference, *arguments)
            return active(pullback(g))

    def difference(self, t, *arguments, h=1e-6):
        at = lambda s: self.f(*(x + s * v if is_active(x) else x for x, v in zip(arguments, t, strict=True)))
        return [(p - q) / (2 * h) for p, q in zip(*map(jax.tree.leaves, (at(h), at(-h))), strict=True) if is_active(p)]


def close(left, right, tolerance, where):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, where
        wide = [np.asarray(v, complex) for v in (a, b)]
        np.testing.assert_allclose(*wide, tolerance, tolerance, err_msg=where)


def inner(left, right):
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return sum(float(np.sum(np.real(np.asarray(a, complex) * np.asarray(b, complex)))) for a, b in pairs)


def active(values):
    return [v for v in jax.tree.leaves(values) if v.dtype != jax.dtypes.float0]


def obey(cases, tolerance, smooth, paired=None):
    """All cases together: pullbacks are JAX's, pushforwards their transposes, and the derivative where it is smooth."""

    def results(given):
        one = lambda case, a: (
            case.ours(case.g, case.t, *a),
            case.jaxs(case.g, *a),
            case.difference(case.t, *a) if smooth else (),
        )
        return [one(case, a) for case, a in zip(cases, given, strict=True)]

    run = jax.jit(results, compiler_options=QUICK)([case.arguments for case in cases])
    for k, (case, (ours, jaxs, difference)) in enumerate(zip(cases, run, strict=True)):
        where = f"case {k}: {[x.shape for x in case.arguments]} {case.params}"
        close(ours[0], jaxs, tolerance, f"pullback, {where}")
        if all(np.isfinite(np.asarray(v, complex)).all() for v in jax.tree.leaves(ours)):
            left, right = inner(active(case.g), ours[1]), inner(ours[0], active(case.t))
            assert abs(left - right) <= (10 * tolerance if paired is None else paired) * (1 + abs(left)), where
        if smooth:
            close(ours[1], difference, 1e-6, f"central difference, {where}")


def made(name, cases):
    return [Case(name, *case) for case in cases]


def test_every_row_has_cases():
    assert set(CASES) == set(NATIVE)
    assert set(KINKS) <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_row_obeys_the_laws_of_primitives(name, x64):
    cases = made(name, CASES[name])
    assert all(isinstance(case.row, Rule) for case in cases)
    rounds = name in {"convert_element_type", "reduce_precision"}
    obey(cases, 1e-11, smooth=not rounds and name != "cholesky", paired=1e-2 if rounds else None)


@pytest.mark.parametrize("name", KINKS)
def test_kinks_and_ties_are_jaxs(name, x64):
    apart = np.inf if name == "reduce_window_max" else None  # XLA's two directions choose different places at ties
    obey(made(name, KINKS[name]), 1e-12, smooth=False, paired=apart)


def equations(f, *arguments):
    """The equations that matter of a program, those of its calls in their places."""
    program = jax.make_jaxpr(f)(*arguments)
    return list(inlined(dce_jaxpr(program.jaxpr, [True] * len(program.out_avals))[0]))


def inlined(jaxpr):
    for eqn in jaxpr.eqns:
        body = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        yield from [eqn] if body is None else inlined(body)


@pytest.mark.parametrize("name", CASES)
def test_no_more_equations_than_jaxs_and_no_more_kept(name, x64):
    case = Case(name, *CASES[name][0])
    for asked in [*((i,) for i in case.asked if (name, i) not in FAULTS), case.asked]:
        case.asked = asked

        def ours(g, *arguments, case=case):
            y = case.f(*arguments)
            return y, case.pull(g, y, *arguments)

        def jaxs(g, *arguments, case=case, asked=asked):
            some = lambda *xs: case.reference(
                *(xs[asked.index(i)] if i in asked else x for i, x in enumerate(arguments))
            )
            y, pullback = jax.vjp(some, *(arguments[i] for i in asked))
            return y, pullback(g)

        with jax.numpy_dtype_promotion("standard"):
            theirs = equations(jaxs, case.g, *case.arguments)
        found = equations(ours, case.g, *case.arguments)
        assert len(found) <= len(theirs), "\n".join(map(str, [*found, "JAX:", *theirs]))


def kept(f, *arguments):
    """Which arguments a program uses."""
    program = jax.make_jaxpr(f)(*arguments)
    return dce_jaxpr(program.jaxpr, [True] * len(program.out_avals))[1]


@pytest.mark.parametrize("name", CASES)
def test_what_is_kept_is_what_the_row_says_and_no_more_than_jax_keeps(name, x64):
    case = Case(name, *CASES[name][0])
    y = jax.eval_shape(case.f, *case.arguments)
    used = kept(lambda g, y, *xs: case.pull(g, y, *xs), case.g, y, *case.arguments)[len(jax.tree.leaves(y)) :]
    results, arguments = used[: -len(case.arguments)], used[-len(case.arguments) :]
    assert any(results) == ("result" in case.row.keeps)
    assert any(arguments) == (case.row.keeps not in {"nothing", "the result"})

    def residuals(*xs):
        some = lambda *v: case.reference(*(v[case.asked.index(i)] if i in case.asked else x for i, x in enumerate(xs)))
        return jax.tree.leaves(jax.vjp(some, *(xs[i] for i in case.asked))[1])

    jaxs = {v for v in jax.make_jaxpr(residuals)(*case.arguments).jaxpr.outvars if not hasattr(v, "val")}
    if name not in UNEVEN:
        assert sum(used) <= len(jaxs)


def test_programs_use_the_rows(x64):
    """The first case of each row, and the complex ones, as a program of its own."""
    chosen = [(name, case) for name in CASES for case in CASES[name][:1]]
    chosen += [(name, case) for name in CASES for case in CASES[name][1:] if any(map(np.iscomplexobj, case[1:]))]
    cases = [Case(name, *case) for name, case in chosen]

    def cotangents(case, xs):
        y, pullback = represent(case.term)(*xs)
        return pullback(jax.tree.map(lambda g, r: g if g.dtype == r.dtype else jnp.zeros_like(r), case.g, y))

    both = lambda given: [(cotangents(c, xs), c.jaxs(c.g, *xs)) for c, xs in zip(cases, given, strict=True)]
    run = jax.jit(both, compiler_options=QUICK)([case.arguments for case in cases])
    for (name, _), case, (ours, jaxs) in zip(chosen, cases, run, strict=True):
        close([(ours if isinstance(ours, tuple) else [ours])[i] for i in case.asked], jaxs, 1e-11, name)


def test_the_pushforward_of_a_tuple_of_pullbacks_is_their_transpose(x64):
    product = (lambda g, y, a, b, *, k: k * g * b, lambda g, y, a, b, *, k: k * g * a)
    a, b, s, t = map(np.asarray, (2.0, 3.0, 5.0, 7.0))
    assert float(push_of(product)((s, t), 24.0, a, b, k=4.0)) == 4 * (5 * 3 + 7 * 2)
    assert float(push_of(product)((ZERO, t), 24.0, a, b, k=4.0)) == 4 * 7 * 2
    assert push_of(product)((ZERO, ZERO), 24.0, a, b, k=4.0) is ZERO
    assert push_of(NATIVE["mul"])((ZERO, ZERO), 24.0, a, b) is ZERO


def test_bfloat16():
    """Cotangents have the dtype of their primals."""
    names = [name for name in CASES if name not in {"convert_element_type", *MATRICES, *SPECTRAL}]
    for name in names:
        f, *arguments = CASES[name][0]
        if name == "complex" or any(map(np.iscomplexobj, arguments)):
            continue
        halves = [np.asarray(a).astype(jnp.bfloat16) if np.asarray(a).dtype == float else a for a in arguments]
        case = Case(name, f, *halves)
        pulled, pushed = jax.eval_shape(case.ours, case.g, case.t, *case.arguments)
        assert [p.dtype for p in pulled] == [case.arguments[i].dtype for i in case.asked], name
        assert [p.dtype for p in pushed] == [p.dtype for p in active(case.g)], name


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_a_product_that_is_wider_than_its_arguments(dtype, x64):
    wider = lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float64)
    x, y = np.ones((2, 3), dtype), np.ones((3, 4), dtype)
    obey(made("dot_general", [(wider, x, y)]), 1e-2, smooth=False)


def test_a_cholesky_factor_is_differentiated(x64):
    """The primitive leaves anything above the diagonal."""
    f, a = lambda a: jnp.sum(jnp.cos(jnp.linalg.cholesky(a @ a.T))), np.eye(3) + np.arange(9.0).reshape(3, 3) / 9
    along = lambda s: f(a + s * np.sin(np.arange(9.0)).reshape(3, 3))
    _, pullback = vjp(f, a)
    found = np.sum(pullback(1.0)[0] * np.sin(np.arange(9.0)).reshape(3, 3))
    np.testing.assert_allclose(found, (along(1e-6) - along(-1e-6)) / 2e-6, 1e-6)


def test_constants_have_no_rows_and_their_gradient_is_zero(x64):
    for f in (lax.floor, lax.ceil, lax.round, lax.sign, lax.stop_gradient):
        _, pullback = vjp(f, np.array([0.3, 1.5]))
        assert (pullback(np.ones(2))[0] == 0).all()
    assert all(row_for(name, (np.ones(2),), {}) == () for name in CONSTANT)
    assert C.primitive("floor").name in CONSTANT
