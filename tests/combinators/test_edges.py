"""What is no type, no term, no value or no setting is refused where it is handed in, and never taken for another."""

import copy
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
from combinators.errors import ArgumentError, ArityError, BareFunctionError, DiffcurryError, UnknownPrimitiveError
from compile_ccc import Arrow, ccc, function, lower, optimise, translate
from tangents import J, Pullback, custom, define, grad, jacobian, represent, representation, value_and_grad, vjp

NUMBER = C.Tensor()
SIN = C.primitive("sin")
Fold, Scan = type(C.fold), type(C.scan)
double = function(lambda x: 2.0 * x, NUMBER)
scaled = (lambda w: function(lambda x: w * x, NUMBER))(3.0)
add_up = function(lambda s, x: s + x, NUMBER, NUMBER)
three = jnp.ones(3)
doubled = custom(lambda x: 2.0 * x, lambda primals, y, g: (2.0 * g,))

JUNK = {
    "a size that is a truth value": (lambda: C.Tensor(True), ArgumentError),
    "sizes that are floats": (lambda: C.Tensor((2.0,)), ArgumentError),
    "sizes in no order": (lambda: C.Tensor({2}), ArgumentError),
    "bytes for sizes": (lambda: C.Tensor(b"ab"), ArgumentError),
    "a dtype of text": (lambda: C.Tensor((), str), ArgumentError),
    "a dtype of objects": (lambda: C.Tensor((), object), ArgumentError),
    "a dtype of dates": (lambda: C.Tensor((), "datetime64[s]"), ArgumentError),
    "a weak type that is a word": (lambda: C.Tensor((), float, "weak"), ArgumentError),
    "a function type of numbers": (lambda: C.Function(1.0, NUMBER), ArgumentError),
    "a function type into text": (lambda: C.Function(NUMBER, ("a", NUMBER)), ArgumentError),
    "an array of a negative size": (lambda: C.Array(-1, NUMBER), ArgumentError),
    "an array of truly many": (lambda: C.Array(True, NUMBER), ArgumentError),
    "an array of text": (lambda: C.Array(2, "a"), ArgumentError),
    "a tag with a letter": (lambda: C.tag("a"), ArgumentError),
    "a tag with a float": (lambda: C.tag(2.0), ArgumentError),
    "a tag with an array": (lambda: C.tag(three), ArgumentError),
    "a tag with no alternatives": (lambda: C.tag(0), ArgumentError),
    "the alternative of a letter": (lambda: C.inject("a", 2), ArgumentError),
    "an alternative of a letter": (lambda: C.inject(0, "b"), ArgumentError),
    "a true alternative": (lambda: C.inject(True, 2), ArgumentError),
    "an alternative beyond": (lambda: C.inject(2, 2), ArgumentError),
    "a sum with a tag beyond": (lambda: C.Sum(1.0, 2.0, tag=5), ArgumentError),
    "a constant that is text": (lambda: C.const("a"), ArgumentError),
    "a constant that is a type": (lambda: C.const({"w": NUMBER}), ArgumentError),
    "a constant that is a Python function": (lambda: C.const(jnp.sin), BareFunctionError),
    "a projection to a list": (lambda: C.proj([0]), ArgumentError),
    "a projection to an array": (lambda: C.proj(three), ArgumentError),
    "a curry of an argument that is a number": (lambda: C.curry(C.id, argument=3), ArgumentError),
    "a curry of an argument that is text": (lambda: C.curry(C.id, argument="x"), ArgumentError),
    "a fold whose end is a number": (lambda: Fold(1), ArgumentError),
    "a fold whose end is an array": (lambda: Fold(three > 0), ArgumentError),
    "a fold of a list of steps": (lambda: Fold(False, [3]), ArgumentError),
    "a scan of a negative length": (lambda: Scan(False, -1), ArgumentError),
    "a closure without code": (lambda: C.Closure(SIN, C.Context()), ArgumentError),
    "a name of a primitive that is none": (lambda: C.primitive(jnp.dot), UnknownPrimitiveError),
    "a term that is only a term": (lambda: C.Term(), ArgumentError),
    "a term before a number": (lambda: C.id >> 1, ArgumentError),
    "a term after an array": (lambda: three >> C.id, ArgumentError),
    "an arrow before a number": (lambda: ccc(jnp.sin) >> 1, ArgumentError),
    "a place in a context that is a name": (lambda: C.Context(1.0)["a"], ArgumentError),
    "steps of a word": (lambda: C.normalise(C.id, NUMBER, "many"), ArgumentError),
    "a width that is a float": (lambda: C.show(C.id, 10.5), ArgumentError),
    "inference of no term": (lambda: C.infer(1, NUMBER), ArgumentError),
    "evaluation of no term": (lambda: C.evaluate(1, 1.0), ArgumentError),
    "evaluation at text": (lambda: C.evaluate(C.id, "a"), ArgumentError),
    "evaluation at a type": (lambda: C.evaluate(C.id, NUMBER), ArgumentError),
    "evaluation of eval at a number": (lambda: C.evaluate(C.eval, 1.0), DiffcurryError),
    "evaluation of fold at a number": (lambda: C.evaluate(C.fold, 1.0), DiffcurryError),
    "representation of a lambda": (lambda: represent(lambda x: x), ArgumentError),
    "representation at another type": (lambda: represent(SIN)((1.0, 2.0)), DiffcurryError),
    "representation in no space": (lambda: represent(SIN, ["list"]), ArgumentError),
    "a reading in no space": (lambda: representation("list"), ArgumentError),
    "lowering of a lambda": (lambda: lower(lambda x: x), ArgumentError),
    "a lowered term at text": (lambda: lower(SIN)("a"), ArgumentError),
    "optimising a list": (lambda: optimise([C.id]), ArgumentError),
    "translation of a number": (lambda: translate(1), ArgumentError),
    "a pullback by hand": (lambda: Pullback(double, None), ArgumentError),
    "an auxiliary flag that is an array": (lambda: grad(jnp.sum, has_aux=three), ArgumentError),
    "a flag that is a number": (lambda: value_and_grad(jnp.sin, allow_int=1), ArgumentError),
    "a flag of vjp": (lambda: vjp(jnp.sin, 1.0, has_aux=[]), ArgumentError),
    "a mode that is an array": (lambda: jacobian(jnp.sin, mode=np.ones(3)), ArgumentError),
    "a place that is no whole number": (lambda: grad(jnp.sin, argnums=0.5)(1.0), ArgumentError),
    "a parameter without a hash": (
        lambda: define("edge", lambda x, k=(): x, lambda g, y, x, k=(): g, k=[]), ArgumentError
    ),
    "the gradient at a type": (lambda: grad(jnp.sin)(NUMBER), ArgumentError),
    "the gradient at a function type": (lambda: grad(lambda f: f(1.0))(double.type), ArgumentError),
    "the pullback at a type": (lambda: vjp(jnp.sin, jax.ShapeDtypeStruct((), float)), ArgumentError),
    "a function value at a type": (lambda: double(NUMBER), ArgumentError),
    "an arrow that gives a type": (lambda: ccc(lambda x: NUMBER)(1.0), ArgumentError),
}  # fmt: skip


