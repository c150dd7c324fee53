"""`ccc`: a Python lambda as an arrow, and the one closure that any kind of arrow is on a given domain."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import jax

from combinators.base import Composable
from combinators.context import Context
from combinators.depth import deep
from combinators.edges import no_keywords
from combinators.errors import ArgumentError, ArityError
from combinators.evaluate import applied, apply_closure, evaluate
from combinators.host import with_own_exceptions
from combinators.infer import infer
from combinators.memo import remembered
from combinators.origins import joint, with_origins
from combinators.records import as_records, from_records
from combinators.terms import Const, Curry, Extend, Id, Proj, Term, compose, only_terms, prod
from combinators.types import Type, pack, require_values
from combinators.values import Closure
from compile_ccc.arguments import argument_type, binds, leaves_of
from compile_ccc.captures import captures
from compile_ccc.carriers import active_traces
from compile_ccc.dispatch import MISSED, Dispatch
from compile_ccc.lambda_terms import Lam
from compile_ccc.optimise import optimise
from compile_ccc.stage import NOT_GIVEN, Given
from compile_ccc.tracing import Found, traced


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


class Arrow(Composable):
    """An arrow made of Python functions and terms, in the order in which they run.  See `ccc`."""

    def __init__(self, *steps: Any):
        self.steps = tuple(s for step in steps for s in (step.steps if isinstance(step, Arrow) else (step,)))
        self._calls = Dispatch(applied)
        if len(self.steps) == 1 and callable(self.steps[0]):
            functools.update_wrapper(self, self.steps[0], updated=())

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """One call of compiled code; inside a traced lambda, the Python functions themselves run."""
        found = MISSED if keywords else self._calls.again(arguments)
        return self._called(arguments, keywords) if found is MISSED else found

    @deep
    def _called(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        f, arguments = positional(self, arguments, keywords)
        if active_traces.get():
            return functools.reduce(lambda args, step: (step(*spread(step, args)),), f.steps, arguments)[0]
        closure, found = located(f, arguments, ())
        result = apply_closure(closure, arguments)
        if f is self:
            self._calls.note(arguments, None, closure, pack(arguments), found, result)
        return result

    def trace(self, *arguments: Any) -> Translation:
        """The translation on a domain: arguments are arrays, `ShapeDtypeStruct`s, types or closures.  Runs nothing."""
        return trace(self, *arguments)

    def __rshift__(self, other: Any) -> Arrow:
        return Arrow(self, _arrow(other))

    def __rrshift__(self, other: Any) -> Arrow:
        return Arrow(_arrow(other), self)

    def __get__(self, instance: Any, owner: Any = None) -> Arrow:
        return self if instance is None else Arrow(MethodType(self.steps[0], instance))

    def __repr__(self) -> str:
        return " >> ".join(str(s) if isinstance(s, Term) else f"ccc({getattr(s, '__name__', s)})" for s in self.steps)


def _arrow(f: Any) -> Arrow | Term:
    """What an arrow is composed with."""
    if isinstance(f, Arrow | Term):
        return f
    raise ArgumentError(
        "an arrow is composed with what is none",
        expected="an arrow, or a term",
        got=f"{f!r} of type {type(f).__name__}",
        hint="ccc(f) makes an arrow of a Python function",
    )


def ccc(f: Callable[..., Any]) -> Arrow:
    """Makes a Python function over jnp an arrow: translated to combinators, compiled, and composed by `>>` with terms.

    `ccc(f)(*args)` equals `f(*args)`; arguments are arrays, numbers, function values (`C.Closure`) and pytrees of
    them.  It is traced once for each type of the arguments and of what f captures, and compiled once for each code, so
    an equal function made anew compiles nothing, and captured numbers are read anew at each call.

    Raises our errors for a Python function among arguments or results, for Python control flow on a traced value, and
    for effects whose order matters.  (Paper 003, section 3.1.)
    """
    return f if isinstance(f, Arrow) else Arrow(f)


@deep
def trace(f: Any, *arguments: Any) -> Translation:
    """The λ-term, term, domain and codomain of a Python function, arrow or term on a domain.

    Arguments are arrays, `ShapeDtypeStruct`s, types or closures: only their types count.
    """
    domain = pack(tuple(map(argument_type, arguments)))
    step = f.steps[0] if isinstance(f, Arrow) and len(f.steps) == 1 else f
    closure = closure_of(step, arguments)
    if isinstance(step, Term):
        return Translation(None, step, domain, infer(step, domain), closure)
    term = compose(prod(Context(*map(Const, closure.environment), Id())), closure.code.body)
    if isinstance(step, Arrow | Closure):
        return Translation(None, term, domain, closure.type.cod, closure)
    result = _traced(step, arguments).traced
    closure = Closure(result.code, closure.environment, closure.origin)
    return Translation(result.lam, term, domain, result.cod, closure)


def closure_of(f: Any, arguments: tuple[Any, ...]) -> Closure:
    """The closure that `f` is on the types of these arguments: a Python function, arrow, term or closure."""
    return located(f, arguments)[0]


@deep
def located(f: Any, arguments: tuple[Any, ...], asked: tuple[int, ...] | None = None) -> tuple[Closure, Found | None]:
    """The closure that `f` is on the types of these arguments, and where it comes from, if f is a Python function.

    Python may ask for the values of the arguments.  Those that are `asked`, all if it says nothing, are differentiated.
    """
    match f:
        case Closure():
            return f, None
        case Term():
            return Closure(Curry(compose(Proj(0), f), pack(tuple(map(argument_type, arguments)))), Context()), None
        case Arrow() if len(f.steps) == 1:
            return located(f.steps[0], arguments, asked)
        case Arrow():
            return _chain(f.steps, arguments), None
        case _:
            given = _given(arguments, range(len(arguments)) if asked is None else asked)
            found = _traced(f, arguments, given)
            return found.traced.closure(found.captured.values), found


def _given(arguments: tuple[Any, ...], asked: Sequence[int]) -> Given:
    leaves: list[Any] = []
    varied: list[int] = []
    for i, argument in enumerate(arguments):
        own = leaves_of(argument)
        if i in asked:
            varied += range(len(leaves), len(leaves) + len(own))
        leaves += own
    return Given(tuple(leaves), frozenset(varied))


def _traced(f: Any, arguments: tuple[Any, ...], given: Given = NOT_GIVEN) -> Found:
    if not callable(f):
        raise ArgumentError(
            "this is no function",
            expected="a Python function, an arrow, a term or a closure",
            got=repr(f),
            hint="write lambda x: ...",
        )
    captured = captures(f)
    types = tuple(map(argument_type, spread(f, arguments)))
    return Found(f, captured, traced(f, captured, pack(types), len(types), given))


def spread(f: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """f((x, y)) as f(x, y), if the Python function f cannot mean the former: the two are one arrow."""
    one_tuple = len(arguments) == 1 and type(arguments[0]) is tuple
    spreads = one_tuple and not isinstance(f, Term | Closure) and not binds(f, 1) and binds(f, len(arguments[0]))
    return arguments[0] if spreads else arguments


def _chain(steps: tuple[Any, ...], arguments: tuple[Any, ...]) -> Closure:
    """Δ1·...·Δn·x, extended by the result of each step in turn."""
    closures: list[Closure] = []
    for step in steps:
        closures.append(closure_of(step, arguments))
        arguments = (closures[-1].type.cod,)
    environment = Context(*(value for f in closures for value in f.environment))
    terms, start = [], 0
    for f in closures:
        places = range(start, start := start + len(f.environment))
        terms.append(Extend(compose(prod(Context(*map(Proj, places), Proj(-1))), f.code.body)))
    code = Curry(compose(*terms, Proj(-1)), closures[0].code.argument)
    return Closure(code, environment, joint([f.origin for f in closures]))


def positional(f: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """The function and its arguments with keywords bound to their places; keyword-only ones become a last dict."""
    if not keywords:
        return f, arguments
    first, *rest = f.steps if isinstance(f, Arrow) else (f,)
    args, named = bound(first, arguments, keywords)
    if named:
        return Arrow(functools.partial(_with_keywords, first), *rest), (*args, named)
    return (f if isinstance(f, Arrow) else Arrow(f)), args


def bound(f: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a Python function by position, as far as they have places, and by name.  Raises `ArityError`."""
    signature: Any = "(...)"
    try:
        signature = inspect.signature(f)
        given = signature.bind(*arguments, **keywords)
    except (TypeError, ValueError) as error:  # of functions in C, the signature may not be known
        raise ArityError(
            "a function is called with wrong arguments",
            expected=f"{getattr(f, '__name__', f)}{signature}",
            got=f"{len(arguments)} by position, and {', '.join(keywords)} by name",
            hint=str(error),
        ) from None
    return given.args, given.kwargs


