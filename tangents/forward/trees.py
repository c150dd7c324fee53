"""Forward mode of folds over trees: the plain meaning on pairs of primals and tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from combinators.inductive.constructors import Constructor
from combinators.meaning.infer import carried
from combinators.meaning.trees import results, taken
from combinators.terms import Cata
from compile_ccc.jaxprs.recording import record
from tangents.duals import dual, pair, primal, tangents, widened

type Apply = Callable[[Any, Any], Any]  # D[eval] (f, x)


def reduction(apply: Apply, term: Cata, functions: dict[str, Any], forest: Any) -> Any:
    """D[cata] (functions, forest): results have tangents where some node's has one."""
    plain, type = primal(forest), carried(term, *primal((functions, forest)))
    active, reached = set[int](), set[int]()
    types = jax.tree.leaves(type)

    def node(c: Constructor, below: list[Any], row: Any) -> Any:
        payload = dual(*taken(pair(forest.payloads[c.name]), row))
        y = apply(functions[c.name], c.parts([dual(*x) for x in below], payload))
        reached.update(tangents(y))
        return widened(y, active)

    while True:
        of_type = lambda: (type, {i: types[i] for i in sorted(active)})
        once = lambda: [node(c, [_zero(of_type())] * c.arity, jnp.int32(0)) for c in plain.constructors]
        record(once)
        if reached <= active:
            break
        active = active | reached
    rows = results(node, plain, of_type())
    return dual(*taken(rows, plain.roots))


def _zero(type: Any) -> Any:
    return jax.tree.map(lambda t: jnp.zeros(t.shape, t.dtype), type)
