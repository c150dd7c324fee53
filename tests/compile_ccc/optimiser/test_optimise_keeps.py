"""What the optimiser leaves: effects, branches, the code of functions that go elsewhere, and terms without a type."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import Context
from combinators.terms import Case
from combinators.text.show import parts
from compile_ccc import function, lower, optimise, trace
from tangents import represent

R = C.Tensor()
F = C.Function(R, R)
SIN, ADD, MUL, LOG = (C.primitive(name) for name in ("sin", "add", "mul", "log"))
p0, p1, p2, last = C.proj(0), C.proj(1), C.proj(2), C.proj(-1)
f, g, h, u = (C.primitive(name) for name in ("sin", "cos", "tanh", "exp"))


def lets(*values):
    return C.compose(*map(C.extend, values))


# What stays: effects, branches, and the code of functions that go elsewhere


def printing(x):
    jax.debug.print("x = {}", x)
    return x


def names_of(term):
    """The names of the primitives of a term, those inside of cases left out."""
    own = [term.name] if isinstance(term, type(f)) else []
    return own + [name for part in parts(term) if not isinstance(part, Case) for name in names_of(part)]


def constant(x):
    printing(x)
    return 2.0


def printed_by_an_unused_call(x):
    function(printing, R)(x)
    return 2.0 * x


def printed_in_a_loop(x):
    C.fold(function(lambda s, y: s + printing(y), R, R), x, jnp.zeros(3))
    return x


def printed_under_cond(x):
    lax.cond(x > 0, lambda: printing(x), lambda: x)
    return x


@pytest.mark.parametrize("program", [constant, printed_by_an_unused_call, printed_in_a_loop, printed_under_cond])
def test_what_prints_stays(program, capfd):
    term = trace(program, R).term
    for run in (lambda: C.evaluate(term, jnp.float32(3)), lambda: lower(term)(jnp.float32(3))):
        jax.block_until_ready(run())
        jax.effects_barrier()
        assert "x = " in capfd.readouterr().out


def test_the_call_of_an_unknown_function_stays():
    """It may print."""
    unused = C.prod(C.prod(p0, p1) >> C.eval, p1) >> p1
    assert optimise(unused) is unused
    assert optimise(C.prod(C.curry(last >> SIN), p1) >> p1) is p1


def test_nothing_leaves_a_branch():
    """Of the branch that is not taken no derivative is NaN."""
    x = Context(jnp.float32(0), C.Sum(jnp.float32(0), jnp.float32(0), tag=jnp.int32(1)))
    safe = C.case(C.prod(p0 >> LOG, p1) >> MUL, C.prod(p0, lets(last) >> p2) >> ADD)
    term = C.prod(Context(p0, p1)) >> C.extend(p0 >> SIN) >> C.prod(Context(p0, p1)) >> safe
    optimised = optimise(term)
    assert optimised is C.case(C.prod(p0 >> LOG, p1) >> MUL, C.prod(p0, p1) >> ADD) or "log" not in names_of(optimised)
    for functions in ("environment", "list"):
        y, pullback = represent(optimised, functions)(x)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(pullback(jnp.ones_like(y))))


def test_one_branch_is_not_put_after_two():
    """That would evaluate it twice where both branches are traced."""
    one_of = C.case(f >> C.inl, g >> C.inl) >> C.case(h, u)
    assert optimise(one_of) is one_of


def test_the_code_of_a_function_that_leaves_is_kept():
    """It is the identity of the function: a loop, for one, asks for a state of the same code at each step."""
    code = C.curry(C.id >> C.prod(p0, last) >> MUL, R)
    left = C.prod(Context(C.id >> SIN, C.id)) >> C.extend(code) >> last
    assert C.evaluate(optimise(left), 0.5).code is C.evaluate(left, 0.5).code
    again = C.curry(last >> p0 >> C.prod(Context(C.const(0.5))) >> code, (F, R))
    looped = C.prod(again, p0, p1) >> C.fold
    domain = (C.Closure(code, Context(2.0)), jnp.zeros(3))
    assert C.infer(optimise(C.id >> looped), domain).code is code


def test_what_is_bound_is_computed_once():
    """An argument that a function uses twice is not put into its body."""
    body = C.prod(C.prod(last, last) >> MUL, last) >> ADD
    assert optimise(C.prod(C.curry(body), SIN) >> C.eval) is C.extend(SIN) >> body


# The front door


def test_errors_show_the_term_as_it_was_given():
    with pytest.raises(C.errors.ProjectionError, match=r"id >> ▶ proj\(3\) ◀"):
        lower(C.compose(C.id, C.proj(3)))(0.5)


@pytest.mark.parametrize(
    "term",
    [
        C.proj(3) >> C.proj("a"),
        C.prod(f) >> C.proj("no such key"),
        C.prod(Context(f)) >> C.proj(7),
        C.prod(C.const(1.0), f) >> C.eval,
        C.prod(C.curry(p0)) >> C.map,
        C.prod(()) >> C.map,
        C.extend(f) >> C.case(f, g, h),
        C.prod(f, C.inject(2, 3)) >> C.case(f, g),
    ],
    ids=str,
)
def test_terms_without_a_type_are_left_to_inference(term):
    assert isinstance(optimise(term), C.Term)