def _with_keywords(f: Callable[..., Any], *arguments: Any) -> Any:
    *args, keywords = arguments
    return f(*args, **keywords)


@deep
def lower(term: Term) -> Callable[..., Any]:
    """The arrow as an ordinary JAX function, compiled by XLA for each type of its arguments.

    `lower(term)(*args)` equals `C.evaluate(term, args)`; `jax.jit`, `jax.vmap`, `jax.grad` work over it, and it has the
    methods of a function that `jax.jit` gives, such as `.lower(*args)`.  What is compiled is `optimise(term)`; errors
    show the term as it was given.
    """
    only_terms("lower", (term,))
    return _lowered(term)


@remembered(entries=256)
def _lowered(term: Term) -> Lowered:
    optimised = optimise(term)

    @deep
    def arrow(*arguments: Any) -> Any:
        x = as_records(pack(arguments))
        infer(term, x)
        return from_records(evaluate(optimised, x))

    return Lowered(term, jax.jit(arrow))


class Lowered:
    """What `lower` gives: a function that JAX compiled, with our checks of its arguments in front."""

    def __init__(self, term: Term, compiled: Any):
        self._term, self._compiled = term, compiled

    @deep
    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        no_keywords(self._term, keywords)
        require_values(arguments)
        return with_own_exceptions(with_origins, self._compiled, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    def __repr__(self) -> str:
        return f"lower({self._term!r})"


__all__ = ["Arrow", "Translation", "ccc", "closure_of", "lower", "positional", "trace"]
