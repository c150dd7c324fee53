"""Whatever is handed to a public name gives a value, or an error of ours: nothing from inside comes out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import combinators as C
import tangents as T
from combinators.errors import DiffcurryError
from compile_ccc import black_box, ccc, function, lower, optimise, trace, translate

NUMBER = C.Tensor()
SIN = C.primitive("sin")
double = function(lambda x: 2.0 * x, NUMBER)
pullback = T.vjp(jnp.sin, 1.0)[1]
custom = T.custom(lambda x: x, lambda primals, y, g: (g,))
own = T.define("odd", lambda x: 2.0 * x, lambda g, y, x: 2.0 * g)

ODD = {
    "None": None, "an int": 1, "a float": 1.5, "True": True, "below zero": -1, "nan": float("nan"), "complex": 1j,
    "text": "a", "bytes": b"a", "a lambda": lambda x: x, "a class": int, "an object": object(), "a list": [],
    "a dict": {}, "the unit": (), "a set": {1}, "a pair with text": (1, "a"),
    "an array of NumPy": np.ones(3), "integers": np.arange(2), "objects": np.array([None]), "an array": jnp.ones(3),
    "a key": jax.random.key(0), "a type": NUMBER, "a function type": double.type, "a sum type": C.Sum(NUMBER, NUMBER),
    "a term": SIN, "eval": C.eval, "a function": double, "an arrow": ccc(jnp.sin), "a context": C.Context(1.0),
    "a sum": C.inl(1.0), "a sum without a place": C.Sum(1.0, 2.0, tag=jnp.int32(5)), "calls": T.Calls(),
    "keys without an order": {"a": 1.0, 2: 3.0}, "a masked array": np.ma.array([1.0, 2.0], mask=[0, 1]),
    "a structured array": np.array([(1, 2.0)], dtype=[("n", int), ("w", float)]),
    "a pullback": pullback, "an image": T.J(double),
}  # fmt: skip

NAMES = {
    **{f"C.{name}": getattr(C, name) for name in (
        "Tensor", "Sum", "Context", "Term", "case", "compose", "const", "extend", "prod", "proj", "primitive", "show",
        "tag", "type_of", "id", "eval", "fold", "scan", "map", "inl",
    )},
    "C.Function": lambda x: C.Function(NUMBER, x),
    "C.Array": lambda x: C.Array(x, NUMBER),
    "C.call": lambda x: C.call(SIN, x),
    "C.curry": lambda x: C.curry(C.id, x),
    "C.inject": lambda x: C.inject(0, x),
    "C.equal": lambda x: C.equal(SIN, x, NUMBER),
    "C.equal at": lambda x: C.equal(SIN, SIN, x),
    "C.normalise": lambda x: C.normalise(C.id, x),
    "C.normalise in steps": lambda x: C.normalise(C.id, NUMBER, x),
    "C.infer": lambda x: C.infer(x, NUMBER),
    "C.infer at": lambda x: C.infer(SIN, x),
    "C.evaluate": lambda x: C.evaluate(x, 1.0),
    "C.evaluate at": lambda x: C.evaluate(C.map, x),
    "C.Closure": lambda x: C.Closure(x, C.Context()),
    "C.Closure over": lambda x: C.Closure(double.code, x)(1.0),
    "case at": lambda x: C.case(C.id, C.id)(x),
    "a sum with a tag": lambda x: C.case(C.id, C.id)(C.Sum(1.0, 2.0, tag=x)),
    "a sine": SIN, "a function of": double, "its gradient": double.gradient, "a primitive of one's own": own,
    "a parameter": lambda x: C.primitive("reduce_sum", axes=x)(jnp.ones(3)),
    "a term before": lambda x: C.id >> x, "a term after": lambda x: x >> C.id,
    "ccc": lambda x: ccc(x)(1.0), "an arrow of": ccc(lambda x: x), "an arrow to": lambda x: ccc(lambda _: x)(1.0),
    "an arrow before": lambda x: ccc(jnp.sin) >> x,
    "function": lambda x: function(x, NUMBER), "function on": lambda x: function(lambda y: y, x),
    "lower": lower, "a lowered term": lower(C.id), "optimise": optimise, "translate": translate,
    "trace": lambda x: trace(x, 1.0), "trace at": lambda x: trace(lambda a: a, x),
    "black_box": lambda x: black_box(x, NUMBER, NUMBER), "black_box from": lambda x: black_box(np.sin, x, NUMBER),
    "what a black box gives": lambda x: black_box(lambda _: x, NUMBER, NUMBER)(1.0),
    "grad": lambda x: T.grad(x)(1.0), "grad by": lambda x: T.grad(jnp.sin, x)(1.0),
    "grad at": T.grad(lambda x: 1.0), "grad of": lambda x: T.grad(lambda _: x)(1.0),
    "grad with aux": lambda x: T.grad(jnp.sin, has_aux=x)(1.0),
    "grad in a space": lambda x: T.grad(jnp.sin, functions=x)(1.0),
    "hessian at": T.hessian(lambda x: 1.0), "jacobian": lambda x: T.jacobian(x)(1.0),
    "jacobian in a mode": lambda x: T.jacobian(jnp.sin, mode=x)(1.0),
    "vjp": lambda x: T.vjp(x, 1.0), "vjp at": lambda x: T.vjp(lambda x: x, x), "a pullback of": pullback,
    "jvp at": lambda x: T.jvp(lambda x: x, (x,), (1.0,)), "jvp along": lambda x: T.jvp(jnp.sin, (1.0,), (x,)),
    "jvp of primals": lambda x: T.jvp(jnp.sin, x, (1.0,)), "hvp along": lambda x: T.hvp(jnp.sin, (1.0,), x),
    "jvp of an int": lambda x: T.jvp(lambda n: 2.0, (1,), (x,)),
    "represent": T.represent, "represent at": lambda x: T.represent(SIN)(x),
    "represent in a space": lambda x: T.represent(SIN, x), "representation": T.representation,
    "zero": T.zero, "add": lambda x: T.add(x, 1.0), "add to": lambda x: T.add(jnp.ones(3), x),
    "inner": lambda x: T.inner(x, 1.0), "inner with": lambda x: T.inner((1.0, 2.0), x),
    "difference": lambda x: T.difference(x, jnp.ones(3)),
    "Block": lambda x: T.Block(x, 1.0), "Block with axes": lambda x: T.Block(jnp.ones(3), jnp.ones(3), x),
    "Calls": T.Calls, "Calls and": lambda x: T.Calls() + x,
    "Calls where": lambda x: T.Calls(T.Block(1.0, 1.0)).where(x),
    "custom of": custom, "custom": lambda x: T.custom(x, lambda primals, y, g: (g,)),
    "custom with": lambda x: T.custom(jnp.sin, x), "custom with a result": lambda x: T.custom(lambda a: a, custom, x),
    "what a rule gives": lambda x: T.grad(T.custom(lambda a: 2.0 * a, lambda primals, y, g: (x,)))(1.0),
    "define": lambda x: T.define(x, lambda x: x, lambda g, y, x: g),
    "define as": lambda x: T.define("odd_meaning", x, lambda g, y, x: g),
    "J": T.J, "J at": T.J(lambda x: x), "J_inverse": T.J_inverse, "Pullback": lambda x: T.Pullback(x, x),
    "assert_cheap_gradient": lambda x: T.assert_cheap_gradient(lambda a: 1.0, x),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_value_or_an_error_of_ours(name):
    for x in ODD.values():
        try:
            repr(NAMES[name](x))
        except DiffcurryError as error:
            assert error.what in str(error) and error.line.startswith("test_odd_inputs.py:")
