"""Derivatives as arrows: `operator`, a term, of functions that are not known yet, and its representation.

The derivative of a program is a program: where the functions are known, its trace is read back as a term, which has
every reading that terms have.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, wraps
from typing import Any

import jax

from combinators.context import Context
from combinators.depth import deep
from combinators.errors import CapturedError, DiffcurryError, UnsupportedError
from combinators.meaning.evaluate import evaluate
from combinators.meaning.host import with_own_exceptions
from combinators.meaning.operators import opened
from combinators.origins import with_origins
from combinators.records import as_records, from_records
from combinators.terms import Operator, Term
from combinators.types import type_of
from combinators.values import Closure
from compile_ccc.carriers import Trace, in_lambda
from compile_ccc.jaxprs.recording import Compiled
from compile_ccc.operators import Instance
from compile_ccc.refusing.complaints import complaints
from compile_ccc.tracing.function import deferred
from tangents.cotangents.sparse import ZERO, Cotangent, Held, Sparse, nothing, release
from tangents.spaces.environment import ENVIRONMENT
from tangents.spaces.functions import is_unknown
from tangents.spaces.space import Representation, Represented, Space

_NO_TRACE = nullcontext()
_flatten = jax.tree_util.default_registry.flatten  # without a detour through Python


def differential(f: Callable[..., Any]) -> Any:
    """f(static, *arguments) as `Compiled` has it; inside a traced lambda, on functions not known yet, an operator."""
    direct = Compiled(f)

    @deep
    @wraps(f)
    def call(static: Any, *arguments: Any) -> Any:
        arguments = tuple([x if isinstance(x, Closure) else as_records(x) for x in arguments])
        if any(map(is_unknown, _flatten(arguments, is_unknown)[0])):
            return deferred(Operator(Instance(f.__name__.strip("_"), direct, static)), arguments)
        try:
            with complaints(), Trace(closed=True) if in_lambda() else _NO_TRACE:
                return from_records(with_own_exceptions(with_origins, partial(direct, static), *arguments))
        except jax.errors.UnexpectedTracerError as error:
            if isinstance(error, DiffcurryError):
                raise
            line = re.search(r"created on line (\S+:\d+)", str(error))
            raise CapturedError(
                "a rule of a derivative captured a value of a program that was being traced",
                expected="a rule that uses its arguments, and values of the program that no jax.vmap maps",
                got=f"a value made at {line[1]}" if line else "a value that was mapped, or an argument that was",
                hint="make it an argument of the function with the rule, one that is not among its nondiff_argnums; "
                "or state the pullback by custom(f, pullback)",
            ) from error

    call.runs = direct  # type: ignore[attr-defined]  # functions have attributes, of which their type says nothing
    return call


def operator(rep: Representation, space: Space, term: Operator, x: Any) -> Represented:
    """operator(g) x = f x, and so its pullback, for the arrow f between leaves that the operator is there"""
    if term.instance.constant:
        return space.hold(evaluate(term, release(x))), nothing
    if space.has_functions(x):
        raise UnsupportedError(
            "the list tangent of a function has no calls for what its derivative makes of it",
            part=term,
            expected='functions="environment"',
            got='functions="list"',
            hint="the cotangent of a function whose derivative is taken inside a program is one of its environment",
        )
    x = jax.tree.map(lambda v: ENVIRONMENT.hold(v.value) if isinstance(v, Held) else v, x)
    return between_leaves(rep, ENVIRONMENT, *opened(term, x, type_of(release(x))), x)


def between_leaves(rep: Representation, space: Space, f: Term, ctx: Context, form: Any, x: Any) -> Represented:
    """The arrow f from the leaves of x, which the context holds, to those of a value of this form, as one from x."""
    leaves, pb = rep(f, ctx)
    y = form.unflatten(leaves)

    def pullback(g: Cotangent) -> Cotangent:
        found = space.gather(g, y)
        g_leaves = pb(Sparse((i, c) for i, c in enumerate(found) if c is not ZERO)).part(0)
        return space.scatter((g_leaves.part(i) for i in range(len(ctx[0]))), x)

    return y, pullback if space.is_active(y) else nothing
