"""Myia's names over JAX, for its tests of gradients: a plugin of pytest."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.suites.differences import GradTester, hold_against_differences, total
from benchmarks.suites.stand_ins import Anything, stand_in

type Function = Callable[..., Any]
type Test = Callable[[Function], None]

jax.config.update("jax_enable_x64", True)


@dataclasses.dataclass
class Point3D:
    """A data class of Myia's."""

    x: Any
    y: Any
    z: Any


@dataclasses.dataclass
class Pair:
    """A node of Myia's trees."""

    left: Any
    right: Any


@dataclasses.dataclass
class NoTestGrad:
    """An argument that nothing is differentiated by."""

    value: Any


def several(*tests: Any, **_: Any) -> Function:
    """Decorates a function with a test for each."""

    def decorate(f: Function) -> Function:
        @pytest.mark.parametrize("case", [test for test in tests if isinstance(test, Gradient)])
        def run(case: Gradient) -> None:
            case.check(f)

        return run

    return decorate


@dataclasses.dataclass
class Gradient:
    """Decorates a function: its gradient at arguments, against differences."""

    arguments: tuple[Any, ...]

    def __call__(self, f: Function) -> Function:
        return several(self)(f)

    def check(self, f: Function) -> None:
        """Each component of the pullback of ones is a quotient of central differences."""
        chosen = tuple(i for i, x in enumerate(self.arguments) if not isinstance(x, NoTestGrad))
        values = [x.value if isinstance(x, NoTestGrad) else x for x in self.arguments]
        for x in values:
            _known(x)
        f.__globals__["isinstance"] = is_of
        found = jax.grad(total(f), chosen)(*values)
        hold_against_differences(f, values, dict(zip(chosen, found, strict=True)))


def is_of(value: Any, kinds: Any) -> bool:
    """Myia's question for a type, which it answers when it infers types: a traced number is a float."""
    traced = isinstance(value, jax.core.Tracer) and value.ndim == 0
    return isinstance(value, kinds) or (traced and float in (kinds if isinstance(kinds, tuple) else (kinds,)))


def _gradient(*arguments: Any, **_: Any) -> Gradient:
    return Gradient(arguments)


class Pipeline(Anything):
    """Compiles a function to itself, and a primitive to its gradient."""

    def __call__(self, *_: object, **keywords: Any) -> Any:
        if "graph" in keywords:
            return {"output": lambda *xs: jax.vjp(keywords["graph"], *xs[:-1])[1](xs[-1])}
        return {"output": keywords["input"]} if "input" in keywords else self


def _known(value: Any) -> None:
    """Registers the data classes of a value with JAX."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        if jax.tree_util.all_leaves([value]):
            jax.tree_util.register_dataclass(type(value), names, [])
        for name in names:
            _known(getattr(value, name))
    elif isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            _known(part)


def with_value(f: Function, *names: Any, dout: Any = 1.0, return_value: bool = False) -> Function:
    """The gradient by arguments, which are told by number or name, "*" for all."""

    def derivative(*arguments: Any, **keywords: Any) -> Any:
        scale = keywords.get("dout", dout)
        parameters = [*inspect.signature(f).parameters]
        chosen = [*range(len(parameters))] if "*" in names else [_place(name, parameters) for name in names] or [0]
        for argument in arguments:
            _known(argument)
        value, pullback = jax.vjp(
            lambda *xs: f(*(x * 1.0 if isinstance(x, int) else x for x in xs)), *map(_real, arguments)
        )
        cotangents = pullback(jax.tree.map(_filled, value, scale))
        found = tuple(cotangents[i] for i in chosen)
        picked = found[0] if len(chosen) == 1 else found
        return (value, picked) if return_value else picked

    return derivative


def _filled(value: Any, number: Any) -> Any:
    kind = jnp.result_type(value)
    real = jnp.issubdtype(kind, jnp.inexact)
    return jnp.full(jnp.shape(value), number, kind) if real else np.zeros(jnp.shape(value), jax.dtypes.float0)


def _place(name: Any, parameters: list[str]) -> int:
    return parameters.index(name) if isinstance(name, str) else name


def _real(x: Any) -> Any:
    return float(x) if isinstance(x, int) else x


def backpropagator(value: Any) -> Any:
    """J of a function, or of another value."""
    if not callable(value):
        return value

    def run(*arguments: Any) -> Any:
        result, pullback = jax.vjp(value, *arguments)
        return result, lambda cotangent: (None, *pullback(jnp.asarray(cotangent, jnp.result_type(result))))

    return run


def uniform(state: Any, shape: tuple[int, ...]) -> Any:
    """Another state, and random integers."""
    following, key = jax.random.split(state)
    return following, jax.random.bits(key, shape, jnp.uint32)


def matrix(seed: int) -> Function:
    """A function that gives fixed matrices."""
    return lambda rows, columns, dtype="float64": np.random.RandomState(seed).uniform(1.0, 9.0, (rows, columns))


PRIMITIVES = {
    "scalar_add": operator.add,
    "scalar_sub": operator.sub,
    "scalar_mul": operator.mul,
    "scalar_div": operator.truediv,
    "scalar_pow": operator.pow,
    "scalar_uadd": operator.pos,
    "scalar_usub": operator.neg,
    "gadd": operator.add,
    "array_map": lambda f, *xs: f(*xs),
    "array_reduce": lambda f, xs, shape: (
        jnp.sum(xs).reshape(shape) if np.prod(shape) == 1 else jnp.sum(xs, 0).reshape(shape)
    ),
    "array_to_scalar": lambda x: jnp.reshape(x, ()),
    "scalar_to_array": lambda x, *_: x,
    "scalar_cast": lambda x, kind: int(x),
    "array_cast": lambda x, kind: x.astype(jnp.float64),
    "distribute": jnp.broadcast_to,
    "reshape": jnp.reshape,
    "transpose": jnp.transpose,
    "dot": jnp.dot,
    "partial": functools.partial,
    "random_initialize": jax.random.key,
    "random_uint32": uniform,
    "J": backpropagator,
}
NAMES = PRIMITIVES | {
    "primitives": Anything(**PRIMITIVES),
    "grad": with_value,
    "value_and_grad": functools.partial(with_value, return_value=True),
    "myia": lambda f=None, **_: f if callable(f) else lambda g: g,
    "myia_function_test": lambda **_: lambda f: _gradient if f.__name__ == "gradient" else Anything(),
    "mt": several,
    "bt": lambda: pytest.mark.parametrize("backend", ["python"]),
    "NoTestGrad": NoTestGrad,
    "GradTester": GradTester,
    "py_registry": {primitive: primitive for primitive in PRIMITIVES.values()},
    "Pair": Pair,
    "tagged": lambda x: x,
    "Point3D": Point3D,
    "base_pipeline": Pipeline(),
    **{
        name: type(name, (TypeError,), {})
        for name in ("InferenceError", "MyiaInputTypeError", "InternalInferenceError")
    },
    **{name: matrix(seed) for seed, name in enumerate(("MA", "MB", "MC", "MD"))},
}
stand_in("myia", {"*": NAMES})
