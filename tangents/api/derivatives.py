"""The derivative functions, with JAX's signatures, over Python functions, arrows, terms and closures.

Each is one compiled call of the closure that the function is: its captured values and the arguments go in, value and
cotangents come out, so an equal function made anew compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from combinators.context import extend
from combinators.depth import deep
from combinators.edges import flags
from combinators.errors import NotDifferentiableError, UnsupportedError
from combinators.meaning.infer import infer
from combinators.terms import Eval
from combinators.types import Tensor, no_types, pack, type_of
from combinators.values import Closure
from compile_ccc.arrow import closure_of
from compile_ccc.asking.ruled_calls import asking_in_rules
from compile_ccc.carriers import in_lambda
from compile_ccc.tracing.function import seal
from tangents.api.auxiliary import aside, check_pair
from tangents.api.calling import Asked, of_arguments
from tangents.api.pullbacks import Pullback, pullback_of
from tangents.cotangents.sparse import ZERO, Sparse, release, split
from tangents.operators import differential
from tangents.represent import rep
from tangents.spaces.environment import ENVIRONMENT
from tangents.spaces.functions import check_environments, is_unknown
from tangents.spaces.public import space_named
from tangents.spaces.space import Space


def value_and_grad(
    fun: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    functions: str = "environment",
) -> Callable[..., tuple[Any, Any]]:
    """A function like f that gives (f's value, its gradient), with the signature of `jax.value_and_grad`.

    f gives a scalar of a real dtype; with `has_aux`, a pair (scalar, aux), and the value is that pair.  `argnums`
    says by which positional arguments to differentiate: an int, or a tuple, then the gradient is a tuple.  A gradient
    has the structure, shapes and dtypes of its argument, with zeros at integers; of a function argument it is a
    `Closure` over the gradients of what it captured, or with functions="list" the `Calls` of it.  An argument without
    any real number is refused, unless `allow_int` is set: then its gradient is zeros of its own dtypes.  With
    `holomorphic`, arguments and result are complex, and the gradient is the complex derivative.

    Raises `NotDifferentiableError` for a discrete argument or a result that is no such scalar, and what `ccc` raises.
    (Paper 003, figures 2, 3 and 5.)
    """
    return _gradient(fun, argnums, has_aux, functions, allow_int, holomorphic)


def grad(
    fun: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    functions: str = "environment",
) -> Callable[..., Any]:
    """A function like f that gives its gradient, with the signature of `jax.grad`; with `has_aux`, (gradient, aux).

    See `value_and_grad`.
    """
    return _gradient(fun, argnums, has_aux, functions, allow_int, holomorphic, alone=True)


def _gradient(
    f: Any, argnums: Any, has_aux: bool, functions: str, allow_int: bool, holomorphic: bool, alone: bool = False
) -> Any:
    space = space_named(functions)
    flags(has_aux=has_aux, allow_int=allow_int, holomorphic=holomorphic)
    options = _Options(has_aux, space, alone, holomorphic)
    return of_arguments(f, _value_and_gradients, options, argnums, has_aux, allow_int, holomorphic)


@deep
def vjp(fun: Any, *primals: Any, has_aux: bool = False, functions: str = "environment") -> tuple[Any, ...]:
    """(f's value at the primals, its pullback there), like `jax.vjp`; with `has_aux`, (value, pullback, aux).

    The pullback takes a cotangent with the structure, shapes and dtypes of the value, and gives a tuple of one
    cotangent for each primal.  It is a value: pure, compiled once, applied many times; a pytree that leaves `jax.jit`.

    Raises `ArgumentError` for a cotangent that does not fit, and what `value_and_grad` raises for a program.
    (Paper 003, figure 2: vjp.)
    """
    flags(has_aux=has_aux)
    no_types(primals)
    with aside(fun, primals, has_aux) as (f, back):
        return back(_vjp(f, primals, has_aux, functions))


@asking_in_rules
def _vjp(f: Any, primals: tuple[Any, ...], has_aux: bool, functions: str) -> tuple[Any, ...]:
    unknown = any(map(is_unknown, jax.tree.leaves(primals, is_leaf=is_unknown)))
    space = space_named(functions)
    asked = (space, has_aux, unknown)
    y, pullback, aux = _value_and_pullback(asked, closure_of(f, primals), primals)
    if not (unknown or space.lists):
        pullback = pullback.onto(primals)  # whose functions have names
    pullback = pullback.lifted() if in_lambda() else pullback
    return (y, pullback, aux) if has_aux else (y, pullback)


class _Options(NamedTuple):
    has_aux: bool = False
    space: Space = ENVIRONMENT
    alone: bool = False  # without the value
    holomorphic: bool = False


@differential
def _value_and_gradients(static: tuple[_Options, Asked], f: Closure, x: Any) -> Any:
    options, asked = static
    space, arguments = options.space, asked.arguments(x)
    check_environments(asked.of(arguments), space)
    marked = [(space.hold_discrete if i in asked.places else space.hold)(a) for i, a in enumerate(arguments)]
    environment = space.hold(f.environment)
    y, pullback = rep(space, f.code.body, extend(environment, pack(tuple(marked))))
    result = release(y)
    if options.has_aux:
        check_pair(result)
    value, part = (result[0], "first component") if options.has_aux else (result, "result")
    seed = _scalar(value, part, options.holomorphic).dtype.type(1)
    _, g = split(pullback(Sparse({0: seed}) if options.has_aux else seed), environment)
    by_argument = [g] if asked.arity == 1 else [ZERO if g is ZERO else g.part(i) for i in range(asked.arity)]
    gradients = asked.of({i: space.alike(by_argument[i], marked[i]) for i in asked.places})
    return (result, gradients) if not options.alone else (gradients, result[1]) if options.has_aux else gradients


def gradient(f: Closure, x: Any) -> Any:
    """The gradient of a closure by its whole argument x, in the environment space; inside a trace a part of that."""
    infer(Eval(), (f, x))
    return _value_and_gradients((_Options(alone=True), Asked(1, (0,), False)), f, x)


@differential
def _value_and_pullback(
    asked: tuple[Space, bool, bool], f: Closure, primals: tuple[Any, ...]
) -> tuple[Any, Pullback, Any]:
    space, has_aux, as_they_are = asked
    infer(Eval(), (f, pack(primals)))
    check_environments(primals, space)
    marked = space.activate(primals)
    environment = space.hold(f.environment)
    y, pullback = rep(space, f.code.body, extend(environment, pack(marked)))
    aux = None
    if has_aux:
        check_pair(release(y))
        y, aux = y
    primal = type_of(release(y))
    types = space.activate(primal)
    _no_listed_function(types, space)
    forms: list[Any] = []

    def linear(cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        numbered = zip(space.filled(ZERO, types), cotangents, strict=True)
        held = space.marks(y)
        g = space.placed({i: c for i, c in numbered if not held[i]}, y)
        _, g_primals = split(pullback(Sparse({0: g}) if has_aux and g is not ZERO else g), environment)
        wrapped = Sparse({0: g_primals}) if len(primals) == 1 and g_primals is not ZERO else g_primals
        whole = (space.dense if as_they_are else space.alike)(wrapped, marked)
        leaves, form = jax.tree.flatten(whole)
        forms.append(None if as_they_are else form)
        return whole if as_they_are else tuple(leaves)

    domain = tuple(Tensor(s.shape, s.dtype) for s in space.structs(types).values())
    closure = seal(linear, domain)
    return release(y), pullback_of(closure, primal, forms[0], space), release(aux)


def _scalar(value: Any, part: str, holomorphic: bool) -> Tensor:
    """The type of what is differentiated.  Raises `NotDifferentiableError` if it is no scalar of that kind."""
    type, kind = type_of(value), np.complexfloating if holomorphic else np.floating
    if not isinstance(type, Tensor) or type.shape or not jnp.issubdtype(type.dtype, kind):
        raise NotDifferentiableError(
            f"the gradient is asked of a function whose {part} is no {'complex' if holomorphic else 'real'} scalar",
            expected=f"a scalar of a {'complex' if holomorphic else 'floating-point'} dtype",
            got="None, as of a function that returns nothing" if value is None else type,
            hint=_towards_a_scalar(value, type),
        )
    return type


def _towards_a_scalar(value: Any, type: Any) -> str:
    if value is None:
        return "return the value whose gradient is asked for"
    if isinstance(type, Tensor) and jnp.issubdtype(type.dtype, np.complexfloating):
        return "of a complex result, take the absolute value or a part, or set holomorphic; vjp takes any cotangent"
    if isinstance(type, Tensor) and not type.shape:
        return "a whole number or a truth value does not vary: return the number of a floating-point dtype behind it"
    return "sum it up, or use vjp, whose pullback takes a cotangent of any shape"


def _no_listed_function(types: Any, space: Space) -> None:
    if space.has_functions(types):
        raise UnsupportedError(
            "the list cotangent of a function has no fixed size, so a pullback over it cannot be compiled ahead",
            expected="a result without functions",
            got="a function in the result",
            hint='use functions="environment", or represent(term, functions="list")',
        )
