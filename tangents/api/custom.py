"""`custom`: a derivative of one's own, for functions of functions too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero

from combinators.context import Context
from combinators.edges import no_keywords
from combinators.errors import ArgumentError, ArityError
from combinators.meaning.evaluate import evaluate
from combinators.memo import Facts
from combinators.origins import numbered, restored
from combinators.records import as_records, from_records
from combinators.terms import Call
from combinators.types import is_discrete, pack, require_values, same_type, type_of
from compile_ccc.arrow import ccc
from compile_ccc.carriers import active_traces
from compile_ccc.tracing.arguments import argument_type, binds, bound
from compile_ccc.tracing.function import abstraction
from tangents.control.ruled import Rule, asking
from tangents.cotangents.leaves import zero_leaf
from tangents.represent import by_environment
from tangents.spaces.environment import ENVIRONMENT


def custom(
    f: Callable[..., Any],
    pullback: Callable[..., Any],
    result: Callable[..., Any] | None = None,
    apart: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """The function f with a derivative of one's own, also where its arguments are functions.

    `pullback(primals, result, cotangent)` gets the tuple of the arguments, what f gave, and a cotangent of the
    structure, shapes and dtypes of that.  It gives one cotangent for each argument, of the argument's structure, where
    a function stands as the list of its calls: pairs (argument, cotangent of its result), or `Calls` for many of them
    at once.  What the function captured gets its cotangent from these calls, in both tangent spaces; in the environment
    space, it may also be stated itself, as a closure over cotangents.  None is a zero: of an argument, or of an array
    in it or in the cotangent of a call, by which nothing is multiplied then.  If it takes `wanted`, it gets by that
    name for each argument whether a derivative is asked for; and as `arrived` for each array of the result, in the
    order of `jax.tree.leaves`, whether its cotangent is no such zero, which is written out in the cotangent.

    f is called like any Python function, inside traced lambdas and outside; function arguments are function values.
    Where the pullback is made of functions that we can differentiate, so is the derivative.  What f captures itself
    has no cotangent: `NotDifferentiableError` says so when one is asked for.

    With `result(*arguments)`, any value of the type that f gives, f is not translated: it is called when its function
    arguments are known closures, so it may use `lax.while_loop` over their calls, and their derivatives.

    Forward mode transposes the pullback, for all cotangents at once; with `apart(primals, result)`, which gives groups
    of the numbers of arrays of the result, for those of one group after the other.

    Raises `ArityError` for a pullback that takes other arguments, and `ArityError` or `ArgumentError` if what it gives
    does not fit those of f.
    """
    if not (callable(f) and callable(pullback) and all(g is None or callable(g) for g in (result, apart))):
        raise ArgumentError(
            "a derivative of one's own is given to a function, and is one",
            expected="functions: custom(f, pullback), or custom(f, pullback, result)",
            got=(f, pullback, result),
            hint="custom(lambda f, x: f(x), lambda primals, y, g: ([(primals[1], g)], None))",
        )
    if not binds(asking(pullback, {"wanted": (), "arrived": ()}), 3):
        raise ArityError(
            "a pullback takes the arguments, what the function gave, and its cotangent",
            expected="pullback(primals, result, cotangent)",
            got=f"{getattr(pullback, '__name__', pullback)}{inspect.signature(pullback)}",
            hint="it may take `wanted` and `arrived` too, by name",
        )

    @wraps(f, updated=())
    def call(*arguments: Any, **keywords: Any) -> Any:
        if keywords:
            arguments, named = bound(f, arguments, keywords)
            no_keywords(f, named)
        if not active_traces.get():
            return ccc(call)(*arguments)
        arity = len(arguments)
        known = None if result is None else f
        rule = lambda: Custom(pullback, arity, known, apart)  # a function, since functions are code by what they hold
        rule.__name__ = getattr(f, "__name__", "custom")
        return abstraction(result or f, argument_type(pack(arguments)), arity, rule)(*arguments)

    return call


class Custom(Rule):
    """The rule of a function by `custom`: JAX, too, differentiates the call by it."""

    def value(self, call: Call, x: Context) -> Any:
        """The value of the call, which JAX differentiates by this rule too."""
        x, given = numbered(x, named=False)
        leaves, form = jax.tree.flatten(x)
        f = _of_jax.get(call, form) or _of_jax.put(call, _with_rule(self, call, form), form)
        return restored(f(*leaves), given)

    def plain(self, call: Call, x: Context) -> Any:
        """The value of the call, as an operation on arrays that is not yet one for JAX."""
        y = evaluate(call.body, x)
        if self.known is None:
            return y
        arguments = from_records((x[-1],) if self.arity == 1 else x[-1])
        result = as_records(self.known(*arguments))
        require_values(result)
        if not same_type(type_of(result), type_of(y)):
            expected, got = type_of(y), type_of(result)
            raise ArgumentError("a custom function gives another type than it says", expected=expected, got=got)
        return result


@dataclass(frozen=True)
class _Asked:
    """Which leaves a derivative is asked for: no array, so it crosses JAX's rule as a part of the structure."""

    leaves: tuple[bool, ...]


jax.tree_util.register_static(_Asked)


_of_jax: Facts[Callable[..., Any]] = Facts("functions with pullbacks of one's own, for JAX", entries=64)


def _with_rule(rule: Custom, call: Call, form: Any) -> Callable[..., Any]:
    """The function on the leaves of Δ·τ, as one that JAX differentiates by our rule, and that we read back as one."""

    def of_leaves(*leaves: Any) -> Any:
        return rule.plain(call, form.unflatten(leaves))

    def forward(*leaves: Any) -> Any:
        values = [leaf.value for leaf in leaves]
        y = f(*values)
        return y, (values, y, _Asked(tuple(leaf.perturbed for leaf in leaves)))

    def backward(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        values, y, asked = residuals
        held = [not a or is_discrete(type_of(v)) for v, a in zip(values, asked.leaves, strict=True)]
        x = ENVIRONMENT.remark(form.unflatten(values), tuple(held))
        is_zero = lambda g: isinstance(g, SymbolicZero)
        g = jax.tree.map(lambda g, leaf: zero_leaf(leaf) if is_zero(g) else g, cotangents, y, is_leaf=is_zero)
        arrived = tuple(not is_zero(g) for g in jax.tree.leaves(cotangents, is_leaf=is_zero))
        found = ENVIRONMENT.present(rule.pull(by_environment, ENVIRONMENT, x, y, g, arrived), x)
        return tuple(map(found.get, range(len(values))))

    f = jax.custom_vjp(of_leaves)
    f.defvjp(forward, backward, symbolic_zeros=True)
    return f
