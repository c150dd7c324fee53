"""`ccc`: Python functions and combinators as an arrow, and the one closure that any arrow is on a given domain."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import jax
import numpy as np

from combinators.base import Composable, holds_functions
from combinators.building import compose, prod
from combinators.context import Context, extend
from combinators.depth import deep
from combinators.edges import check_function, no_keywords
from combinators.meaning.evaluate import applied, apply_closure
from combinators.meaning.infer import infer
from combinators.terms import Compose, Const, Curry, Id, Operator, Prod, Proj, Term, parts
from combinators.types import Type, no_types, pack
from combinators.values import Closure
from compile_ccc.asking.ruled_calls import undone_by
from compile_ccc.carriers import active_traces
from compile_ccc.dispatch import MISSED, Dispatch
from compile_ccc.holes import Hole, functions_in, with_others
from compile_ccc.lambda_terms import Lam
from compile_ccc.mixed import located_arrow
from compile_ccc.tracing.arguments import argument_type, bound, holds_function, holds_type, is_static, leaves_of, spread
from compile_ccc.tracing.captures import captures
from compile_ccc.tracing.function import Found, Joined
from compile_ccc.tracing.keeping import traced
from compile_ccc.tracing.tracee import NOT_GIVEN, Given
from compile_ccc.watching.handed import order_of, write


@dataclass(frozen=True)
class Translation:
    """What a lambda became on a domain.

    `lambda_term`: λ over the domain, its free variables the captured environment.  `term`: domain ⇝ codomain, the
    combinators, with captured values as constants.  `closure`: the code over the environment.
    """

    lambda_term: Lam | None
    term: Term
    domain: Type
    codomain: Type
    closure: Closure


@holds_functions
class Arrow(Composable):
    """An arrow of Python functions and combinators: a term with holes, in which the functions stand.  See `ccc`."""

    def __init__(self, f: Any):
        check_function(f)
        self.term = f if isinstance(f, Term) else Operator(Hole(f))
        self.functions = functions_in(self.term)  # where a walk over what a program reads finds them
        self._calls = Dispatch(applied)
        if not isinstance(f, Term):
            functools.update_wrapper(self, f, updated=())

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """One call of compiled code; inside a traced lambda, the Python functions themselves run."""
        found = MISSED if keywords else self._calls.again(arguments)
        return self._called(arguments, keywords) if found is MISSED else found

    @deep
    def _called(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        f, arguments = positional(self, arguments, keywords)
        if active_traces.get():
            return _run(f.term, arguments) if _runs(f.term) else closure_of(f, arguments)(*arguments)
        no_types(arguments)
        functions = any(map(holds_function, arguments))  # which have to be function values
        closure, some, _, found = closed_over_static(f, arguments, tuple(range(len(arguments))) if functions else ())
        result = apply_closure(closure, some)
        if f is self:
            self._calls.note(arguments, None, closure, pack(some), found, result)
        return result

    def trace(self, *arguments: Any, **keywords: Any) -> Translation:
        """The translation on a domain: see `trace`.  Runs nothing."""
        return trace(self, *arguments, **keywords)

    @property
    def form(self) -> Term:
        """See `Composable`."""
        return with_others(self.term, [Proj(i) for i in range(len(self.functions))])

    def with_functions(self, functions: Sequence[Any]) -> Arrow:
        """See `Composable`."""
        return Arrow(functions[0] if isinstance(self.term, Operator) else with_others(self.term, functions))

    def on(self, domain: Any) -> Term:
        """See `Composable`."""
        return self.trace(domain).term

    def __rshift__(self, other: Any) -> Arrow:
        return compose(self, other)

    def __rrshift__(self, other: Any) -> Arrow:
        return compose(other, self)

    def __get__(self, instance: Any, owner: Any = None) -> Arrow:
        f, rest = _first(self.term)
        return self if instance is None or f is None else compose(MethodType(f, instance), *rest)

    def __repr__(self) -> str:
        return repr(self.term)


def _first(term: Term) -> tuple[Any, tuple[Term, ...]]:
    """The function that runs first, if one does, and what comes after it."""
    match term:
        case Operator(Hole(f)):
            return f, ()
        case Compose((Operator(Hole(f)), *rest)):
            return f, tuple(rest)
        case _:
            return None, ()


def _runs(f: Term) -> bool:
    """Whether the functions of an arrow stand nowhere but in chains and products, so that they can simply run."""
    if isinstance(f, Compose | Prod):
        return False not in [_runs(part) for part in parts(f)]
    return isinstance(f, Operator) or not functions_in(f)


def _run(f: Term, arguments: tuple[Any, ...]) -> Any:
    """An arrow in a traced lambda: its Python functions run."""
    match f:
        case Operator(Hole(g)):
            return g(*spread(g, arguments))
        case Compose(steps):
            for step in steps:
                arguments = (_run(step, arguments),)
            return arguments[0]
        case Prod(inner, form):
            return form.unflatten([_run(part, arguments) for part in inner])
        case _:
            return f(*arguments)


def ccc(f: Callable[..., Any]) -> Arrow:
    """Makes a Python function over jnp an arrow: translated to combinators, compiled, and composed by `>>` with terms.

    `ccc(f)(*args)` equals `f(*args)`; arguments are arrays, numbers, function values (`C.Closure`) and pytrees of
    them.  It is traced once for each type of the arguments and of what f captures, and compiled once for each code, so
    an equal function made anew compiles nothing, and captured numbers are read anew at each call.  Arguments that are
    no values, such as text and dtypes, are code.

    Raises our errors for a Python function among arguments or results, for Python control flow on a traced value, and
    for effects whose order matters.  (Paper 003, section 3.1.)
    """
    return f if isinstance(f, Arrow) else Arrow(f)


@deep
def trace(f: Any, *arguments: Any, **keywords: Any) -> Translation:
    """The λ-term, term, domain and codomain of a Python function, arrow or term on a domain.

    Arguments are arrays, `ShapeDtypeStruct`s, types or closures: only their types count.  Those that are no values,
    such as text, are code, and no part of the domain, as in a call of `ccc(f)`.
    """
    f, arguments = positional(f, arguments, keywords)
    static = {i: x for i, x in enumerate(arguments) if is_static(x) and not holds_type(x)}
    if static and not any(map(holds_function, arguments)):
        first, rest = _first(f.term) if isinstance(f, Arrow) else (None, ())
        f, arguments, _ = _closed_over(first or f, arguments, static)
        f = compose(f, *rest) if rest else f
    domain = pack(tuple(map(argument_type, arguments)))
    closure = closure_of(f, arguments)
    term = f if isinstance(f, Term) else ccc(f).term
    if not functions_in(term):
        return Translation(None, term, domain, infer(term, domain), closure)
    captured = (
        Context(*map(Const, closure.environment))
        if isinstance(closure.environment, Context)
        else Const(closure.environment)
    )
    closed = compose(prod(extend(captured, Id())), closure.code.body)
    first, rest = _first(term)
    if first is None or rest or isinstance(first, Closure):
        return Translation(None, closed, domain, closure.type.cod, closure)
    result = _traced(first, arguments).traced
    closure = Closure(result.code, closure.environment, closure.origin)
    return Translation(result.lam, closed, domain, result.cod, closure)


def closure_of(f: Any, arguments: tuple[Any, ...]) -> Closure:
    """The closure that `f` is on the types of these arguments: a Python function, arrow, term or closure."""
    return located(f, arguments)[0]


@deep
def located(
    f: Any, arguments: tuple[Any, ...], asked: tuple[int, ...] | None = None
) -> tuple[Closure, Found | Joined | None]:
    """The closure that `f` is on the types of these arguments, and where it comes from, if f is no closure itself.

    Python may ask for the values of the arguments.  Those that are `asked`, all if it says nothing, are differentiated.
    """
    match f:
        case Closure():
            return f, None
        case _ if isinstance(f, Term):
            code = Curry(compose(Proj(0), f), pack(tuple(map(argument_type, arguments))))
            return Closure(code, Context()), Joined(f)
        case Arrow(term=Operator(Hole(g))):
            return located(g, arguments, asked)
        case Arrow():
            return located_arrow(f.term, arguments, located) if f.functions else located(f.term, arguments)
        case _:
            given = _given(arguments, range(len(arguments)) if asked is None else asked)
            found = _traced(f, arguments, given)
            return found.traced.closure(found.captured.values), found


def closed_over_static(
    f: Any, arguments: tuple[Any, ...], asked: tuple[int, ...]
) -> tuple[Closure, tuple[Any, ...], tuple[int, ...], Found | Joined | None]:
    """f as a closure, with its arguments, the places of those that are asked for, and where f comes from.

    If there are arguments that are no values, and not asked for, the closure is one of the others: these are code.
    What f changed in arguments that are not asked for is changed when this returns; the arguments in the result hold
    what they held before.
    """
    static = {i: x for i, x in enumerate(arguments) if i not in asked and (is_static(x) or holds_type(x))}
    of_others, some, others = _closed_over(f, arguments, static) if static else (f, arguments, asked)
    places = tuple(map(others.index, asked)) if static else asked
    closure, found = located(of_others, some, places)
    if isinstance(found, Found) and found.traced.written:
        some = jax.tree.map(lambda v: v.copy() if isinstance(v, np.ndarray) else v, some)
        undone_by(write(found.traced.written))
    return closure, some, places, found


def _closed_over(
    f: Any, arguments: tuple[Any, ...], static: dict[int, Any]
) -> tuple[Any, tuple[Any, ...], tuple[int, ...]]:
    """f as a function of the arguments that are not `static`, these arguments, and their places."""
    check_function(f)
    others = tuple(i for i in range(len(arguments)) if i not in static)

    def of_others(*some: Any) -> Any:
        whole = {**static, **dict(zip(others, some, strict=True))}
        return f(*(whole[i] for i in range(len(whole))))

    return of_others, tuple(arguments[i] for i in others), others


def _given(arguments: tuple[Any, ...], asked: Sequence[int]) -> Given:
    own = [leaves_of(argument) for argument in arguments]
    leaves = tuple([leaf for some in own for leaf in some])
    varied = [
        i in asked and (type(leaf) is float or not _is_whole(leaf)) for i, some in enumerate(own) for leaf in some
    ]
    places = frozenset([i for i, is_varied in enumerate(varied) if is_varied])
    if len(asked) == len(arguments):
        return Given(leaves, places)
    kept = tuple([None if i in asked else argument for i, argument in enumerate(arguments)])
    return Given(leaves, places, kept, order_of(kept))


def _is_whole(leaf: Any) -> bool:
    """Whether a leaf is a whole number or a truth value, or an array of those: it has no other tangent than zero."""
    return isinstance(leaf, int) or getattr(getattr(leaf, "dtype", None), "kind", "") in tuple("biu")


def _traced(f: Any, arguments: tuple[Any, ...], given: Given = NOT_GIVEN) -> Found:
    check_function(f)
    captured = captures(f)
    types = tuple(map(argument_type, spread(f, arguments)))
    return Found(f, captured, traced(f, captured, pack(types), len(types), given))


def positional(f: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """The function and its arguments with keywords bound to their places; keyword-only ones become a last dict."""
    if not keywords:
        return f, arguments
    first, rest = _first(f.term) if isinstance(f, Arrow) else (f, ())
    if first is None:
        no_keywords(f, keywords)
    args, named = bound(first, arguments, keywords)
    if not named:
        return f, args
    by_name = functools.partial(_with_keywords, first)
    return (compose(Arrow(by_name), *rest) if isinstance(f, Arrow) else by_name), (*args, named)


def _with_keywords(f: Any, *arguments: Any) -> Any:
    *args, keywords = arguments
    return f(*args, **keywords)


__all__ = ["Arrow", "Translation", "ccc", "closure_of", "positional", "trace"]
