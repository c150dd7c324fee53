"""Terms, arrows and Python functions in one arrow: the same as the function that one would write by hand."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators.memo import caches
from combinators.primitives import _BY_NAME_IN_JNP
from compile_ccc import Arrow, ccc, function, trace
from tangents import Block, Calls, J, grad, jvp, represent, vjp

NUMBER = C.Tensor()
SIN, MUL = C.primitive("sin"), C.primitive("mul")
w, v, u = 2.0, 3.0, 5.0
three = jnp.array([0.2, 0.5, 0.9])


def cell(state, x):
    return jnp.tanh(state + w * x)


def folded(xs):
    state = 0.0
    for x in xs:
        state = jnp.tanh(state + 2.0 * x)
    return state


CHOOSE = C.prod(C.id, C.proj(0) >> (lambda x: x > 0.0) >> C.tag(2))
ON_A_CONTEXT = C.prod(C.Context(C.id)) >> C.extend(C.proj(0) >> jnp.sin)

ARROWS = {  # an arrow, by hand, and where
    "after a term": (C.id >> jnp.tanh, jnp.tanh, (0.3,)),
    "before a term": (jnp.tanh >> SIN, lambda x: jnp.sin(jnp.tanh(x)), (0.3,)),
    "between arrows": (ccc(jnp.tanh) >> (lambda x: w * x) >> ccc(jnp.sin), lambda x: jnp.sin(2 * jnp.tanh(x)), (0.3,)),
    "a chain of functions": (C.compose(jnp.tanh, lambda x: w * x), lambda x: 2 * jnp.tanh(x), (0.3,)),
    "a product": (C.prod(ccc(jnp.sin), C.id, lambda x: w * x) >> (lambda x, y, z: x * y * z),
                  lambda x: 2 * x * x * jnp.sin(x), (0.3,)),
    "a tree": (C.prod({"a": jnp.sin, "b": (C.id, lambda x: w * x)}) >> (lambda d: d["a"] * d["b"][1]),
               lambda x: 2 * x * jnp.sin(x), (0.3,)),
    "several arguments": (C.prod(lambda x, y: x * y, C.proj(1) >> jnp.exp) >> jnp.add,
                          lambda x, y: x * y + jnp.exp(y), (0.3, 0.7)),
    "curry and eval": (C.prod(C.proj(0) >> C.curry(lambda a, x: w * a * x), C.proj(1)) >> C.eval,
                       lambda a, x: 2 * a * x, (0.3, 0.7)),
    "several captures": (
        C.prod(lambda x: w * x + v, C.curry(lambda a, x: v * a + w * u * x), lambda x: u * x)
        >> C.prod(C.proj(0), C.prod(C.proj(1), C.proj(2)) >> C.eval) >> MUL,
        lambda x: (2 * x + 3) * (3 * x + 2 * 5 * 5 * x), (0.3,)),
    "a stated curry": (C.curry(ccc(lambda a, x: w * a * x), NUMBER) >> (lambda f: f(f(0.5))),
                       lambda a: 2 * a * (2 * a * 0.5), (0.3,)),
    "a curry in a curry": (C.prod(C.prod(C.curry(C.curry(lambda ab, c: w * ab[0] * ab[1] * c)), jnp.sin) >> C.eval,
                                  C.id) >> C.eval,
                           lambda x: 2 * x * jnp.sin(x) * x, (0.3,)),
    "a fold": (C.prod(C.curry(C.proj(1) >> ccc(cell)), C.const(0.0), C.id) >> C.fold, folded, (three,)),
    "a case, first": (CHOOSE >> C.case(lambda p, _: p[0] * w, C.proj(0) >> (lambda x, y: jnp.sin(x * y) * w)),
                      lambda x, y: 2 * x, (-0.3, 0.7)),
    "a case, second": (CHOOSE >> C.case(lambda p, _: p[0] * w, C.proj(0) >> (lambda x, y: jnp.sin(x * y) * w)),
                       lambda x, y: jnp.sin(x * y) * 2, (0.3, 0.7)),
    "a case of a sum alone": (C.inr >> C.case(jnp.sin, lambda x: w * x * x), lambda x: 2 * x * x, (0.3,)),
    "a case in a context": (ON_A_CONTEXT >> C.extend(C.const(1) >> C.tag(2)) >> C.case(
        C.proj(0), lambda ctx: w * ctx[0] * ctx[1]), lambda x: 2 * x * jnp.sin(x), (0.3,)),
    "an extended context": (ON_A_CONTEXT >> C.extend(lambda ctx: w * ctx[0] * ctx[1]) >> C.proj(-1),
                            lambda x: 2 * x * jnp.sin(x), (0.3,)),
    "a curry in a context": (ON_A_CONTEXT >> C.prod(C.curry(lambda ctx: w * ctx[0] * ctx[1] * ctx[2]), C.proj(0))
                             >> C.eval, lambda x: 2 * x * x * jnp.sin(x), (0.3,)),
    "a checkpoint and a call": (C.checkpoint(C.call(lambda x: jnp.sin(w * x), "inner") >> jnp.exp),
                                lambda x: jnp.exp(jnp.sin(2 * x)), (0.3,)),
    "a function value": (C.id >> function(lambda x: w * jnp.sin(x), NUMBER), lambda x: 2 * jnp.sin(x), (0.3,)),
    "a derivative": (C.prod(grad(SIN >> SIN), C.id) >> jnp.multiply,
                     lambda x: jnp.cos(jnp.sin(x)) * jnp.cos(x) * x, (0.3,)),
}  # fmt: skip


@pytest.mark.parametrize("name", ARROWS)
def test_an_arrow_is_the_function_that_one_would_write(name):
    arrow, by_hand, at = ARROWS[name]
    places = tuple(range(len(at)))
    expected = np.asarray(by_hand(*at))
    y, pullback = represent(arrow)(*at)
    for value in (arrow(*at), y, C.evaluate(arrow, at if len(at) > 1 else at[0]), ccc(lambda *x: arrow(*x))(*at)):
        np.testing.assert_allclose(value, expected, rtol=1e-6)
    assert C.infer(arrow, at if len(at) > 1 else at[0]) == C.type_of(expected)
    gradients = jax.jit(jax.grad(by_hand, places))(*at)
    found = [grad(arrow, places, functions=functions)(*at) for functions in ("environment", "list")]
    found += [grad(lambda *x: arrow(*x), places)(*at), pullback(jnp.float32(1.0)) if len(at) > 1 else (pullback(1.0),)]
    for each in found:
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4), each, gradients)
    along = jax.tree.map(jnp.ones_like, at)
    np.testing.assert_allclose(jvp(arrow, at, along)[1], sum(map(jnp.sum, gradients)), rtol=1e-4)


def test_functions_are_arguments_of_terms():
    np.testing.assert_allclose(C.map(lambda x: w * x, three), 2 * np.asarray(three))
    np.testing.assert_allclose(C.map(ccc(jnp.sin) >> SIN, three), np.sin(np.sin(three)), rtol=1e-6)
    np.testing.assert_allclose(C.map(SIN, three), np.sin(three), rtol=1e-6)
    np.testing.assert_allclose(C.eval(jnp.sin, 0.3), np.sin(0.3), rtol=1e-6)
    last, before = C.scan(lambda s, x: (s + w * x, s), 0.0, three)
    np.testing.assert_allclose([last, *before], [3.2, 0.0, 0.4, 1.4], rtol=1e-6)
    loss = lambda w: C.fold(lambda s, x: s + w * w * x, 0.0, three)
    np.testing.assert_allclose([grad(loss)(2.0), grad(loss, functions="list")(2.0)], 2 * 2 * 1.6, rtol=1e-6)
    inside = ccc(lambda f, xs: C.fold(lambda s, x: s + f(x), 0.0, xs))
    np.testing.assert_allclose(inside(function(lambda x: w * x, NUMBER), three), 3.2, rtol=1e-6)


def scaled(w):
    """λx. w x (w + x), and the same in a lambda."""
    line = ccc(lambda x: w * x)
    arrow = C.prod(line, lambda x: w + x) >> MUL
    return arrow, lambda x: arrow(x)


@pytest.mark.parametrize("which", [0, 1])
def test_what_an_arrow_captured_is_environment(which):
    """w x (w + x) has the derivative x (2 w + x) by w: 16 at w = 3 and x = 2."""
    f = function(scaled(3.0)[which], NUMBER)
    assert f.captured == {"w": 3.0}
    assert grad(lambda f, x: f(x))(f, 2.0).captured == {"w": 16.0}
    calls = grad(lambda f, x: f(x), functions="list")(f, 2.0)
    assert [(float(x), float(g)) for x, g in calls] == [(2.0, 1.0)]
    for derivative in (grad, jax.grad):
        assert derivative(lambda w: scaled(w)[which](2.0))(3.0) == 16.0
    assert [float(scaled(w)[which](2.0)) for w in (3.0, 4.0)] == [30.0, 48.0]


def test_functions_of_equal_arrows_have_one_code(compilations):
    f, g = (function(scaled(w)[0], NUMBER) for w in (3.0, 4.0))
    assert f.code is g.code and f(2.0) == 30.0
    compilations.new()
    assert (g(2.0), compilations.new()) == (48.0, 0)


def test_a_variable_that_changes_is_read_anew():
    module = {"jnp": jnp, "C": C, "w": 2.0}
    exec("arrow = C.id >> (lambda x: w * x)\nouter = lambda x: arrow(x)\nchosen = C.id >> (lambda x: f(x))", module)
    exec("f = jnp.sin", module)
    runs = [module["arrow"], ccc(module["outer"]), grad(module["outer"]), module["chosen"]]
    assert [float(run(1.0)) for run in runs] == pytest.approx([2.0, 2.0, 2.0, np.sin(1)])
    module |= {"w": 3.0, "f": jnp.cos}
    assert [float(run(1.0)) for run in runs] == pytest.approx([3.0, 3.0, 3.0, np.cos(1)])


def test_a_function_that_an_arrow_makes():
    make = C.curry(lambda a, x: w * a * x, NUMBER)
    f = make(3.0)
    assert f(0.5) == 3.0 and f.type == C.Function(NUMBER, NUMBER)
    assert sorted(jax.tree.leaves(f.environment)) == [2.0, 3.0]
    assert grad(lambda a: make(a)(0.5))(3.0) == 1.0
    assert represent(make, functions="list")(3.0)[1](Calls(Block(jnp.float32(0.5), jnp.float32(1.0)))) == 1.0
    family = jax.vmap(make)(three)
    np.testing.assert_allclose(jax.vmap(lambda f: f(0.5))(family), three)
    with pytest.raises(C.errors.ArgumentError, match="family of 3"):
        family(0.5)


@pytest.mark.parametrize("combinator", [C.checkpoint, lambda f: C.prod(f, f) >> C.proj(1)])
def test_an_arrow_of_a_function_value_in_a_lambda(combinator):
    cube = ccc(lambda x: combinator(function(lambda x: x**3, C.Tensor()))(x))
    assert cube(2.0) == 8.0  # the first call of it
    assert grad(cube)(2.0) == 12.0


def test_an_argument_is_found_where_a_function_is_applied():
    """Also if that is a function, of which the type is known."""
    apply = C.prod(C.proj(0) >> C.curry(lambda a, g: w * g(a)), C.proj(1)) >> C.eval
    g = function(lambda x: w * x, NUMBER)
    assert apply(3.0, g) == 12.0 and grad(apply, 1)(3.0, g).captured == {"w": 6.0}
    assert trace(apply, 3.0, g).codomain == NUMBER


def test_an_arrow_on_a_domain_is_a_term():
    arrow = C.prod(jnp.sin, lambda x: w * x) >> MUL
    assert isinstance(arrow, Arrow) and not isinstance(arrow, C.Term)
    term = trace(arrow, NUMBER).term
    assert isinstance(term, C.Term) and isinstance(arrow.on(NUMBER), C.Term)
    assert C.equal(arrow, C.prod(SIN, C.prod(C.const(w), C.id) >> MUL) >> MUL, NUMBER)
    assert not C.equal(arrow, C.prod(SIN, C.prod(C.const(3.0), C.id) >> MUL) >> MUL, NUMBER)
    assert C.normalise(arrow, NUMBER) is C.normalise(term, NUMBER)
    assert C.show(arrow) == repr(arrow) == "prod(ccc(sin), ccc(<lambda>)) >> mul"


def test_functions_stand_in_arrows_of_any_depth():
    arrow = lambda x: w * x
    for _ in range(400):
        arrow = C.prod(C.id, arrow) >> C.proj(1)
    assert arrow(3.0) == 6.0 and ccc(lambda x: arrow(x))(3.0) == 6.0


def test_the_image_of_an_arrow_has_its_functions_as_parts():
    f = function(lambda x: w * x, NUMBER)
    arrow = C.prod(f, C.id) >> MUL
    image = jax.tree.map(lambda leaf: 3.0 * leaf, J(arrow))
    assert image(2.0)[0] == 3.0 * w * 4.0 and arrow(2.0) == w * 4.0


@pytest.mark.parametrize("value", [0.7, -0.7])
def test_the_first_function_may_branch_and_take_keywords(value):
    arrow = ccc(lambda x, *, scale=1.0: x * scale if x > 0 else -x) >> SIN
    np.testing.assert_allclose(arrow(value, scale=2.0), np.sin(1.4 if value > 0 else 0.7), rtol=1e-6)


POSITIVE, INTEGERS = jnp.array([[0.2, 0.5], [0.9, 0.1]]), jnp.arange(3)
ON_TWO = {"add", "arctan2", "divide", "dot", "equal", "greater", "greater_equal", "inner", "less", "less_equal",
          "matmul", "maximum", "minimum", "multiply", "not_equal", "power", "subtract", "tensordot", "true_divide",
          "vdot"}  # fmt: skip
ARGUMENTS = {
    **dict.fromkeys(ON_TWO, (POSITIVE, POSITIVE)),
    "all": (POSITIVE > 0,), "any": (POSITIVE > 0,), "arccosh": (POSITIVE + 1,), "astype": (POSITIVE, jnp.int32),
    "bitwise_and": (INTEGERS, INTEGERS), "bitwise_or": (INTEGERS, INTEGERS), "broadcast_to": (POSITIVE, (3, 2, 2)),
    "conjugate": (jax.lax.complex(POSITIVE, POSITIVE),), "invert": (INTEGERS,), "swapaxes": (POSITIVE, 0, 1),
    "take": (POSITIVE, 1, 1), "where": (POSITIVE > 0.5, POSITIVE, POSITIVE),
}  # fmt: skip


@pytest.mark.parametrize("name", _BY_NAME_IN_JNP)
def test_names_of_jnp_say_which_primitive_they_are(name):
    primitive, place = _BY_NAME_IN_JNP[name], jax.nn if name == "sigmoid" else jnp
    program = jax.make_jaxpr(lambda: getattr(place, name)(*ARGUMENTS.get(name, (POSITIVE,))))()
    assert re.search(rf"= {primitive}[ \[]", str(program)) and C.primitive(primitive)
    with pytest.raises(C.errors.UnknownPrimitiveError, match=f"expected: {primitive}\n") as caught:
        C.primitive(name)
    assert f"f >> {'jax.nn' if name == 'sigmoid' else 'jnp'}.{name}" in str(caught.value)


def test_operations_of_jnp_are_arrows():
    x = jnp.arange(6.0).reshape(2, 3)
    gram = C.prod(C.id, C.id >> jnp.transpose) >> jnp.matmul >> partial(jnp.sum, axis=0)
    np.testing.assert_allclose(gram(x), (np.asarray(x) @ np.asarray(x).T).sum(0))
    largest = C.prod(C.id, C.const(jnp.full((2, 3), 2.5))) >> jnp.maximum >> jnp.sum
    np.testing.assert_allclose(grad(largest)(x), np.asarray(x) > 2.5)
    joined = C.prod(C.id, C.id) >> jnp.concatenate >> (lambda x: x[1:, 0])
    y, pullback = vjp(joined, x)
    np.testing.assert_allclose(y, [3.0, 0.0, 3.0])
    np.testing.assert_allclose(pullback(jnp.ones(3))[0], [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])


def test_curries_that_wait_are_told_apart():
    """While one is kept, here by an error, that was refused, the argument of another one is found."""
    with pytest.raises(C.errors.UntypedFunctionError) as kept:
        C.curry(lambda a, x: a)(1.0)
    later = C.prod(C.proj(0) >> C.curry(lambda a, x: a * x), C.proj(1)) >> C.eval
    assert later(2.0, 3.0) == 6.0 and kept.value.part


def test_an_arrow_of_several_functions_is_called_again_at_once_and_reads_anew_what_they_read():
    module = {"jnp": jnp, "C": C, "a": 2.0, "n": 3, "table": {"b": 5.0}}
    exec("f = lambda x: a * x\ng = lambda x, y: n * x * y + table['b'] * a", module)
    exec("arrow = C.prod(f, C.curry(lambda x, y: a * x * y, C.Tensor()) >> (lambda h: h(1.0))) >> g", module)
    arrow, slope, term = module["arrow"], grad(module["arrow"]), grad(SIN >> SIN)

    def right():
        a, n, b = (float(v) for v in (module["a"], module["n"], module["table"]["b"]))
        assert [arrow(7.0), slope(7.0)] == [n * a * a * 49.0 + b * a, n * a * a * 14.0]

    known = lambda: caches()["calls of functions again"]
    before = known()
    for _ in range(3):
        right(), term(0.3)
    assert known() == before + 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("compile_ccc.tracing.function.captures", None)  # nothing is looked at but what they read
        patch.setattr("compile_ccc.arrow.captures", None)
        module["a"] = 4.0
        right()
    for name, value in [("n", 2), ("table", {"b": 1.0}), ("a", jnp.float32(3.0))]:
        module[name] = value
        right(), right(), right()
    module["table"]["b"] = 9.0
    right(), right()
