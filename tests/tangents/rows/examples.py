"""What cases of the table of rows are made of: values, and operations with their arguments."""

import numpy as np
from jax import lax

import combinators as C
from combinators.primitives import bind


def op(name, **params):
    """A primitive as a function of arrays."""
    return lambda *arguments: bind(C.primitive(name, **params), arguments)


def real(*shape, low=-2.0, high=2.0):
    """Reals spread over an interval, in an order that is not sorted."""
    return (low + (high - low) * ((np.arange(np.prod(shape)) + 0.4) * 0.6180339887 % 1.0)).reshape(shape)


def positive(*shape):
    return real(*shape, low=0.2, high=3.0)


def inside(*shape):
    return real(*shape, low=-0.9, high=0.9)


def complex_(*shape):
    return real(*shape) + 1j * real(*shape, low=1.7, high=-0.3)


def unary(operation, values=real, *more):
    return [(operation, values(*shape)) for shape in ((2, 3), (0, 2))] + [(operation, x) for x in more]


def holomorphic(operation, values=real):
    return unary(operation, values, complex_(3))


# The shapes in which a binary primitive broadcasts: equal, rank 0 and size 1 on either side, and empty ones.
SHAPES = [
    ((2, 3), (2, 3)), ((), ()), ((2, 3), ()), ((), (2, 3)), ((2, 3), (2, 1)), ((2, 1), (1, 3)), ((1, 1), (2, 3)),
    ((0, 3), (0, 3)), ((0, 3), ()), ((0, 3), (1, 3)), ((0, 1), (0, 3)),
]  # fmt: skip


def binary(operation, left=real, right=positive, shapes=SHAPES[::4], more=()):
    return [(operation, left(*a), right(*b)) for a, b in shapes] + [(operation, *xs) for xs in more]


def dots():
    """dot_general over contracted and batch axes in every order."""
    dimensions = [
        (((1,), (0,)), ((), ()), (2, 3), (3, 4)),
        (((0,), (1,)), ((), ()), (3, 2), (4, 3)),
        (((), ()), ((), ()), (2, 3), (4,)),
        (((0,), (0,)), ((), ()), (3,), (3,)),
        (((2, 1), (0, 1)), ((), ()), (2, 3, 4), (4, 3, 5)),
        (((1, 2), (2, 0)), ((), ()), (2, 3, 4), (4, 5, 3)),
        (((2,), (1,)), ((0,), (0,)), (2, 3, 4), (2, 4, 5)),
        (((3,), (1,)), ((0, 2), (3, 0)), (2, 5, 3, 4), (3, 4, 6, 2)),
        (((1, 3), (3, 0)), ((2,), (1,)), (2, 3, 4, 5), (5, 4, 6, 3)),
        (((0, 1), (0, 1)), ((), ()), (2, 3), (2, 3)),
        (((1,), (0,)), ((), ()), (2, 0), (0, 4)),
        (((1,), (1,)), ((0,), (0,)), (0, 3), (0, 3)),
        (((), ()), ((0,), (0,)), (3,), (3,)),
    ]
    cases = [(lambda x, y, c=c, b=b: lax.dot_general(x, y, (c, b)), real(*l), real(*r)) for c, b, l, r in dimensions]
    return [*cases, (lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ()))), complex_(2, 3), complex_(4, 3))]


