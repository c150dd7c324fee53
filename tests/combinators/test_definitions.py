"""A primitive keeps the definition and the parameters that it was made with, whatever the names of others."""

import copy
import pickle

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir

import combinators as C
from combinators.errors import CompositionError, DiffcurryError, UnknownPrimitiveError, UnsupportedError
from compile_ccc import ccc, lower, trace
from tangents import define, grad, represent, value_and_grad, vjp

NUMBER = C.Tensor()


def scale(name, k):
    return define(name, lambda x: k * x, lambda g, y, x: k * g)


def all_of(f):
    """What f means at 1.5, by value, both of our derivatives and JAX's, and as a λ-term."""
    y, pullback = represent(trace(f, 1.5).term)(1.5)
    return [f(1.5), *value_and_grad(f)(1.5), y, pullback(1.0), jax.grad(ccc(f))(1.5), jax.jit(ccc(f))(1.5)]


def means(f, k):
    np.testing.assert_allclose(all_of(f), [1.5 * k, 1.5 * k, k, 1.5 * k, k, k, 1.5 * k], rtol=1e-6)


def test_two_libraries_may_use_one_name():
    first = scale("shared_by_two", 2.0)
    by_first = lambda x: first(x)
    compiled, (_, pullback), lowered = jax.jit(by_first), vjp(by_first, 1.5), lower(first)
    means(by_first, 2.0)
    second = scale("shared_by_two", 5.0)
    by_second = lambda x: second(x)
    for _ in range(2):
        means(by_second, 5.0)
        means(by_first, 2.0)
    assert (compiled(1.5), pullback(1.0), lowered(1.5)) == (3.0, (2.0,), 3.0)
    assert all_of(lambda x: second(first(x)))[:3] == [15.0, 15.0, 10.0]
    assert first is not second and str(first) == str(second) == "shared_by_two"


def test_a_compiled_function_keeps_its_meaning_when_it_is_traced_anew():
    first = scale("traced_anew", 2.0)
    double = ccc(lambda x: first(x))
    assert double(1.0) == 2.0
    scale("traced_anew", 5.0)
    jax.clear_caches()
    assert double(1.0) == 2.0 and double(jnp.ones(3)).tolist() == [2.0] * 3
    assert grad(lambda x: jnp.sum(double(x)))(jnp.ones(2)).tolist() == [2.0] * 2


def test_a_name_finds_a_definition_where_there_is_one():
    only = scale("defined_once", 3.0)
    assert C.primitive("defined_once") is only
    assert C.primitive("defined_once")(2.0) == 6.0
    scale("defined_once", 4.0)
    with pytest.raises(UnknownPrimitiveError, match="several"):
        C.primitive("defined_once")
    assert only(2.0) == 6.0


def test_copies_of_a_primitive_of_ones_own():
    term = scale("copied", 3.0)
    assert copy.deepcopy({"f": term})["f"] is copy.copy(term) is term
    assert pickle.loads(pickle.dumps(C.id >> term)) is (C.id >> term)
    scale("copied", 4.0)
    with pytest.raises(UnsupportedError, match="pickled"):
        pickle.dumps(term)
    assert copy.deepcopy(term) is term


def test_what_a_name_finds_does_not_depend_on_what_was_traced():
    """A primitive of a third party is known to the terms in which it stands, and to no one by its name."""
    theirs = jex.Primitive("split")
    theirs.def_impl(lambda x: x + 1.0)
    theirs.def_abstract_eval(lambda x: x)
    mlir.register_lowering(theirs, mlir.lower_fun(lambda x: x + 1.0, multiple_results=False))
    assert ccc(lambda x: theirs.bind(x))(1.0) == 2.0
    with pytest.raises(DiffcurryError, match="split has no reverse-mode"):
        grad(lambda x: theirs.bind(x))(1.0)
    halves = C.primitive("split", sizes=(1, 2), axis=0)(jnp.array([1.0, 2.0, 3.0]))
    assert [h.tolist() for h in halves] == [[1.0], [2.0, 3.0]]
    with pytest.raises(UnknownPrimitiveError):
        C.primitive("nobodys_primitive")


PARAMETERS = {
    "sin": ({"foo": 1}, (1.0,), UnknownPrimitiveError),
    "exp": ({"axis": 0}, (1.0,), UnknownPrimitiveError),
    "floor": ({"accuracy": None}, (1.0,), UnknownPrimitiveError),
    "add": ({"out_dtype": None}, (1.0, 2.0), UnknownPrimitiveError),
    "reduce_sum": ({"axes": (0,), "keepdims": True}, (np.ones(3, np.float32),), UnknownPrimitiveError),
    "reduce_max": ({}, (np.ones(3, np.float32),), CompositionError),
    "transpose": ({"permutation": (0, 0)}, (np.ones((2, 3), np.float32),), CompositionError),
    "integer_pow": ({"y": 2.5}, (1.0,), CompositionError),
    "convert_element_type": ({"new_dtype": "word"}, (1.0,), CompositionError),
    "sort": ({"dimension": 0}, (np.ones(3, np.float32),), CompositionError),
    "cholesky": ({"symmetrize_input": True}, (np.eye(2),), DiffcurryError),
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_parameter_that_a_primitive_does_not_have(name):
    params, arguments, error = PARAMETERS[name]
    term = C.primitive(name, **params)
    x = arguments[0] if len(arguments) == 1 else arguments
    for use in (lambda: C.infer(term, x), lambda: term(x), lambda: represent(term)(x), lambda: vjp(term, *arguments)):
        with pytest.raises(error) as caught:
            use()
        assert name in caught.value.what and caught.value.hint


def test_parameters_that_a_primitive_has():
    """The values of operations of JAX, which write all of their parameters down."""
    m = jnp.arange(6.0).reshape(2, 3)
    for f, expected in {
        lambda x: lax.reduce_sum(x, axes=(0,)): [3.0, 5.0, 7.0],
        lambda x: lax.reduce_max(x, axes=(1,)): [2.0, 5.0],
        lambda x: lax.sort(-x[0], dimension=0): [-2.0, -1.0, 0.0],
        lambda x: lax.round(x[1] + 0.4, lax.RoundingMethod.TO_NEAREST_EVEN): [3.0, 4.0, 5.0],
        lambda x: lax.conv_general_dilated(x[None], jnp.ones((1, 2, 2)), (1,), "VALID")[0, 0]: [8.0, 12.0],
        lambda x: jnp.any(x > 4.0, axis=0).astype(float): [0.0, 0.0, 1.0],
    }.items():
        for eqn in jax.make_jaxpr(f)(m).eqns:
            if not any(True for _ in jex.jaxprs_in_params(eqn.params)):
                by_hand = C.primitive(eqn.primitive.name, **eqn.params)
                C.infer(by_hand, tuple(C.Tensor(v.aval.shape, v.aval.dtype) for v in eqn.invars))
        np.testing.assert_allclose(ccc(f)(m), expected)
    assert C.primitive("reduce_and", axes=(0,))(jnp.array([True, False])).tolist() is False
    assert float(C.primitive("reduce_prod", axes=(0,))(jnp.array([2.0, 3.0]))) == 6.0
