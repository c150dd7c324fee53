"""The pullback table against JAX's rule for the same primitive, in float64: shapes, parameters, kinks, dtypes.

Each case is one equation of `lax`, which says what the row is handed whatever the version of JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive, primitives

import combinators as C
from tangents import vjp
from tangents.rows import ROWS

JAXS = {value.name for value in vars(primitives).values() if isinstance(value, Primitive)}
TABLE = [name for name in ROWS if name in JAXS]  # others are what tests define


def real(*shape, low=-2.0, high=2.0):
    """Reals spread over an interval, in an order that is not sorted."""
    size = int(np.prod(shape))
    return (low + (high - low) * (np.arange(size) * 0.6180339887 % 1.0)).reshape(shape)


def positive(*shape):
    return real(*shape, low=0.2, high=3.0)


def broadcasting(operation, left=real, right=positive):
    """The shapes in which a binary primitive broadcasts: equal, rank 0 and size 1 on either side, and empty ones."""
    shapes = [
        ((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), ()), ((), (2, 3)), ((2, 3), (2, 1)), ((1, 3), (2, 3)),
        ((2, 1), (1, 3)), ((1, 1), (2, 3)), ((0, 3), (0, 3)), ((0, 3), ()), ((0, 3), (1, 3)), ((0, 1), (0, 3)),
    ]  # fmt: skip
    return [(operation, left(*a), right(*b)) for a, b in shapes]


def unary(operation, values=real):
    return [(operation, values(*shape)) for shape in ((), (3,), (2, 3), (0, 2))]


def dots():
    """dot_general over contracted and batch axes in every order."""
    dimensions = [
        (((1,), (0,)), ((), ()), (2, 3), (3, 4)),
        (((0,), (1,)), ((), ()), (3, 2), (4, 3)),
        (((), ()), ((), ()), (2, 3), (4,)),
        (((0,), (0,)), ((), ()), (3,), (3,)),
        (((1, 2), (0, 1)), ((), ()), (2, 3, 4), (3, 4, 5)),
        (((2, 1), (0, 1)), ((), ()), (2, 3, 4), (4, 3, 5)),
        (((1, 2), (2, 0)), ((), ()), (2, 3, 4), (4, 5, 3)),
        (((2,), (1,)), ((0,), (0,)), (2, 3, 4), (2, 4, 5)),
        (((0,), (2,)), ((2,), (0,)), (4, 3, 2), (2, 5, 4)),
        (((3,), (1,)), ((0, 2), (3, 0)), (2, 5, 3, 4), (3, 4, 6, 2)),
        (((1, 3), (3, 0)), ((2,), (1,)), (2, 3, 4, 5), (5, 4, 6, 3)),
        (((0, 1), (0, 1)), ((), ()), (2, 3), (2, 3)),
        (((1,), (0,)), ((), ()), (2, 0), (0, 4)),
        (((1,), (0,)), ((), ()), (0, 3), (3, 4)),
        (((1,), (1,)), ((0,), (0,)), (0, 3), (0, 3)),
        (((), ()), ((0,), (0,)), (3,), (3,)),
    ]
    return [(lambda x, y, c=c, b=b: lax.dot_general(x, y, (c, b)), real(*l), real(*r)) for c, b, l, r in dimensions]


def slices():
    windows = [
        ((6,), (1,), (5,), None), ((6,), (0,), (6,), (2,)), ((7,), (1,), (7,), (3,)), ((7,), (2,), (6,), (3,)),
        ((4, 6), (0, 1), (4, 5), (2, 2)), ((4, 6), (3, 5), (4, 6), None), ((4,), (2,), (2,), None),
        ((0, 3), (0, 0), (0, 2), None),
    ]  # fmt: skip
    return [(lambda x, w=w: lax.slice(x, *w), real(*shape)) for shape, *w in windows]


def pads():
    configurations = [
        ((4,), [(1, 2, 0)]), ((4,), [(0, 0, 2)]), ((4,), [(1, 1, 1)]), ((4,), [(-1, 0, 0)]), ((4,), [(-1, -2, 0)]),
        ((5,), [(-1, 2, 1)]), ((5,), [(2, -3, 2)]), ((5,), [(-2, -2, 2)]), ((1,), [(1, 1, 3)]), ((0,), [(2, 1, 0)]),
        ((0,), [(0, 0, 0)]), ((3,), [(-1, -2, 0)]), ((2, 3), [(1, 0, 1), (-1, 2, 0)]), ((), []),
    ]  # fmt: skip
    return [(lambda x, v, c=c: lax.pad(x, v, c), real(*shape), np.float64(0.7)) for shape, c in configurations]


def reductions(operation, *more):
    shapes = [((3,), (0,)), ((2, 3), (0,)), ((2, 3), (1,)), ((2, 3), (0, 1)), ((2, 3, 4), (0, 2)), ((2, 1, 4), (1,))]
    cases = [(lambda x, a=a: operation(x, a), real(*shape)) for shape, a in [*shapes, ((2, 3), ())]]
    return [*cases, *((lambda x, a=a: operation(x, a), x) for x in more for a in ((0,), (1,), (0, 1)))]


ties = np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 3.0]])
zero_and_more = np.array([0.0, -0.0, 2.0, -2.0])
whole = np.array([0, 1, 2, -1])

CASES = {
    "neg": unary(lax.neg),
    "abs": [*unary(lax.abs), (lax.abs, zero_and_more)],
    "sign": unary(lax.sign),
    "floor": unary(lax.floor),
    "ceil": unary(lax.ceil),
    "round": unary(lax.round),
    "exp": unary(lax.exp),
    "exp2": unary(lax.exp2),
    "expm1": [*unary(lax.expm1), (lax.expm1, zero_and_more)],
    "log": unary(lax.log, positive),
    "log1p": [*unary(lax.log1p, positive), (lax.log1p, np.array([0.0, -1.0, -0.5]))],
    "sin": unary(lax.sin),
    "cos": unary(lax.cos),
    "tan": unary(lax.tan),
    "tanh": [*unary(lax.tanh), (lax.tanh, np.array([-30.0, 0.0, 30.0]))],
    "logistic": [*unary(lax.logistic), (lax.logistic, np.array([-800.0, 0.0, 800.0]))],
    "sqrt": [*unary(lax.sqrt, positive), (lax.sqrt, np.array([0.0, 4.0]))],
    "rsqrt": unary(lax.rsqrt, positive),
    "square": [*unary(lax.square), (lax.square, zero_and_more)],
    "integer_pow": [
        *((lambda x, n=n: lax.integer_pow(x, n), real(3)) for n in (-3, -1, 2, 3, 4, 7)),
        *((lambda x, n=n: lax.integer_pow(x, n), zero_and_more) for n in (2, 3)),
    ],
    "add": broadcasting(lax.add),
    "sub": broadcasting(lax.sub),
    "mul": broadcasting(lax.mul),
    "div": [*broadcasting(lax.div), (lax.div, np.float64(0.0), np.float64(0.0))],
    "max": [*broadcasting(lax.max), (lax.max, ties[0], ties[1]), (lax.max, ties, np.float64(3.0)),
            (lax.max, zero_and_more, -zero_and_more)],
    "min": [*broadcasting(lax.min), (lax.min, ties[0], ties[1]), (lax.min, ties, np.float64(3.0))],
    "pow": [
        *broadcasting(lax.pow, positive, real),
        (lax.pow, np.zeros(4), np.array([0.5, 1.0, 2.0, 3.0])),
        (lax.pow, -positive(3), np.array([1.0, 2.0, 3.0])),
        (lax.pow, positive(4), whole),
        (lax.pow, -positive(4), whole),
        (lax.pow, zero_and_more, np.array([0, 1, 2, 3])),
        (lax.pow, positive(2, 4), np.int64(3)),
    ],
    "dot_general": dots(),
    "reduce_sum": reductions(lax.reduce_sum),
    "reduce_max": reductions(lax.reduce_max, ties),
    "reduce_min": reductions(lax.reduce_min, ties),
    "broadcast_in_dim": [
        (lambda x, s=s, d=d: lax.broadcast_in_dim(x, s, d), real(*shape))
        for shape, s, d in [
            ((), (2, 3), ()), ((3,), (2, 3), (1,)), ((2,), (2, 3), (0,)), ((2, 3), (4, 2, 5, 3), (1, 3)),
            ((1,), (3,), (0,)),
            ((2, 1), (2, 3), (0, 1)), ((1, 1), (2, 4, 3), (0, 2)), ((3,), (0, 3), (1,)),
        ]
    ],
    "concatenate": [
        (lambda *xs, d=d: lax.concatenate(xs, d), *(real(*shape) for shape in shapes))
        for d, shapes in [(0, [(2,), (3,), (0,), (1,)]), (1, [(2, 3), (2, 1)]), (0, [(0, 3), (2, 3)])]
    ],
    "slice": slices(),
    "pad": pads(),
    "select_n": [
        (lax.select_n, np.array([True, False, True]), real(3), positive(3)),
        (lax.select_n, np.array(True), real(2, 3), positive(2, 3)),
        (lax.select_n, np.array([0, 2, 1], np.int32), real(3), positive(3), -positive(3)),
        (lax.select_n, np.zeros((0,), bool), real(0), real(0)),
    ],
    "convert_element_type": [
        (lambda x, d=d: lax.convert_element_type(x, d), real(3).astype(s))
        for s, d in [("float64", "float32"), ("float32", "float64"), ("float64", "bfloat16"), ("bfloat16", "float32"),
                     ("float64", "complex128"), ("float64", "int32")]
    ],
    "transpose": [
        (lambda x, p=p: lax.transpose(x, p), real(*shape))
        for shape, p in [((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (1, 2, 0)), ((0, 3), (1, 0))]
    ],
    "reshape": [
        (lambda x, s=s: lax.reshape(x, s), real(*shape))
        for shape, s in [((6,), (2, 3)), ((2, 3), (3, 2)), ((1, 1), (1,)), ((0, 3), (0,))]
    ],
    "squeeze": [
        (lambda x, d=d: lax.squeeze(x, d), real(*s))
        for s, d in [((1, 3), (0,)), ((1, 3, 1), (0, 2)), ((1,), (0,)), ((1, 0), (0,))]
    ],
    "copy": [(lambda x: jnp.array(x, copy=True), real(3))],
    "stop_gradient": [(lax.stop_gradient, real(3))],
}  # fmt: skip


def cotangent(y):
    """cos 1, cos 2, ..., with an imaginary part for complex results."""
    g = np.cos(1.0 + np.arange(y.size)).reshape(y.shape)
    return (g * (1 - 2j) if jnp.iscomplexobj(y) else g).astype(y.dtype)


def ours(f, arguments):
    y, pullback = vjp(f, *arguments)
    return y, pullback(cotangent(y))


def jaxs(f, arguments):
    with jax.numpy_dtype_promotion("standard"):  # JAX's rule of pow promotes an integer exponent
        y, pullback = jax.vjp(f, *arguments)
        g = cotangent(y) if jnp.issubdtype(y.dtype, np.inexact) else np.zeros(y.shape, jax.dtypes.float0)
        cotangents = pullback(g)
    return y, tuple(
        jnp.zeros_like(a) if c.dtype == jax.dtypes.float0 else c for c, a in zip(cotangents, arguments, strict=True)
    )


def compare(name, cases, tolerance):
    """All cases of a row, compiled together, in both ways."""
    programs = [f for f, *_ in cases]
    arguments = [list(map(jnp.asarray, a)) for _, *a in cases]
    for f, a in zip(programs, arguments, strict=True):
        (equation,) = jax.make_jaxpr(f)(*a).eqns
        assert equation.primitive.name == name
    run = lambda way: jax.jit(lambda args: [way(f, a) for f, a in zip(programs, args, strict=True)])(arguments)
    for case, (got, expected, given) in enumerate(zip(run(ours), run(jaxs), arguments, strict=True)):
        assert jax.tree.map(jnp.result_type, got[1]) == tuple(map(jnp.result_type, given))
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            assert a.shape == b.shape
            where = f"case {case}: {[x.shape for x in given]}"
            np.testing.assert_allclose(
                np.asarray(a, complex), np.asarray(b, complex), tolerance, tolerance, err_msg=where
            )


def test_every_row_is_a_primitive_and_every_primitive_of_the_table_has_cases():
    assert [C.primitive(name).name for name in TABLE] == TABLE
    assert set(CASES) == set(TABLE)


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_the_rule_of_jax(name, x64):
    compare(name, CASES[name], 1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float32, 1e-6), (jnp.bfloat16, 0.02)])
def test_a_product_that_is_wider_than_its_arguments(dtype, tolerance, x64):
    wider = lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float64)
    compare("dot_general", [(wider, real(2, 3).astype(dtype), real(3, 4).astype(dtype))], tolerance)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"convert_element_type"}))
def test_a_row_keeps_bfloat16(name):
    f, *arguments = CASES[name][1 if len(CASES[name]) > 1 else 0]
    halves = [a.astype(jnp.bfloat16) if a.dtype == float else a for a in map(np.asarray, arguments)]
    compare(name, [(f, *halves)], 0.05)