def convolutions():
    """Strides, padding, dilations and groups, and layouts of axes; images of 6 by 5, kernels of 3 by 2."""
    plain = {"window_strides": (1, 1), "padding": ((0, 0), (0, 0))}
    cases = [
        ({}, (2, 4, 6, 5), (3, 4, 3, 2)),
        ({"window_strides": (2, 3)}, (2, 4, 6, 5), (3, 4, 3, 2)),
        ({"padding": ((2, 1), (0, 3))}, (2, 4, 6, 5), (3, 4, 3, 2)),
        ({"padding": ((-1, 1), (3, -2)), "window_strides": (2, 1)}, (2, 4, 6, 5), (3, 4, 3, 2)),
        ({"lhs_dilation": (2, 1), "rhs_dilation": (1, 3), "window_strides": (2, 2)}, (2, 4, 6, 5), (3, 4, 3, 2)),
        ({"lhs_dilation": (3, 2), "padding": ((1, 4), (2, 0)), "window_strides": (2, 3)}, (2, 4, 6, 5), (3, 4, 3, 2)),
        ({"feature_group_count": 2, "padding": ((1, 1), (1, 0))}, (2, 4, 6, 5), (6, 2, 3, 2)),
        ({"feature_group_count": 4, "rhs_dilation": (2, 2)}, (2, 4, 6, 5), (4, 1, 3, 2)),
        ({"batch_group_count": 2, "window_strides": (1, 2)}, (4, 3, 6, 5), (6, 3, 3, 2)),
        ({"batch_group_count": 4, "padding": ((2, 0), (1, 1))}, (4, 3, 6, 5), (4, 3, 3, 2)),
        ({"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "window_strides": (2, 2)}, (2, 6, 5, 4), (3, 2, 4, 3)),
        ({"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "feature_group_count": 2}, (2, 6, 5, 4), (3, 2, 2, 6)),
        ({"dimension_numbers": ("HNWC", "OWHI", "NCWH"), "batch_group_count": 2}, (6, 4, 5, 3), (6, 2, 3, 3)),
        ({}, (0, 4, 6, 5), (3, 4, 3, 2)),
        ({}, (2, 4, 2, 5), (3, 4, 3, 2)),
        ({}, (2, 0, 6, 5), (3, 0, 3, 2)),
    ]
    run = lambda how: lambda x, k: lax.conv_general_dilated(x, k, **{**plain, **how})
    wider = (run({"preferred_element_type": np.float64}), real(1, 2, 4, 4), real(3, 2, 3, 2))
    return [*((run(how), real(*x), real(*k)) for how, x, k in cases), wider]


def slices():
    windows = [
        ((4, 6), (0, 1), (4, 5), (2, 2)), ((6,), (1,), (5,), None), ((7,), (1,), (7,), (3,)), ((7,), (2,), (6,), (3,)),
        ((4, 6), (3, 5), (4, 6), None), ((4,), (2,), (2,), None), ((0, 3), (0, 0), (0, 2), None),
    ]  # fmt: skip
    return [(lambda x, w=w: lax.slice(x, *w), values(*shape)) for values in (real, complex_) for shape, *w in windows]


def pads():
    configurations = [
        ((2, 3), [(1, 0, 1), (-1, 2, 0)]), ((4,), [(1, 2, 0)]), ((4,), [(0, 0, 2)]), ((4,), [(-1, 0, 0)]),
        ((5,), [(-1, 2, 1)]), ((5,), [(2, -3, 2)]), ((5,), [(-2, -2, 2)]), ((1,), [(1, 1, 3)]), ((0,), [(2, 1, 0)]),
        ((0,), [(0, 0, 0)]), ((3,), [(-1, -2, 0)]), ((), []),
    ]  # fmt: skip
    return [(lambda x, v, c=c: lax.pad(x, v, c), real(*shape), np.float64(0.7)) for shape, c in configurations]


def reductions(operation, values=real, more=()):
    shapes = [((2, 3, 4), (0, 2)), ((3,), (0,)), ((2, 3), (1,)), ((2, 3), (0, 1)), ((2, 1, 4), (1,)), ((2, 3), ())]
    return [(lambda x, a=a: operation(x, a), values(*shape)) for shape, a in [*shapes, *more]]


def windows(operation, start, dilated=True):
    """Windows of 3 by 2, of 2 by 1 and of 1 by 1, with strides, padding and dilations."""
    ones, none = (1, 1), ((0, 0), (0, 0))
    cases = [
        ((4, 5), (3, 2), (1, 1), none, ones, ones), ((4, 5), (3, 2), (2, 2), none, ones, ones),
        ((4, 5), (2, 2), (2, 3), ((1, 0), (1, 1)), ones, ones), ((0, 5), (1, 2), (1, 1), none, ones, ones),
        ((5, 5), (1, 1), (3, 2), none, ones, ones),
    ]  # fmt: skip
    if dilated:
        cases += [
            ((4, 5), (3, 2), (2, 1), ((1, 2), (0, 3)), (2, 1), (1, 2)),
            ((4, 5), (3, 2), (1, 2), ((2, 0), (3, 1)), (1, 3), (2, 1)),
            ((4, 5), (1, 2), (1, 2), ((3, 4), (0, 0)), ones, ones),
            ((2, 2), (3, 2), (1, 1), none, ones, ones),
        ]
    return [
        (lambda x, w=w: lax.reduce_window(x, np.float64(start), operation, *w), real(*shape)) for shape, *w in cases
    ]


def along(axis, rank):
    return lax.GatherDimensionNumbers(tuple(i for i in range(rank) if i != axis), (axis,), (axis,))


BATCHED = lax.GatherDimensionNumbers((1,), (), (1,), (0,), (0,))  # of each line a window at its own place
MODES = ["clip", "fill", "promise_in_bounds"]


def gathers():
    """Indices that repeat and, where the mode allows it, are out of bounds; windows; batch axes; none at all."""
    cases = []
    for mode in MODES:
        far = [[4], [0], [4], [9], [-7]] if mode != "promise_in_bounds" else [[4], [0], [4], [1], [1]]
        how = {"mode": mode, "fill_value": 0.5 if mode == "fill" else None}
        cases += [
            (along(0, 2), (1, 3), how, real(5, 3), np.array(far)),
            (BATCHED, (1, 2), how, real(2, 4), np.array([[1], [far[3][0]]])),
            (
                lax.GatherDimensionNumbers((1,), (0,), (0, 1)),
                (1, 2),
                how,
                real(4, 3),
                np.array([[0, 1], [2, far[3][0]]]),
            ),
        ]
    cases += [(along(0, 1), (1,), {}, real(4), np.zeros((0, 1), int)), (along(1, 2), (0, 1), {}, real(0, 4), [[1]])]
    cases += [(along(0, 1), (1,), {}, complex_(4), np.array([[1], [1]]))]
    run = lambda numbers, sizes, how: lambda x, i: lax.gather(x, i, numbers, sizes, **how)
    return [(run(numbers, sizes, how), x, np.asarray(i, np.int32)) for numbers, sizes, how, x, i in cases]


def scatters(operation, **once):
    writes = lambda n: lax.ScatterDimensionNumbers(
        n.offset_dims, n.collapsed_slice_dims, n.start_index_map, n.operand_batching_dims, n.start_indices_batching_dims
    )
    cases = []
    for mode in MODES:
        far = mode != "promise_in_bounds"
        repeated = [[4], [0], [2], [7 if mode == "fill" else 1]] if once else [[4], [0], [4], [7 if far else 1]]
        cases += [
            (along(0, 2), {"mode": mode}, real(5, 3), repeated, real(3, 4).T),
            (BATCHED, {"mode": mode}, real(2, 4), [[1], [3 if far else 2]], positive(2, 2)),
        ]
    cases += [
        (along(0, 1), {}, real(4), np.zeros((0, 1), int), real(0)),
        (along(0, 1), {}, complex_(4), [[2]], complex_(1)),
    ]
    run = lambda n, how: lambda x, i, u: operation(x, i, u, writes(n), **{**how, **once})
    return [(run(numbers, how), x, np.asarray(i, np.int32), u) for numbers, how, x, i, u in cases]


def spd(*shape):
    """Positive definite matrices."""
    a = real(*shape, shape[-1])
    return a @ np.swapaxes(a, -1, -2) + 2 * np.eye(shape[-1])


def thin_svd(a):
    """In the order of the primitive's results."""
    u, s, vt = lax.linalg.svd(a, full_matrices=False)
    return s, u, vt


def solves():
    """A x = b and x A = b, of either triangle, transposed or not, with a diagonal of ones or not."""
    hows = [
        {"left_side": left, "lower": lower, "transpose_a": transposed, "unit_diagonal": lower != transposed}
        for left in (True, False) for lower in (True, False) for transposed in (True, False)
    ]  # fmt: skip
    cases = [(how, spd(3), real(3, 2) if how["left_side"] else real(2, 3)) for how in hows]
    cases += [
        ({"left_side": True, "lower": True, "transpose_a": False, "unit_diagonal": False}, spd(2, 3), real(2, 3, 1))
    ]
    cases += [({"left_side": True, "lower": True, "transpose_a": True, "unit_diagonal": True}, spd(3), real(3, 0))]
    return [(op("triangular_solve", conjugate_a=False, **how), a, b) for how, a, b in cases]


def shaped(operation, cases, values=real):
    """An operation of one array and a parameter, for each (shape, parameter)."""
    return [(lambda x, p=p: operation(x, *p), values(*shape)) for shape, *p in cases]
