"""The code of a function value in a representation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax

from combinators.errors import EvalError, NotDifferentiableError, UnsupportedError
from combinators.types import Opaque
from combinators.values import Closure, is_closure
from compile_ccc.black_box import is_black_box
from tangents.cotangents.sparse import Held
from tangents.spaces.space import Space


def code_of(f: Any) -> Closure:
    """The closure that a primal function is.  Raises `UnsupportedError` if only its type is known, or `EvalError`."""
    match f:
        case Closure():
            return f
        case Held(value):
            return code_of(value)
        case Opaque():
            raise UnsupportedError(
                "a derivative inside a traced lambda meets a function that is not known yet",
                expected="a function whose code is known",
                got=f"a function argument of type {f.type}",
                hint="differentiate the whole program from outside: tangents.grad(lambda f, x: ...)(f, x)",
            )
        case _:
            raise EvalError("eval finds no function to apply", expected="a function value", got=f)


is_unknown = Opaque.__instancecheck__  # a function of which only the type is known; in C, as for `is_closure`


def require_known(leaves: Iterable[Any]) -> None:
    """Raises `UnsupportedError` for a function among these of which only the type is known: so is what it captured."""
    for f in filter(is_unknown, leaves):
        code_of(f)


def check_environments(x: Any, space: Space) -> None:
    """Refuses values of which the cotangent is asked for whose tangent space is not known: environments of black boxes.

    Raises `NotDifferentiableError`.  A black box that a function captured is no part of what is asked for.
    """
    functions = jax.tree.leaves(x, is_leaf=is_closure)
    if True in [is_black_box(f) and not space.is_leaf(f) for f in functions]:
        raise NotDifferentiableError(
            "the cotangent of the environment of a black box is asked for, and nobody looks inside",
            expected="a function whose code is known",
            got="a function of black_box",
            hint='its calls are its gradient: functions="list"',
        )
