"""Primals by leaves: which of them are held, and their cotangents, sparse inside a pullback and dense at its edge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core.primitives import convert_element_type_p

from combinators.errors import UnsupportedError
from combinators.meaning.infer import infer
from combinators.staging import shaped
from combinators.terms import Eval
from combinators.types import LEAF, Tensor, children, is_discrete, leaf_type, type_of
from combinators.values import Closure, is_function
from compile_ccc.jaxprs.recording import zeros
from tangents.cotangents.calls import ABSENT, Absent, Block, Calls, Captured
from tangents.cotangents.sparse import ZERO, Cotangent, Held, Sparse, release

type IsLeaf = Callable[[Any], bool]


class Primals:
    """Primals, where `is_leaf(v)` says what is one leaf beside arrays: a tangent space says so of function values.

    Leaves have numbers, in the order of `jax.tree.leaves`.  Those that are `Held` have no cotangent.
    """

    is_leaf: IsLeaf

    def __init__(self, is_leaf: IsLeaf):
        self.is_leaf = is_leaf

    def leaves(self, x: Any) -> list[Any]:
        """The leaves of a primal."""
        return jax.tree.leaves(x, is_leaf=self.is_leaf)

    def has_functions(self, x: Any) -> bool:
        """Whether function values are leaves of a primal that are not held."""
        return any(map(self.is_leaf, self.leaves(x)))

    def is_active(self, x: Any) -> bool:
        """Whether some leaf of a primal is not held."""
        return not all(self.marks(x))

    def hold(self, x: Any) -> Any:
        """Marks every leaf of a primal."""
        return jax.tree.map(lambda leaf: leaf if isinstance(leaf, Held) else Held(leaf), x, is_leaf=self.is_leaf)

    def hold_discrete(self, x: Any) -> Any:
        """Marks the leaves whose tangent space is the unit."""

        def marked(leaf: Any) -> Any:
            stays = isinstance(leaf, Held) or self.is_leaf(leaf) or not is_discrete(leaf_type(leaf))
            return leaf if stays else Held(leaf)

        return jax.tree.map(marked, x, is_leaf=self.is_leaf)

    def activate(self, x: Any) -> Any:
        """The primal with only its discrete leaves marked."""
        return self.hold_discrete(release(x))

    def marks(self, x: Any) -> tuple[bool, ...]:
        """Which leaves of a primal are held."""
        return tuple(isinstance(leaf, Held) for leaf in self.leaves(x))

    def remark(self, x: Any, held: tuple[bool, ...]) -> Any:
        """A released primal with these marks on its leaves."""
        leaves, form = jax.tree.flatten(x, is_leaf=self.is_leaf)
        return form.unflatten([Held(leaf) if h else leaf for leaf, h in zip(leaves, held, strict=True)])

    def gather(self, g: Cotangent, x: Any) -> list[Cotangent]:
        """The cotangents of the leaves of the primal x, in the order of `jax.tree.leaves`."""
        if self.is_leaf(x):
            return [g]
        if isinstance(x, Closure):
            return self.gather(g, x.environment)
        pairs, form = children(x)
        if form == LEAF:
            return [g]
        return [leaf for key, part in pairs for leaf in self.gather(ZERO if g is ZERO else g.part(key), part)]

    def scatter(self, leaves: Iterator[Cotangent], x: Any) -> Cotangent:
        """The cotangent of the primal x that has these leaves."""
        if self.is_leaf(x):
            return next(leaves)
        if isinstance(x, Closure):
            return self.scatter(leaves, x.environment)
        pairs, form = children(x)
        if form == LEAF:
            return next(leaves)
        parts = [(key, self.scatter(leaves, part)) for key, part in pairs]
        return Sparse((key, g) for key, g in parts if g is not ZERO) or ZERO

    def present(self, g: Cotangent, x: Any) -> dict[int, Cotangent]:
        """The cotangents of leaves that are not zero, by the leaves' numbers."""
        return {i: c for i, c in enumerate(self.gather(g, x)) if c is not ZERO}

    def arriving(self, g: Cotangent, x: Any) -> dict[int, Cotangent]:
        """The cotangents of active leaves that are not zero, by the leaves' numbers: what a pullback is given."""
        held = self.marks(x)
        return {i: c for i, c in self.present(g, x).items() if not held[i]}

    def filled(self, g: Cotangent, x: Any) -> dict[int, Any]:
        """The cotangents of all active leaves of x, zeros written out, by the leaves' numbers."""
        numbered = enumerate(zip(self.gather(g, x), self.leaves(x), strict=True))
        return {i: zero_leaf(leaf) if c is ZERO else c for i, (c, leaf) in numbered if not isinstance(leaf, Held)}

    def structs(self, x: Any) -> dict[int, Any]:
        """What `filled` looks like for a primal of arrays and numbers."""
        numbered = enumerate(self.leaves(x))
        types = {i: type_of(leaf) for i, leaf in numbered if not isinstance(leaf, Held)}
        return {i: shaped(type.shape, type.dtype) for i, type in types.items()}

    def placed(self, found: dict[int, Cotangent], x: Any) -> Cotangent:
        """The cotangent of x with these leaves: `present` backwards."""
        return self.scatter((found.get(i, ZERO) for i in range(len(self.leaves(x)))), x)

    def dense(self, g: Cotangent, x: Any) -> Any:
        """The cotangent as a pytree of the structure of the primal x, with its zeros written out.

        Discrete leaves get zeros of their own dtype, functions of the list tangent get `Calls`.
        """
        leaves, form = jax.tree.flatten(x, is_leaf=self.is_leaf)
        return form.unflatten([_dense(c, leaf) for c, leaf in zip(self.gather(g, x), leaves, strict=True)])

    def alike(self, g: Cotangent, x: Any) -> Any:
        """`dense`, for the user: the cotangent of a Python number, whose type is weak, is of a weak type too."""
        leaves, form = jax.tree.flatten(x, is_leaf=self.is_leaf)
        values = [leaf.value if isinstance(leaf, Held) else leaf for leaf in leaves]
        return form.unflatten(map(as_weak, form.flatten_up_to(self.dense(g, x)), values))

    def partly(self, g: Cotangent, x: Any) -> Any:
        """The cotangent as a pytree like the primal x, with `ABSENT` for a leaf that is zero: see `fitted`."""
        form = jax.tree.structure(x, is_leaf=self.is_leaf)
        return form.unflatten([ABSENT if c is ZERO else c for c in self.gather(g, x)])

    def symbolic(self, g: Any, x: Any) -> Cotangent:
        """The cotangent from a pytree of the structure of the primal x: `dense` backwards; held leaves have none."""
        return self._active(jax.tree.structure(x, is_leaf=self.is_leaf).flatten_up_to(g), x)

    def fitted(self, g: Any, x: Any) -> Cotangent:
        """The cotangent of the primal x from a pytree of its structure, in which sums may have more alternatives.

        What is `ABSENT` is zero, as `partly` has it.
        """
        return self._active(self.gather(_keyed(g), x), x)

    def _active(self, cotangents: list[Cotangent], x: Any) -> Cotangent:
        """The cotangent of the primal x with these leaves, but for those that are held."""
        found = zip(cotangents, self.marks(x), strict=True)
        return self.scatter((ZERO if held else c for c, held in found), x)


ARRAYS = Primals(().__contains__)  # no leaf beside arrays: functions are what they captured


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
