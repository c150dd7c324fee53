"""What a check of an arrow is about: the arrow as it is stated, and in float64, where its rules are seen sharply."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.errors import ArgumentError
from combinators.meaning.evaluate import evaluate
from combinators.meaning.infer import infer
from combinators.terms import Term
from combinators.types import Function, Tensor, Type, is_discrete, pack, type_of
from combinators.values import accepts
from compile_ccc.arrow import trace
from tangents.checking.report import Unfit
from tangents.checking.ways import DOUBLE, computed, precision_of
from tangents.strategies import values_of
from tangents.strategies.goals import has_functions


@dataclass(frozen=True)
class Subject:
    """An arrow on a domain, under a setting of JAX's `jax_enable_x64`.

    `eps` is the distance from 1 to the next number in the least precise dtype that it computes with.  `meaning(x)` is
    an independent meaning, such as the Python function that the term was translated from, or None.
    """

    name: str
    term: Term
    domain: Type
    x64: bool
    eps: float
    meaning: Callable[[Any], Any] | None = None

    @property
    def codomain(self) -> Type:
        return infer(self.term, self.domain)

    @property
    def step(self) -> float:
        """That of central differences, whose errors are about step² and eps/step."""
        return 2 * self.eps ** (1 / 3)

    @property
    def tolerance(self) -> float:
        """The relative error that is allowed in derivatives."""
        return 1e-6 if self.eps == DOUBLE else 3 * self.step

    def points(self, strategy: Any, draw: Any) -> Any:
        """A value of the domain: any, or one that the user's strategy gives."""
        return draw(values_of(self.domain)) if strategy is None else converted(draw(strategy), self.domain)


def subjects(x: Any, types: tuple[Type, ...], points: Any) -> tuple[Subject, Subject]:
    """x as an arrow on a domain, and the same in float64 if all of it can be computed so, else once more as stated."""
    is_double = any(isinstance(t, Tensor) and t.dtype in (np.float64, np.complex128) for t in jax.tree.leaves(types))
    stated = _subject(x, types, bool(jax.config.jax_enable_x64) or is_double)
    with jax.enable_x64(True):
        wide = tuple(map(in_float64, types))
    if wide == types or (points is not None and has_functions(types)):  # a function that is given has its dtypes
        return stated, stated
    try:
        sharp = _subject(x, wide, True)
        with jax.enable_x64(True):
            infer(sharp.term, sharp.domain)
    except (TypeError, ValueError):  # it names a dtype, or joins its arguments with others of one
        return stated, stated
    return stated, sharp if sharp.eps == DOUBLE else stated


def _subject(x: Any, types: tuple[Type, ...], x64: bool) -> Subject:
    with jax.enable_x64(x64):
        if isinstance(x, Term):
            name, term, meaning = str(x), x, None
        else:
            name, term = getattr(x, "__name__", str(x)), trace(x, *types).term
            meaning = lambda value: x(*(value if len(types) != 1 else (value,)))
        return Subject(name, term, pack(types), x64, _precision(term, pack(types)), meaning)


def in_float64(type: Type) -> Type:
    """The type in float64 and complex128."""

    def leaf(t: Any) -> Any:
        if isinstance(t, Function):
            return Function(in_float64(t.dom), in_float64(t.cod))
        if not isinstance(t, Tensor) or is_discrete(t):
            return t
        return Tensor(t.shape, complex if jnp.issubdtype(t.dtype, jnp.complexfloating) else float)

    return jax.tree.map(leaf, type)


def _precision(term: Term, domain: Type) -> float:
    """The distance from 1 to the next number in the least precise dtype that a term computes with on a domain."""
    types: list[Any] = list(_inexact(domain))
    if not has_functions(domain):  # of what they compute with, nothing is known
        structs = jax.tree.map(lambda t: jax.ShapeDtypeStruct(t.shape, t.dtype), domain)
        with suppress(Exception):  # the check itself will say what fails
            types += computed(jax.make_jaxpr(lambda x: jax.tree.leaves(evaluate(term, x)))(structs).jaxpr)
    return max([DOUBLE, *map(precision_of, types)])


def converted(value: Any, domain: Type) -> Any:
    """A value that a user's strategy gave, in the dtypes of the domain.  Raises `Unfit` if it is none of the domain."""
    types, form = jax.tree.flatten(domain)
    try:
        leaves = form.flatten_up_to(value)
        if all(_fits(leaf, type) for leaf, type in zip(leaves, types, strict=True)):
            pairs = zip(leaves, types, strict=True)
            return form.unflatten([np.asarray(v, t.dtype) if _is_numeric(t) else v for v, t in pairs])
    except (TypeError, ValueError):
        pass
    raise Unfit(
        ArgumentError(
            "`points` gives something else than a value of the domain",
            expected=domain,
            got=repr(value),
            hint="a strategy of several arguments gives tuples: st.tuples(st.floats(0.5, 2.0), ...)",
        )
    )


def _is_numeric(type: Type) -> bool:
    """Whether values of a type are arrays that NumPy knows, which functions and random keys are not."""
    return isinstance(type, Tensor) and not jnp.issubdtype(type.dtype, jax.dtypes.extended)


def _fits(value: Any, type: Type) -> bool:
    if not _is_numeric(type):
        return accepts(type, type_of(value))
    return np.shape(value) == type.shape and np.can_cast(jnp.result_type(value), type.dtype, "same_kind")


def _inexact(type: Type) -> list[Tensor]:
    """The arrays in a type, those in arguments and results of its functions among them."""
    found: list[Tensor] = []
    for leaf in jax.tree.leaves(type):
        if isinstance(leaf, Function):
            found += _inexact((leaf.dom, leaf.cod))
        elif isinstance(leaf, Tensor) and not is_discrete(leaf):
            found.append(leaf)
    return found
