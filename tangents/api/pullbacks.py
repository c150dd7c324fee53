"""Pullbacks as values: pytrees that can be called, whose leaves are residuals and whose code is static."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax

from combinators.depth import deep
from combinators.edges import no_keywords
from combinators.errors import ArgumentError, ArityError, UnsupportedError
from combinators.origins import anonymous, is_of_jax, of_form
from combinators.records import from_records
from combinators.values import Closure
from compile_ccc.carriers import FunctionValue
from compile_ccc.tracing.lifting import lifted
from tangents.cotangents.sparse import release
from tangents.spaces.edges import from_public
from tangents.spaces.space import Space


@dataclass(frozen=True)
class Shape:
    """What a pullback expects and gives: its primal result by types, the form of its cotangents, the tangent space.

    `types` are those of the leaves of the result, and `result` is its form.  Without a form, of primals with functions
    that were not known yet, `linear` gives the cotangents as they are.
    """

    types: tuple[Any, ...]
    result: Any
    form: Any
    space: Space

    @property
    def primal(self) -> Any:
        """The type of the result, its discrete leaves marked."""
        return self.space.activate(self.result.unflatten(self.types))


@jax.tree_util.register_pytree_node_class
class Pullback:
    """A pullback as a value: `linear`, a closure over its residuals.  Calling it gives a tuple of cotangents."""

    def __init__(self, linear: Closure | FunctionValue, shape: Shape):
        if not isinstance(shape, Shape):
            raise ArgumentError(
                "pullbacks are not made by hand",
                expected="what vjp(f, x) gives",
                got=repr(shape),
                hint="custom(f, pullback) is f with a derivative of your own",
            )
        self.linear, self._shape = linear, shape

    @deep
    def __call__(self, *cotangents: Any, **keywords: Any) -> tuple[Any, ...]:
        no_keywords(self, keywords)
        if len(cotangents) != 1:
            raise ArityError(
                "a pullback takes one cotangent",
                expected="a cotangent of the structure of the result",
                got=str(len(cotangents)),
                hint="of a result that is a tuple, the cotangent is a tuple",
            )
        (cotangent,) = cotangents
        y, space = self._shape.primal, self._shape.space
        leaves = space.filled(from_public(cotangent, y, space), y)
        found = self.linear(tuple(leaves.values()))
        return found if self._shape.form is None else from_records(of_form(self._shape.form, found))

    def lifted(self) -> Pullback:
        """This pullback as a value of the program that is being traced, where one of several may be chosen."""
        return Pullback(lifted(self.linear), self._shape) if isinstance(self.linear, Closure) else self

    def onto(self, x: Any) -> Pullback:
        """This pullback, whose cotangents are given in the structure of x, which has as many leaves as the primals.

        Raises `UnsupportedError` if there is a function among them that was not known yet.
        """
        if self._shape.form is None:
            raise UnsupportedError(
                "cotangents cannot be given in another structure before all functions are known",
                expected="functions whose code is known",
                got="a function argument",
                hint="inside a traced lambda, hand in J(f) in place of the function f, or differentiate from outside",
            )
        return Pullback(self.linear, replace(self._shape, form=jax.tree.structure(x)))

    def __repr__(self) -> str:
        return f"Pullback({release(self._shape.primal)}, {self.linear!r})"

    def tree_flatten(self) -> tuple[tuple[Closure | FunctionValue], Shape]:
        return (self.linear,), self._shape

    @classmethod
    def tree_unflatten(cls, shape: Shape, children: tuple[Closure | FunctionValue]) -> Pullback:
        (linear,) = children
        form = shape.form
        if isinstance(linear, Closure) and is_of_jax(linear) and form is not None:
            shape = replace(shape, form=jax.tree.structure(anonymous(form.unflatten(range(form.num_leaves)))))
        return cls(linear, shape)


def pullback_of(linear: Closure, primal: Any, form: Any, space: Space) -> Pullback:
    """The pullback of a result of the type `primal`; see `Shape`."""
    leaves, result = jax.tree.flatten(primal)
    return Pullback(linear, Shape(tuple(leaves), result, form, space))
