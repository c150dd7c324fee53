"""Derivatives of Python functions as functions of the same arguments, with the options that `jax.grad` has."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import update_wrapper
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from combinators.depth import deep
from combinators.errors import ArgumentError, ArityError, NotDifferentiableError
from combinators.meaning.infer import infer
from combinators.terms import Eval, Term
from combinators.types import Tensor, is_discrete, no_types, pack, type_of
from combinators.values import Closure, is_closure
from compile_ccc.arrow import closed_over_static, positional
from compile_ccc.asking.ruled_calls import asking_in_rules
from compile_ccc.asking.tracers import derived
from compile_ccc.dispatch import MISSED, Dispatch
from compile_ccc.tracing.arguments import argument_type, is_function_value
from compile_ccc.tracing.function import Found, Joined
from tangents.api.auxiliary import putting_back, setting_aside

type Located = tuple[
    Any, Closure, Any, Found | Joined | None
]  # what is static, f as a closure, its argument, its trace


class Asked(NamedTuple):
    """By which of so many arguments a derivative is asked for: their places, and whether it is a tuple of these."""

    arity: int
    places: tuple[int, ...]
    is_tuple: bool

    def arguments(self, x: Any) -> list[Any]:
        """All arguments, of which x is the one domain."""
        return [x] if self.arity == 1 else list(x)

    def of(self, arguments: Any) -> Any:
        """Those that are asked for, of what there is for each by its place."""
        return tuple([arguments[i] for i in self.places]) if self.is_tuple else arguments[self.places[0]]


def of_arguments(
    f: Any,
    operation: Any,
    options: Any,
    argnums: Any,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
    check: Callable[[list[Any]], None] = lambda arguments: None,
    times: int = 1,
) -> Callable[..., Any]:
    """The function of f's arguments that applies an operation to f as a closure: operation((options, `Asked`), f, x).

    `check` sees the arguments that are asked for.  The operation derives so many `times`.
    """
    argnums = _positions(argnums)

    def on(g: Any, arguments: tuple[Any, ...], by_position: int) -> Located:
        asked = asked_arguments(argnums, arguments, by_position, allow_int)
        if holomorphic:
            _check_complex([arguments[i] for i in asked])
        h = setting_aside(g, arguments, asked) if has_aux else g
        with derived(times):
            closure, arguments, asked, found = closed_over_static(h, arguments, asked)
        if found is not None and found.f is not g:
            found = replace(found, f=g)
        if not isinstance(found, Found):  # which was traced on these arguments
            infer(Eval(), (closure, pack(arguments)))
        check([arguments[i] for i in asked])
        static = options, Asked(len(arguments), asked, isinstance(argnums, tuple))
        return static, closure, pack(arguments), found

    derivative = _dispatched(f, operation, on)
    return named(putting_back(f, derivative) if has_aux else derivative, f)


def _dispatched(f: Any, operation: Any, on: Callable[[Any, tuple[Any, ...], int], Located]) -> Callable[..., Any]:
    """The function of f's arguments that applies an operation to f as a closure, `on` these arguments.

    `on` is also told how many of them came by position; those by name, which have places too, are the rest.
    """
    calls = Dispatch(operation.runs)

    def of_arguments(*arguments: Any, **keywords: Any) -> Any:
        result = MISSED if keywords else calls.again(arguments)
        return called(arguments, keywords) if result is MISSED else result

    @deep
    @asking_in_rules
    def called(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        g, given = positional(f, arguments, keywords) if keywords else (f, arguments)
        static, closure, x, found = on(g, given, len(arguments))
        result = operation(static, closure, x)
        calls.note(arguments, static, closure, x, None if keywords else found, result)
        return result

    return of_arguments


def named(derivative: Callable[..., Any], f: Any) -> Callable[..., Any]:
    """The derivative with the name, signature and docstring of f, if f has them."""
    return (
        update_wrapper(derivative, f, updated=()) if callable(f) and not isinstance(f, Closure | Term) else derivative
    )


def asked_arguments(
    argnums: int | Sequence[int], arguments: tuple[Any, ...], by_position: int, allow_int: bool = False
) -> tuple[int, ...]:
    """The places, from 0, of the arguments that `argnums` names; raises for what is not there, or discrete.

    Below 0 it counts back from the last one that came by position, as in JAX.
    """
    numbers: tuple[Any, ...] = tuple(argnums) if isinstance(argnums, tuple | list) else (argnums,)
    if False in [type(i) is int or isinstance(i, int) for i in numbers]:
        raise ArgumentError(
            "argnums is not an int, or a tuple of ints",
            expected="positions of arguments",
            got=repr(argnums),
            hint="arguments are named by their places, which count from 0",
        )
    places: list[int] = []
    for number in numbers:
        if not -by_position <= number < len(arguments):
            raise ArityError(
                "argnums names an argument that is not there",
                expected=f"from {-by_position} on, and below {len(arguments)}",
                got=str(number),
                hint="argnums counts the arguments from 0, keywords in the places that they have in the signature; "
                "below 0, from the last one by position",
            )
        places.append(i := number + by_position if number < 0 else number)
        if type(arguments[i]) is float or (isinstance(arguments[i], jax.Array) and not is_discrete(arguments[i])):
            continue  # as it is told soonest
        no_types(arguments[i])
        leaves = jax.tree.leaves(arguments[i], is_leaf=is_function_value)
        real = [callable(leaf) or not is_discrete(type_of(leaf)) for leaf in leaves]
        if real and True not in real and not allow_int:
            raise NotDifferentiableError(
                f"the gradient by argument {number} is asked for, and it is discrete",
                expected="an argument with floating-point numbers or functions in it",
                got=argument_type(arguments[i]),
                hint="pass a float, such as 2.0 for 2, name another argument by argnums, or set allow_int for zeros",
            )
    return tuple(places)


def _positions(argnums: Any) -> Any:
    """The positions as ints, and tuples of ints, of whatever counts as an index, in any kind of sequence."""
    if isinstance(argnums, str | bytes):
        return argnums
    if isinstance(argnums, Sequence):
        return tuple(map(_positions, argnums))
    try:
        return operator.index(argnums) + 0
    except TypeError:
        return argnums


def _check_complex(arguments: list[Any]) -> None:
    """Raises `NotDifferentiableError` for arguments of a holomorphic function that are not complex."""
    for leaf in jax.tree.leaves(arguments, is_leaf=is_closure):
        type = argument_type(leaf)
        if not isinstance(type, Tensor) or not jnp.issubdtype(type.dtype, np.complexfloating):
            raise NotDifferentiableError(
                "the derivative of a holomorphic function is asked for by what is not complex",
                expected="arguments of a complex dtype",
                got=type_of(leaf) if isinstance(type, Tensor) else "a function",
                hint="pass 2.0 + 0.0j for 2.0, or leave holomorphic out",
            )
