"""Forward mode of folds over trees: the plain meaning on pairs of primals and tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from combinators.fixpoint import fixpoint
from combinators.inductive.constructors import Constructor
from combinators.meaning.infer import carried
from combinators.meaning.tree_types import called
from combinators.meaning.trees import by_constructor, results, states, strong, taken
from combinators.terms import Cata, Inherit
from compile_ccc.jaxprs.recording import record
from tangents.duals import dual, pair, primal, tangents, widened

type Apply = Callable[[Any, Any], Any]  # D[eval] (f, x)


def reduction(apply: Apply, term: Cata | Inherit, functions: dict[str, Any], *rest: Any) -> Any:
    """D[cata] (functions, forest), D[inherit] (functions, states, forest): tangents are where some node's has one."""
    *start, forest = rest
    plain, type = primal(forest), carried(term, *primal((functions, *rest)))
    active, types = frozenset(i for x in start for i in tangents(x)), jax.tree.leaves(type)
    reached = set[int]()

    def payload(c: Constructor, row: Any) -> Any:
        return dual(*taken(pair(forest.payloads[c.name]), row))

    def up(c: Constructor, below: list[Any], row: Any) -> Any:
        return given(apply(functions[c.name], c.parts([dual(*x) for x in below], payload(c, row))))

    def down(c: Constructor, state: Any, row: Any) -> list[Any]:
        return [given(y) for y in c.places.flatten_up_to(apply(functions[c.name], (dual(*state), payload(c, row))))]

    def given(y: Any) -> Any:
        reached.update(tangents(y))
        return widened(y, active)

    def attempt(now: frozenset[int]) -> tuple[frozenset[int], None]:
        nonlocal active
        active = now
        reached.clear()
        record(once)
        return active.union(reached), None

    def once() -> Any:
        one = jax.tree.map(lambda t: jnp.zeros(t.shape, t.dtype), (type, {i: types[i] for i in sorted(active)}))
        row = jnp.int32(0)
        return [down(c, one, row) if start else up(c, [one] * c.arity, row) for c in called(term)]

    fixpoint(active, attempt)
    if isinstance(term, Inherit):
        values, slopes = widened(start[0], active)
        rows = states(down, plain, (strong(values, type), slopes))
    else:
        rows = results(up, plain, (type, {i: types[i] for i in sorted(active)}))
        if not term.every:
            return dual(*taken(rows, plain.order().roots))
    return forest.annotated({name: dual(*own) for name, own in by_constructor(plain, rows).items()}, type)
