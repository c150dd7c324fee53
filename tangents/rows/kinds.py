"""What a row of the table is: a pullback and a pushforward of one primitive, adjoint to each other.

    pull(asked, g, y, *arguments, **params) ↦ the cotangents of the asked-for arguments
    push(tangents, y, *arguments, **params) ↦ the tangent of the result
    ⟨g, push t⟩ = ⟨pull g, t⟩

y is the result, g its cotangent.  What a row mentions is what is kept for the backward pass.  There are three kinds:

    elementwise   t ↦ t·d in each argument, a diagonal matrix: one function is both, for a diagonal is its own transpose
    linear        the pushforward is the operation itself; the pullback is written down, its transpose
    general       both are written down

A row names the parameters that it covers, and the value of what it covers at one only: `knows("axes", sharding=None)`.
With any other parameter, or value, it does not hold, so a parameter of tomorrow's JAX is never passed over in silence.

Tangents that are zero are `ZERO`; a pushforward is asked for where one is not.  Of a primitive with several results, y
is a tuple, g a `Sparse` by position and the pushforward's value a tuple.  Complex matrices are transposed without
conjugation, as JAX does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from combinators.primitives import bind
from combinators.terms import Primitive
from combinators.types import is_discrete, type_of
from tangents.cotangents.sparse import ZERO

type PullbackOfArgument = Callable[..., Any]  # (g, y, *arguments, **params) ↦ the cotangent of that argument
type Pull = Callable[..., list[Any]]
type Push = Callable[..., Any]


@dataclass(frozen=True)
class Parameters:
    """Parameters by name: `free` at any value, `fixed` at the one that is given."""

    free: frozenset[str]
    fixed: Mapping[str, Any]

    @property
    def names(self) -> frozenset[str]:
        """All that are known."""
        return self.free.union(self.fixed)

    def __or__(self, more: Parameters) -> Parameters:
        return Parameters(self.free | more.free, {**self.fixed, **more.fixed})

    def cover(self, params: Mapping[str, Any]) -> bool:
        """Whether these are all known, at these values."""
        for name, value in params.items():
            if name not in self.free and not (name in self.fixed and self.fixed[name] == value):
                return False
        return True


def knows(free: str = "", **fixed: Any) -> Parameters:
    """The parameters that a row covers: at any value, by their names, or at the one value that is given."""
    return Parameters(frozenset(free.split()), fixed)


NONE = knows()


@dataclass(frozen=True, eq=False)
class Constant:
    """The row of what has derivative zero everywhere, with these parameters; None if all results are discrete."""

    parameters: Parameters | None

    def covers(self, params: Mapping[str, Any]) -> bool:
        """Whether the row holds for these parameters."""
        return self.parameters is None or self.parameters.cover(params)


@dataclass(frozen=True, eq=False)
class Rule:
    """A row.  `keeps` says in words what is kept; `parameters` which ones are covered; `complex` whether it holds for
    complex numbers, `where` for what.  Elsewhere `otherwise` holds, or else JAX's own rule.
    """

    kind: str
    pull: Pull
    push: Push
    keeps: str
    parameters: Parameters = NONE
    complex: bool = False
    where: Callable[..., bool] | None = None  # (*arguments, **params)
    otherwise: Rule | Constant | None = None

    def __getitem__(self, i: int) -> PullbackOfArgument:
        return lambda g, y, /, *arguments, **params: self.pull((i,), g, y, *arguments, **params)[0]

    def covers(self, arguments: tuple[Any, ...], params: Mapping[str, Any]) -> bool:
        """Whether the row holds for these arguments, of which only the types are looked at, and parameters."""
        plain = self.complex or not any(map(is_complex, arguments))
        return plain and self.parameters.cover(params) and (self.where is None or self.where(*arguments, **params))


def each(*pullbacks: PullbackOfArgument | None) -> Pull:
    """A pullback given by one function for each argument; None for arguments that are discrete."""

    def pull(asked: Sequence[int], g: Any, y: Any, /, *arguments: Any, **params: Any) -> list[Any]:
        found: list[Any] = []
        for i in asked:
            pullback = pullbacks[i]
            assert pullback is not None
            found.append(pullback(g, y, *arguments, **params))
        return found

    return pull


def elementwise(*scales: Callable[..., Any], keeps: str, complex: bool = False, parameters: Parameters = NONE) -> Rule:
    """The row of (x1, ..., xn) ↦ y by entries; `scale(v, y, *arguments, **params)` is v · ∂y/∂xi, for each i.

    Arguments of rank 0, and axes of size 1, are broadcast: pulling back sums over them, and before it scales if the
    factor is a number.
    """

    def pull(asked: Sequence[int], g: Any, y: Any, /, *arguments: Any, **params: Any) -> list[Any]:
        if keeps == "nothing":
            return [scales[i](fit(g, arguments[i]), y, *arguments, **params) for i in asked]
        return [fit(scales[i](g, y, *arguments, **params), arguments[i]) for i in asked]

    def push(tangents: Sequence[Any], y: Any, /, *arguments: Any, **params: Any) -> Any:
        return widened(total(scales[i](t, y, *arguments, **params) for i, t in enumerate(tangents) if t is not ZERO), y)

    return Rule("elementwise", pull, push, keeps, parameters, complex)


def linear(
    name: str,
    pull: Pull,
    parameters: Parameters = NONE,
    keeps: str = "nothing",
    *,
    jointly: bool = True,
    where: Callable[..., bool] | None = None,
    **instead: Any,
) -> Rule:
    """The row of a primitive that is linear in all its inexact arguments jointly, or else in each, others fixed.

    `instead` are the parameters that make it linear where it is affine.
    """

    def push(tangents: Sequence[Any], y: Any, /, *arguments: Any, **params: Any) -> Any:
        params.update(instead)
        if jointly:
            zipped = zip(arguments, tangents, strict=True)
            return run(name, *(x if is_discrete(type_of(x)) else dense(t, x) for x, t in zipped), **params)
        at = lambda i: (*arguments[:i], tangents[i], *arguments[i + 1 :])
        return total(run(name, *at(i), **params) for i, t in enumerate(tangents) if t is not ZERO)

    return Rule("linear", pull, push, keeps, parameters, True, where)


def general(pull: Pull, push: Push, keeps: str, parameters: Parameters = NONE, **more: Any) -> Rule:
    """The row of a primitive whose pushforward is no simpler than its pullback."""
    return Rule("general", pull, push, keeps, parameters, **more)


def run(name: str, *arguments: Any, **params: Any) -> Any:
    """A primitive applied, with all of its parameters given."""
    return bind(Primitive(name, tuple(sorted(params.items()))), arguments)


def total(tangents: Any) -> Any:
    """The sum of tangents, of which there is one at least."""
    return reduce(lax.add, tangents)


def dense(t: Any, x: Any) -> Any:
    """A tangent of x as an array."""
    return lax.full_like(x, 0) if t is ZERO else t


def widened(t: Any, y: Any) -> Any:
    """A tangent broadcast to the shape of the result y, as binary primitives broadcast their arguments."""
    shape = jnp.shape(y)
    if t.shape == shape:
        return t
    return lax.broadcast_in_dim(t, shape, tuple(range(t.ndim)))


def fit(g: Any, x: Any) -> Any:
    """Sums a cotangent over the axes along which the argument x was broadcast."""
    shape = jnp.shape(x)
    if g.shape == shape:
        return g
    if not shape:
        return lax.reduce_sum(g, tuple(range(g.ndim)))
    axes = tuple(i for i, (n, m) in enumerate(zip(g.shape, shape, strict=True)) if n != m)
    return lax.reshape(lax.reduce_sum(g, axes), shape)


def number(value: Any, like: Any) -> Any:
    """A number of the dtype of an array: `lax` promotes nothing."""
    return np.asarray(value, jnp.result_type(like))


def is_complex(x: Any) -> bool:
    """Whether an array is one of complex numbers."""
    return jnp.issubdtype(type_of(x).dtype, np.complexfloating)
