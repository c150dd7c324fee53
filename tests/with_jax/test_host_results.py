"""What functions of the host give is what they say, or refused; what they raise comes out as it was raised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad

import combinators as C
from combinators.errors import ArgumentError, UnsupportedError
from compile_ccc import black_box, ccc, function, lower
from tangents import custom, grad, jvp, represent, value_and_grad, vjp

KINDS = {"float": C.Tensor(), "int": C.Tensor((), int), "byte": C.Tensor((), "uint8"), "bool": C.Tensor((), bool)}
KINDS["complex"] = C.Tensor((), complex)
NUMBER = KINDS["float"]
xs = jnp.array([1.0, 2.0, 3.0])

# What f gives, and which kinds of numbers that is: digits of floats may be lost, and nothing else.
GIVEN = {
    "a fraction": (2.7, "float complex"),
    "a whole float": (np.float64(3.0), "float complex int byte"),
    "an int": (5, "float complex int byte"),
    "one": (np.int8(1), "float complex int byte bool"),
    "below zero": (-1, "float complex int"),
    "more than a byte": (300, "float complex int"),
    "more than an int": (2**40, "float complex"),
    "more than a float": (1e300, ""),
    "true": (True, "float complex int byte bool"),
    "not a number": (float("nan"), "float complex"),
    "infinite": (-np.inf, "float complex"),
    "complex": (1j, "complex"),
    "of JAX": (jnp.bfloat16(0.5), "float complex"),
    "nothing": (None, ""),
    "text": ("2.7", ""),
    "an object": (np.array(None), ""),
    "a list": ([2.0], ""),
    "a vector": (np.ones(1), ""),
    "a pair": ((1.0, 2.0), ""),
    "a dict": ({"y": 1.0}, ""),
    "a key": (jax.random.key(0), ""),
    "a function": (np.sin, ""),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GIVEN)
def test_a_number_is_converted_if_it_stays_the_number(name, kind):
    result, kinds = GIVEN[name]
    box = black_box(lambda x: result, NUMBER, KINDS[kind])
    if kind in kinds.split():
        value = box(1.0)
        assert C.type_of(value) == KINDS[kind]
        np.testing.assert_allclose(value, complex(result) if kind == "complex" else float(result), rtol=1e-6)
    else:
        with pytest.raises(ArgumentError, match="another type than it says") as caught:
            box(1.0)
        assert caught.value.line.startswith("test_host_results.py:") and "lambda x: result" in caught.value.line


STRUCTURES = {
    "a part is missing": {"a": 1.0},
    "a part too many": {"a": 1.0, "b": [1.0, 2.0], "c": 0.0},
    "a part is nothing": {"a": 1.0, "b": None},
    "a part has another shape": {"a": 1.0, "b": 2.0},
    "parts of different lengths": {"a": 1.0, "b": [[1.0], [1.0, 2.0]]},
    "a tuple": (1.0, [1.0, 2.0]),
    "an array": np.ones(3),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_structure_is_the_one_that_was_stated(name):
    cod = {"a": NUMBER, "b": C.Tensor(2)}
    assert black_box(lambda x: {"a": x, "b": [1, 2]}, NUMBER, cod)(3.0)["b"].tolist() == [1.0, 2.0]
    with pytest.raises(ArgumentError, match="another type than it says"):
        black_box(lambda x: STRUCTURES[name], NUMBER, cod)(3.0)


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_rows_have_the_shape_that_was_stated(method):
    add = black_box(lambda x, y: np.sum(x, axis=-1) + y, (C.Tensor(2), NUMBER), NUMBER, method)
    rows = jnp.arange(6.0).reshape(3, 2)
    assert jax.vmap(add, in_axes=(0, None))(rows, 1.0).tolist() == [2.0, 6.0, 10.0]
    forgets = black_box(lambda x: np.sum(x), C.Tensor(2), C.Tensor(2), method)
    with pytest.raises(ArgumentError, match="another type than it says"):
        jax.block_until_ready(C.map(forgets, rows))


@pytest.mark.parametrize("junk", [None, "often", ["sequential"], 1])
def test_there_are_some_methods_for_rows(junk):
    with pytest.raises(ArgumentError, match="vmap_method"):
        black_box(np.sin, NUMBER, NUMBER, junk)


def test_keys_do_not_go_to_the_host():
    with pytest.raises(ArgumentError, match="no black box"):
        black_box(lambda x: x, C.type_of(jax.random.key(0)), NUMBER)


class NoSuchRow(LookupError):
    def __init__(self, row):
        super().__init__(f"no row\nof number {row}")
        self.row = row


def look_up(x):
    raise NoSuchRow(7)


table = black_box(look_up, NUMBER, NUMBER)
at_one = C.prod(C.id, C.const(1.0)) >> C.eval
total = ccc(lambda f, xs: C.fold(function(lambda s, x: s + f(x), NUMBER, NUMBER), 0.0, xs))
WAYS = {
    "a call": lambda: table(1.0),
    "an arrow": lambda: ccc(lambda f, x: 2.0 * f(x))(table, 1.0),
    "a term": lambda: at_one(table),
    "evaluation": lambda: C.evaluate(at_one, table),
    "a lowered term": lambda: lower(at_one)(table),
    "a representation": lambda: represent(at_one, "list")(table),
    "a map": lambda: C.map(table, xs),
    "vmap": lambda: jax.vmap(table)(xs),
    "a fold": lambda: total(table, xs),
    "a gradient": lambda: grad(lambda w: w * table(1.0))(2.0),
    "a gradient by calls": lambda: value_and_grad(lambda f: f(1.0), functions="list")(table),
    "a pullback": lambda: vjp(lambda w: w * table(1.0), 2.0),
    "forward mode": lambda: jvp(lambda w: w * table(1.0), (2.0,), (1.0,)),
    "a rule of one's own": lambda: value_and_grad(custom(lambda x: table(x), lambda primals, y, g: (g,)))(1.0),
}


@pytest.mark.parametrize("name", WAYS)
def test_an_exception_comes_out_as_it_was_raised(name):
    with pytest.raises(NoSuchRow) as caught:
        jax.block_until_ready(WAYS[name]())
    assert caught.value.row == 7


def test_a_jit_of_ones_own_has_the_text_alone():
    with pytest.raises(jax.errors.JaxRuntimeError, match="NoSuchRow"):
        jax.block_until_ready(jax.jit(lambda x: table(x))(1.0))
    assert black_box(lambda x: x + 1.0, NUMBER, NUMBER)(1.0) == 2.0


host_only = Primitive("host_only")  # has an implementation in Python, and nothing for XLA
host_only.def_impl(lambda x: x + 1.0)
host_only.def_abstract_eval(lambda x: x)
ad.primitive_jvps[host_only] = lambda xs, ts: (host_only.bind(*xs), ts[0])
later = ccc(lambda x: jnp.sin(host_only.bind(x)))


@pytest.mark.parametrize(
    "run",
    [
        lambda: grad(later)(1.0),
        lambda: grad(jax.checkpoint(lambda x: later(x)))(1.0),
        lambda: jvp(later, (1.0,), (1.0,)),
        lambda: vjp(later, 1.0),
        lambda: later(1.0),
        lambda: lower(later.trace(1.0).term)(1.0),
    ],
    ids=["grad", "checkpoint", "jvp", "vjp", "arrow", "lower"],
)
def test_an_operation_that_cannot_be_compiled_is_named(run):
    with pytest.raises(UnsupportedError, match=r"'host_only' not found[\s\S]*test_host_results.py"):
        run()
