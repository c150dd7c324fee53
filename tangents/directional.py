"""`jvp` and `hvp`: derivatives along a direction, over Python functions, arrows, terms and closures."""

from __future__ import annotations

from typing import Any

from combinators.context import extend
from combinators.errors import ArityError
from combinators.infer import infer
from combinators.terms import Eval
from combinators.types import pack
from combinators.values import Closure
from compile_ccc.arrow import closure_of
from compile_ccc.recording import compiled
from tangents.derivatives import grad
from tangents.duals import Tangents, dense, dual, primal, tangents_from_public
from tangents.forward import forward


def jvp(f: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """(f's value at the primals, its derivative there along the tangents), like `jax.jvp`: forward mode, one pass.

    Each tangent has the structure, shapes and dtypes of its primal; that of a function is a `Closure` over the tangents
    of what it captured, and that of an integer is 0 or `float0`, whichever is at hand.  The derivative has the
    structure, shapes and dtypes of the value, with zeros of their own dtype at discrete leaves.

    Raises `ArgumentError` for tangents that do not fit, `NotDifferentiableError` for a primitive without a derivative.
    (Paper 002, figures 3 and 4.)
    """
    _check_lengths("jvp", primals, tangents)
    x = pack(tuple(primals))
    return _value_and_tangent((), closure_of(f, tuple(primals)), x, tangents_from_public(pack(tuple(tangents)), x))


def hvp(f: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The Hessian of f at the primals, applied to the tangents: the derivative of the gradient along them.

    f gives a real scalar.  The result is of one primal's type, or for several primals a tuple with one for each.  It
    costs a small multiple of f, whatever the size of the Hessian: forward mode over reverse mode.

    Raises what `grad` and `jvp` raise.
    """
    _check_lengths("hvp", primals, tangents)
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(f, argnums), primals, tangents)[1]


@compiled
def _value_and_tangent(_: Any, f: Closure, x: Any, tangents: Tangents) -> tuple[Any, Any]:
    infer(Eval(), (f, x))
    y = forward(f.code.body, extend(f.environment, dual(x, tangents)))
    return primal(y), dense(y)


def _check_lengths(name: str, primals: Any, tangents: Any) -> None:
    if not (isinstance(primals, tuple | list) and isinstance(tangents, tuple | list) and len(primals) == len(tangents)):
        raise ArityError(
            f"{name} takes a tuple of primals, and as many tangents",
            expected=f"{name}(f, (x, ...), (dx, ...))",
            got=f"{primals!r} and {tangents!r}",
            hint="a single argument needs a comma: (x,)",
        )
