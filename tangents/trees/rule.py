"""Representation of folds over trees: an iterated `eval`, some nodes of one constructor at a time.

    nodes without others below them at once; then, step by step, `width` nodes that have all below them      cata
    from the last step on, `width` nodes of which those above are done                                       inherit
    the pullbacks of the nodes of a step, the other way                                                      backwards

Cotangents of what the functions captured are contracted after the loop where that is cheaper (`sums.py`).  Rows that
are no node repeat one, and what comes of them is masked.  In the list tangent, functions in a fold are what they
captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from combinators.fixpoint import fixpoint
from combinators.inductive.constructors import Constructor
from combinators.meaning.infer import carried
from combinators.meaning.tree_types import called
from combinators.meaning.trees import strong
from combinators.terms import Cata, Inherit
from tangents.cotangents.sparse import ZERO, Cotangent, Sparse, nothing, parts, plus, release
from tangents.spaces.space import Representation, Represented, Space
from tangents.trees.loops import Loops
from tangents.trees.nodes import Nodes
from tangents.trees.ways import Down, Found, Up, gathered

type Held = tuple[bool, ...]


def reduction(
    rep: Representation, space: Space, term: Cata | Inherit, functions: dict[str, Any], *rest: Any
) -> Represented:
    """The rule of cata, and that of inherit, in the tangent space of environments."""
    (*states, forest), plain = rest, release(rest[-1])
    type = carried(term, release(functions), *release(rest))
    way, form = (Up if isinstance(term, Cata) else Down)(plain, plain.order()), jax.tree.structure(type)
    start = dict(enumerate(jax.tree.leaves(strong(release(states[0]), type)))) if states else None
    held = tuple(space.marks(states[0])) if states else (True,) * form.num_leaves
    made = lambda c, held: Nodes(rep, space, way, c, functions[c.name], plain, type, held)
    held, nodes = _nodes(made, called(term), held)
    loops = Loops(plain, way, nodes, type)
    slots, kept = loops.forwards(start)
    value = lambda rows: space.remark(form.unflatten(rows), held)

    def pulled(of_roots: Found, of_all: Found) -> Cotangent:
        if not (of_roots or of_all):
            return ZERO
        g_functions, g_payloads = Sparse(), Sparse()
        found, of_states = loops.backwards(slots, kept, of_roots, of_all)
        for name, (of_function, of_payload) in found.items():
            g_functions[name] = space.placed(of_function, functions[name])
            g_payloads[name] = space.placed(of_payload, forest.payloads[name])
        g_states = {i + 1: space.placed(of_states, x) for i, x in enumerate(states)}
        return Sparse({0: g_functions, **g_states, len(rest): Sparse({"payloads": g_payloads})})

    if isinstance(term, Cata) and not term.every:
        roots = value([gathered(x, loops.order.roots) for x in slots.values()])
        return roots, (lambda g: pulled(space.arriving(g, roots), {})) if space.is_active(roots) else nothing
    rows = {name: value(own) for name, own in loops.of_constructors(loops.of_nodes(slots)).items()}
    result = forest.annotated(rows, type)

    def pullback(g: Cotangent) -> Cotangent:
        of_payloads: Cotangent = ZERO if g is ZERO else g.part("payloads")
        if of_payloads is ZERO:
            return ZERO
        given = {name: parts(of_payloads.part(name)) for name in rows}
        arrived = {name: space.arriving(own, rows[name]) for name, (_, own) in given.items()}
        passed = Sparse((name, through) for name, (through, _) in given.items() if through is not ZERO)
        through = Sparse({len(rest): Sparse({"payloads": passed})}) if passed else ZERO
        return plus(pulled({}, loops.of_all(arrived)), through)

    return result, pullback


def _nodes(
    made: Callable[[Constructor, Held], Nodes], constructors: list[Constructor], held: Held
) -> tuple[Held, dict[str, Nodes]]:
    """The nodes of all constructors; a leaf of the values is held only if no constructor makes it active."""

    def attempt(held: Held) -> tuple[Held, dict[str, Nodes]]:
        nodes = {c.name: made(c, held) for c in constructors}
        return tuple(map(all, zip(held, *(n.stays for n in nodes.values()), strict=True))), nodes

    return fixpoint(held, attempt)
