"""Representation of folds over trees: an iterated `eval`, some nodes of one constructor at a time.

    nodes without others below them at once; then, step by step, `width` nodes that have all below them      forwards
    from the last step on, the pullbacks of the nodes of a step                                              backwards

Cotangents of what the functions captured are contracted after the loop where that is cheaper (`sums.py`).  Rows that
are no node repeat one, and what comes of them is masked.  In the list tangent, functions in a fold are what they
captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from combinators.inductive.constructors import Constructor
from combinators.inductive.forest import Forest
from combinators.meaning.infer import carried
from combinators.terms import Cata
from combinators.types import Type
from tangents.cotangents.leaves import arriving, placed
from tangents.cotangents.sparse import ZERO, Cotangent, Sparse, is_active, nothing, parts, plus, release, remark
from tangents.spaces.space import Representation, Represented, Space
from tangents.trees.loops import Found, Loops, gathered
from tangents.trees.nodes import Nodes


def reduction(rep: Representation, space: Space, term: Cata, functions: dict[str, Any], forest: Any) -> Represented:
    """The rule of cata, in the tangent space of environments."""
    leaf, plain = space.is_leaf, release(forest)
    type = carried(term, release(functions), plain)
    nodes = _nodes(lambda c, held: Nodes(rep, space, c, functions[c.name], forest, type, held), plain, type)
    held, form = nodes[plain.constructors[0].name].held, jax.tree.structure(type)
    loops = Loops(plain, nodes, type)
    results, kept = loops.forwards()
    value = lambda rows: remark(form.unflatten(rows), held, leaf)

    def pulled(of_roots: Found, of_all: Found) -> Cotangent:
        if not (of_roots or of_all):
            return ZERO
        g_functions, g_payloads = Sparse(), Sparse()
        for name, (of_function, of_payload) in loops.backwards(results, kept, of_roots, of_all).items():
            g_functions[name] = placed(of_function, functions[name], leaf)
            g_payloads[name] = placed(of_payload, forest.payloads[name], leaf)
        return Sparse({0: g_functions, 1: Sparse({"payloads": g_payloads})})

    if not term.every:
        roots = value([gathered(x, plain.roots) for x in results])
        return roots, (lambda g: pulled(arriving(g, roots, leaf), {})) if is_active(roots, leaf) else nothing
    rows = {name: value(own) for name, own in loops.of_constructors(results).items()}
    result = forest.annotated(rows, type)

    def pullback(g: Cotangent) -> Cotangent:
        of_payloads: Cotangent = ZERO if g is ZERO else g.part("payloads")
        if of_payloads is ZERO:
            return ZERO
        given = {name: parts(of_payloads.part(name)) for name in rows}
        arrived = {name: arriving(own, rows[name], leaf) for name, (_, own) in given.items()}
        passed = Sparse((name, through) for name, (through, _) in given.items() if through is not ZERO)
        through = Sparse({1: Sparse({"payloads": passed})}) if passed else ZERO
        return plus(pulled({}, loops.of_all(arrived)), through)

    return result, pullback


def _nodes(made: Callable[[Constructor, tuple[bool, ...]], Nodes], forest: Forest, type: Type) -> dict[str, Nodes]:
    """The nodes of all constructors; a leaf of the results is held only if no constructor makes it active."""
    held = (True,) * len(jax.tree.leaves(type))
    while True:
        nodes = {c.name: made(c, held) for c in (*forest.leaves, *forest.inner)}
        if all(n.stays == held for n in nodes.values()):
            return nodes
        held = tuple(all(column) for column in zip(held, *(n.stays for n in nodes.values()), strict=True))
