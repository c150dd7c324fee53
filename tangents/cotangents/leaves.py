"""Between sparse cotangents and the leaves of their primals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core.primitives import convert_element_type_p

from combinators.errors import UnsupportedError
from combinators.meaning.infer import infer
from combinators.staging import shaped
from combinators.terms import Eval
from combinators.types import LEAF, Tensor, children, is_discrete, type_of
from combinators.values import Closure, is_function
from compile_ccc.jaxprs.recording import zeros
from tangents.cotangents.calls import ABSENT, Absent, Block, Calls, Captured
from tangents.cotangents.sparse import ZERO, Cotangent, Held, IsLeaf, Sparse, release


def gather(g: Cotangent, x: Any, is_leaf: IsLeaf) -> list[Cotangent]:
    """The cotangents of the leaves of the primal x, in the order of `jax.tree.leaves`."""
    if is_leaf(x):
        return [g]
    if isinstance(x, Closure):
        return gather(g, x.environment, is_leaf)
    pairs, form = children(x)
    if form == LEAF:
        return [g]
    return [leaf for key, part in pairs for leaf in gather(ZERO if g is ZERO else g.part(key), part, is_leaf)]


def scatter(leaves: Iterator[Cotangent], x: Any, is_leaf: IsLeaf) -> Cotangent:
    """The cotangent of the primal x that has these leaves."""
    if is_leaf(x):
        return next(leaves)
    if isinstance(x, Closure):
        return scatter(leaves, x.environment, is_leaf)
    pairs, form = children(x)
    if form == LEAF:
        return next(leaves)
    parts = [(key, scatter(leaves, part, is_leaf)) for key, part in pairs]
    present = Sparse((key, g) for key, g in parts if g is not ZERO)
    return present if present else ZERO


def dense(g: Cotangent, x: Any, is_leaf: IsLeaf) -> Any:
    """The cotangent as a pytree of the structure of the primal x, with its zeros written out.

    Discrete leaves get zeros of their own dtype, functions of the list tangent get `Calls`.
    """
    leaves, form = jax.tree.flatten(x, is_leaf=is_leaf)
    return form.unflatten([_dense(c, leaf) for c, leaf in zip(gather(g, x, is_leaf), leaves, strict=True)])


def partly(g: Cotangent, x: Any, is_leaf: IsLeaf) -> Any:
    """The cotangent as a pytree like the primal x, in which `ABSENT` stands for a leaf that is zero: see `fitted`."""
    form = jax.tree.structure(x, is_leaf=is_leaf)
    return form.unflatten([ABSENT if c is ZERO else c for c in gather(g, x, is_leaf)])


def _dense(c: Cotangent, leaf: Any) -> Any:
    if isinstance(c, Calls):
        return Calls(*(_complete(block, release(leaf)) for block in c.blocks))
    return zero_leaf(leaf) if c is ZERO else c


def _complete(block: Any, f: Any) -> Block:
    """Calls of the function f, with the zeros in the cotangents of its results written out."""
    if isinstance(block, Captured):
        raise UnsupportedError(
            "the calls of a function leave a loop, or a recursion, of which nobody knows how many there are",
            expected="a function that is made in the program, and whose calls are used up there",
            got=f"calls of {type_of(f)}",
            hint=f'use functions="environment"{block.hint}',
        )
    cotangents, form = jax.tree.flatten(block.cotangent, is_leaf=lambda c: isinstance(c, Absent | Calls))
    if all(not isinstance(c, Absent) for c in cotangents):
        return block
    row = jax.tree.map(lambda a: type_of(jax.ShapeDtypeStruct(jnp.shape(a)[block.axes :], a.dtype)), block.argument)
    results = form.flatten_up_to(infer(Eval(), (type_of(f), row)))
    zero = lambda t: Calls() if is_function(t) else jnp.zeros((*block.sizes, *t.shape), t.dtype)
    filled = [zero(t) if isinstance(c, Absent) else c for c, t in zip(cotangents, results, strict=True)]
    return replace(block, cotangent=form.unflatten(filled))


def alike(g: Cotangent, x: Any, is_leaf: IsLeaf) -> Any:
    """`dense`, for the user: the cotangent of a Python number, whose type is weak, is of a weak type too."""
    leaves, form = jax.tree.flatten(x, is_leaf=is_leaf)
    values = [leaf.value if isinstance(leaf, Held) else leaf for leaf in leaves]
    return form.unflatten(map(as_weak, form.flatten_up_to(dense(g, x, is_leaf)), values))


def as_weak(g: Any, value: Any) -> Any:
    """The tangent, or cotangent, of a leaf, of a weak type if that of the value is."""
    return g if isinstance(value, Closure) or is_discrete(type := type_of(value)) else weakly(g, type.weak)


def weakly(array: Any, weak: bool) -> Any:
    """The array with a weak type, if it is to be `weak`."""
    if not weak or type_of(array).weak:
        return array
    return convert_element_type_p.bind(
        jnp.asarray(array), new_dtype=type_of(array).dtype, weak_type=True, sharding=None
    )


def real(types: dict[int, Tensor]) -> dict[int, Tensor]:
    """The types, by the numbers of their leaves, that are not discrete."""
    return {i: t for i, t in types.items() if not is_discrete(t)}


def symbolic(g: Any, x: Any, is_leaf: IsLeaf) -> Cotangent:
    """The cotangent from a pytree of the structure of the primal x: `dense` backwards; held leaves have none."""
    leaves, form = jax.tree.flatten(x, is_leaf=is_leaf)
    cotangents = zip(form.flatten_up_to(g), leaves, strict=True)
    return scatter((ZERO if isinstance(leaf, Held) else c for c, leaf in cotangents), x, is_leaf)


def fitted(g: Any, x: Any, is_leaf: IsLeaf) -> Cotangent:
    """The cotangent of the primal x from a pytree of its structure, in which sums may have more alternatives.

    What is `ABSENT` is zero, as `partly` has it.
    """
    leaves = jax.tree.leaves(x, is_leaf=is_leaf)
    found = zip(gather(_keyed(g), x, is_leaf), leaves, strict=True)
    return scatter((ZERO if isinstance(leaf, Held) else c for c, leaf in found), x, is_leaf)


def _keyed(g: Any) -> Cotangent:
    if isinstance(g, Absent):
        return ZERO
    if isinstance(g, Closure):
        return _keyed(g.environment)
    pairs, form = children(g)
    if form == LEAF or isinstance(g, Calls):
        return g
    return Sparse((key, _keyed(part)) for key, part in pairs if part is not None)


def zero_leaf(leaf: Any) -> Any:
    """The zero cotangent of one leaf of a primal."""
    value = leaf.value if isinstance(leaf, Held) else leaf
    if isinstance(value, Closure):
        return Calls()
    type = type_of(value)
    if jnp.issubdtype(type.dtype, jax.dtypes.extended):
        return jnp.zeros(type.shape, jax.dtypes.float0)
    return zeros(type)


def present(g: Cotangent, x: Any, is_leaf: IsLeaf) -> dict[int, Cotangent]:
    """The cotangents of leaves that are not zero, by the leaves' numbers."""
    return {i: c for i, c in enumerate(gather(g, x, is_leaf)) if c is not ZERO}


