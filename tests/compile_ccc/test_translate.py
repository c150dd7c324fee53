"""λ-terms and figure 1: what a lambda is read as, and the term that each rule gives."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import combinators as C
from combinators import Context
from compile_ccc import ccc, function, trace, translate
from compile_ccc.lambda_terms import App, Arrow, Block, Component, Constant, Lam, Product, Var, lam

F32 = C.Tensor()
F = C.Function(F32, F32)
SIN, ADD, MUL = C.primitive("sin"), C.primitive("add"), C.primitive("mul")


def let(*bindings, result):
    return Block(tuple(bindings), result)


x, y, z = Var("x", F32), Var("y", F32), Var("z", F32)
f, p = Var("f", F), Var("p", (F32, F32))
pair_form = jax.tree.structure((0, 0))

RULES = {
    "BDVAR, the parameter": (lam(x, let(result=x)), C.proj(0)),
    "BDVAR, a captured variable": (lam(x, let(result=y)), C.proj(0)),
    "a constant": (lam(x, let(result=Constant(2.0))), C.const(2.0)),
    "let extends the context": (
        lam(x, let((y, Arrow(SIN, (x,))), (z, Arrow(MUL, (x, y))), result=z)),
        C.extend(C.proj(0) >> SIN) >> C.extend(C.prod(C.proj(0), C.proj(1)) >> MUL) >> C.proj(2),
    ),
    "a let of a variable": (lam(x, let((y, x), result=y)), C.extend(C.proj(0)) >> C.proj(1)),
    "BDAPP": (
        lam(x, let((y, App(f, x)), result=y)),
        C.extend(C.prod(C.proj(0), C.proj(1)) >> C.eval) >> C.proj(2),
    ),
    "BDPROD": (
        lam(x, let((p, Product((x, x), pair_form)), result=p)),
        C.extend(C.prod(C.proj(0), C.proj(0))) >> C.proj(1),
    ),
    "a component": (
        lam(p, let((x, Component(p, 1)), result=x)),
        C.extend(C.proj(0) >> C.proj(1)) >> C.proj(1),
    ),
    "BDLAM, of all variables": (
        lam(x, let((f, lam(y, let((z, Arrow(ADD, (x, y))), result=z))), result=f)),
        C.extend(C.curry(C.extend(C.prod(C.proj(0), C.proj(1)) >> ADD) >> C.proj(2), F32)) >> C.proj(1),
    ),
    "BDLAM, of some variables": (
        lam(x, let((y, Arrow(SIN, (x,))), (f, lam(z, let(result=y))), result=f)),
        C.extend(C.proj(0) >> SIN) >> C.extend(C.prod(Context(C.proj(1))) >> C.curry(C.proj(0), F32)) >> C.proj(2),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_rules_of_figure_1(rule):
    term, body = RULES[rule]
    assert translate(term) is C.curry(body, term.parameter.type)


def test_an_abstraction_captures_in_the_order_of_first_use():
    inner = lam(x, let((z, Arrow(ADD, (y, x))), result=z))
    assert inner.free == (y,)
    assert lam(x, let((z, App(f, y)), result=z)).free == (f, y)


def scaled(w):
    return lambda x: jnp.sin(x) * w


def folded(w):
    return lambda xs: lax.scan(lambda s, x: (s * w + x, None), jnp.float32(0), xs)[0]


TEXTS = {
    "a capture": (scaled(2.0), [F32], ["λ x : f32[].", "  let a = sin(x)", "  let b = mul(a, w)", "  in b"]),
    "two arguments": (
        lambda x, y: x * y,
        [F32, F32],
        ["λ x_y : (f32[], f32[]).", "  let a = x_y.0", "  let b = x_y.1", "  let c = mul(a, b)", "  in c"],
    ),
    "an application": (
        lambda f: f(jnp.float32(3)),
        [F],
        ["λ f : (f32[] ⇝ f32[]).", "  let a = f 3.0", "  in a"],
    ),
    "an abstraction": (
        lambda x: function(lambda y: x * y, F32),
        [F32],
        ["λ x : f32[].", "  let c = λ a : f32[].", "    let b = mul(x, a)", "    in b", "  in c"],
    ),
    "data": (
        lambda p: {"a": p["b"]},
        [{"b": F32}],
        ["λ p : {'b': f32[]}.", "  let a = p.b", "  let b = (a=a)", "  in b"],
    ),
    "nothing": (lambda x: x, [F32], ["λ x : f32[].", "  in x"]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_of_lambda_terms(name):
    f, domain, lines = TEXTS[name]
    assert str(trace(f, *domain).lambda_term).splitlines() == lines


def test_a_lambda_and_the_same_arrow_without_points_are_one_code():
    body = C.extend(C.proj(1) >> SIN) >> C.extend(C.prod(C.proj(2), C.proj(0)) >> MUL) >> C.proj(3)
    assert trace(scaled(2.0), F32).closure.code is C.curry(body, F32)


def test_the_term_holds_what_was_captured_as_constants():
    translation = trace(scaled(2.0), F32)
    assert translation.term is C.prod(Context(C.const(2.0), C.id)) >> translation.closure.code.body
    assert (translation.domain, translation.codomain) == (F32, F32)
    assert isinstance(translation.lambda_term, Lam)
    assert [v.name for v in translation.lambda_term.free] == ["w"]


def combinators_of(term):
    """The names of all combinators in a term."""
    inner = [*getattr(term, "steps", ()), *getattr(term, "parts", ())]
    inner += [part for part in (getattr(term, "body", None), getattr(term, "value", None)) if isinstance(part, C.Term)]
    return {type(term).__name__, *(name for part in inner for name in combinators_of(part))}


@pytest.mark.parametrize(
    ("f", "domain", "expected"),
    [
        (lambda f, x: f(x), [F, F32], {"Eval"}),
        (lambda x: function(lambda y: x + y, F32), [F32], {"Curry"}),
        (lambda x: function(lambda y: x + y, F32)(x), [F32], {"Curry", "Eval"}),
        (lambda x: (lambda y: x + y)(x), [F32], set()),
        (folded(2.0), [C.Tensor((3,))], {"Curry", "Fold"}),
        (lambda xs: lax.scan(lambda s, x: (s, x * s), jnp.float32(2), xs), [C.Tensor((3,))], {"Curry", "Scan"}),
        (lambda f, xs: jax.vmap(f)(xs), [F, C.Tensor((3,))], {"Map", "Curry", "Eval"}),
        (lambda xs: jax.vmap(jnp.sin)(xs), [C.Tensor((3,))], set()),
    ],
)
def test_what_is_an_abstraction_and_what_is_inlined(f, domain, expected):
    functional = {"Curry", "Eval", "Fold", "Scan", "Map"}
    assert combinators_of(trace(f, *domain).term) & functional == expected


def test_the_parameters_of_a_fold_are_captured_once():
    code = trace(folded(2.0), C.Tensor((5,))).closure.code
    assert "Context(proj(0))" in repr(code)
    assert repr(code).count("fold") == 1


def test_a_chain_of_arrows_is_one_term():
    chain = ccc(lambda x: (x, x + 1.0)) >> MUL >> ccc(jnp.sin)
    translation = chain.trace(F32)
    assert translation.codomain == F32
    assert float(C.evaluate(translation.term, jnp.float32(2))) == pytest.approx(-0.27941549819892586)  # sin 6


SUBTRACT = {
    "a lambda": lambda x, y: x - y,
    "an arrow": ccc(lambda x, y: x - y),
    "a term": C.primitive("sub"),
    "a function value": function(lambda x, y: x - y, F32, F32),
    "a chain": C.id >> ccc(lambda x, y: x - y),
    "a lambda of any number": lambda *xs: xs[0] - xs[1] if len(xs) == 2 else xs[0][0] - xs[0][1],
}


@pytest.mark.parametrize("kind", SUBTRACT)
def test_several_arguments_are_their_tuple(kind):
    f = SUBTRACT[kind] if isinstance(SUBTRACT[kind], C.Term | C.Closure) else ccc(SUBTRACT[kind])
    assert float(f(5.0, 3.0)) == float(f((5.0, 3.0))) == 2.0
    pair = ccc(lambda x: (x, 2.0 * x))
    assert float((pair >> (f if isinstance(f, C.Term) else ccc(f)))(5.0)) == -5.0
    assert float(ccc(lambda x: (pair >> ccc(lambda a, b: a - b))(x))(5.0)) == -5.0


def test_tracing_runs_nothing(capfd):
    def f(x):
        jax.debug.print("ran {}", x)
        return x

    trace(f, jnp.float32(1))
    jax.effects_barrier()
    assert capfd.readouterr().out == ""
    ccc(f)(jnp.float32(1)).block_until_ready()
    jax.effects_barrier()
    assert capfd.readouterr().out == "ran 1.0\n"
