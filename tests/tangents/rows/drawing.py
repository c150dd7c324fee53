"""Strategies for values, for elementwise primitives, and for those that move entries.

Shapes have axes of 0 and 1 among them. Values are distinct, hence away from ties.
"""

import math

import hypothesis.strategies as st
import numpy as np
from jax import lax

from tangents.rows.elementwise import ELEMENTWISE
from tangents.rows.table import NATIVE
from tests.tangents.rows.cases import CASES
from tests.tangents.rows.examples import op

sizes = st.integers(0, 4)
few = st.integers(0, 2)
shapes = st.lists(sizes, max_size=3).map(tuple)
ranked = shapes.filter(len)  # XLA fails at windows, and at writing twice, in arrays of rank 0
filled = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)  # with no axis of size 0
seeds = st.integers(0, 99)
REALS = (np.float64, np.float32)
ANY = (*REALS, np.complex128)


def orders(values):
    return st.permutations(list(values)).map(tuple)


def some(values):
    """Some of several values, in any order."""
    values = list(values)
    return st.integers(0, len(values)).flatmap(lambda n: orders(values).map(lambda order: order[:n]))


@st.composite
def arrays(draw, shape, dtype=np.float64, low=-2.0, high=2.0):
    """Distinct values over an interval, in an order that is not sorted."""
    chosen = np.random.default_rng(draw(seeds))
    places = lambda: (
        low
        + (high - low) * (chosen.permutation(math.prod(shape)) + 0.3 + 0.4 * chosen.random()) / max(math.prod(shape), 1)
    )
    values = places() + 1j * places() if issubclass(dtype, np.complexfloating) else places()
    return values.reshape(shape).astype(dtype)


@st.composite
def valued(draw, shape=shapes, dtypes=ANY, **interval):
    """An array of a drawn shape and dtype."""
    return draw(arrays(draw(shape), draw(st.sampled_from(dtypes)), **interval))


# Elementwise primitives: within these intervals they are smooth and of moderate size.
INTERVALS = {
    **dict.fromkeys(["log", "log1p", "log2", "sqrt", "rsqrt", "cbrt", "pow", "lgamma", "digamma"], (0.2, 3.0)),
    **dict.fromkeys(["asin", "acos", "atanh", "erf_inv", "tan"], (-0.9, 0.9)),
    "acosh": (1.1, 3.0),
    "integer_pow": (0.5, 2.0),
}
ARITY = {name: len(CASES[name][0]) - 1 for name in ELEMENTWISE}


def dtypes_of(name):
    return [np.complex128] if name == "sign" else ANY if NATIVE[name].complex else REALS


@st.composite
def unary(draw, names):
    name = draw(st.sampled_from(names))
    low, high = INTERVALS.get(name, (-2.0, 2.0))
    f = op(name, y=draw(st.integers(-4, 6))) if name == "integer_pow" else CASES[name][0][0]
    return f, draw(valued(dtypes=dtypes_of(name), low=low, high=high))


@st.composite
def binary(draw, names):
    """Operands of one shape, but for axes of size 1 or rank 0 on one side or the other."""
    name = draw(st.sampled_from(names))
    shape, dtype = draw(shapes), draw(st.sampled_from(dtypes_of(name)))
    narrow = lambda: st.just(()) | st.tuples(*(st.sampled_from((1, n)) for n in shape))
    left, right = draw(st.sampled_from([(shape, shape), (shape, draw(narrow())), (draw(narrow()), shape)]))
    if name == "add_any":
        left, right = shape, shape
    low, high = INTERVALS.get(name, (-2.0, 2.0))
    return CASES[name][0][0], draw(arrays(left, dtype, low, high)), draw(arrays(right, dtype, 0.2, 3.1))


@st.composite
def clamps(draw):
    shape, dtype = draw(shapes), draw(st.sampled_from(REALS))
    low, high = (draw(arrays(draw(st.sampled_from([(), shape])), dtype, *by)) for by in [(-1.5, 0.1), (-0.1, 1.5)])
    return lax.clamp, low, draw(arrays(shape, dtype)), high


