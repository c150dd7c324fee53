"""The ways to a gradient, by the real leaves of some arguments: in full, or along one direction in each leaf.

environment, list, JAX                  point ↦ the gradient, an array for each leaf
forward mode, central differences       point, directions ↦ the derivative along them, a number for each leaf
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from combinators.identity.held import parameters
from combinators.types import is_discrete, type_of
from combinators.values import Closure
from compile_ccc.arrow import ccc
from tangents.api.derivatives import grad
from tangents.api.directional import jvp
from tangents.cotangents.calls import Calls
from tangents.represent import rep
from tangents.spaces.environment import ENVIRONMENT
from tangents.spaces.public import zero

type Leaves = list[Any]  # one entry for each real leaf of the asked-for arguments

DOUBLE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Point:
    """A function with a real result, arguments, and for which of these a derivative is asked, by their places."""

    f: Any
    arguments: tuple[Any, ...]
    asked: tuple[int, ...]

    @cached_property
    def numbered(self) -> list[tuple[int, str]]:
        """The real leaves that are asked for: their numbers among the leaves of all arguments, and their names."""
        pairs, _ = jax.tree_util.tree_flatten_with_path(self.arguments)
        known = parameters(self.f)
        names = [*known, *(f"argument {i}" for i in range(len(known), len(self.arguments)))]
        return [
            (i, names[path[0].idx] + jax.tree_util.keystr(path[1:]))
            for i, (path, leaf) in enumerate(pairs)
            if path[0].idx in self.asked and not is_discrete(type_of(leaf))
        ]

    def of(self, values: tuple[Any, ...]) -> Leaves:
        """What stands at these leaves in values of the structure of the arguments."""
        leaves = jax.tree.leaves(values)
        return [leaves[i] for i, _ in self.numbered]

    def placed(self, parts: Leaves, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Values of the structure of the arguments with these parts at these leaves."""
        leaves, form = jax.tree.flatten(values)
        for (i, _), part in zip(self.numbered, parts, strict=True):
            leaves[i] = part
        return form.unflatten(leaves)

    def value(self, leaves: Leaves) -> Any:
        """The value of f at the arguments with these leaves: Python's meaning, as JAX runs it.

        Where JAX cannot run f, since it chooses between functions of different code, it is the arrow of f.
        """
        arguments = self.placed(leaves, self.arguments)
        try:
            return self.f(*jax.tree.map(_of_jax, arguments))
        except (TypeError, ValueError):
            return ccc(self.f)(*arguments)

    @cached_property
    def precision(self) -> float:
        """The distance from 1 to the next number in the least precise dtype that f computes with."""
        program = jax.make_jaxpr(self.value)(self.of(self.arguments)).jaxpr
        return max(map(precision_of, [*self.of(self.arguments), *computed(program)]))

    @cached_property
    def sharpest(self) -> Point:
        """This point in float64 if f computes in float64 there, and the same, else itself."""
        value = float(self.value(self.of(self.arguments)))
        with jax.enable_x64(True):
            double = Point(self.f, jax.tree.map(_doubled, self.arguments), self.asked)
            try:
                again = float(double.value(double.of(double.arguments)))
                is_double = double.precision == DOUBLE
            except (TypeError, ValueError):  # f has dtypes of its own, that of what it captured or of a loop's state
                return self
        # Random numbers, for one thing, are others in float64.
        return double if is_double and np.isclose(value, again, rtol=self.precision**0.5, equal_nan=True) else self


def environment(point: Point) -> Leaves:
    """Reverse mode in the environment space."""
    return point.of(_at_places(point, grad(point.f, point.asked)(*point.arguments)))


def listed(point: Point) -> Leaves:
    """Reverse mode in the list space; calls of a function argument become the cotangent of its environment."""
    gradients = grad(point.f, point.asked, functions="list")(*point.arguments)
    primals, form = jax.tree.flatten(tuple(point.arguments[i] for i in point.asked), is_leaf=_is_function)
    parts = zip(primals, form.flatten_up_to(gradients), strict=True)
    whole = form.unflatten([_of_calls(f, g) if isinstance(g, Calls) else g for f, g in parts])
    return point.of(_at_places(point, whole))


def jaxs(point: Point) -> Leaves:
    """`jax.grad`."""
    return jax.jit(jax.grad(point.value))(point.of(point.arguments))


