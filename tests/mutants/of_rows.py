"""Mutants of the pullbacks of primitives."""

import jax.numpy as jnp
from jax import lax

from compile_ccc.reading import reducers, writing
from tangents.primitives import delegate
from tangents.primitives import pull as primitives
from tangents.rows import elementwise as rows_elementwise
from tangents.rows import kinds as rows_kinds
from tangents.rows import linear as rows_linear
from tangents.rows import products as rows_products
from tangents.rows import reductions as rows_reductions
from tangents.rows import spectral as rows_spectral
from tangents.rows import table as rows
from tangents.rows.kinds import NONE, Constant
from tests.mutants.breaking import Code, Pullbacks

MUTANTS = {
    # primitives
    "cotangents of active arguments go to the first places": (
        "mul by a constant",
        Code(primitives._pulled, "(asked[i], cotangents[i])", "(i, cotangents[i])"),
    ),
    "JAX's rule gets the arguments in another order": (
        "igamma",
        Code(delegate.delegated, "full[i] = value", "full[-1 - i] = value"),
    ),
    "JAX's rule gives the cotangents in another order": (
        "igamma",
        Code(delegate.delegated, ".unflatten(residuals)(g)", ".unflatten(residuals)(g)[::-1]"),
    ),
    "JAX's rule gets the cotangent of the first result for all": (
        "sort",
        Code(primitives._pulled, "{i: c for i, c in sorted", "{i: g[min(g)] for i, c in sorted"),
    ),
    # rows
    "mul forgets a factor": (
        "mul",
        Pullbacks("mul", (rows.ROWS["mul"][0], lambda g, y, a, b, **_: rows_kinds.fit(g, b))),
    ),
    "mul takes its own factor": (
        "mul",
        Pullbacks("mul", (lambda g, y, a, b, **_: rows_kinds.fit(g * a, a), rows.ROWS["mul"][1])),
    ),
    "div has the other sign": (
        "div",
        Pullbacks("div", (rows.ROWS["div"][0], lambda g, y, a, b, **_: rows_kinds.fit(g * y / b, b))),
    ),
    "eigenvectors turn the other way": (
        "eigenvalues and vectors",
        Code(
            rows_spectral._by_gaps,
            "x.ndim - 1), _along(values, like, x.ndim - 2)",
            "x.ndim - 2), _along(values, like, x.ndim - 1)",
        ),
    ),
    "eigh forgets one triangle": (
        "eigenvalues and vectors",
        Code(rows_spectral._eigh, "lax.add(whole, _adjoint(whole))", "whole"),
    ),
    "svd forgets what leaves the columns": (
        "singular values and vectors",
        Code(rows_spectral._svd, "if vt.shape[-1] > vt.shape[-2]:", "if False:"),
    ),
    "svd turns by the values themselves": (
        "singular values and vectors",
        Code(rows_spectral._svd, "lax.mul(s, s)", "s"),
    ),
    "the phase turns the other way": (
        "a phase",
        Code(
            rows_elementwise._sign,
            "lax.mul(lax.complex(lax.full_like(turn, 0), turn), lax.conj(y))",
            "lax.mul(lax.complex(lax.full_like(turn, 0), turn), y)",
        ),
    ),
    "the phase is not by the size": (
        "a phase",
        Code(rows_elementwise._turned, "lax.div(turn, _nonzero(size))", "turn"),
    ),
    "the sign of a complex number is a step": ("a phase", Pullbacks("sign", Constant(NONE))),
    "a tree forgets the odd one": (
        "a reduction by a program",
        Code(reducers._tree, "if n % 2 else pairs", "if False else pairs"),
    ),
    "a reduction forgets where it starts": (
        "a reduction by a program",
        Code(
            reducers._from,
            "by_entries(f, ys[0].ndim)(*(lax.broadcast(s, ys[0].shape) for s in starts), *ys)",
            "[-y for y in ys]",
        ),
    ),
    "a function that is applied twice counts once": (
        "writing by a function",
        Code(writing._scattered, "> 1", "> 9"),
    ),
    "sub has no sign": ("sub", Pullbacks("sub", rows.ROWS["add"])),
    "tanh forgets the square": ("tanh", Pullbacks("tanh", (lambda g, y, x, **_: g * (1 - y),))),
    "logistic forgets a factor": ("logistic", Pullbacks("logistic", (lambda g, y, x, **_: g * y,))),
    "exp takes the argument": ("exp", Pullbacks("exp", (lambda g, y, x, **_: g * x,))),
    "cos has no sign": ("cos", Pullbacks("cos", (lambda g, y, x, **_: g * lax.sin(x),))),
    "sqrt forgets the half": ("sqrt", Pullbacks("sqrt", (lambda g, y, x, **_: g / y,))),
    "pow keeps the exponent": ("pow", Code(rows_elementwise._power_base, "lax.sub(b, number(1, b))", "b")),
    "integer_pow keeps the exponent": ("cube", Code(rows_elementwise._integer_power, "y - 1", "y")),
    "max counts ties twice": ("max of equals", Code(rows_elementwise._larger, "0.5", "1.0")),
    "max gives ties to the first": (
        "max at a tie",
        Pullbacks(
            "max",
            (lambda g, y, a, b, **_: jnp.where(a >= b, g, 0.0), lambda g, y, a, b, **_: jnp.where(a >= b, 0.0, g)),
        ),
    ),
    "abs goes down at 0": ("abs at 0", Pullbacks("abs", (lambda g, y, x, **_: jnp.where(x > 0, g, -g),))),
    "reduce_max counts ties more than once": (
        "reduce_max of equals",
        Code(rows_reductions._extremum, "lax.div(g, count)", "g"),
    ),
    "broadcast axes are not summed": ("mul, broadcast", Code(rows_kinds.fit, "if g.shape == shape:", "if shape:")),
    "a broadcast number is not summed": (
        "mul by a number",
        Code(
            rows_kinds.fit,
            "if not shape:\n        return lax.reduce_sum(g, tuple(range(g.ndim)))",
            "if not shape:\n        return g",
        ),
    ),
    "a broadcast number gets the first": (
        "mul by a number",
        Code(rows_kinds.fit, "lax.reduce_sum(g, tuple(range(g.ndim)))", "lax.reshape(g, (g.size,))[0]"),
    ),
    # rows of linear primitives
    "dot_general leaves the axes as they come": (
        "a product from the left",
        Code(rows_products._dot_general, "in np.argsort(axes)", "in range(len(axes))"),
    ),
    "dot_general orders the axes the other way": (
        "a product over two axes",
        Code(rows_products._dot_general, "np.argsort(axes)", "axes"),
    ),
    "dot_general takes contracted axes as listed": (
        "a product over two axes",
        Code(rows_products._dot_general, "key=lambda k: contract[other_i][k]", "key=lambda k: k"),
    ),
    "dot_general contracts its own kept axes": (
        "a product of matrices",
        Code(rows_products._dot_general, "(g_other, tuple(kept[other_i]))", "(g_other, tuple(contract[other_i]))"),
    ),
    "reduce_sum broadcasts along the other axes": (
        "reduce_sum",
        Code(rows_linear._reduce_sum, "if i not in axes", "if i in axes"),
    ),
    "broadcast_in_dim sums the added axes only": (
        "broadcast_in_dim",
        Code(rows_linear._broadcast_in_dim, "widened | added", "added"),
    ),
    "concatenate starts at the next": (
        "concatenate",
        Code(rows_linear._concatenate, "parts[i] for", "parts[-1] for"),
    ),
    "slice forgets the strides": (
        "slice",
        Code(rows_linear._slice, "(start, size - covered, stride - 1)", "(start, size - start - n, 0)"),
    ),
    "slice starts at 0": ("slice", Code(rows_linear._slice, "(start, size - covered,", "(0, size - covered + start,")),
    "pad forgets what is inside": ("pad", Code(rows_linear._pad, "interior + 1 for", "1 for")),
    "pad gives its value all": (
        "pad",
        Code(
            rows_linear._pad,
            "lax.sub(sums(g), sums(inside))",
            "sums(g)",
        ),
    ),
    "select_n swaps the cases": ("select_n", Code(rows_linear._select, "k == i - 1", "k != i - 1")),
    "transpose is not turned back": (
        "transpose",
        Code(rows_linear._transpose, "np.argsort(permutation)", "permutation"),
    ),
    "convert_element_type keeps the dtype of the result": (
        "convert_element_type",
        Code(rows_linear._convert, ", jnp.result_type(x))", ", g.dtype)"),
    ),
}