@pytest.mark.parametrize("name", JUNK)
def test_junk_is_refused_where_it_is_handed_in(name):
    run, error = JUNK[name]
    with pytest.raises(error) as caught:
        run()
    assert all(words in str(caught.value) for words in ("expected: ", "got: ", "at: test_edges.py:", "hint: "))


CALLED_BY_NAME = {
    "a function value": lambda: double(x=1.0),
    "a function value that is known by its type": lambda: ccc(lambda f: f(x=1.0))(double),
    "a term": lambda: SIN(x=1.0),
    "a lowered term": lambda: lower(SIN)(x=1.0),
    "a primitive of one's own": lambda: define("by_name", lambda x: 1.0 * x, lambda g, y, x: g)(x=1.0),
    "a pullback": lambda: vjp(jnp.sin, 1.0)[1](g=1.0),
    "an image": lambda: J(double)(x=1.0),
    "the gradient of a function value": lambda: grad(double)(x=1.0),
    "the gradient of a term": lambda: grad(SIN)(x=1.0),
    "a function in C": lambda: ccc(max)(a=1.0),
    "a name that a function with a rule has not": lambda: doubled(z=1.0),
}


@pytest.mark.parametrize("name", CALLED_BY_NAME)
def test_an_argument_by_a_name_that_there_is_not(name):
    with pytest.raises(ArityError, match="by name"):
        CALLED_BY_NAME[name]()


def test_functions_with_rules_take_their_arguments_by_name():
    assert doubled(x=1.5) == 3.0
    assert grad(lambda x: doubled(x=x) ** 2)(1.5) == 12.0


ENVIRONMENTS = {
    "too many entries": C.Context(3.0, 5.0),
    "no entries": C.Context(),
    "a tuple": (3.0,),
    "a number": 3.0,
    "text": C.Context("a"),
    "a type": C.Context(NUMBER),
    "a Python function": C.Context(jnp.sin),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_that_is_none_of_the_code(name):
    f = copy.copy(scaled)
    with pytest.raises(DiffcurryError):
        f.environment = ENVIRONMENTS[name]
    assert f(2.0) == 6.0


def test_an_environment_can_be_exchanged():
    f = copy.copy(scaled)
    f.environment = C.Context(5.0)
    assert f(2.0) == 10.0 and f.captured == {"w": 5.0} and scaled(2.0) == 6.0
    assert grad(lambda f: f(2.0))(f).environment[0] == 2.0


@pytest.mark.parametrize("entry", [C.Context(three), C.Context(jnp.int32(1)), C.Context(None), (), "a", None])
def test_a_closure_over_another_environment_is_no_function(entry):
    f = C.Closure(scaled.code, entry)
    for use in (lambda: f(2.0), lambda: grad(lambda f: f(2.0))(f), lambda: f.type):
        with pytest.raises(DiffcurryError):
            use()


def test_copies_and_terms_of_objects_are_what_they_were():
    model = SimpleNamespace(f=scaled, term=SIN)
    again = copy.deepcopy(model)
    assert again.term is SIN and again.f.code is scaled.code and again.f(2.0) == 6.0


@pytest.mark.parametrize("tag", [1.0, jnp.ones(2, int), "a", [1], jnp.float32(0)])
def test_a_sum_is_told_by_a_whole_number(tag):
    with pytest.raises(DiffcurryError):
        C.case(C.id, C.id)(C.Sum(1.0, 2.0, tag=tag))


def test_what_fits_is_what_it_was():
    assert C.Tensor(np.int64(3)) == C.Tensor((3,)) == C.Tensor([np.int32(3)]) == C.Tensor(np.array([3]))
    assert C.tag(np.int64(2)) is C.tag(2) and C.inject(np.int8(1), 2) is C.inr
    assert float(Fold(True, 3)(add_up, 0.0, three)) == 3.0
    assert isinstance(ccc(jnp.sin) >> SIN, Arrow) and isinstance(SIN >> ccc(jnp.sin), Arrow)
    assert lower(SIN).lower(1.0).as_text() and "lower(sin)" in repr(lower(SIN))