# Moving entries


@st.composite
def broadcasts(draw):
    x, added = draw(valued()), draw(few)
    places = sorted(draw(orders(range(x.ndim + added)))[: x.ndim])
    shape = [draw(sizes) for _ in range(x.ndim + added)]
    for axis, place in enumerate(places):
        shape[place] = draw(sizes) if x.shape[axis] == 1 else x.shape[axis]
    return lambda x: lax.broadcast_in_dim(x, shape, places), x


@st.composite
def transposes(draw):
    x = draw(valued())
    order = draw(orders(range(x.ndim)))
    return lambda x: lax.transpose(x, order), x


@st.composite
def reshapes(draw):
    parts = draw(st.lists(sizes, max_size=4))
    fold = lambda cut: (math.prod(parts[:cut]), *parts[cut:])
    old, new = (draw(orders(fold(draw(st.integers(0, len(parts)))))) for _ in range(2))
    return lambda x: lax.reshape(x, new), draw(valued(st.just(old)))


@st.composite
def squeezes(draw):
    shape = draw(shapes)
    with_ones = draw(orders((*(1,) * draw(few), *shape)))
    axes = draw(some(i for i, n in enumerate(with_ones) if n == 1))
    return lambda x: lax.squeeze(x, axes), draw(valued(st.just(with_ones)))


@st.composite
def revs(draw):
    x = draw(valued())
    axes = draw(some(range(x.ndim)))
    return lambda x: lax.rev(x, axes), x


@st.composite
def concatenations(draw):
    shape, dtype = draw(ranked), draw(st.sampled_from(ANY))
    axis, lengths = draw(st.integers(0, len(shape) - 1)), draw(st.lists(sizes, min_size=1, max_size=4))
    parts = [draw(arrays((*shape[:axis], n, *shape[axis + 1 :]), dtype)) for n in lengths]
    return lambda *xs: lax.concatenate(xs, axis), *parts


@st.composite
def splits(draw):
    shape = list(draw(ranked))
    axis, lengths = draw(st.integers(0, len(shape) - 1)), draw(st.lists(sizes, min_size=1, max_size=4))
    shape[axis] = sum(lengths)
    return lambda x: tuple(lax.split(x, lengths, axis)), draw(valued(st.just(tuple(shape))))


def extent(n, dilation):
    return (n - 1) * dilation + 1 if n else 0


@st.composite
def pads(draw):
    x, ends, config = draw(valued()), st.integers(-3, 3), []
    for n in x.shape:
        low, high, interior = draw(ends), draw(ends), draw(few)
        config.append((low, max(high, -extent(n, interior + 1) - low), interior))
    return lambda x, v: lax.pad(x, v, config), x, draw(arrays((), x.dtype.type))


@st.composite
def slices(draw):
    x = draw(valued())
    starts = [draw(st.integers(0, n)) for n in x.shape]
    limits = [draw(st.integers(i, n)) for i, n in zip(starts, x.shape, strict=True)]
    strides = draw(st.none() | st.tuples(*(st.integers(1, 4) for _ in starts)))
    return lambda x: lax.slice(x, starts, limits, strides), x


@st.composite
def selections(draw):
    shape, dtype, n = draw(shapes), draw(st.sampled_from(ANY)), draw(st.integers(1, 3))
    which = np.random.default_rng(draw(seeds)).integers(0, n, draw(st.sampled_from([(), shape])))
    which = which.astype(draw(st.sampled_from([bool, np.int32] if n == 2 else [np.int32])))
    return lax.select_n, which, *(draw(arrays(shape, dtype)) for _ in range(n))


@st.composite
def conversions(draw):
    source, target = draw(orders(ANY))[:2]
    target = np.complex64 if issubclass(source, np.complexfloating) else target
    return lambda x: lax.convert_element_type(x, target), draw(valued(dtypes=[source]))


@st.composite
def parts(draw, name):
    x = draw(valued(dtypes=REALS if name == "complex" else [np.complex128]))
    return getattr(lax, name), x, *([draw(arrays(x.shape, x.dtype.type))] if name == "complex" else [])
