"""Auxiliary results, as `jax.grad` gives them back: what is no array passes by the program and stays what it is.

While a function is traced, the leaves of its auxiliary result that the program does not compute are set aside: a
constant is part of the form of the result, an argument or a captured value is its number, and any other object is its
place in the list of those that this one trace has met.  Outside they are put back.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any

import jax
import jax.core
import numpy as np

from combinators.depth import check_values
from combinators.errors import ArgumentError, UnsupportedError
from combinators.identity.identity import key_of
from combinators.terms import Term
from combinators.types import FunctionLike, type_of
from compile_ccc.arrow import Arrow, positional
from compile_ccc.tracing.arguments import spread
from compile_ccc.tracing.captures import captures
from tangents.api.hidden import check_hidden

_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_CONSTANTS = (bool, int, float, complex, str, bytes, np.generic, np.ndarray, np.dtype, jax.ShapeDtypeStruct)
_LASTING = (enum.Enum, type, types.ModuleType, Term, *_FUNCTIONS)


@jax.tree_util.register_static
@dataclass(frozen=True, repr=False)
class _Aside:
    """A node of a pytree without leaves, in the place of what is set aside."""

    kind: str
    value: Any = field(compare=False)
    key: Any

    def __repr__(self) -> str:
        return f"{self.kind} {self.value!r}"


_calls: ContextVar[tuple[called, ...]] = ContextVar("calls with auxiliary results", default=())


def check_pair(result: Any) -> None:
    """Raises `ArgumentError` for what is no pair of a value and an auxiliary result."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise ArgumentError(
            "has_aux is set, and the result is no pair",
            expected="(value, aux)",
            got=type_of(result),
            hint="give first what is differentiated, and all else as one pytree; or leave has_aux out",
        )


def putting_back(f: Any, derivative: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of f, which sets aside (`setting_aside`), with all that was set aside put back."""

    def of_arguments(*arguments: Any, **keywords: Any) -> Any:
        given = positional(f, arguments, keywords)[1] if keywords else arguments
        with called(f, given) as back:
            return back(derivative(*arguments, **keywords))

    return of_arguments


class called:
    """A call of the derivative of f at these arguments, and the objects that its trace meets; puts these back."""

    def __init__(self, f: Any, arguments: tuple[Any, ...]):
        self.f, self.arguments, self.met = f, arguments, list[Any]()

    def __enter__(self) -> Callable[[Any], Any]:
        self._token = _calls.set((*_calls.get(), self))
        return self._back

    def __exit__(self, *_: Any) -> None:
        _calls.reset(self._token)

    def _back(self, result: Any) -> Any:
        leaves, form = _flatten(result, _is_aside)
        if not any(map(_is_aside, leaves)):
            return result
        return form.unflatten([_back(leaf, self) for leaf in leaves])


@contextmanager
def aside(f: Any, primals: tuple[Any, ...], has_aux: bool) -> Generator[tuple[Any, Callable[[Any], Any]]]:
    """f at primals that are all asked for, as what sets aside (`setting_aside`) if it `has_aux`, and what puts back."""
    if not has_aux:
        yield f, lambda result: result
        return
    with called(f, primals) as back:
        yield setting_aside(f, primals, tuple(range(len(primals)))), back


def setting_aside(f: Any, arguments: tuple[Any, ...], asked: tuple[int, ...]) -> Any:
    """f, whose second result sets aside what is no array; arguments that are not `asked` for count as no arrays."""
    if not callable(f) or isinstance(f, Arrow | Term | FunctionLike):
        return f
    call = _calls.get()[-1]
    call.f, met = f, call.met
    numbers = _numbers(arguments, asked) if spread(f, arguments) is arguments else ()

    def pair(*given: Any) -> Any:
        result = f(*given)
        if not (isinstance(result, tuple | list) and len(result) == 2):
            return result
        check_values(result[1])
        leaves = jax.tree.leaves(given, is_leaf=_is_function)
        places = [*enumerate(captures(f).values), *((~i, leaves[i]) for i in numbers if len(leaves) > i)]
        known = {id(v): i for i, v in places if isinstance(v, jax.core.Tracer)}
        aside = lambda path, leaf: _aside(path, leaf, known, met)
        return result[0], jax.tree_util.tree_map_with_path(aside, result[1], is_leaf=_is_function)

    return update_wrapper(pair, f, updated=())


def _numbers(arguments: tuple[Any, ...], asked: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of the leaves of the arguments that are not asked for, and are no functions."""
    numbered, start = [], 0
    for i, argument in enumerate(arguments):
        leaves = jax.tree.leaves(argument, is_leaf=_is_function)
        numbered += [start + j for j, leaf in enumerate(leaves) if i not in asked and not _is_function(leaf)]
        start += len(leaves)
    return tuple(numbered)


def _aside(path: Any, leaf: Any, known: dict[int, int], met: list[Any]) -> Any:
    if (place := known.get(id(leaf))) is not None:
        return _Aside("argument", ~place, place) if place < 0 else _Aside("captured", place, place)
    if isinstance(leaf, jax.Array | FunctionLike) or _captures_tracer(leaf):
        return leaf
    if isinstance(leaf, np.ndarray):
        check_hidden(path, leaf)
        leaf = leaf.copy()
    if isinstance(leaf, _CONSTANTS) or (isinstance(leaf, _LASTING) and not getattr(leaf, "__closure__", None)):
        return _Aside("constant", leaf, key_of(leaf) if isinstance(leaf, _CONSTANTS) else id(leaf))
    check_hidden(path, leaf)
    met.append(leaf)
    return _Aside("object", len(met) - 1, len(met) - 1)


def _captures_tracer(leaf: Any) -> bool:
    """Whether a Python function captured a value of the program that is being traced."""
    held = captures(leaf).values if isinstance(leaf, _FUNCTIONS) else ()
    return any(isinstance(v, jax.core.Tracer) for v in jax.tree.leaves(held))


def _back(node: Any, call: called) -> Any:
    match node:
        case _Aside(kind="constant", value=np.ndarray() as array):
            return array.copy()
        case _Aside(kind="constant", value=value):
            return value
        case _Aside(kind="argument", value=i):
            return jax.tree.leaves(call.arguments, is_leaf=_is_function)[i]
        case _Aside(kind="captured", value=i):
            return captures(call.f).values[i]
        case _Aside(value=i) if i < len(call.met):
            return call.met[i]
        case _Aside():
            raise UnsupportedError(
                "an auxiliary result holds an object that is made while the function is traced",
                expected="arrays, numbers, text, and objects that are there before",
                got="an object of an earlier trace",
                hint="return its parts as a pytree, and make the object outside",
            )
        case _:
            return node


def _is_aside(node: Any) -> bool:
    return type(node) is _Aside


def _is_function(node: Any) -> bool:
    return isinstance(node, FunctionLike)
