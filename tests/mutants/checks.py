"""The checks by name: laws, terms, and programs, each as small as it takes to notice the mutants that name it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import combinators as C
from combinators import Context
from combinators.terms import Fold
from compile_ccc import ccc, function
from tangents import grad, hessian, jacobian, value_and_grad
from tests.mutants.checking import agree, anew, as_jax, environment, gives, holds, law, program, space

S, V, M = C.Tensor(), C.Tensor(3), C.Tensor((2, 3))
SIN, EXP, LOG, ADD, MUL, MAX = map(C.primitive, ("sin", "exp", "log", "add", "mul", "max"))
p0, p1, p2, p3 = map(C.proj, range(4))
both = ("environment", "list")


def dot(contract, *shapes):
    return holds(C.primitive("dot_general", dimension_numbers=(contract, ((), ()))), *map(C.Tensor, shapes))


def scanned(s, a, b):
    return lax.scan(lambda s, e: (jnp.sin(s * e[0]) + e[1], s * s * e[1]), s, (a, b))


def difference(p, q):
    return lambda x: x * p - q


def tree(x):
    return {"a": x[0] * 2.0, "b": jnp.sin(x[1]) * x[0][0]}


def shared(p):
    f = lambda z: z * p
    return lambda x: f(x) - p


STEP = C.prod(p1 >> p0 >> SIN, p1 >> p1) >> MUL  # of a fold that captures: (c, (s, x)) ↦ sin s · x

# The function f z = x · log z is made outside of a case, and applied in one of its branches only.
LOGARITHM = C.prod(Context(p0)) >> C.curry(C.prod(p1 >> LOG, p0) >> MUL)
IN_A_BRANCH = C.prod(Context(p0, LOGARITHM, p1)) >> C.case(C.prod(p1, p2 >> EXP) >> C.eval, p2)

# One of two functions, which captured different things, by the sum that comes second.
CHOSEN = C.case(
    C.prod(Context(p0)) >> C.curry(C.prod(p0 >> SIN, p1) >> MUL),
    C.prod(Context(p1, p0)) >> C.curry(C.prod(C.prod(p0, p1) >> MUL, p2) >> MUL >> EXP),
)


def in_turn(x, y):
    f, g = function(lambda z: jnp.sin(z * x), C.Tensor()), function(lambda z: z * z - y, C.Tensor())
    (f, _), s = lax.fori_loop(0, 3, lambda _, s: ((s[0][1], s[0][0]), s[0][0](s[1])), ((f, g), y))
    return f(s) * x


def turns(x, y):
    f, g = lambda z: np.sin(z * x), lambda z: z * z - y
    return g(f(g(f(y)))) * x


def by_number(x, i, j):
    fs = [function(lambda z, k=k: jnp.sin(z) * x - k * z, C.Tensor()) for k in range(3)]
    fs = jax.tree.map(lambda *f: jnp.stack(f), *fs)
    picked = jax.tree.map(lambda f: f[jnp.clip(i, 0, 2)], fs)
    return lax.switch(j, [lambda: picked, lambda: function(lambda z: z * z * x, C.Tensor())])(x)


def numbered(x, i, j):
    return np.sin(x) * x - np.clip(i, 0, 2) * x if j <= 0 else x * x * x


def inside(x, y):
    f = function(lambda z: jnp.sin(z * y) * z, C.Tensor())
    return ccc(lambda f, x: value_and_grad(f)(x)[1] * x)(f, x)


def picked(x, y):
    return lax.cond(x > y, lambda a, b: jnp.sin(a) * b, lambda a, b: jnp.exp(a) - b * b, x, y)


def numbered_branch(i, x, y):
    return lax.switch(i, [lambda a, b: a * b * b, lambda a, b: jnp.sin(b), lambda a, b: jnp.exp(a * b)], x, y)


def layers(policy=None):
    layer = jax.checkpoint(lambda x, v: jnp.sin(jnp.tanh(x * v) * jnp.exp(v)), policy=policy)
    return lambda x, y, v: jnp.sum(layer(y, layer(x, v)))


def layers_of_numpy(x, y, v):
    layer = lambda x, v: np.sin(np.tanh(x * v) * np.exp(v))
    return np.sum(layer(y, layer(x, v)))


def layers_in_a_scan(x, y, v):
    step = jax.checkpoint(lambda s, e: (jnp.sin(s * e) - y, jnp.exp(s) * e))
    s, out = lax.scan(step, x, v)
    return s + jnp.sum(out)


def steps_of_numpy(x, y, v):
    total = 0.0
    for e in v:
        x, total = np.sin(x * e) - y, total + np.exp(x) * e
    return x + total


def system(m, v):
    return jnp.linalg.solve(3.0 * jnp.eye(3, dtype=m.dtype) + jnp.sin(m), v)


def system_of_numpy(m, v):
    return np.linalg.solve(3.0 * np.eye(3) + np.sin(m), v)


def spectrum(m):
    """Of a symmetric matrix with values apart, as its lower triangle says."""
    v, w = lax.linalg.eigh(jnp.sin(m) + jnp.diag(jnp.array([0.0, 4.0, 9.0], m.dtype)), symmetrize_input=False)
    return jnp.sum(jnp.cos(w)) * jnp.abs(v[0, 1])


def spectrum_of_numpy(m):
    w, v = np.linalg.eigh(np.sin(m) + np.diag([0.0, 4.0, 9.0]))
    return np.sum(np.cos(w)) * np.abs(v[0, 1])


def singular(m):
    u, s, vt = jnp.linalg.svd(jnp.sin(m) + jnp.array([[9.0, 0.0, 0.0], [0.0, 4.0, 0.0]], m.dtype), full_matrices=False)
    return jnp.sum(jnp.cos(s)) * jnp.abs(u[0, 1] * vt[0, 2])


def singular_of_numpy(m):
    u, s, vt = np.linalg.svd(np.sin(m) + np.array([[9.0, 0.0, 0.0], [0.0, 4.0, 0.0]]), full_matrices=False)
    return np.sum(np.cos(s)) * np.abs(u[0, 1] * vt[0, 2])


def phase(x, y):
    return jnp.real(lax.sign(lax.complex(jnp.sin(x) + 2.0, y)))


def reduced(v):
    return lax.reduce(jnp.sin(v) + 2.0, jnp.zeros((), v.dtype), lambda a, b: jnp.sqrt(a * a + b * b), (0,))


def applied(v):
    """At the first entry twice, and at the last."""
    return v.at[jnp.array([0, 2, 0])].apply(lambda x: jnp.sin(x) + x * x)


def applied_of_numpy(v):
    f = lambda x: np.sin(x) + x * x
    return np.array([f(f(v[0])), v[1], f(v[2])])


NUMBER = C.Tensor((), np.int32)
CHECKS = {
    "eigenvalues and vectors": holds(spectrum, C.Tensor((3, 3)), meaning=spectrum_of_numpy),
    "singular values and vectors": holds(singular, M, meaning=singular_of_numpy),
    "a phase": holds(phase, S, S, meaning=lambda x, y: (np.sin(x) + 2) / np.hypot(np.sin(x) + 2, y)),
    "a reduction by a program": holds(reduced, V, meaning=lambda v: np.linalg.norm(np.sin(v) + 2)),
    "writing by a function": holds(applied, V, meaning=applied_of_numpy),
    "a chosen function": holds(C.prod(CHOSEN, p0) >> C.eval, (S, C.Sum(S, S)), examples=6),
    "functions in turn": holds(in_turn, S, S, meaning=turns, spaces=("environment",)),
    "a function by number": holds(by_number, S, NUMBER, NUMBER, meaning=numbered, examples=6),
    "a number as a tag": holds(
        C.prod(p1, p0 >> C.tag(3)) >> C.case(p0 >> SIN, p0 >> EXP, p0),
        NUMBER,
        S,
        meaning=lambda i, x: np.sin(x) if i <= 0 else np.exp(x) if i == 1 else x,
        examples=6,
    ),
    "a tag": law("coproducts: tag of 2, number 1", "meaning", examples=5),
    "a derivative inside": holds(
        inside, S, S, meaning=lambda x, y: (np.sin(x * y) + x * y * np.cos(x * y)) * x, spaces=("environment",)
    ),
    "β": law("exponentials: β", "environment", examples=10),
    "β in a context": law("exponentials: β in a context", *both, examples=10),
    "summing results": law("paper 003, figure 4: summing results", "list"),
    "const absorbs": law("const: const absorbs", *both),
    "an injection, then a case": law("coproducts: β of 2, alternative 1", "types", "meaning", *both, examples=10),
    "a case of a pair": law("coproducts: distributivity", "meaning", examples=5),
    "the environment space": space("environment", 10),
    "the list space": space("list", 5),
    "eval": holds(C.eval, C.Function(S, S), S),
    "arrows in order": holds(C.prod(p1, p0 >> SIN) >> C.prod(p0, p1 >> EXP), S, S),
    "components": holds(C.prod(p0 >> SIN, p1 >> EXP), S, S),
    "one part in two places": holds(C.prod(p1, p0 >> SIN, p0 >> SIN) >> C.prod(p0, C.prod(p1, p2) >> MUL) >> MUL, S, S),
    "a variable in two places": holds(C.prod(p0, p1, p0) >> C.prod(p0, C.prod(p1, p2) >> MUL) >> MUL, Context(S, S)),
    "lets": holds(
        C.extend(C.prod(p0, p1) >> MUL) >> C.extend(C.prod(p2, p0) >> MUL) >> C.prod(p3, p1) >> MUL, Context(S, S)
    ),
    "the last variable": holds(C.extend(p0 >> SIN) >> C.prod(C.proj(-1), C.proj(-2)) >> MUL, Context(S, S)),
    "a call": holds(C.call(SIN, "sine"), S),
    "a case of a known tag": holds(
        C.prod(p0, p1 >> C.inject(1, 2)) >> C.case(MUL, C.prod(p0 >> SIN, p1 >> EXP) >> MUL), (S, S)
    ),
    "a case": holds(C.case(MUL, C.prod(p0 >> SIN, p1 >> EXP) >> MUL), S, C.Sum(S, S), examples=6),
    "a case with a constant branch": holds(C.case(C.const(0.5), SIN), C.Sum(S, S), examples=6),
    "a cond over arrays": holds(picked, S, S, meaning=lambda x, y: np.sin(x) * y if x > y else np.exp(x) - y * y),
    "a compiled cond": gives(
        grad(picked, argnums=(0, 1)),
        ((1.5, 0.5), (0.5 * np.cos(1.5), np.sin(1.5))),
        ((0.2, 0.7), (np.exp(0.2), -1.4)),
    ),
    "a switch over arrays": holds(
        numbered_branch,
        NUMBER,
        S,
        S,
        meaning=lambda i, x, y: x * y * y if i <= 0 else np.sin(y) if i == 1 else np.exp(x * y),
        examples=6,
    ),
    "a checkpoint": holds(layers(), S, S, V, meaning=layers_of_numpy),
    "a checkpoint that saves": holds(
        layers(lambda p, *_, **__: p.name in ("tanh", "mul")), S, S, V, meaning=layers_of_numpy
    ),
    "a checkpoint in a scan": holds(layers_in_a_scan, S, S, V, meaning=steps_of_numpy),
    "a linear system": holds(system, C.Tensor((3, 3)), V, meaning=system_of_numpy),
    "a logarithm in a branch": holds(IN_A_BRANCH, Context(S, C.Sum(S, S)), examples=6),
    "a fold from the last": holds(C.prod(C.curry(STEP), p0, p1) >> Fold(reverse=True), S, V),
    "a fold": program("C.fold(function(lambda s, e: jnp.sin(s * y) - e * x, S, S), x, v)"),
    "a fold from a constant": program("C.fold(function(lambda s, e: jnp.sin(s) * x + e * e, S, S), 0.5, v)"),
    "a scan": holds(scanned, S, V, V),
    "a scan from the last": holds(lambda s, v: lax.scan(lambda s, e: (jnp.sin(s * e), s), s, v, reverse=True), S, V),
    "a scan that captures": holds(lambda x, y, v: lax.scan(lambda s, e: (s * x - e * y, s), 0.5, v)[0], S, S, V),
    "a map": program("jnp.sum(C.map(function(lambda e: jnp.sin(e) * y - x, S), v))"),
    "a function applied twice": program("(lambda f: f(x) * f(f(y)))(function(lambda z: jnp.sin(z) * x - y, S))"),
    "a function applied to a constant": program("(lambda f: f(0.7) * x)(function(lambda z: jnp.sin(z) * y, S))"),
    "a function applied in a fold": program(
        "(lambda f: C.fold(function(lambda s, e: jnp.sin(s) + f(e), S, S), y, v))"
        "(function(lambda z: jnp.sum(jnp.sin(z * v)) * x, S))"
    ),
    "a function of a function, in a fold": program(
        "(lambda f: (lambda g: C.fold(function(lambda s, e: jnp.sin(s) + g(e), S, S), y, v))("
        "function(lambda z: f(z) * y, S)))(function(lambda z: jnp.sum(jnp.sin(z * v)) * x, S))"
    ),
    "a function of two arguments": program("function(lambda a, b: a - b * b, S, S)(x, y)"),
    "two captures": program("function(lambda z: z * jnp.sin(y) - x, S)(1.5)"),
    "two captures, the later one first": program(
        "function(lambda a: function(lambda b: jnp.sin(a * b) - x, S)(1.5), S)(y)"
    ),
    "a capture that is the result": program("function(lambda z: x, S)(y) * y"),
    "variables after an abstraction": program("(lambda f: (lambda z: f(z) * z - x)(x * y))(function(lambda z: z, S))"),
    "functions made under vmap": program("jnp.sum(jax.vmap(lambda e: function(lambda z: z * e - x, S)(y))(v))"),
    "a function applied under vmap": program(
        "jnp.sum(jax.vmap(lambda e: function(lambda a, b: jnp.sin(a) - b * b, S, S)(e, e * x))(v))"
    ),
    "a function applied under vmap to what is not batched": program(
        "jnp.sum(jax.vmap(lambda e: function(lambda a, b: jnp.sin(a) - b * b, S, S)(e, x))(v))"
    ),
    "functions that capture other strings": anew(lambda k: lambda x: x + len(k), "ab", "abc"),
    "functions with other defaults": anew(lambda k: lambda x, k=k: x * k, 2.0, 3.0),
    "partial applications": anew(lambda k: functools.partial(lambda k, x: k * x, k), 2.0, 3.0),
    "functions of two numbers": anew(lambda k: lambda x: (x - k[0]) * k[1], (2.0, 3.0)),
    "two variables of one value": environment(difference(2.0, 2.0), 2.0, 2.0),
    "one variable of two functions": environment(shared(2.0), 2.0),
    "mul": holds(MUL, S, S),
    "mul, broadcast": holds(MUL, M, C.Tensor((2, 1))),
    "mul by a number": holds(MUL, M, S),
    "mul by a constant": holds(C.prod(C.const(2.0), C.id) >> MUL, S),
    "div": holds(C.primitive("div"), S, S),
    "sub": holds(C.primitive("sub"), S, S),
    "pow": holds(C.prod(p0 >> EXP, p1) >> C.primitive("pow"), S, S),
    "cube": holds(C.primitive("integer_pow", y=3), S),
    "igamma": holds(C.prod(p0 >> EXP, p1 >> EXP) >> C.primitive("igamma"), S, S),
    "sort": holds(C.primitive("sort", dimension=0, is_stable=True, num_keys=1), V, V),
    **{name: holds(C.primitive(name), S) for name in ("tanh", "logistic", "exp", "cos")},
    "sqrt": holds(EXP >> C.primitive("sqrt"), S),
    "max of equals": holds(C.prod(C.id, C.id) >> MAX, S),
    "max at a tie": as_jax(lax.max, 1.5, 1.5),
    "abs at 0": as_jax(lax.abs, 0.0),
    "reduce_max of equals": holds(
        C.primitive("broadcast_in_dim", shape=(3,), broadcast_dimensions=()) >> C.primitive("reduce_max", axes=(0,)), S
    ),
    "a product of matrices": dot(((1,), (1,)), (2, 3), (4, 3)),
    "a product from the left": dot(((0,), (0,)), (3, 2), (3, 4)),
    "a product over two axes": dot(((1, 2), (2, 0)), (2, 3, 3), (3, 5, 3)),
    "reduce_sum": holds(C.primitive("reduce_sum", axes=(0,)), C.Tensor((3, 3))),
    "broadcast_in_dim": holds(
        C.primitive("broadcast_in_dim", shape=(2, 3), broadcast_dimensions=(0, 1)), C.Tensor((2, 1))
    ),
    "concatenate": holds(C.primitive("concatenate", dimension=0), V, V),
    "slice": holds(C.primitive("slice", start_indices=(1,), limit_indices=(6,), strides=(2,)), C.Tensor(7)),
    "pad": holds(C.primitive("pad", padding_config=((1, 2, 1),)), V, S),
    "select_n": holds(C.primitive("select_n"), C.Tensor((), bool), V, V),
    "transpose": holds(C.primitive("transpose", permutation=(1, 2, 0)), C.Tensor((3, 3, 3))),
    "convert_element_type": as_jax(lambda x: lax.convert_element_type(x, np.float16), np.float32(1.5)),
    "a Jacobian": agree(jacobian(tree, mode="forward"), jax.jacfwd(tree), (np.ones(2, "f"), np.ones(3, "f"))),
    "a Hessian": agree(hessian(lambda x, y: x * y * y, 1), jax.hessian(lambda x, y: x * y * y, 1), 2.0, 3.0),
}

OF_KEPT_TRACES = {"functions that capture other strings", "functions with other defaults", "partial applications"}
