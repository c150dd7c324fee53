"""What is traced: a Python function with what it captured, and what is known of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.core

from combinators import staging
from combinators.types import Tensor, Type
from combinators.values import Closure
from compile_ccc.again import Run
from compile_ccc.asking.tracers import class_of
from compile_ccc.tracing.arguments import VALUES, argument_type
from compile_ccc.tracing.captures import Captured
from compile_ccc.watching.before import Before, Still
from compile_ccc.watching.foreign import fixed_parts
from compile_ccc.watching.handed import Order

_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python


@dataclass(frozen=True)
class Given:
    """What is known of the arguments of a function: their leaves, and the places of those that is differentiated by.

    Those that are not are the caller's `own`, the others None; `order` is that of the entries of the dictionaries in
    them.
    """

    leaves: tuple[Any, ...] = ()
    varied: frozenset[int] = frozenset()
    own: tuple[Any, ...] = ()
    order: Order = ()


NOT_GIVEN = Given()


class Tracee:
    """A Python function f of `arity` arguments with what it captured, on a domain.

    Its inputs are the leaves of what it captured, then those of its arguments: `leaves` are their types, and `inputs`
    their values, None where these are not known.
    """

    def __init__(
        self, f: Callable[..., Any], captured: Captured, dom: Type, arity: int, given: Given = NOT_GIVEN
    ) -> None:
        self.f, self.captured, self.dom, self.arity, self.given = f, captured, dom, arity, given
        self.types = [argument_type(v) for v in captured.values]
        self.leaves, self.form = _flatten((self.types, dom), None)
        inputs = [v if isinstance(v, (*VALUES, Closure)) else None for v in (*captured.values, *given.leaves)]
        self.inputs = [*inputs, *[None] * (len(self.leaves) - len(inputs))]
        self.varied = frozenset([len(self.types) + i for i in given.varied])  # which is never code

    @cached_property
    def program(self) -> Any:
        """The key of the program that it is, whatever the values of its inputs."""
        types = tuple([(t.shape, t.dtype, t.weak) if type(t) is Tensor else t for t in self.leaves])
        return self.captured.key, self.arity, self.form, types, self.given.order, staging.settings()

    @cached_property
    def knowable(self) -> list[int]:
        """The inputs that may be code."""
        return [i for i, v in enumerate(self.inputs) if i not in self.varied and _is_concrete(v)]

    def roots(self) -> list[Any]:
        """The function, and what the pytrees of its inputs hold beside their parts."""
        return [self.f, *[part for shape in (self.form, *self.captured.forms) for part in fixed_parts(shape)]]

    def classes(self) -> dict[int, type | None]:
        """The classes of the inputs that are known; None of what is varied."""
        known = [(i, value) for i, value in enumerate(self.inputs) if value is not None]
        return {i: None if i in self.varied else class_of(value) for i, value in known}


class Surroundings(Run):
    """What is around a function that is traced: what it reaches `before` it runs, and whether it `left` tracers there.

    `settles` is called when it has run: it puts values in the place of the tracers that the function left somewhere,
    and says whether there were any.
    """

    def __init__(
        self, tracee: Tracee, before: Before | Still, settles: Callable[[Callable[[Any], Any]], bool] = lambda _: False
    ) -> None:
        super().__init__(partial(tracee.captured.undo, tracee.f, before))
        self.before, self.left, self._settles = before, False, settles

    def undo(self) -> None:
        super().undo()
        self.left = False

    def at_end(self, settled: Callable[[Any], Any]) -> None:
        """The function has run; `settled` gives the value that a tracer stands for."""
        self.left |= self._settles(settled)


def _is_concrete(value: Any) -> bool:
    """Whether a value is known now, and no function."""
    return isinstance(value, VALUES) and not isinstance(value, jax.core.Tracer)
