"""Cases of the table of rows, drawn by Hypothesis: a strategy for each primitive, of a function and its arguments."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import assume
from jax import lax

from tests.tangents.rows.drawing import (
    ANY,
    ARITY,
    REALS,
    arrays,
    binary,
    broadcasts,
    clamps,
    concatenations,
    conversions,
    extent,
    few,
    filled,
    orders,
    pads,
    parts,
    ranked,
    reshapes,
    revs,
    seeds,
    selections,
    sizes,
    slices,
    some,
    splits,
    squeezes,
    transposes,
    unary,
    valued,
)
from tests.tangents.rows.examples import op, thin_svd

# Products


@st.composite
def dots(draw):
    """Batch, contracted and free axes, those of each factor in an order of their own."""
    batch, contracted, *free = (draw(st.lists(sizes, max_size=2)) for _ in range(4))
    shared = [("batch", i) for i in range(len(batch))], [("contracted", i) for i in range(len(contracted))]
    lengths = dict(zip([*shared[0], *shared[1]], [*batch, *contracted], strict=True))
    named = [draw(orders([*lengths, *(("free", i) for i in range(len(f)))])) for f in free]
    shape = lambda axes, f: tuple(lengths.get(axis, f[axis[1]] if axis[0] == "free" else 0) for axis in axes)
    numbers = [[[axes.index(a) for a in draw_order] for axes in named] for draw_order in map(draw, map(orders, shared))]
    dtype = draw(st.sampled_from(ANY))
    wider = draw(st.sampled_from([None, np.float64])) if dtype in REALS else None
    run = lambda x, y: lax.dot_general(x, y, (numbers[1], numbers[0]), preferred_element_type=wider)
    return run, *(draw(arrays(shape(axes, f), dtype)) for axes, f in zip(named, free, strict=True))


@st.composite
def convolutions(draw):
    """Places of rank 0 to 2; strides, dilations and negative padding; groups; axes in any order."""
    rank, groups, kind = draw(few), draw(st.integers(1, 3)), draw(st.sampled_from(["feature", "batch"]))
    each = lambda low, high: [draw(st.integers(low, high)) for _ in range(rank)]
    batch, features, out = draw(few), draw(few), groups * draw(few)
    over_batch, over_features = (groups, 1) if kind == "batch" else (1, groups)
    lhs = (batch * over_batch, features * over_features, *each(0, 6))
    rhs = (out, features, *each(1, 3))
    specs = [draw(orders(range(rank + 2))) for _ in range(3)]
    dilation = each(1, 3)
    ends = zip(lhs[2:], dilation, each(-2, 3), each(-2, 3), strict=True)
    how = {
        "window_strides": each(1, 3),
        "padding": [(low, max(high, -extent(n, d) - low)) for n, d, low, high in ends],
        "lhs_dilation": dilation,
        "rhs_dilation": each(1, 2),
        "dimension_numbers": lax.ConvDimensionNumbers(*specs),
        "feature_group_count": over_features,
        "batch_group_count": over_batch,
    }
    placed = lambda shape, spec: tuple(shape[spec.index(axis)] for axis in range(rank + 2))
    x, k = (draw(arrays(placed(shape, spec))) for shape, spec in zip((lhs, rhs), specs[:2], strict=True))
    return lambda x, k: lax.conv_general_dilated(x, k, **how), x, k


# Reading and writing at indices


@st.composite
def windows_at(draw, update=False):
    """An array, a window of it or its sizes, and where it starts, often out of bounds."""
    x = draw(valued())
    window = tuple(draw(st.integers(0, n)) for n in x.shape)
    starts = [np.int32(draw(st.integers(-9, 9))) for _ in x.shape]
    if update:
        return op("dynamic_update_slice"), x, draw(arrays(window, x.dtype.type)), *starts
    return op("dynamic_slice", slice_sizes=window), x, *starts


MODES = ["clip", "fill", "promise_in_bounds"]


@st.composite
def places(draw, dtypes=ANY):
    """An array, indices, how they address windows of it, sizes of windows, the mode, and whether none overlap.

    Each axis of the array is one of windows, collapsed, or a batch axis that it shares with the indices.
    """
    x, mode = draw(valued(ranked, dtypes)), draw(st.sampled_from(MODES))
    roles = [draw(st.sampled_from(["window", "collapsed", "batch"])) for _ in x.shape]
    roles = ["window" if n == 0 else role for role, n in zip(roles, x.shape, strict=True)]
    collapsed, batch = ([i for i, role in enumerate(roles) if role == r] for r in ("collapsed", "batch"))
    window = [draw(st.integers(0, n)) if r == "window" else 1 for n, r in zip(x.shape, roles, strict=True)]
    pointed = draw(some(i for i, role in enumerate(roles) if role != "batch"))
    assume(pointed)  # XLA writes nonsense where indices say nothing
    own = draw(st.lists(st.integers(0, 3), max_size=2))
    axes = draw(orders([*(("batch", i) for i in batch), *(("own", i) for i in range(len(own)))]))
    lead = [x.shape[i] if kind == "batch" else own[i] for kind, i in axes]
    beyond = 0 if mode == "promise_in_bounds" else 3
    chosen = np.random.default_rng(draw(seeds))
    index = [chosen.integers(-beyond, x.shape[i] - window[i] + beyond, lead, endpoint=True) for i in pointed]
    indices = (np.stack(index, -1) if pointed else np.zeros((*lead, 0))).astype(np.int32)
    n_result = len(lead) + roles.count("window")
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(sorted(draw(orders(range(n_result)))[: roles.count("window")])),
        collapsed_slice_dims=tuple(collapsed),
        start_index_map=pointed,
        operand_batching_dims=tuple(batch),
        start_indices_batching_dims=tuple(axes.index(("batch", i)) for i in batch),
    )
    how = {"mode": mode, "fill_value": -1 if mode == "fill" else None}
    read = np.asarray(lax.gather(np.arange(x.size).reshape(x.shape), indices, numbers, window, **how))
    inside = read[read >= 0]
    return x, indices, numbers, tuple(window), mode, len(np.unique(inside)) == inside.size


@st.composite
def gathers(draw):
    x, indices, numbers, window, mode, apart = draw(places())
    how = {"mode": mode, "unique_indices": apart, "fill_value": draw(st.sampled_from([None, 0.5]))}
    how["fill_value"] = how["fill_value"] if mode == "fill" else None
    return lambda x, i: lax.gather(x, i, numbers, window, **how), x, indices


@st.composite
def scatters(draw, operation, dtypes=ANY, apart=False):
    x, indices, numbers, window, mode, unique = draw(places(dtypes).filter(lambda p: p[-1] or not apart))
    single = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    lead, inside = iter(indices.shape[:-1]), (n for i, n in enumerate(window) if i not in single)
    rank = indices.ndim - 1 + len(numbers.offset_dims)
    shape = tuple(next(inside) if axis in numbers.offset_dims else next(lead) for axis in range(rank))
    writes = lax.ScatterDimensionNumbers(
        update_window_dims=numbers.offset_dims,
        inserted_window_dims=numbers.collapsed_slice_dims,
        scatter_dims_to_operand_dims=numbers.start_index_map,
        operand_batching_dims=numbers.operand_batching_dims,
        scatter_indices_batching_dims=numbers.start_indices_batching_dims,
    )
    updates = draw(arrays(shape, x.dtype.type, 2.1, 4.1))
    return lambda x, i, u: operation(x, i, u, writes, mode=mode, unique_indices=unique), x, indices, updates


# Reductions, running and sorted


@st.composite
def reductions(draw, operation, dtypes=REALS):
    x = draw(valued(dtypes=dtypes))
    axes = tuple(sorted(draw(some(range(x.ndim)))))
    return lambda x: operation(x, axes), x


@st.composite
def running(draw, operation, dtypes=REALS):
    x, reverse = draw(valued(ranked, dtypes)), draw(st.booleans())
    axis = draw(st.integers(0, x.ndim - 1))
    return lambda x: operation(x, axis, reverse), x


@st.composite
def window_reductions(draw, operation, start, dilated):
    x = draw(valued(ranked, [np.float64]))
    each = lambda low, high: tuple(draw(st.integers(low, high)) for _ in x.shape)
    window, strides, padding = each(1, 3), each(1, 3), tuple(zip(each(0, 2), each(0, 2), strict=True))
    dilations = (each(1, 2), each(1, 2)) if dilated else ()
    run = lambda x: lax.reduce_window(x, np.float64(start), operation, window, strides, padding, *dilations)
    return run, x


@st.composite
def tops(draw):
    x = draw(valued(ranked, REALS))
    axis = draw(st.integers(0, x.ndim - 1))
    k = draw(st.integers(0, x.shape[axis]))
    return lambda x: tuple(lax.top_k(x, k, axis=axis)), x


@st.composite
def sorts(draw):
    shape = draw(ranked)
    keys, more = draw(st.integers(1, 2)), draw(few)
    operands = [draw(valued(st.just(shape), (*REALS, np.int32))) for _ in range(keys + more)]
    axis, stable = draw(st.integers(0, len(shape) - 1)), draw(st.booleans())
    return lambda *xs: tuple(lax.sort(xs, dimension=axis, is_stable=stable, num_keys=keys)), *operands


# Matrices


@st.composite
def fourier(draw):
    x = draw(valued(filled, [np.complex128]))
    kind, rank = draw(st.sampled_from([lax.FftType.FFT, lax.FftType.IFFT])), draw(st.integers(1, x.ndim))
    return op("fft", fft_type=kind, fft_lengths=x.shape[-rank:]), x


@st.composite
def definite(draw):
    """Positive definite matrices."""
    n, many = draw(sizes), draw(st.lists(few, max_size=2))
    a = draw(arrays((*many, n, n)))
    return a @ np.swapaxes(a, -1, -2) + 2 * np.eye(n)


@st.composite
def solves(draw):
    a, flags, columns = draw(definite()), st.booleans(), draw(sizes)
    how = {name: draw(flags) for name in ("left_side", "lower", "transpose_a", "unit_diagonal")}
    shape = (a.shape[-1], columns) if how["left_side"] else (columns, a.shape[-1])
    return op("triangular_solve", conjugate_a=False, **how), a, draw(arrays((*a.shape[:-2], *shape)))


@st.composite
def spectra(draw):
    """Matrices with values apart, by one triangle or the other."""
    a = draw(definite())
    lower = draw(st.booleans())
    apart = a + 4 * np.diag(np.arange(a.shape[-1]) + 1.0)
    read = np.tril(apart) if lower else np.triu(apart)
    return lambda a: tuple(lax.linalg.eigh(a, lower=lower, symmetrize_input=False)), read


@st.composite
def singular(draw):
    """Matrices of any shape with values apart."""
    a = draw(definite())
    apart = a + 4 * np.diag(np.arange(a.shape[-1]) + 1.0)
    rows = draw(st.integers(0, 3))
    more = draw(arrays((*a.shape[:-2], rows, a.shape[-1])))
    tall = np.concatenate([apart, more], -2)
    wide = draw(st.booleans())
    return thin_svd, np.swapaxes(tall, -1, -2) if wide else tall


DRAWN = {
    "elementwise, of one argument": unary([name for name, n in ARITY.items() if n == 1]),
    "integer_pow": unary(["integer_pow"]),
    "elementwise, of two arguments": binary([name for name, n in ARITY.items() if n == 2]),
    "clamp": clamps(),
    "broadcast_in_dim": broadcasts(),
    "transpose": transposes(),
    "reshape": reshapes(),
    "squeeze": squeezes(),
    "rev": revs(),
    "concatenate": concatenations(),
    "split": splits(),
    "pad": pads(),
    "slice": slices(),
    "select_n": selections(),
    "convert_element_type": conversions(),
    **{name: parts(name) for name in ("complex", "real", "imag", "conj")},
    "dot_general": dots(),
    "conv_general_dilated": convolutions(),
    "dynamic_slice": windows_at(),
    "dynamic_update_slice": windows_at(update=True),
    "gather": gathers(),
    "scatter": scatters(lax.scatter),
    "scatter-add": scatters(lax.scatter_add),
    "scatter-mul": scatters(lax.scatter_mul, apart=True),
    "scatter-max": scatters(lax.scatter_max, REALS),
    "scatter-min": scatters(lax.scatter_min, REALS),
    "reduce_sum": reductions(lax.reduce_sum, ANY),
    "reduce_prod": reductions(lax.reduce_prod, ANY),
    "reduce_max": reductions(lax.reduce_max),
    "reduce_min": reductions(lax.reduce_min),
    "reduce_window_sum": window_reductions(lax.add, 0, True),
    "reduce_window_max": window_reductions(lax.max, -np.inf, False),
    "reduce_window_min": window_reductions(lax.min, np.inf, False),
    "cumsum": running(lax.cumsum, ANY),
    "cumprod": running(lax.cumprod, ANY),
    "cummax": running(lax.cummax),
    "cummin": running(lax.cummin),
    "cumlogsumexp": running(lax.cumlogsumexp),
    "sort": sorts(),
    "top_k": tops(),
    "fft": fourier(),
    "cholesky": definite().map(lambda a: (op("cholesky"), a)),
    "triangular_solve": solves(),
    "eigh": spectra(),
    "svd": singular(),
}
