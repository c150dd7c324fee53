"""The cases of the table of rows: for each primitive, functions of one equation with their arguments."""

import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from tests.tangents.rows.examples import (
    SHAPES,
    binary,
    complex_,
    convolutions,
    dots,
    gathers,
    holomorphic,
    inside,
    op,
    pads,
    positive,
    real,
    reductions,
    scatters,
    shaped,
    slices,
    solves,
    spd,
    thin_svd,
    unary,
    windows,
)

far, near = np.array([7, -9], np.int32), np.array([1, 0], np.int32)  # places to start at: clamped, and within bounds
third = np.array([1.0, 2.0, 3.0])

CASES = {
    "neg": holomorphic(lax.neg),
    "copy": holomorphic(op("copy")),
    "sign": [(lax.sign, complex_(3)), (lax.sign, complex_(2, 2)), (lax.sign, complex_(0))],
    "bitcast_convert_type": holomorphic(lambda x: lax.bitcast_convert_type(x, x.dtype)),
    "name": unary(lambda x: checkpoint_name(x, "here")),
    "reduce_precision": unary(lambda x: lax.reduce_precision(x, 8, 10)),
    "exp": holomorphic(lax.exp),
    "exp2": holomorphic(lax.exp2),
    "expm1": holomorphic(lax.expm1),
    "tan": holomorphic(lax.tan, inside),
    "tanh": holomorphic(lax.tanh),
    "logistic": holomorphic(lax.logistic),
    "sqrt": holomorphic(lax.sqrt, positive),
    "rsqrt": holomorphic(lax.rsqrt, positive),
    "cbrt": unary(lax.cbrt, positive),
    "erf_inv": unary(lax.erf_inv, inside),
    "log": holomorphic(lax.log, positive),
    "log1p": holomorphic(lax.log1p, positive),
    "log2": holomorphic(op("log2", accuracy=None), positive),
    "sin": holomorphic(lax.sin),
    "cos": holomorphic(lax.cos),
    "sinh": holomorphic(lax.sinh),
    "cosh": holomorphic(lax.cosh),
    "atan": holomorphic(lax.atan),
    "asinh": holomorphic(lax.asinh),
    "atanh": holomorphic(lax.atanh, inside),
    "square": holomorphic(lax.square),
    "one_minus_square": holomorphic(op("one_minus_square")),
    "integer_pow": [(op("integer_pow", y=n), x) for n in (3, -3, -1, 2, 7) for x in (positive(3), complex_(2))],
    "abs": unary(lax.abs),
    "asin": unary(lax.asin, inside),
    "acos": unary(lax.acos, inside),
    "acosh": unary(lax.acosh, lambda *s: 1.1 + positive(*s)),
    "erf": unary(lax.erf),
    "erfc": unary(lax.erfc),
    "lgamma": unary(lax.lgamma, positive),
    "digamma": unary(lax.digamma, positive),
    "add": binary(lax.add, more=[(complex_(3), complex_(3))]),
    "add_any": [(op("add_any"), real(2, 3), real(2, 3))],
    "sub": binary(lax.sub, more=[(complex_(3), complex_(3))]),
    "mul": binary(lax.mul, shapes=SHAPES, more=[(complex_(3), complex_(3))]),
    "div": binary(lax.div, shapes=SHAPES[:5], more=[(complex_(3), complex_(3))]),
    "pow": binary(lax.pow, positive, more=[(positive(4), np.array([0, 1, 2, -1])), (positive(2, 4), np.int64(3))]),
    "max": binary(lax.max),
    "min": binary(lax.min),
    "atan2": binary(lax.atan2),
    "rem": binary(lax.rem, lambda *s: 3.3 * real(*s)),
    "clamp": [(lax.clamp, -positive(2, 3), 1.5 * real(2, 3), positive(2, 3)),
              (lax.clamp, np.float64(-0.7), real(2, 3), np.float64(0.7)), (lax.clamp, real(0), real(0), real(0))],
    "complex": [(lax.complex, real(3), positive(3)), (lax.complex, real(), real())],
    "real": [(lax.real, complex_(3))],
    "imag": [(lax.imag, complex_(3))],
    "conj": [(lax.conj, complex_(3)), (lax.conj, real(3))],
    "broadcast_in_dim": shaped(lax.broadcast_in_dim, [
        ((2, 3), (4, 2, 5, 3), (1, 3)), ((), (2, 3), ()), ((3,), (2, 3), (1,)), ((2,), (2, 3), (0,)),
        ((1,), (3,), (0,)),
        ((2, 1), (2, 3), (0, 1)), ((1, 1), (2, 4, 3), (0, 2)), ((3,), (0, 3), (1,)), ((3,), (1, 3), (1,)),
    ]),
    "concatenate": [
        (lambda *xs, d=d: lax.concatenate(xs, d), *(real(*shape) for shape in shapes))
        for d, shapes in [(1, [(2, 3), (2, 1)]), (0, [(2,), (3,), (0,), (1,)]), (0, [(0, 3), (2, 3)])]
    ],
    "cumsum": shaped(lax.cumsum, [((2, 3), 1), ((2, 3), 0, True), ((0, 2), 0)])
    + shaped(lax.cumsum, [((3,), 0)], complex_),
    "convert_element_type": [
        (lambda x, d=d: lax.convert_element_type(x, d), real(3).astype(s))
        for s, d in [("float64", "float32"), ("float32", "float64"), ("float64", "bfloat16"), ("bfloat16", "float32"),
                     ("float64", "complex128"), ("complex128", "complex64")]
    ],
    "pad": pads(),
    "reduce_sum": reductions(lax.reduce_sum, more=[((0, 3), (0,))]) + reductions(lax.reduce_sum, complex_),
    "rev": shaped(lax.rev, [((2, 3), (1,)), ((2, 3), (0, 1)), ((0, 3), (0,)), ((2, 3), ())]),
    "slice": slices(),
    "split": [(lambda x, s=s, a=a: tuple(lax.split(x, s, a)), real(5, 3)) for s, a in [((2, 0, 3), 0), ((1, 2), 1)]],
    "squeeze": shaped(lax.squeeze, [((1, 3), (0,)), ((1, 3, 1), (0, 2)), ((1,), (0,)), ((1, 0), (0,))]),
    "transpose": [
        (lambda x, p=p: lax.transpose(x, p), real(*shape))
        for shape, p in [((2, 3, 4), (2, 0, 1)), ((2, 3), (1, 0)), ((2, 3, 4), (1, 2, 0)), ((0, 3), (1, 0))]
    ],
    "reshape": shaped(lax.reshape, [((2, 3), (3, 2)), ((6,), (2, 3)), ((1, 1), (1,)), ((0, 3), (0,))]),
    "select_n": [
        (lax.select_n, np.array([True, False, True]), real(3), positive(3)),
        (lax.select_n, np.array(True), real(2, 3), positive(2, 3)),
        (lax.select_n, np.array([0, 2, 1], np.int32), real(3), positive(3), -positive(3)),
        (lax.select_n, np.zeros((0,), bool), real(0), real(0)),
        (lax.select_n, np.array([True, False, True]), complex_(3), complex_(3)),
    ],
    "dot_general": dots(),
    "conv_general_dilated": convolutions(),
    "dynamic_slice": [
        (op("dynamic_slice", slice_sizes=sizes), real(4, 5), *at) for sizes, at in
        [((2, 3), near), ((2, 3), far), ((0, 3), near)]
    ],
    "dynamic_update_slice": [
        (op("dynamic_update_slice"), x, u, *at) for at in (near, far)
        for x, u in [(real(4, 5), real(2, 3)), (real(4, 5), real(0, 3)), (real(0, 5), real(0, 3))]
    ],
    "gather": gathers(),
    "scatter-add": scatters(lax.scatter_add),
    "scatter": scatters(lax.scatter, unique_indices=True),
    "top_k": [(lambda x, k=k, a=a: tuple(lax.top_k(x, k, axis=a)), real(*s)) for s, k, a in
              [((2, 5), 3, 1), ((4, 2), 2, 0), ((5,), 5, 0), ((2, 3), 0, 1), ((0, 3), 2, 1)]],
    "reduce_max": reductions(lax.reduce_max),
    "reduce_min": reductions(lax.reduce_min),
    "reduce_prod": reductions(lax.reduce_prod, more=[((0, 3), (0,))]) + reductions(lax.reduce_prod, complex_)[:2],
    "reduce_window_sum": windows(lax.add, 0),
    "reduce_window_max": windows(lax.max, -np.inf, dilated=False),
    "reduce_window_min": windows(lax.min, np.inf, dilated=False),
    "cholesky": [(op("cholesky"), spd(3)), (op("cholesky"), spd(2, 2)), (op("cholesky"), spd(0, 2))],
    "triangular_solve": solves(),
    "eigh": [(lambda a, l=l: tuple(lax.linalg.eigh(a, lower=l, symmetrize_input=False)), a)
             for l, a in [(True, real(4, 4)), (False, real(3, 3)), (True, spd(2, 2)), (False, real(1, 1)),
                          (True, real(0, 2, 2))]],
    "svd": [(thin_svd, real(*s))
            for s in [(3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 2, 2)]],
    "fft": [(op("fft", fft_type=k, fft_lengths=n), complex_(2, 4, 3)) for k in (lax.FftType.FFT, lax.FftType.IFFT)
            for n in ((3,), (4, 3))],
}  # fmt: skip

