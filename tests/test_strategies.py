"""What the strategies draw: types, values, well-typed terms, and programs that keep their meaning; how they shrink.

Under `HYPOTHESIS_PROFILE=nightly` many random programs are checked instead of the same few.
"""

import importlib
import subprocess
import sys
import zlib
from collections import Counter
from functools import partial
from random import Random

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, event, find, given, reject, settings
from hypothesis import strategies as st

import combinators as C
from combinators import Context
from combinators.infer import accepts
from combinators.memo import clear_caches
from combinators.show import parts
from combinators.terms import Compose, Curry, Extend, Primitive, Proj
from combinators.types import pack
from compile_ccc import ccc, compat, lower, trace
from compile_ccc.reducers import inlined
from tangents import represent, value_and_grad
from tangents.strategies import Pair, contexts, lambdas, tensors, terms, types, values_of

SPACES = ["environment", "list"]
R = C.Tensor()


def many(ci):
    """More examples than usual in a run of the same few; in a nightly run, as many as that asks for."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return settings(max_examples=max(ci, profile.max_examples) if profile.derandomize else profile.max_examples)


# Running a program operation by operation: XLA would take longer to compile most of them than all else takes.  Only
# loops in loops in loops, of which now and then one has millions of turns, are compiled.

MANY = 5_000


class Staged:
    """A function as the program that JAX traces it to, which is then run without compiling it as a whole."""

    def __init__(self, f, *arguments):
        self.program, result = jax.make_jaxpr(f, return_shape=True)(*arguments)
        self.form = jax.tree.structure(result)

    def __call__(self, *arguments):
        as_it_is = jax.jit(jex.jaxpr_as_fun(self.program)) if work(self.program) > MANY else partial(run, self.program)
        return self.form.unflatten(as_it_is(*jax.tree.leaves(arguments)))


def work(program):
    """How many operations a program executes."""
    bodies = lambda eqn: sum(map(work, jex.jaxprs_in_params(eqn.params)))
    return sum(max(1, bodies(eqn)) * eqn.params.get("length", 1) for eqn in program.eqns)


def loops_in_loops(program):
    """How deep loops of a program are nested."""
    inside = lambda eqn: max(map(loops_in_loops, jex.jaxprs_in_params(eqn.params)), default=0)
    return max((inside(eqn) + (eqn.primitive.name == "scan") for eqn in program.eqns), default=0)


def run(program, *operands):
    env = dict(zip((*program.jaxpr.constvars, *program.jaxpr.invars), (*program.consts, *operands), strict=True))
    read = lambda v: v.val if isinstance(v, jex.Literal) else env[v]
    for eqn in program.jaxpr.eqns:
        env.update(zip(eqn.outvars, equation(eqn, [read(v) for v in eqn.invars]), strict=True))
    return [read(v) for v in program.jaxpr.outvars]


def equation(eqn, operands):
    if eqn.primitive.name == "scan" and eqn.params["length"]:
        return loop(eqn, operands, *compat.scan_arity(eqn.params))
    if (program := inlined(eqn)) is not None:
        return run(program, *operands)
    result = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return result if eqn.primitive.multiple_results else [result]


def loop(eqn, operands, constants, carry):
    captured, state = operands[:constants], operands[constants : constants + carry]
    rows = list(zip(*map(np.asarray, operands[constants + carry :]), strict=True)) or [()] * eqn.params["length"]
    turn = reversed if eqn.params["reverse"] else list
    outputs = []
    for row in turn(rows):
        results = run(eqn.params["jaxpr"], *captured, *state, *row)
        state, outputs = results[:carry], [*outputs, results[carry:]]
    return [*state, *map(np.stack, zip(*turn(outputs), strict=True))]


# Derivatives, by differences


def is_real(leaf):
    return jnp.issubdtype(jnp.result_type(leaf), np.floating)


def moved(x, direction, step):
    """x + step · direction, in every real leaf."""
    return jax.tree.map(lambda leaf, d: np.asarray(leaf + step * d) if is_real(leaf) else leaf, x, direction)


def some_direction(x):
    """A tangent of x, the same at each call."""
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda leaf: np.asarray(rng.standard_normal(jnp.shape(leaf)) if is_real(leaf) else leaf), x)


def inner(g, t):
    """⟨g, t⟩ for two trees of arrays of one structure."""
    return float(sum(np.sum(np.asarray(a) * b) for a, b in zip(jax.tree.leaves(g), jax.tree.leaves(t), strict=True)))


def is_slope(slope, phi):
    """Whether φ'(0) is `slope`, by central differences extrapolated to step 0, for some step."""
    central = lambda h: (phi(h) - phi(-h)) / (2 * h)
    estimates = [(4 * central(h / 2) - central(h)) / 3 for h in (1e-3, 1e-4, 1e-5, 1e-6)]
    return any(abs(slope - e) <= 1e-5 * (1 + abs(slope)) for e in estimates)


