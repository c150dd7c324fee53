"""The derivative functions, with JAX's signatures, over Python functions, arrows, terms and closures.

Each is one compiled call of the closure that the function is: its captured values and the arguments go in, value and
cotangents come out, so an equal function made anew compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from combinators.context import extend
from combinators.depth import deep
from combinators.edges import one_of
from combinators.errors import ArgumentError, ArityError, NeedsValueError, NotDifferentiableError, UnsupportedError
from combinators.infer import infer
from combinators.terms import Eval, Term
from combinators.types import Tensor, is_discrete, no_types, pack, type_of
from combinators.values import Closure
from compile_ccc.arguments import argument_type, is_function_value
from compile_ccc.arrow import closure_of, positional
from compile_ccc.carriers import in_lambda
from compile_ccc.tracing import seal
from tangents.functions import check_environments, is_unknown
from tangents.leaves import alike, dense, filled, placed, structs
from tangents.operators import differential
from tangents.pullbacks import Pullback, pullback_of
from tangents.represent import rep, space_named
from tangents.space import Space
from tangents.sparse import ZERO, Sparse, activate, hold, marks, release, split


def value_and_grad(
    f: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    functions: str = "environment",
    allow_int: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """A function like f that gives (f's value, its gradient), with the signature of `jax.value_and_grad`.

    f gives a scalar of a real dtype; with `has_aux`, a pair (scalar, aux), and the value is that pair.  `argnums`
    says by which positional arguments to differentiate: an int, or a tuple, then the gradient is a tuple.  A gradient
    has the structure, shapes and dtypes of its argument, with zeros at integers; of a function argument it is a
    `Closure` over the gradients of what it captured, or with functions="list" the `Calls` of it.  An argument without
    any real number is refused, unless `allow_int` is set: then its gradient is zeros of its own dtypes.

    Raises `NotDifferentiableError` for a discrete argument or a result that is no real scalar, and what `ccc` raises.
    (Paper 003, figures 2, 3 and 5.)
    """
    space_named(functions)
    _check_flags(has_aux=has_aux, allow_int=allow_int)

    @deep
    def of_arguments(*arguments: Any, **keywords: Any) -> tuple[Any, Any]:
        g, arguments = positional(f, arguments, keywords)
        asked = asked_arguments(argnums, arguments, allow_int)
        closure, arguments, asked = closed_over_known(g, arguments, asked)
        spec = _Spec(len(arguments), asked, has_aux, functions)
        value, gradients = _value_and_gradients(spec, closure, pack(arguments))
        return value, gradients[0] if is_one(argnums) else gradients

    return named(of_arguments, f)


def grad(
    f: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    functions: str = "environment",
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function like f that gives its gradient, with the signature of `jax.grad`; with `has_aux`, (gradient, aux).

    See `value_and_grad`.
    """
    both = value_and_grad(f, argnums, has_aux, functions, allow_int)

    def of_arguments(*arguments: Any, **keywords: Any) -> Any:
        value, gradient = both(*arguments, **keywords)
        return (gradient, value[1]) if has_aux else gradient

    return named(of_arguments, f)


@deep
def vjp(f: Any, *primals: Any, has_aux: bool = False, functions: str = "environment") -> tuple[Any, ...]:
    """(f's value at the primals, its pullback there), like `jax.vjp`; with `has_aux`, (value, pullback, aux).

    The pullback takes a cotangent with the structure, shapes and dtypes of the value, and gives a tuple of one
    cotangent for each primal.  It is a value: pure, compiled once, applied many times; a pytree that leaves `jax.jit`.

    Raises `ArgumentError` for a cotangent that does not fit, and what `value_and_grad` raises for a program.
    (Paper 003, figure 2: vjp.)
    """
    _check_flags(has_aux=has_aux)
    no_types(primals)
    unknown = any(map(is_unknown, jax.tree.leaves(primals, is_leaf=is_unknown)))
    asked = (space_named(functions), has_aux, unknown)
    y, pullback, aux = _value_and_pullback(asked, closure_of(f, primals), primals)
    pullback = pullback.lifted() if in_lambda() else pullback
    return (y, pullback, aux) if has_aux else (y, pullback)


@dataclass(frozen=True)
class _Spec:
    arity: int
    asked: tuple[int, ...]
    has_aux: bool
    functions: str


@differential
def _value_and_gradients(spec: _Spec, f: Closure, x: Any) -> tuple[Any, tuple[Any, ...]]:
    infer(Eval(), (f, x))
    space = space_named(spec.functions)
    arguments = [x] if spec.arity == 1 else list(x)
    check_environments([arguments[i] for i in spec.asked], space)
    marked = [
        activate(a, space.is_leaf) if i in spec.asked else hold(a, space.is_leaf) for i, a in enumerate(arguments)
    ]
    environment = hold(f.environment, space.is_leaf)
    y, pullback = rep(space, f.code.body, extend(environment, pack(tuple(marked))))
    result = release(y)
    if spec.has_aux:
        check_pair(result)
    value, part = (result[0], "first component") if spec.has_aux else (result, "result")
    _check_scalar(value, part)
    seed = type_of(value).dtype.type(1)
    _, g = split(pullback(Sparse({0: seed}) if spec.has_aux else seed), environment)
    by_argument = [g] if spec.arity == 1 else [ZERO if g is ZERO else g.part(i) for i in range(spec.arity)]
    return result, tuple(alike(by_argument[i], marked[i], space.is_leaf) for i in spec.asked)


def gradient(f: Closure, x: Any) -> Any:
    """The gradient of a closure by its whole argument x, in the environment space; inside a trace a part of that."""
    return _value_and_gradients(_Spec(1, (0,), False, "environment"), f, x)[1][0]


@differential
def _value_and_pullback(
    asked: tuple[Space, bool, bool], f: Closure, primals: tuple[Any, ...]
) -> tuple[Any, Pullback, Any]:
    space, has_aux, as_they_are = asked
    infer(Eval(), (f, pack(primals)))
    check_environments(primals, space)
    marked = activate(primals, space.is_leaf)
    environment = hold(f.environment, space.is_leaf)
    y, pullback = rep(space, f.code.body, extend(environment, pack(marked)))
    aux = None
    if has_aux:
        check_pair(release(y))
        y, aux = y
    primal = type_of(release(y))
    types = activate(primal, space.is_leaf)
    _no_listed_function(types, space)
    forms: list[Any] = []

    def linear(cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        numbered = zip(filled(ZERO, types, space.is_leaf), cotangents, strict=True)
        held = marks(y, space.is_leaf)
        g = placed({i: c for i, c in numbered if not held[i]}, y, space.is_leaf)
        _, g_primals = split(pullback(Sparse({0: g}) if has_aux and g is not ZERO else g), environment)
        wrapped = Sparse({0: g_primals}) if len(primals) == 1 and g_primals is not ZERO else g_primals
        whole = dense(wrapped, marked, space.is_leaf)
        leaves, form = jax.tree.flatten(whole)
        forms.append(None if as_they_are else form)
        return whole if as_they_are else tuple(leaves)

    domain = tuple(Tensor(s.shape, s.dtype) for s in structs(types, space.is_leaf).values())
    closure = seal(linear, domain)
    return release(y), pullback_of(closure, primal, forms[0], space), release(aux)


def named(derivative: Callable[..., Any], f: Any) -> Callable[..., Any]:
    """The derivative with the name, signature and docstring of f, if f has them."""
    return (
        update_wrapper(derivative, f, updated=()) if callable(f) and not isinstance(f, Closure | Term) else derivative
    )


def is_one(argnums: Any) -> bool:
    """Whether `argnums` names one argument, rather than being a tuple or list of them."""
    return not isinstance(argnums, tuple | list)


def _check_flags(**flags: Any) -> None:
    for name, flag in flags.items():
        one_of(name, flag, (False, True), "it is a truth value of Python")


def asked_arguments(
    argnums: int | Sequence[int], arguments: tuple[Any, ...], allow_int: bool = False
) -> tuple[int, ...]:
    """The places, from 0, of the arguments that `argnums` names; raises for what is not there, or discrete."""
    no_types(arguments)
    numbers: tuple[Any, ...] = tuple(argnums) if isinstance(argnums, tuple | list) else (argnums,)
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in numbers):
        raise ArgumentError(
            "argnums is not an int, or a tuple of ints",
            expected="positions of arguments",
            got=repr(argnums),
            hint="arguments are named by their places, which count from 0",
        )
    for i in numbers:
        if not -len(arguments) <= i < len(arguments):
            raise ArityError(
                "argnums names an argument that is not there",
                expected=f"below {len(arguments)}",
                got=str(i),
                hint="argnums counts the arguments from 0, keywords in the places that they have in the signature",
            )
        leaves = jax.tree.leaves(arguments[i], is_leaf=is_function_value)
        real = (callable(leaf) or not is_discrete(type_of(leaf)) for leaf in leaves)
        if not allow_int and not any(real):
            raise NotDifferentiableError(
                f"the gradient by argument {i} is asked for, and it is discrete",
                expected="an argument with floating-point numbers or functions in it",
                got=argument_type(arguments[i]),
                hint="pass a float, such as 2.0 for 2, name another argument by argnums, or set allow_int for zeros",
            )
    return tuple(i % len(arguments) for i in numbers)


def closed_over_known(
    f: Any, arguments: tuple[Any, ...], asked: tuple[int, ...]
) -> tuple[Closure, tuple[Any, ...], tuple[int, ...]]:
    """f as a closure, with its arguments and the places of those that are asked for.

    If f needs the value of an argument that is not asked for, the closure is one of the others, which captured these.
    """
    try:
        return closure_of(f, arguments), arguments, asked
    except NeedsValueError:
        others = {i: x for i, x in enumerate(arguments) if i not in asked}
        if not others:
            raise
        names = tuple(dict.fromkeys(asked))

        def of_asked(*some: Any) -> Any:
            whole = {**others, **dict(zip(names, some, strict=True))}
            return f(*(whole[i] for i in range(len(whole))))

        some = tuple(arguments[i] for i in names)
        return closure_of(of_asked, some), some, tuple(map(names.index, asked))


def check_pair(result: Any) -> None:
    """Raises `ArgumentError` for what is no pair of a value and an auxiliary result."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise ArgumentError(
            "has_aux is set, and the result is no pair",
            expected="(value, aux)",
            got=type_of(result),
            hint="give first what is differentiated, and all else as one pytree; or leave has_aux out",
        )


def _check_scalar(value: Any, part: str) -> None:
    type = type_of(value)
    if not isinstance(type, Tensor) or type.shape or not jnp.issubdtype(type.dtype, np.floating):
        raise NotDifferentiableError(
            f"the gradient is asked of a function whose {part} is no real scalar",
            expected="a scalar of a floating-point dtype",
            got=type,
            hint="sum it up, or use vjp, whose pullback takes a cotangent of any shape",
        )


def _no_listed_function(types: Any, space: Space) -> None:
    if any(map(space.is_leaf, jax.tree.leaves(types, is_leaf=space.is_leaf))):
        raise UnsupportedError(
            "the list cotangent of a function has no fixed size, so a pullback over it cannot be compiled ahead",
            expected="a result without functions",
            got="a function in the result",
            hint='use functions="environment", or represent(term, functions="list")',
        )