def arriving(g: Cotangent, x: Any, is_leaf: IsLeaf) -> dict[int, Cotangent]:
    """The cotangents of active leaves of x that are not zero, by the leaves' numbers: what its pullback is given."""
    held = [isinstance(leaf, Held) for leaf in jax.tree.leaves(x, is_leaf=is_leaf)]
    return {i: c for i, c in present(g, x, is_leaf).items() if not held[i]}


def placed(found: dict[int, Cotangent], x: Any, is_leaf: IsLeaf) -> Cotangent:
    """The cotangent of x with these leaves: `present` backwards."""
    return scatter((found.get(i, ZERO) for i in range(len(jax.tree.leaves(x, is_leaf=is_leaf)))), x, is_leaf)


def filled(g: Cotangent, x: Any, is_leaf: IsLeaf) -> dict[int, Any]:
    """The cotangents of all active leaves of x, zeros written out, by the leaves' numbers."""
    numbered = enumerate(zip(gather(g, x, is_leaf), jax.tree.leaves(x, is_leaf=is_leaf), strict=True))
    return {i: zero_leaf(leaf) if c is ZERO else c for i, (c, leaf) in numbered if not isinstance(leaf, Held)}


def structs(x: Any, is_leaf: IsLeaf) -> dict[int, Any]:
    """What `filled` looks like for a primal of arrays and numbers."""
    numbered = enumerate(jax.tree.leaves(x, is_leaf=is_leaf))
    types = {i: type_of(leaf) for i, leaf in numbered if not isinstance(leaf, Held)}
    return {i: shaped(type.shape, type.dtype) for i, type in types.items()}