def is_smooth(phi):
    """Whether φ has no kink and no step near 0: its differences to the left and to the right agree."""
    differences = [((phi(h) - phi(0.0)) / h, (phi(0.0) - phi(-h)) / h) for h in (1e-4, 1e-6)]
    return all(abs(right - left) <= 1e-2 * (1 + abs(right)) for right, left in differences)


def close(got, expected, tolerance=1e-9):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


# Types and values


@many(50)
@given(st.data())
def test_values_have_their_type(data):
    type = data.draw(types() | contexts())
    assert accepts(type, C.type_of(data.draw(values_of(type))))


def reals_of(value):
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(value)]
    return [float(x) for leaf in leaves if np.issubdtype(leaf.dtype, np.floating) for x in leaf.flat]


@given(st.data())
def test_reals_are_moderate_and_distinct(data):
    type = data.draw(types(functions=False, sums=False))
    magnitudes = [abs(x) for x in reals_of(data.draw(values_of(type)))]
    assert all(0.3 <= x <= 2.5 for x in magnitudes)
    assert len(set(magnitudes)) == len(magnitudes)


@given(tensors(discrete=False))
def test_tensors_can_be_real(type):
    assert jnp.issubdtype(type.dtype, np.floating)


def test_the_precision_that_is_on_is_drawn(x64):
    assert find(types(), lambda t: t == C.Tensor()).dtype == np.float64


def functions_in(type):
    return [leaf for leaf in jax.tree.leaves(type) if isinstance(leaf, C.Function)]


@given(types(functions=False))
def test_types_can_be_first_order(type):
    assert functions_in(type) == []


# Terms


@many(60)
@given(st.data())
def test_terms_have_their_type_and_a_value(data):
    domain, codomain = data.draw(contexts() | types()), data.draw(types())
    term = data.draw(terms(domain, codomain, kinks=data.draw(st.booleans())))
    assert accepts(codomain, C.infer(term, domain))
    x = data.draw(values_of(domain))
    assert accepts(codomain, C.type_of(Staged(lambda x: C.evaluate(term, x), x)(x)))


@given(st.data())
def test_a_codomain_that_is_not_given_is_drawn(data):
    C.infer(data.draw(terms(Context(R))), Context(R))


@pytest.mark.usefixtures("x64")
@many(25)
@given(st.data())
def test_terms_are_smooth_and_both_tangent_spaces_agree(data):
    domain = data.draw(contexts(depth=1, max_size=3))
    codomain = data.draw(types(functions=False, depth=1))
    term, x = data.draw(terms(domain, codomain, size=12)), data.draw(values_of(domain))
    check_pullbacks(term, x)


def check_pullbacks(term, x):
    """Central differences against the environment tangent, by what functions captured too, and the list tangent."""
    value = Staged(lambda x: C.evaluate(term, x), x)
    y = value(x)
    assert all(abs(number) < 1e4 for number in reals_of(y))
    weights, direction = some_direction(y), some_direction(x)
    phi = lambda h: inner(value(moved(x, direction, h)), weights)
    g = pulled_back(term, x, weights, "environment")
    assert is_slope(inner(g, direction), phi)
    listed = pulled_back(term, x, weights, "list")
    for a, b in zip(jax.tree.leaves(g, is_leaf=is_closure), listed, strict=True):
        if not is_closure(a):
            close(a, b)


def pulled_back(term, x, weights, space):
    pull = lambda x, w: represent(term, functions=space)(x)[1](w)
    if space == "environment":
        return Staged(pull, x, weights)(x, weights)
    # Lists of calls differ in structure from x: only the cotangents of arrays are compared.
    leaves = lambda x, w: jax.tree.leaves(pull(x, w), is_leaf=is_calls)
    arrays = lambda x, w: [jnp.zeros(()) if is_calls(g) else g for g in leaves(x, w)]
    return Staged(arrays, x, weights)(x, weights)


