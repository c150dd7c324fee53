"""`jvp`, `hvp` and `grad_and_hvp`: derivatives along a direction, over Python functions, arrows, terms and closures."""

from __future__ import annotations

from typing import Any

import jax

from combinators.context import extend
from combinators.depth import deep
from combinators.edges import flags
from combinators.errors import ArityError
from combinators.meaning.infer import infer
from combinators.terms import Eval
from combinators.text.outline import outline
from combinators.types import no_types, pack
from combinators.values import Closure
from compile_ccc.arrow import closure_of
from compile_ccc.asking.ruled_calls import asking_in_rules
from compile_ccc.asking.tracers import derived
from compile_ccc.operators import on_leaves
from tangents.api.auxiliary import aside, check_pair
from tangents.api.derivatives import gradient
from tangents.duals import Tangents, dense, dual, primal, tangents_from_public
from tangents.forward.forward import forward
from tangents.operators import differential
from tangents.spaces.functions import is_unknown, require_known


@deep
@asking_in_rules
def jvp(fun: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], has_aux: bool = False) -> tuple[Any, ...]:
    """(f's value at the primals, its derivative there along the tangents), like `jax.jvp`: forward mode, one pass.

    With `has_aux`, f gives a pair (value, aux), and the result is (value, derivative, aux).

    Each tangent has the structure, shapes and dtypes of its primal; that of a function is a `Closure` over the tangents
    of what it captured, and that of an integer is zero: 0, None or `float0`, whichever is at hand.  The derivative has
    the structure, shapes and dtypes of the value, with zeros of their own dtype at discrete leaves.

    Raises `ArgumentError` for tangents that do not fit, `NotDifferentiableError` for a primitive without a derivative.
    (Paper 002, figures 3 and 4.)
    """
    _check("jvp", primals, tangents)
    flags(has_aux=has_aux)
    arguments, x = tuple(primals), pack(tuple(primals))
    t = tangents_from_public(pack(tuple(tangents)), x)
    with aside(fun, arguments, has_aux) as (f, back):
        return back(_value_and_tangent(has_aux, closure_of(f, arguments), x, t))


@deep
@asking_in_rules
def hvp(f: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The Hessian of f at the primals, applied to the tangents: the derivative of the gradient along them.

    f gives a real scalar.  The result is of one primal's type, or for several primals a tuple with one for each.  It
    costs a small multiple of f, whatever the size of the Hessian: forward mode over reverse mode.

    Raises what `grad` and `jvp` raise.
    """
    return _along("hvp", f, primals, tangents)[1]


@deep
@asking_in_rules
def grad_and_hvp(f: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """(f's gradient at the primals, its derivative along the tangents), in one pass: see `hvp`."""
    return _along("grad_and_hvp", f, primals, tangents)


def _along(name: str, f: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    _check(name, primals, tangents)
    x = pack(tuple(primals))
    t = tangents_from_public(pack(tuple(tangents)), x)
    with derived(2):
        closure = closure_of(f, tuple(primals))
    return _gradient_and_tangent(name == "grad_and_hvp", closure, x, t)


@differential
def _value_and_tangent(has_aux: bool, f: Closure, x: Any, tangents: Tangents) -> tuple[Any, ...]:
    infer(Eval(), (f, x))
    y = forward(f.code.body, extend(f.environment, dual(x, tangents)))
    if not has_aux:
        return primal(y), dense(y)
    check_pair(primal(y))
    return primal(y[0]), dense(y[0]), primal(y[1])


@differential
def _gradient_and_tangent(with_gradient: bool, f: Closure, x: Any, tangents: Tangents) -> tuple[Any, Any]:
    derivative, leaves, form = on_leaves(lambda x: gradient(f, x), x)
    g = forward(derivative.code.body, extend(derivative.environment, dual(leaves, tangents)))
    return form.unflatten(primal(g)) if with_gradient else None, form.unflatten(dense(g))


def _check(name: str, primals: Any, tangents: Any) -> None:
    if not (isinstance(primals, tuple | list) and isinstance(tangents, tuple | list) and len(primals) == len(tangents)):
        raise ArityError(
            f"{name} takes a tuple of primals, and as many tangents",
            expected=f"{name}(f, (x, ...), (dx, ...))",
            got=f"{outline(primals)} and {outline(tangents)}",
            hint="a single argument needs a comma: (x,)",
        )
    no_types(primals)
    require_known(jax.tree.leaves(primals, is_leaf=is_unknown))
