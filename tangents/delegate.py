"""Primitives without a row of their own: JAX's rule for that one primitive, traced once and kept.

The rule is read off `jax.vjp` of the single operation as two programs, forward (arguments to results and residuals) and
backward (residuals and cotangents to cotangents), for each primitive, types and set of asked-for arguments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from combinators.errors import NotDifferentiableError
from combinators.primitives import bind, shape
from combinators.terms import Primitive
from combinators.types import Tensor, is_discrete, pack, shape_struct, type_of
from compile_ccc.read import source_line
from tangents.sparse import ZERO, Cotangent, Pullback, Sparse


def delegated(term: Primitive, arguments: tuple[Any, ...], asked: tuple[int, ...]) -> tuple[Any, Pullback]:
    """The result of a primitive, and its pullback, which lists the cotangents of the asked-for arguments.

    Raises `NotDifferentiableError` if JAX has no rule for the primitive.
    """
    types = tuple((t, t.weak) for t in map(type_of, arguments))
    forward, backward, form = _programs(term, types, asked, bool(jax.config.jax_enable_x64))
    values = jax.core.eval_jaxpr(forward.jaxpr, forward.consts, *arguments)
    results, residuals = values[: form.num_leaves], values[form.num_leaves :]

    def pullback(g: Cotangent) -> list[Any]:
        parts = [g] if not isinstance(g, Sparse) else [g.part(i) for i in range(len(results))]
        asked_for = [(c, y) for c, y in zip(parts, results, strict=True) if not is_discrete(type_of(y))]
        cotangents = [jnp.zeros(y.shape, y.dtype) if c is ZERO else c for c, y in asked_for]
        return jax.core.eval_jaxpr(backward.jaxpr, backward.consts, *residuals, *cotangents)

    return form.unflatten(results), pullback


@lru_cache(maxsize=8192)
def _programs(term: Primitive, types: tuple[tuple[Tensor, bool], ...], asked: tuple[int, ...], x64: bool) -> Any:
    form = jax.tree.structure(shape(term, pack(tuple(t for t, _ in types))))
    structs = [shape_struct(Tensor(t.shape, t.dtype, weak)) for t, weak in types]
    trees: list[Any] = []

    def forward(*arguments: Any) -> Any:
        def of_asked(*values: Any) -> list[Any]:
            full = list(arguments)
            for i, value in zip(asked, values, strict=True):
                full[i] = value
            return jax.tree.leaves(bind(term, tuple(full)))

        y, pb = jax.vjp(of_asked, *(arguments[i] for i in asked))
        residuals, tree = jax.tree.flatten(pb)
        trees[:] = [tree, [type_of(r) for r in y], [type_of(r) for r in residuals]]
        return [*y, *residuals]

    def backward(*values: Any) -> Any:
        residuals, cotangents = values[: len(trees[2])], iter(values[len(trees[2]) :])
        g = [np.zeros(t.shape, jax.dtypes.float0) if is_discrete(t) else next(cotangents) for t in trees[1]]
        return trees[0].unflatten(residuals)(g)

    try:
        forward_program = jax.make_jaxpr(forward)(*structs)
        inputs = [*trees[2], *(t for t in trees[1] if not is_discrete(t))]
        return forward_program, jax.make_jaxpr(backward)(*map(shape_struct, inputs)), form
    except (ValueError, TypeError, NotImplementedError) as error:
        raise NotDifferentiableError(
            f"{term.name} has no reverse-mode derivative",
            part=term,
            expected="a primitive that JAX can differentiate",
            got=str(error).strip().splitlines()[0],
            line=source_line(term),
            hint="loops with a static trip count (lax.scan, fori_loop) and custom_vjp functions have derivatives",
        ) from error