def is_closure(value):
    return isinstance(value, C.Closure)


def is_calls(value):
    return type(value).__name__ == "Calls"


def inside(term, depth=0):
    """The terms in a term, each with the number of curries around it."""
    yield term, depth
    for part in parts(term):
        yield from inside(part, depth + isinstance(term, Curry))


def reads(term, n):
    """How often a term reads each entry of its context, of n entries, and of those that its lets add."""
    match term:
        case Proj(key):
            return Counter([key % n] if n and isinstance(key, int) else [])
        case Compose(steps):
            total = Counter()
            for step in steps:
                total += reads(step, n)
                if not isinstance(step, Extend):
                    break
                n += 1
            return total
        case Curry(body):
            return reads(body, n + 1)
        case _:
            return sum((reads(part, n) for part in parts(term)), Counter())


def lets(term):
    """The number of lets in front of a term."""
    steps = term.steps if isinstance(term, Compose) else (term,)
    return next((i for i, step in enumerate(steps) if not isinstance(step, Extend)), len(steps))


def drawn(strategy, number):
    """Examples of a strategy, the same at each call."""
    examples = []

    @settings(max_examples=number, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def draw(example):
        examples.append(example)

    draw()
    return examples


def test_terms_are_of_every_kind():
    domain = Context(R, C.Function(R, R), {"w": C.Tensor((3,))}, Pair(R, R))
    examples = drawn(terms(domain, size=12), 180)
    kinds = {k for k in vars(C.terms).values() if isinstance(k, type) and issubclass(k, C.Term) and k is not C.Term}
    missing = kinds - {type(t) for term in examples for t, _ in inside(term)}
    assert missing == {C.terms.Operator, C.terms.Solve}, "lists of calls have no derivatives; equations, no solutions"
    uses = [[reads(term, len(domain))[len(domain) + i] for i in range(lets(term))] for term in examples]
    assert sum(max(u, default=0) > 1 for u in uses) > 5, "sharing"
    assert sum(min(u, default=1) == 0 for u in uses) > 5, "dead variables"
    nested = [t for term in examples for t, depth in inside(term) if depth and isinstance(t, Curry)]
    assert len(nested) > 30
    assert sum(bool(functions_in(C.infer(term, domain))) or is_closure(C.infer(term, domain)) for term in examples) > 10
    assert sum(any(type(t) is C.terms.Eval for t, _ in inside(term)) for term in examples) > 50


# How terms shrink


def size_of(term):
    return sum(1 for _ in inside(term))


def smallest(strategy, condition):
    settings_ = settings(max_examples=3000, database=None, suppress_health_check=list(HealthCheck), deadline=None)
    return find(strategy, condition, settings=settings_, random=Random(0))


FAULTS = {
    "a primitive": lambda t, depth: isinstance(t, Primitive) and t.name == "tanh",
    "an application": lambda t, depth: isinstance(t, C.terms.Eval),
    "a fold": lambda t, depth: isinstance(t, C.terms.Fold),
    "a case": lambda t, depth: isinstance(t, C.terms.Case),
    "a curry in a curry": lambda t, depth: isinstance(t, Curry) and depth > 0,
    "a let of a function": lambda t, depth: isinstance(t, Extend) and isinstance(t.value, Curry),
    "a variable used twice": lambda t, depth: depth == 0 and reads(t, 1)[0] > 1,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_terms_shrinks(fault):
    found = smallest(terms(Context(R), R), lambda term: any(FAULTS[fault](t, depth) for t, depth in inside(term)))
    assert size_of(found) <= 16


def test_a_type_shrinks():
    assert smallest(types(), functions_in) == C.Function(R, R)
    assert smallest(types(), lambda t: isinstance(t, dict)) == {"b": R, "w": R}


@pytest.mark.parametrize("word", ["C.fold(", "functools.partial(", "def f("])
def test_a_word_in_programs_shrinks(word):
    found = smallest(lambdas(), lambda program: word in program.source)
    assert len(found.source.splitlines()) <= 5 and len(found.source) <= 220, found


def test_a_fault_in_the_translation_shrinks(monkeypatch):
    """Closures that hold what they captured in the wrong order: found, and shown by a short program."""

    def reversed_captures(scope, lam):
        return (C.prod(Context(*(Proj(scope[x]) for x in reversed(lam.free)))),)

    def is_wrong(program):
        clear_caches()
        f, arguments = program.make(), program.arguments
        try:
            term = trace(f, *arguments).term
            value = Staged(lambda *x: C.evaluate(term, pack(x)), *arguments)(*arguments)
        except Exception:  # whatever the swapped captures break
            return True
        return abs(value - program.meaning()(*arguments)) > 1e-2

    monkeypatch.setattr(importlib.import_module("compile_ccc.translate"), "_restriction", reversed_captures)
    try:
        found = smallest(lambdas(size=12), is_wrong)
    finally:
        clear_caches()
    assert len(found.source.splitlines()) <= 5 and len(found.source) <= 400, found


# Programs


@pytest.mark.usefixtures("x64")
@many(45)
@given(lambdas())
def test_programs_keep_their_meaning(program):
    expected, f, arguments = program.meaning()(*program.arguments), program.make(), program.arguments
    translation = trace(f, *arguments)
    assert translation.codomain == C.Tensor()
    assert C.infer(translation.term, translation.domain) == C.Tensor()
    normal = normalised(translation)
    for term in (translation.term, normal):
        close(Staged(lambda *x, term=term: C.evaluate(term, pack(x)), *arguments)(*arguments), expected)
    compiled = zlib.crc32(program.source.encode()) % 20 == 0
    if compiled:
        close(C.evaluate(translation.term, pack(arguments)), expected)
        close(lower(translation.term)(*arguments), expected)
        close(ccc(f)(*arguments), expected)
        close(ccc(program.make())(*arguments), expected)
    check_gradients(program, f, normal, expected, compiled)


def normalised(translation):
    """The normal form, or the term itself where that is too large: applying functions twice, again and again, is."""
    try:
        return C.normalise(translation.term, translation.domain, steps=20_000)
    except C.errors.BudgetError:
        event("a normal form beyond its budget")
        return translation.term


def check_gradients(program, f, normal, expected, compiled):
    arguments = program.arguments
    staged = Staged(lambda *x: C.evaluate(normal, pack(x)), *arguments)
    direction = some_direction(arguments)
    phi = lambda h: float(program.meaning()(*moved(arguments, direction, h)))
    pulled_back = lambda *x: represent(normal)(*x)[1](jnp.ones(()))
    found = [Staged(pulled_back, *arguments)(*arguments)]
    found[0] = found[0] if len(arguments) > 1 else (found[0],)
    spaces = SPACES if loops_in_loops(staged.program) <= 4 else ("environment",)
    if len(spaces) < len(SPACES):
        event("loops in loops too deep for the list space, which runs functions again at each level")
    for space in spaces:
        derivative = value_and_grad(f, tuple(range(len(arguments))), functions=space)
        value, gradient = (derivative if compiled else Staged(derivative, *arguments))(*arguments)
        close(value, expected)
        found.append(gradient)
        close(gradient, found[0])
    slope = inner(found[0], direction)
    if not is_slope(slope, phi):
        if not is_smooth(phi):
            event("at a kink")
            reject()
        raise AssertionError(f"the slope is {slope}, and by differences {(phi(1e-5) - phi(-1e-5)) / 2e-5}")


def test_programs_are_of_every_kind():
    programs = drawn(lambdas(), 120)
    words = ["function(lambda", "def ", "C.fold", "C.map", "lax.scan", "lax.fori_loop", "jax.vmap", "jax.jit", "made()"]
    words += ["functools.partial", "'a'", "jnp.where", "jnp.maximum", "C.Function(S, S)", "*, d="]
    assert [word for word in words if not any(word in program.source for program in programs)] == []
    terms_ = [trace(program.make(), *program.arguments).term for program in programs]
    nested = [max((depth for t, depth in inside(term) if isinstance(t, Curry)), default=-1) for term in terms_]
    assert sum(depth >= 1 for depth in nested) > 30 and sum(depth >= 2 for depth in nested) > 6
    assert sum(any(type(t) is C.terms.Eval for t, _ in inside(term)) for term in terms_) > 40


def test_an_import_needs_no_hypothesis_and_leaves_jax_to_be_configured():
    number = "jax.config.update('jax_num_cpu_devices', 2)"  # is refused as soon as JAX has a backend
    code = f"import sys, jax, tangents, diffcurry; {number}; sys.exit('hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
