"""Forward mode of folds over trees: the plain meaning on pairs of primals and tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from combinators.inductive.constructors import Constructor
from combinators.meaning.infer import carried
from combinators.meaning.trees import by_constructor, results, taken
from combinators.terms import Cata
from compile_ccc.jaxprs.recording import record
from tangents.duals import dual, pair, primal, tangents, widened

type Apply = Callable[[Any, Any], Any]  # D[eval] (f, x)


def reduction(apply: Apply, term: Cata, functions: dict[str, Any], forest: Any) -> Any:
    """D[cata] (functions, forest): results have tangents where some node's has one."""
    plain, type = primal(forest), carried(term, *primal((functions, forest)))
    active, types = set[int](), jax.tree.leaves(type)

    def node(c: Constructor, below: list[Any], row: Any) -> Any:
        payload = dual(*taken(pair(forest.payloads[c.name]), row))
        y = apply(functions[c.name], c.parts([dual(*x) for x in below], payload))
        reached.update(tangents(y))
        return widened(y, active)

    def type_now() -> Any:
        return type, {i: types[i] for i in sorted(active)}

    def once() -> Any:
        zero = jax.tree.map(lambda t: jnp.zeros(t.shape, t.dtype), type_now())
        return [node(c, [zero] * c.arity, jnp.int32(0)) for c in plain.constructors]

    while True:
        reached = set[int]()
        record(once)
        if reached <= active:
            break
        active |= reached
    rows = results(node, plain, type_now())
    if term.every:
        return forest.annotated({name: dual(*own) for name, own in by_constructor(plain, rows).items()}, type)
    return dual(*taken(rows, plain.roots))