zeros = np.array([0.0, -0.0, 2.0, -2.0])
ties = np.array([[1.0, 3.0, 3.0], [3.0, 0.0, 3.0]])

KINKS = {
    "abs": [(lax.abs, zeros)],
    "expm1": [(lax.expm1, zeros)],
    "log1p": [(lax.log1p, np.array([0.0, -1.0, -0.5]))],
    "tanh": [(lax.tanh, np.array([-30.0, 0.0, 30.0]))],
    "logistic": [(lax.logistic, np.array([-800.0, 0.0, 800.0]))],
    "sqrt": [(lax.sqrt, np.array([0.0, 4.0]))],
    "cbrt": [(lax.cbrt, np.array([0.0, -8.0, 1.0]))],
    "square": [(lax.square, zeros)],
    "integer_pow": [(op("integer_pow", y=n), zeros) for n in (0, 1, 2, 3)],
    "max": [(lax.max, *ties), (lax.max, ties, np.float64(3.0)), (lax.max, zeros, -zeros)],
    "min": [(lax.min, *ties), (lax.min, ties, np.float64(3.0)), (lax.min, zeros, -zeros)],
    "clamp": [(lax.clamp, np.float64(0.0), zeros, np.float64(2.0)), (lax.clamp, np.float64(1), zeros, np.float64(0)),
              (lax.clamp, third, third, third)],
    "rem": [(lax.rem, np.array([4.0, -4.0, 5.0, -5.0]), np.array([2.0, 2.0, -3.0, 3.0]))],
    "div": [(lax.div, np.float64(0.0), np.float64(0.0))],
    "pow": [
        (lax.pow, np.zeros(4), np.array([0.5, 1.0, 2.0, 3.0])),
        (lax.pow, -positive(3), third),
        (lax.pow, -positive(4), np.array([0, 1, 2, -1])),
        (lax.pow, zeros, np.array([0, 1, 2, 3])),
    ],
    "reduce_max": [(lambda x, a=a: lax.reduce_max(x, a), ties) for a in ((0,), (1,), (0, 1))],
    "reduce_min": [(lambda x, a=a: lax.reduce_min(x, a), ties) for a in ((0,), (1,), (0, 1))],
    "reduce_prod": [(lambda x: lax.reduce_prod(x, (0, 1)), ties), (lambda x: lax.reduce_prod(x, (1,)), ties)],
    "reduce_window_max": [(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "SAME"), ties)],
    "top_k": [(lambda x: tuple(lax.top_k(x, 2)), ties)],
}  # fmt: skip
