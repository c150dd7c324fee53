"""Our own rules broken one at a time, in ways in which a tired programmer breaks them: some check notices every one."""

import functools
from importlib import import_module

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import combinators as C
from combinators import Context, sums
from combinators.terms import Fold
from compile_ccc import batched, captures, lambda_terms, read, tracing
from tangents import (
    SPACES,
    choice,
    delegate,
    environment,
    listing,
    loops,
    primitives,
    public,
    residuals,
    rows,
    rows_linear,
    sparse,
)
from tangents.calls import Calls
from tests import mutants
from tests.mutants import Code, Pullbacks, anew, as_jax, broken, holds, law, program

# Functions of the same names hide these modules.
evaluate, infer = map(import_module, ("combinators.evaluate", "combinators.infer"))
translate, represent = map(import_module, ("compile_ccc.translate", "tangents.represent"))
S, V, M = C.Tensor(), C.Tensor(3), C.Tensor((2, 3))
SIN, EXP, LOG, ADD, MUL, MAX = map(C.primitive, ("sin", "exp", "log", "add", "mul", "max"))
p0, p1, p2, p3 = map(C.proj, range(4))
both = ("environment", "list")


def dot(contract, *shapes):
    return holds(C.primitive("dot_general", dimension_numbers=(contract, ((), ()))), *map(C.Tensor, shapes))


def made(k):
    """A function of what it captures, which may be a number, and so environment, or a string, and so code."""
    return lambda x: x + len(k) if isinstance(k, str) else x * k


def scanned(s, a, b):
    return lax.scan(lambda s, e: (jnp.sin(s * e[0]) + e[1], s * s * e[1]), s, (a, b))


def difference(p, q):
    return lambda x: x * p - q


def shared(p):
    f = lambda z: z * p
    return lambda x: f(x) - p


STEP = C.prod(p1 >> p0 >> SIN, p1 >> p1) >> MUL  # of a fold that captures: (c, (s, x)) ↦ sin s · x

# The function f z = x · log z is made outside of a case, and applied in one of its branches only.
LOGARITHM = C.prod(Context(p0)) >> C.curry(C.prod(p1 >> LOG, p0) >> MUL)
IN_A_BRANCH = C.prod(Context(p0, LOGARITHM, p1)) >> C.case(C.prod(p1, p2 >> EXP) >> C.eval, p2)

CHECKS = {
    "β": law("exponentials: β", "environment", examples=10),
    "β in a context": law("exponentials: β in a context", *both, examples=10),
    "summing results": law("paper 003, figure 4: summing results", "list"),
    "const absorbs": law("const: const absorbs", *both),
    "an injection, then a case": law("coproducts: β of 2, alternative 1", "types", "meaning", *both, examples=10),
    "a case of a pair": law("coproducts: distributivity", "meaning", examples=5),
    "the environment space": mutants.space("environment", 10),
    "the list space": mutants.space("list", 40),
    "eval": holds(C.eval, C.Function(S, S), S),
    "arrows in order": holds(C.prod(p1, p0 >> SIN) >> C.prod(p0, p1 >> EXP), S, S),
    "components": holds(C.prod(p0 >> SIN, p1 >> EXP), S, S),
    "one part in two places": holds(C.prod(SIN, SIN) >> MUL, S),
    "lets": holds(
        C.extend(C.prod(p0, p1) >> MUL) >> C.extend(C.prod(p2, p0) >> MUL) >> C.prod(p3, p1) >> MUL, Context(S, S)
    ),
    "the last variable": holds(C.extend(p0 >> SIN) >> C.prod(C.proj(-1), C.proj(-2)) >> MUL, Context(S, S)),
    "a case of a known tag": holds(
        C.prod(p0, p1 >> C.inject(1, 2)) >> C.case(MUL, C.prod(p0 >> SIN, p1 >> EXP) >> MUL), (S, S)
    ),
    "a case": holds(C.case(MUL, C.prod(p0 >> SIN, p1 >> EXP) >> MUL), S, C.Sum(S, S), examples=6),
    "a case with a constant branch": holds(C.case(C.const(0.5), SIN), C.Sum(S, S), examples=6),
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
        "(lambda f: C.fold(function(lambda s, e: jnp.sin(s) + f(e), S, S), y, v))(function(lambda z: jnp.sum(jnp.sin(z * v)) * x, S))"
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
    "functions that capture other numbers": anew(made, 2.0, 3.0),
    "functions that capture other strings": anew(made, "ab", "abc"),
    "functions with other defaults": anew(lambda k: lambda x, k=k: x * k, 2.0, 3.0),
    "partial applications": anew(lambda k: functools.partial(lambda k, x: k * x, k), 2.0, 3.0),
    "functions of two numbers": anew(lambda k: lambda x: (x - k[0]) * k[1], (2.0, 3.0)),
    "two variables of one value": mutants.environment(difference(2.0, 2.0), 2.0, 2.0),
    "one variable of two functions": mutants.environment(shared(2.0), 2.0),
    "mul": holds(MUL, S, S),
    "mul, broadcast": holds(MUL, M, C.Tensor((2, 1))),
    "mul by a number": holds(MUL, M, S),
    "mul by a constant": holds(C.prod(C.const(2.0), C.id) >> MUL, S),
    "div": holds(C.primitive("div"), S, S),
    "sub": holds(C.primitive("sub"), S, S),
    "pow": holds(C.prod(p0 >> EXP, p1) >> C.primitive("pow"), S, S),
    "cube": holds(C.primitive("integer_pow", y=3), S),
    "atan2": holds(C.primitive("atan2"), S, S),
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
    "broadcast_in_dim": holds(C.primitive("broadcast_in_dim", shape=(2, 3), broadcast_dimensions=(0, 1)), C.Tensor((2, 1))),
    "concatenate": holds(C.primitive("concatenate", dimension=0), V, V),
    "slice": holds(C.primitive("slice", start_indices=(1,), limit_indices=(6,), strides=(2,)), C.Tensor(7)),
    "pad": holds(C.primitive("pad", padding_config=((1, 2, 1),)), V, S),
    "select_n": holds(C.primitive("select_n"), C.Tensor((), bool), V, V),
    "transpose": holds(C.primitive("transpose", permutation=(1, 2, 0)), C.Tensor((3, 3, 3))),
    "convert_element_type": as_jax(lambda x: lax.convert_element_type(x, np.float16), np.float32(1.5)),
}

