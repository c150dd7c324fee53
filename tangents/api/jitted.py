"""`jit` of functions that take Python functions and give them: JAX's, with these as what they captured.

JAX compiles functions of arrays alone.  A Python function is a pytree for it here: its leaves are the numbers that the
function captured, and the rest of it is static.  Inside, and outside again, it is a Python function as it was.
"""

from __future__ import annotations

import functools
import inspect
import types
from dataclasses import dataclass
from typing import Any

import jax

from compile_ccc.tracing.captures import Captured, captures


@dataclass(frozen=True, eq=False)
class _Code:
    """What of a function is static: two are one if their keys are equal."""

    captured: Captured

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Code) and self.captured.key == other.captured.key

    def __hash__(self) -> int:
        return hash(self.captured.key)


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class _Opened:
    """A Python function on its way through JAX."""

    code: _Code
    values: list[Any]

    def tree_flatten(self) -> tuple[list[Any], _Code]:
        return self.values, self.code

    @classmethod
    def tree_unflatten(cls, code: _Code, values: Any) -> _Opened:
        return cls(code, list(values))


def jit(fun: Any = None, **options: Any) -> Any:
    """`jax.jit`, of functions too that take Python functions, or containers of them, or give them.

    A function that was given is compiled once for its code; what it captured are arguments of the compiled program.
    """
    if fun is None:
        return functools.partial(jit, **options)
    if not callable(fun):
        return jax.jit(fun, **options)  # which says so
    gives: list[bool] = []

    @functools.wraps(fun)
    def inside(*arguments: Any, **keywords: Any) -> Any:
        result = _opened(fun(*_closed(arguments), **_closed(keywords)))
        gives[:] = [True] if any(map(_is_opened, _leaves(result))) else gives
        return result

    compiled = jax.jit(inside, **options)

    @functools.wraps(compiled)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            result = compiled(*arguments, **keywords)
        except TypeError:
            given = _given(inside, options, arguments, keywords)
            if given is None:
                raise
            result = compiled(*given[0], **given[1])
        return _closed(result) if gives else result

    for name in ("lower", "trace", "eval_shape", "clear_cache"):
        setattr(call, name, getattr(compiled, name))
    return call


def _given(f: Any, options: Any, arguments: Any, keywords: Any) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments with functions opened that are not static; None if there are no such functions."""
    numbers, names = (options.get(name, ()) for name in ("static_argnums", "static_argnames"))
    places = {i % len(arguments) for i in ((numbers,) if isinstance(numbers, int) else numbers or ())}
    named = {names} if isinstance(names, str) else {*(names or ())}
    if places or named:
        parameters = list(inspect.signature(f).parameters)
        places |= {parameters.index(name) for name in named if name in parameters}
        named |= {parameters[i] for i in places if i < len(parameters)}
    opened = [x if i in places else _opened(x) for i, x in enumerate(arguments)]
    by_name = {name: x if name in named else _opened(x) for name, x in keywords.items()}
    return (opened, by_name) if any(map(_is_opened, _leaves((opened, by_name)))) else None


def _opened(x: Any) -> Any:
    def of_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, types.FunctionType | types.MethodType | functools.partial):
            return leaf
        captured = captures(leaf)
        return _Opened(_Code(captured), captured.values)

    return jax.tree.map(of_leaf, x)


def _closed(x: Any) -> Any:
    """The functions in x made again, of the values that they have now."""

    def of_leaf(leaf: Any) -> Any:
        return leaf.code.captured.rebuilt(leaf.values, lambda v: v).__enter__() if _is_opened(leaf) else leaf

    return jax.tree.map(of_leaf, x, is_leaf=_is_opened)


def _leaves(x: Any) -> list[Any]:
    return jax.tree.leaves(x, is_leaf=_is_opened)


def _is_opened(x: Any) -> bool:
    return isinstance(x, _Opened)
