"""The edge: what users hand in, held against what it has to be; one check for each kind of thing."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from combinators.errors import ArgumentError, ArityError


def whole(name: str, number: Any, least: int, most: int | None = None) -> int:
    """The int that a whole number from `least` on is; truth values and floats are none.  Raises `ArgumentError`."""
    is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if is_whole and least <= number and (most is None or number <= most):
        return int(number)
    nearest = most if is_whole and number > least else least
    raise ArgumentError(
        f"{name} is no number that it can be",
        expected=f"a whole number from {least} {'on' if most is None else f'to {most}'}",
        got=f"{number!r} of type {type(number).__name__}",
        hint=f"{nearest} is the nearest that there is"
        if is_whole
        else "numbers of things are ints of Python, which tracing does not change",
    )


def real(name: str, number: Any, zero: bool = False) -> float:
    """The float that a finite number above 0 is, or from 0 on; truth values and arrays are none.

    Raises `ArgumentError`.
    """
    is_real = isinstance(number, int | float | np.integer | np.floating) and not isinstance(number, bool)
    if is_real and (0 < number < math.inf or (zero and number == 0)):
        return float(number)
    raise ArgumentError(
        f"{name} is no number that it can be",
        expected=f"a finite number of Python {'from 0 on' if zero else 'above 0'}",
        got=f"{number!r} of type {type(number).__name__}",
        hint="it is part of the program, so no array, and no traced number, can stand for it",
    )


def flags(**settings: Any) -> None:
    """Raises `ArgumentError` for settings, given by their names, that are not True or False."""
    for name, setting in settings.items():
        if type(setting) is not bool:
            one_of(name, setting, (False, True), "it is a truth value of Python")


def one_of(name: str, value: Any, choices: Iterable[Any], hint: str) -> None:
    """Raises `ArgumentError` for a setting that is none of those that there are, by type and value."""
    choices = list(choices)
    if (type(value), value) not in [(type(choice), choice) for choice in choices]:
        raise ArgumentError(
            f"there is no such setting of {name}",
            expected=" or ".join(map(repr, choices)),
            got=repr(value),
            hint=hint,
        )


def no_keywords(f: object, keywords: Mapping[str, Any]) -> None:
    """Raises `ArityError` for arguments by name, where a function knows its arguments by their places."""
    if keywords:
        raise ArityError(
            "a function is called with arguments by name",
            part=f,
            expected="arguments by position",
            got=", ".join(keywords),
            hint="functions that are values, and terms, have no names for their arguments: write f(x)",
        )


def check_function(f: Any, expected: str = "a Python function, an arrow, a term or a closure") -> None:
    """Raises `ArgumentError` for what cannot be called."""
    if not callable(f):
        raise ArgumentError("this is no function", expected=expected, got=repr(f), hint="write lambda x: ...")


def place(key: Any) -> int:
    """The int that a place in a context is.  Raises `ArgumentError` for what is none."""
    try:
        return operator.index(key)
    except TypeError:
        raise ArgumentError(
            "this is no place in a context",
            expected="an int",
            got=f"{key!r} of type {type(key).__name__}",
            hint="places count from 0, and from the end below it",
        ) from None


def check_loop(reverse: Any, length: Any, name: str = "the length of a loop", least: int = 0, unroll: Any = 1) -> None:
    """Raises `ArgumentError` for what says neither from which end, nor how often a loop runs, nor how many are one."""
    one_of("`reverse`, of a loop,", reverse, (False, True), "a loop runs from the first element on, or from the last")
    whole("`unroll`, of a loop,", unroll, 0)
    if length is not None:
        whole(name, length, least)


def check_key(key: Any) -> None:
    """Raises `ArgumentError` for what names no component of a product."""
    try:
        hash(key)
    except TypeError:
        raise ArgumentError(
            "proj names no component",
            expected="a position, or a name",
            got=f"{key!r} of type {type(key).__name__}",
            hint="proj(0) is the first component of a tuple, proj('w') that of a dict by this key",
        ) from None


def check_name(name: Any) -> None:
    """Raises `ArgumentError` for what names no call."""
    if not isinstance(name, str) or not name:
        raise ArgumentError("a call has no name", expected="a name, such as 'loss'", got=repr(name))


def check_policy(policy: Any, line: Callable[[], str] | None = None) -> None:
    """Raises `ArgumentError` for what is no policy of a checkpoint; at this line, if it is not the running one."""
    if not (policy is None or _takes_any_keyword(policy)):
        raise ArgumentError(
            "this is no policy of a checkpoint",
            expected="a function of (operation, *types, **parameters), as in jax.checkpoint_policies, or None",
            got=f"{policy!r} of type {type(policy).__name__}",
            line=line() if line else None,
            hint="it is asked, for each operation, whether what that gives is kept for the way back",
        )


def _takes_any_keyword(f: Any) -> bool:
    """Whether f is a function that takes any arguments by name, as far as its signature is known."""
    if not callable(f):
        return False
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # of functions in C
        return False
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
