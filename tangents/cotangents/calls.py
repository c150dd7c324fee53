"""The list tangent of a function: every call, its argument and its result's cotangent (paper 003, figures 3 and 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.edges import whole
from combinators.errors import ArgumentError
from combinators.types import Tensor, require_values, type_of


@jax.tree_util.register_static
@dataclass(frozen=True)
class Absent:
    """In a cotangent within our own programs, a leaf that is zero; users get zeros that are written out."""


ABSENT = Absent()


@dataclass(frozen=True)
class Block:
    """The calls of one call site: `argument` and `cotangent` are pytrees with `axes` leading loop axes in front.

    A call inside a loop is one block for all its iterations; a call outside of loops has no such axes.  `valid`, a
    boolean array over the axes, tells which calls were made, where a branch may have made none; None means all.

    Raises `ArgumentError` for what is no value, and for arrays without common leading axes.
    """

    argument: Any
    cotangent: Any
    axes: int = 0
    valid: Any = None

    def __post_init__(self) -> None:
        whole("the number of loop axes", self.axes, 0)
        require_values((self.argument, self.cotangent, self.valid))
        shapes = {jnp.shape(leaf)[: self.axes] for leaf in jax.tree.leaves((self.argument, self.cotangent))}
        mask = None if self.valid is None else type_of(self.valid)
        common = len(shapes) < 2 and all(len(shape) == self.axes for shape in shapes)
        if not common or mask not in (None, Tensor(self.sizes, bool)):
            raise ArgumentError(
                "these are no calls of one call site",
                expected=f"arrays with {self.axes} common leading axes, and a mask over them that is boolean, or None",
                got=f"{type_of((self.argument, self.cotangent))} with the mask {mask}",
                hint="Block(x, g) is one call; Block(xs, gs, axes=1) are many, with an axis for the calls in front",
            )

    def rows(self) -> Block:
        """The same calls with exactly one leading axis."""

        def flat(array: Any) -> Any:
            return jnp.reshape(array, (len(self), *jnp.shape(array)[self.axes :]))

        argument, cotangent, valid = jax.tree.map(flat, (self.argument, self.cotangent, self.valid))
        return Block(argument, cotangent, 1, valid)

    def where(self, made: Any) -> Block:
        """The same calls if `made`; else none is valid."""
        valid = jnp.broadcast_to(made, self.sizes)
        return replace(self, valid=valid if self.valid is None else self.valid & made)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the loop axes."""
        leaves = jax.tree.leaves((self.argument, self.cotangent))
        return jnp.shape(leaves[0])[: self.axes] if leaves else (1,) * self.axes

    def __len__(self) -> int:
        return prod(self.sizes)


@dataclass(frozen=True)
class Captured:
    """In the place of calls that a loop has used up: the cotangents of arrays that the function captured, by numbers.

    Loops around have put `axes` in front.  `hint` says what to write for calls that are a list.
    """

    found: dict[int, Any]
    hint: str
    axes: int = 0

    def where(self, made: Any) -> Captured:
        """The same cotangents if `made`; else zeros."""
        return replace(self, found={i: jnp.where(made, g, jnp.zeros_like(g)) for i, g in self.found.items()})

    def total(self) -> dict[int, Any]:
        """The cotangents, summed over the loop axes."""
        axes = tuple(range(self.axes))
        return {i: jnp.sum(g, axes, dtype=g.dtype) if axes else g for i, g in self.found.items()}


jax.tree_util.register_dataclass(Captured, data_fields=["found"], meta_fields=["hint", "axes"])


def _block(axes: int, parts: Any) -> Block:
    """A block of whatever JAX puts in the places of arrays."""
    block = object.__new__(Block)
    for name, value in zip(("argument", "cotangent", "valid", "axes"), (*parts, axes), strict=True):
        object.__setattr__(block, name, value)
    return block


jax.tree_util.register_pytree_with_keys(
    Block,
    lambda b: (tuple((jax.tree_util.GetAttrKey(n), getattr(b, n)) for n in ("argument", "cotangent", "valid")), b.axes),
    _block,
)


@jax.tree_util.register_pytree_node_class
class Calls:
    """[(x1, g1), (x2, g2), ...]: the cotangent of a function value, as blocks of calls.

    The zero is the empty list and the sum is concatenation.  Iterating gives the (argument, cotangent) pairs one by
    one, in no promised order: two lists mean the same when their cotangents sum to the same for each argument, with
    [(x, 0)] = [] and [(x, g), (x, h)] = [(x, g + h)] (paper 003, section 4.1).
    """

    __slots__ = ("blocks",)

    def __init__(self, *blocks: Any):
        for block in blocks:
            if not isinstance(block, Block | Captured):
                raise ArgumentError(
                    "these are no calls",
                    expected="Calls(Block(x, g), ...)",
                    got=f"{block!r} of type {type(block).__name__}",
                    hint="Calls() is the empty list; Block(x, g) is one call at x with the cotangent g of its result",
                )
        self.blocks = blocks

    def __add__(self, other: Any) -> Calls:
        if isinstance(other, Calls):
            return Calls(*self.blocks, *other.blocks)
        raise ArgumentError(
            "calls are added to what are none",
            expected="Calls(...)",
            got=f"{other!r} of type {type(other).__name__}",
            hint="tangents.add adds cotangents of one value; Calls() is the zero of a function",
        )

    __radd__ = __add__

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for block in self.blocks:
            rows = block.rows()
            made = range(len(rows)) if rows.valid is None else np.flatnonzero(rows.valid)
            for i in made:
                yield jax.tree.map(lambda array, i=i: array[i], (rows.argument, rows.cotangent))

    def stacked(self) -> Calls:
        """These calls after a loop has put one more axis in front of each."""
        return Calls(*(replace(b, axes=b.axes + 1) for b in self.blocks))

    def where(self, made: Any) -> Calls:
        """These calls if `made`, a boolean scalar; else none."""
        if type_of(made) != Tensor((), bool):
            raise ArgumentError(
                "whether calls are made is no truth value",
                expected=Tensor((), bool),
                got=made,
                hint="compare: x > 0.0",
            )

        return Calls(*(block.where(made) for block in self.blocks))

    def __repr__(self) -> str:
        return f"Calls({', '.join(map(repr, self.blocks))})"

    def tree_flatten(self) -> tuple[tuple[Block, ...], None]:
        return self.blocks, None

    @classmethod
    def tree_unflatten(cls, _: None, blocks: tuple[Block, ...]) -> Calls:
        calls = object.__new__(cls)
        calls.blocks = blocks
        return calls