ZERO = "__import__('tangents').sparse.ZERO"

# By the module: what is broken, the check that notices it, and the change.
MUTANTS = {
    # the environment tangent
    "eval drops the cotangent of what was captured": (
        "β", Code(environment.eval, "pair(env, gx)", f"pair({ZERO}, gx)")
    ),
    "eval drops the cotangent of the argument": ("β in a context", Code(environment.eval, "pair(env, gx)", f"pair(env, {ZERO})")),
    "eval swaps the cotangents": ("β", Code(environment.eval, "pair(env, gx)", "pair(gx, env)")),
    "curry gives zero": ("β", Code(environment.curry, "lambda env: env", f"lambda env: {ZERO}")),
    # the list tangent
    "a sum of calls keeps the last": ("summing results", Code(Calls.__add__, "*self.blocks, *other", "*other")),
    "eval records the result for the argument": (
        "a function applied twice", Code(listing.eval, "Block(release(x)", "Block(release(y)")
    ),
    "eval records no call": ("a function applied twice", Code(listing.eval, "Calls(call)", "Calls()")),
    "eval loses the cotangent of the argument": (
        "a function applied twice", Code(listing.eval, "pair(Calls(call), split(pb(g), closure.environment)[1])",
                                         "pair(Calls(call), ZERO)")
    ),
    "a call at a constant is not recorded": (
        "a function applied to a constant", Code(listing.eval, "y = activate(y, is_function)", "pass")
    ),
    "curry forgets a block": ("a function applied twice", Code(listing.curry, "in calls.blocks", "in calls.blocks[:1]")),
    "curry takes the first row only": (
        "a map", Code(listing._sum_over, "(rows.argument, rows.cotangent, rows.valid)",
                      "jax.tree.map(lambda rows: rows[:1], (rows.argument, rows.cotangent, rows.valid))")
    ),
    "curry takes the last row only": ("a map", Code(listing._sum_over, "plus(old, parts[i])", "parts[i]")),
    "curry runs again at the cotangent": (
        "a function applied twice", Code(listing.curry, "again(s: Any, gr: Any,", "again(gr: Any, s: Any,")
    ),
    "curry holds what was captured instead of the argument": (
        "a function applied twice", Code(listing.curry, "(t, hold(s, is_function))", "(hold(t, is_function), s)")
    ),
    "curry gives the cotangent of the argument": (
        "a function applied twice", Code(listing.curry, "t)[0], made)", "t)[1], made)")
    ),
    "curry uses calls that were not made": (
        "a logarithm in a branch", Code(listing.curry, "masked(split(pb(symbolic(gr, r, is_function)), t)[0], made)",
                                        "split(pb(symbolic(gr, r, is_function)), t)[0]")
    ),
    "calls made again for a row are not stacked": (
        "a function of a function, in a fold", Code(listing._sum_over, "i: g.stacked()", "i: g")
    ),
    "calls in a loop are not stacked": (
        "a function applied in a fold", Code(Calls.stacked, "b.axes + 1", "b.axes")
    ),
    # sparse cotangents
    "plus forgets one of two": ("lets", Code(sparse.plus, "plus(large[key], part) if key in large else part", "part")),
    "plus gives the smaller": ("lets", Code(sparse.plus, "return large", "return small")),
    "plus of arrays gives the first": ("one part in two places", Code(sparse.plus, "lax.add(g, h)", "g")),
    "split takes the last but one": ("lets", Code(sparse.split, "g.pop(len(ctx), ZERO)", "g.pop(len(ctx) - 1, ZERO)")),
    # the representation of terms
    "a chain is pulled back from its start": (
        "arrows in order", Code(represent._composed, "reversed(pullbacks)", "pullbacks")
    ),
    "a product forgets its last component": (
        "components", Code(represent._product, "in made.values() if", "in list(made.values())[:-1] if")
    ),
    "a product swaps its components": ("components", Code(represent._keys, "num_leaves)))[0]", "num_leaves)))[0][::-1]")),
    "a part counts once for its two places": (
        "one part in two places", Code(represent._product, "reduce(plus, map(g.part, places))", "g.part(places[0])")
    ),
    "proj puts the cotangent one place on": (
        "components", Code(represent._key, "key % len(product)", "(key + 1) % len(product)")
    ),
    "proj does not count from the end": ("the last variable", Code(represent._key, "key % len(product)", "key")),
    "extend forgets the context": ("lets", Code(represent._let, "plus(ctx, pb(g))", "pb(g)")),
    "extend forgets the value": ("lets", Code(represent._let, "plus(ctx, pb(g))", "ctx")),
    "const is active": (
        "const absorbs", Code(represent.rep, "hold(value, space.is_leaf), nothing", "value, lambda g: g")
    ),
    # coproducts
    "inject takes the alternative before": (
        "an injection, then a case", Code(choice.injection, "g.part(term.index)", "g.part(term.index - 1)")
    ),
    "the pullback of another branch": (
        "a case of a known tag",
        Code(choice.choice, "def pullback", "_, pb = rep(term.branches[0], branch_domain(rest, s.alternatives[s.tag]))\n\n    def pullback"),
    ),
    "a case loses the environment": ("a case of a known tag", Code(choice.choice, "_whole(g_rest,", "_whole(ZERO,")),
    "a case gives to the first alternative": (
        "a case of a known tag", Code(choice.choice, "_alternative(s.tag, g_part)", "_alternative(0, g_part)")
    ),
    "the pullback of the first branch for all": (
        "a case", Code(choice._switch, "branches[i].residuals.pull(kept[i]", "branches[0].residuals.pull(kept[0]")
    ),
    "a traced case loses the environment": (
        "a case", Code(choice._switch, "g_rest[n] if n in g_rest else _zeros(c)", "_zeros(c)")
    ),
    "a traced case swaps the alternatives": ("a case", Code(choice._switch, "g_sum[i] =", "g_sum[1 - i] =")),
    "a constant branch holds the result": ("a case with a constant branch", Code(choice._switch, "map(all,", "map(any,")),
    "a traced case keeps the calls of all branches": (
        "a logarithm in a branch", Code(choice._switch, "_when(which == place, calls)", "calls")
    ),
    # loops
    "a fold is pulled back from its start": ("a fold", Code(loops.loop, "not term.reverse", "term.reverse")),
    "a fold forgets to sum up for what it captures": ("a fold", Code(loops.loop, "plus(total[i], g_f[i])", "g_f[i]")),
    "a fold is pulled back at the state after the step": (
        "a fold", Code(loops.loop, "pb = step(s, x, s_marks)", "pb = step(s, x, s_marks); pb = step(after, x, s_marks)[1]")
    ),
    "a fold drops the cotangent of its elements": (
        "a fold", Code(loops.loop, "placed(_stacked(g_x), xs, leaf)", "ZERO")
    ),
    "a fold drops the cotangent of its start": ("a fold", Code(loops.loop, "placed(g_s, state, leaf)", "ZERO")),
    "a fold runs from the first element always": (
        "a fold from the last", Code(loops.loop, "term.length, term.reverse)", "term.length)")
    ),
    "a fold takes its state for constant": (
        "a fold from a constant", Code(loops._stable_marks, "tuple(h and now for", "tuple(h for")
    ),
    "a scan drops the cotangents of its outputs": (
        "a scan", Code(loops.loop, "filled(g_outputs, outputs, leaf)", "filled(ZERO, outputs, leaf)")
    ),
    "a map takes the first row for the sum": ("a map", Code(loops.mapping, "jnp.sum(c, 0, dtype=c.dtype)", "c[0]")),
    "a map drops the cotangent of its elements": (
        "a map", Code(loops.mapping, "placed(_stacked(g_x), xs, leaf)", "ZERO")
    ),
    "what a loop keeps is permuted": ("a scan", Code(residuals.Residuals._source, "kept[number]", "kept[-1 - number]")),
    "what a loop has at hand is permuted": ("a scan", Code(residuals.Residuals._source, "inputs[place]", "inputs[-1 - place]")),
    # primitives
    "cotangents of active arguments go to the first places": (
        "mul by a constant", Code(primitives.primitive, "zip(asked, cotangents, strict=True)", "enumerate(cotangents)")
    ),
    "JAX's rule gets the arguments in another order": (
        "atan2", Code(delegate._programs, "full[i] = value", "full[-1 - i] = value")
    ),
    "JAX's rule gives the cotangents in another order": (
        "atan2", Code(delegate.delegated, "*residuals, *cotangents)", "*residuals, *cotangents)[::-1]")
    ),
    "JAX's rule gets the cotangent of the first result for all": (
        "sort", Code(delegate.delegated, "g.part(i) for", "g.part(0) for")
    ),
    # rows
    "mul forgets a factor": ("mul", Pullbacks("mul", (rows.ROWS["mul"][0], lambda g, y, a, b, **_: rows.fit(g, b)))),
    "mul takes its own factor": (
        "mul", Pullbacks("mul", (lambda g, y, a, b, **_: rows.fit(g * a, a), rows.ROWS["mul"][1]))
    ),
    "div has the other sign": (
        "div", Pullbacks("div", (rows.ROWS["div"][0], lambda g, y, a, b, **_: rows.fit(g * y / b, b)))
    ),
    "sub has no sign": ("sub", Pullbacks("sub", rows.ROWS["add"])),
    "tanh forgets the square": ("tanh", Pullbacks("tanh", (lambda g, y, x, **_: g * (1 - y),))),
    "logistic forgets a factor": ("logistic", Pullbacks("logistic", (lambda g, y, x, **_: g * y,))),
    "exp takes the argument": ("exp", Pullbacks("exp", (lambda g, y, x, **_: g * x,))),
    "cos has no sign": ("cos", Pullbacks("cos", (lambda g, y, x, **_: g * lax.sin(x),))),
    "sqrt forgets the half": ("sqrt", Pullbacks("sqrt", (lambda g, y, x, **_: g / y,))),
    "pow keeps the exponent": ("pow", Code(rows._power_base, "lax.sub(b, _number(1, b))", "b")),
    "integer_pow keeps the exponent": ("cube", Code(rows._integer_power, "y - 1", "y")),
    "max counts ties twice": ("max of equals", Code(rows._balanced, "twos, ones)", "ones, ones)")),
    "max gives ties to the first": ("max at a tie", Pullbacks("max", (
        lambda g, y, a, b, **_: jnp.where(a >= b, g, 0.0), lambda g, y, a, b, **_: jnp.where(a >= b, 0.0, g)))),
    "abs goes down at 0": ("abs at 0", Pullbacks("abs", (lambda g, y, x, **_: jnp.where(x > 0, g, -g),))),
    "reduce_max counts ties more than once": (
        "reduce_max of equals", Code(rows._extremum, "lax.div(g, lax.reduce_sum(here, axes))", "g")
    ),
    "broadcast axes are not summed": (
        "mul, broadcast", Code(rows.fit, "if g.shape == shape:", "if shape:")
    ),
    "a broadcast number is not summed": ("mul by a number", Code(rows.fit, "if not shape:\n        return lax.reduce_sum(g, tuple(range(g.ndim)))", "if not shape:\n        return g")),
    "a broadcast number gets the first": ("mul by a number", Code(rows.fit, "lax.reduce_sum(g, tuple(range(g.ndim)))", "lax.reshape(g, (g.size,))[0]")),
    # rows of linear primitives
    "dot_general leaves the axes as they come": (
        "a product from the left", Code(rows_linear._dot_general, "in np.argsort(axes)", "in range(len(axes))")
    ),
    "dot_general orders the axes the other way": (
        "a product over two axes", Code(rows_linear._dot_general, "np.argsort(axes)", "axes")
    ),
    "dot_general takes contracted axes as listed": (
        "a product over two axes", Code(rows_linear._dot_general, "key=lambda k: contract[other_i][k]", "key=lambda k: k")
    ),
    "dot_general contracts its own kept axes": (
        "a product of matrices", Code(rows_linear._dot_general, "(g_other, tuple(kept[other_i]))", "(g_other, tuple(contract[other_i]))")
    ),
    "reduce_sum broadcasts along the other axes": (
        "reduce_sum", Code(rows_linear._reduce_sum, "if i not in axes", "if i in axes")
    ),
    "broadcast_in_dim sums the added axes only": (
        "broadcast_in_dim", Code(rows_linear._broadcast_in_dim, "widened | added", "added")
    ),
    "concatenate starts at the next": ("concatenate", Code(rows_linear._concatenate, "operands[:i]", "operands[: 1 - i]")),
    "slice forgets the strides": ("slice", Code(rows_linear._slice, "(start, size - covered, stride - 1)", "(start, size - start - n, 0)")),
    "slice starts at 0": ("slice", Code(rows_linear._slice, "(start, size - covered,", "(0, size - covered + start,")),
    "pad forgets what is inside": ("pad", Code(rows_linear._pad_operand, "interior + 1 for", "1 for")),
    "pad gives its value all": ("pad", Code(rows_linear._pad_value, "lax.sub(lax.reduce_sum(g, every), lax.reduce_sum(inside, every))", "lax.reduce_sum(g, every)")),
    "select_n swaps the cases": ("select_n", Code(rows_linear._select, "k == i - 1", "k != i - 1")),
    "transpose is not turned back": ("transpose", Code(rows_linear._transpose, "np.argsort(permutation)", "permutation")),
    "convert_element_type keeps the dtype of the result": (
        "convert_element_type", Code(rows_linear._convert, "lax.convert_element_type(g, jnp.result_type(x))", "g")
    ),
    # spaces
    "add gives the first": ("the environment space", Code(public.add, "else a + b for", "else a for")),
    "inner counts the first call only": ("the list space", Code(public._inner_leaf, "cotangent in g)", "cotangent in list(g)[:1])")),
    # from lambdas to terms
    "a let takes the place before": ("two captures", Code(translate._block, "= len(scope)", "= len(scope) - 1")),
    "an abstraction's variables leak": (
        "variables after an abstraction", Code(translate._expression, "return compose(*_restriction(scope, e), translate(e))",
        "scope[e.parameter] = len(scope); return Curry(_block(scope, e.body), e.parameter.type)")
    ),
    "as many variables are the same variables": (
        "two captures, the later one first", Code(translate._restriction, "places == list(range(len(scope)))", "len(places) == len(scope)")
    ),
    "captures are sorted where they are made": (
        "two captures, the later one first", Code(translate._restriction, "map(Proj, places)", "map(Proj, sorted(places))")
    ),
    "captures are reversed where they are used": (
        "two captures", Code(translate.translate, "(*lam.free, lam.parameter)", "(*reversed(lam.free), lam.parameter)")
    ),
    "the argument is applied to the function": (
        "two captures", Code(translate._expression, "prod(_atom(scope, f), _atom(scope, x))", "prod(_atom(scope, x), _atom(scope, f))")
    ),
    "operands are reversed": ("two captures", Code(translate._expression, "for a in operands)", "for a in reversed(operands))")),
    "a result is not captured": ("a capture that is the result", Code(lambda_terms.lam, "(*used, body.result)", "used")),
    "inner abstractions capture nothing": (
        "two captures, the later one first", Code(lambda_terms.atoms, "yield from free", "yield from ()")
    ),
    "arguments of an application are reversed": (
        "a function of two arguments", Code(read.Builder.application, "f, *leaves = operands", "f, *leaves = operands; leaves.reverse()")
    ),
    "parameters are reversed": ("a function of two arguments", Code(read.Builder.leaves, "in pairs for", "in reversed(pairs) for")),
    "captures of an abstraction are reversed": (
        "two captures", Code(read.Builder.abstraction, "[*operands,", "[*reversed(operands),")
    ),
    "captures of a loop are reversed": ("a scan that captures", Code(read.Builder.loop, "[*captured,", "[*reversed(captured),")),
    "a loop is read forwards": ("a scan from the last", Code(read.Builder.loop, 'eqn.params["reverse"]', "False")),
    # captures
    "variables of one value are one": ("two variables of one value", Code(captures._place, "id(cell), cell", "id(cell.cell_contents), cell")),
    "a variable of two functions is two": ("one variable of two functions", Code(captures._place, "id(cell), cell", "None, cell")),
    "a default is kept as it was": (
        "functions with other defaults", Code(captures._Rebuild._function, "new.__defaults__ = tuple(self.build(p) for (kind, _), p in plans.items() if kind == \"default\") or None", "new.__defaults__ = f.__defaults__")
    ),
    "defaults are not captured": (
        "functions with other defaults", Code(captures._places, '*(("default", i) for i in range(len(f.__defaults__ or ()))),', "")
    ),
    "the key does not tell what is code": ("functions that capture other strings", Code(captures._Reader.read, "key_of(value)", "type(value)")),
    "the cache does not ask for the key": ("functions that capture other strings", Code(tracing.traced, "(captured.key, arity", "(arity")),
    "the environment is in another order": ("functions of two numbers", Code(tracing.Traced.closure, "in self.sources", "in reversed(self.sources)")),
    "a partial application keeps its numbers": ("partial applications", Code(captures._Rebuild._make, "return functools.partial(*(part for _, part in parts[: count + 1]), **dict(parts[count + 1 :]))", "return value")),
    "numbers are code": ("functions that capture other numbers", Code(captures._Reader.read, "if _is_environment(value):", "if _is_environment(value) and not isinstance(value, float):")),
    # vmap
    "what is not batched is mapped over": (
        "a function applied under vmap to what is not batched", Code(batched.mapped, "(size, mask), *deeper = batch", "(size, mask), *deeper = batch; mask = (mask[0], *(True for _ in mask[1:]))")
    ),
    "batched arguments are reversed": ("a function applied under vmap", Code(batched.mapped, "block.build(list(over)", "block.build(over[::-1]")),
    "captures are reversed where a function is made again": (
        "functions made under vmap", Code(batched._inside, "inner.abstraction(operand.eqn, captured)", "inner.abstraction(operand.eqn, captured[::-1])")
    ),
    # types and values
    "the type of another branch": ("an injection, then a case", Code(infer._case, "_infer(branches[index]", "_infer(branches[-1 - index]")),
    "outputs of a scan have the type of one": ("a scan", Code(infer._infer, "return state, Array(_length(term, xs), after[1])", "return state, after[1]")),
    "the value of another branch": ("an injection, then a case", Code(evaluate._case, "evaluate(branches[index]", "evaluate(branches[-1 - index]")),
    "a fold runs forwards": ("a fold from the last", Code(evaluate.evaluate, "jax.lax.scan(step, state, xs, length, reverse)[0]", "jax.lax.scan(step, state, xs, length)[0]")),
    "an argument comes before what was captured": ("eval", Code(evaluate.apply, "extend(f.environment, x)", "extend(x, f.environment)")),
    "a branch gets the alternative first": ("a case of a pair", Code(sums.branch_domain, "extend(rest, part)", "extend(part, rest)")),
}  # fmt: skip


@pytest.fixture(autouse=True)
def unshrunk():
    with mutants.unshrunk():
        yield


@pytest.mark.parametrize("name", CHECKS)
def test_the_rules_pass(name):
    assert CHECKS[name]() == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_fails(name):
    check, change = MUTANTS[name]
    with broken(change):
        try:
            found = CHECKS[check]()
        except (C.errors.DiffcurryError, KeyError, IndexError) as error:
            found = [f"{type(error).__name__}: {error}"]
        print(name, "#", check, "#", *[f[:300].replace("\n"," / ") for f in found], sep="\n    ")
    assert found != []
    assert [f for f in found if "NameError" in f or "UnboundLocalError" in f] == []


def test_every_check_notices_something():
    assert {check for check, _ in MUTANTS.values()} == set(CHECKS)


def test_what_was_broken_is_whole_again():
    code, row = environment.eval.__code__, rows.ROWS["mul"]
    for change in (MUTANTS["eval swaps the cotangents"][1], MUTANTS["mul forgets a factor"][1]):
        with pytest.raises(ZeroDivisionError), broken(change):
            1 / 0  # noqa: B018
    assert (environment.eval.__code__, rows.ROWS["mul"]) == (code, row)
