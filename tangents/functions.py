"""The code of a function value in a representation."""

from __future__ import annotations

from typing import Any

from combinators.errors import EvalError, UnsupportedError
from combinators.types import Opaque
from combinators.values import Closure
from tangents.sparse import Held


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