def forward(point: Point, directions: Leaves) -> Leaves:
    """Forward mode, a pass for each leaf."""
    nothing = zero(point.arguments)
    zeros = point.of(nothing)
    tangents = [[*zeros[:i], jnp.asarray(t, zeros[i].dtype), *zeros[i + 1 :]] for i, t in enumerate(directions)]
    return [jvp(point.f, point.arguments, point.placed(t, nothing))[1] for t in tangents]


def differences(point: Point, directions: Leaves) -> Leaves:
    """Central differences, two values for each leaf, in float64 where f lets itself be run so."""
    point = point.sharpest
    with jax.enable_x64(point.precision == DOUBLE or jax.config.jax_enable_x64):
        leaves, value, step = point.of(point.arguments), jax.jit(point.value), step_of(point)

        def at(i: int, by: float) -> float:
            return float(value([*leaves[:i], _moved(leaves[i], by * directions[i]), *leaves[i + 1 :]]))

        return [(at(i, step) - at(i, -step)) / (2 * step) for i in range(len(leaves))]


def step_of(point: Point) -> float:
    """How far central differences go to either side, in a direction of length 1."""
    return point.sharpest.precision ** (1 / 3)


WHOLE: dict[str, Callable[[Point], Leaves]] = {"environment": environment, "list": listed, "JAX": jaxs}
ALONG: dict[str, Callable[[Point, Leaves], Leaves]] = {"forward mode": forward, "central differences": differences}


def directions(gradient: Leaves, seed: int) -> Leaves:
    """A direction of length 1 in each leaf: a random one, turned halfway to the gradient, where the slope is large."""
    random = np.random.default_rng(seed)
    found: Leaves = []
    for g in gradient:
        steepest, drawn = _unit(np.conj(wide(g))), _unit(_normal(random, wide(g)))
        uphill = np.real(np.vdot(steepest, drawn)) >= 0
        found.append(_unit(steepest + (drawn if uphill else -drawn)))
    return found


def wide(array: Any) -> Any:
    """The array of NumPy in double precision."""
    is_complex = jnp.issubdtype(jnp.result_type(array), np.complexfloating)
    return np.asarray(array).astype(np.complex128 if is_complex else np.float64)


def _at_places(point: Point, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients at the places of their arguments; the others do not count."""
    places = dict(zip(point.asked, gradients, strict=True))
    return tuple(places.get(i, argument) for i, argument in enumerate(point.arguments))


def _of_calls(f: Closure, calls: Calls) -> Any:
    marked = ENVIRONMENT.activate(f)
    return ENVIRONMENT.dense(ENVIRONMENT.of_calls(partial(rep, ENVIRONMENT), marked, calls), marked)


def computed(program: Any) -> Iterator[Any]:
    """The types of the inexact numbers that a program computes."""
    for eqn in program.eqns:
        yield from (v.aval for v in eqn.outvars if jnp.issubdtype(getattr(v.aval, "dtype", bool), np.inexact))
        for inner in jex.jaxprs_in_params(eqn.params):
            yield from computed(inner)


def precision_of(value: Any) -> float:
    """The distance from 1 to the next number in the dtype of a value, or a type."""
    return float(jnp.finfo(value.dtype if hasattr(value, "dtype") else jnp.result_type(value)).eps)


def _of_jax(leaf: Any) -> Any:
    """An array as JAX has it, since NumPy's have other methods."""
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def _doubled(leaf: Any) -> Any:
    return jnp.asarray(wide(leaf)) if jnp.issubdtype(jnp.result_type(leaf), np.inexact) else leaf


def _moved(leaf: Any, by: Any) -> Any:
    if isinstance(leaf, float | complex):
        return type(leaf)(leaf + by)
    return jnp.asarray(wide(leaf) + by, leaf.dtype)


def _normal(random: np.random.Generator, like: Any) -> Any:
    drawn = random.standard_normal(like.shape)
    return drawn + 1j * random.standard_normal(like.shape) if np.iscomplexobj(like) else drawn


def _unit(array: Any) -> Any:
    size = np.linalg.norm(array)
    return array / size if size > 0 and np.isfinite(size) else np.zeros_like(array)


def _is_function(value: Any) -> bool:
    return isinstance(value, Closure)
