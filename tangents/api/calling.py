"""Derivatives of Python functions as functions of the same arguments, with the options that `jax.grad` has."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.errors import NotDifferentiableError
from combinators.meaning.infer import infer
from combinators.terms import Eval
from combinators.types import Tensor, pack, type_of
from combinators.values import is_closure
from compile_ccc.arrow import closed_over_static
from compile_ccc.asking.tracers import derived
from compile_ccc.tracing.arguments import argument_type
from compile_ccc.tracing.function import Found
from tangents.api.asked import Located, asked_arguments, dispatched, is_one, named
from tangents.api.auxiliary import putting_back, setting_aside


def of_arguments(
    f: Any,
    operation: Any,
    spec: Callable[[int, tuple[int, ...], bool], Any],
    argnums: Any,
    has_aux: bool = False,
    allow_int: bool = False,
    holomorphic: bool = False,
    check: Callable[[list[Any]], None] = lambda arguments: None,
    times: int = 1,
) -> Callable[..., Any]:
    """The function of f's arguments that applies an operation to f as a closure.

    `spec` makes what is static of it: of the number of arguments, the places of those that are asked for, and whether
    these are a tuple.  `check` sees these arguments themselves.  The operation derives so many `times`.
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
        return spec(len(arguments), asked, not is_one(argnums)), closure, pack(arguments), found

    derivative = dispatched(f, operation, on)
    return named(putting_back(f, derivative) if has_aux else derivative, f)


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
