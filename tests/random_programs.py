"""For tests of random programs: how many are drawn, how they are run, differences, and what terms hold."""

from collections import Counter
from functools import partial

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings

import combinators as C
from combinators.terms import Compose, Curry, Extend, Proj
from combinators.text.show import parts
from compile_ccc.jaxprs import compat
from compile_ccc.reading.reducers import inlined

PROFILE = settings.get_profile(settings.get_current_profile_name())
SAME = PROFILE.derandomize  # the same few examples in each run


def many(ci):
    """More examples than usual in a run of the same few; in a nightly run, as many as that asks for."""
    return settings(max_examples=max(ci, PROFILE.max_examples) if SAME else PROFILE.max_examples)


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
        return loop(compat.Scan.of(eqn), operands)
    if (program := inlined(eqn)) is not None:
        return run(program, *operands)
    result = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return result if eqn.primitive.multiple_results else [result]


def loop(scan, operands):
    captured, state, xs = scan.parts(operands)
    rows = list(zip(*map(np.asarray, xs), strict=True)) or [()] * scan.length
    turn = reversed if scan.reverse else list
    outputs = []
    for row in turn(rows):
        results = run(scan.body, *captured, *state, *row)
        state, outputs = results[: scan.carry], [*outputs, results[scan.carry :]]
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


# What terms hold


def functions_in(type):
    return [leaf for leaf in jax.tree.leaves(type) if isinstance(leaf, C.Function)]


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


def drawn(strategy, number):
    """Examples of a strategy, the same at each call."""
    examples = []

    @settings(max_examples=number, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def draw(example):
        examples.append(example)

    draw()
    return examples
