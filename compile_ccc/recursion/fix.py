"""`fix`: a Python function that is given itself, as a function value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import jax.extend.core as jex

from combinators.building import compose, prod
from combinators.building import fix as fixed
from combinators.edges import whole
from combinators.errors import ArgumentError, ArityError, UntypedFunctionError, definition_line
from combinators.terms import Eval, Proj
from combinators.text.outline import outline
from combinators.types import Function, Tensor, Type, pack, same_type
from compile_ccc.carriers import FunctionValue, Unfounded, active_traces, is_carrier, made
from compile_ccc.recursion.codomains import endless, founded
from compile_ccc.recursion.compiling import refuse
from compile_ccc.recursion.unfolding import more_than_called, unfolded
from compile_ccc.tracing.arguments import argument_type, binds
from compile_ccc.tracing.captures import captures
from compile_ccc.tracing.function import function, recorded
from compile_ccc.tracing.stage import stage
from compile_ccc.tracing.tracee import Tracee


def fix(f: Callable[..., Any], *domain: Any, codomain: Any = None, max_depth: int = 1024) -> Any:
    """The function value that calls itself: `fix(lambda self, x: ..., C.Tensor())` is x ↦ f(self, x) with self = it.

    `domain` is as for `function`, without the function itself.  It may call itself any number of times, in the branches
    of `lax.cond` and `lax.switch` too, where the recursion ends; f is traced once, whatever the depth is.  `codomain`
    states the type of its result; left out, it is that of f on a way through it that does not call itself.
    In compiled code at most `max_depth` calls may wait for others, which is memory that is set aside; more are a
    `DepthError` when it runs.  A call after which nothing is left to do does not wait.

    Raises `UnsupportedError` where f does more with itself than call it, `UntypedFunctionError` without a codomain.
    """
    if not callable(f):
        raise ArgumentError(
            "a recursion is made of a function", expected="fix(lambda self, x: ..., domain)", got=repr(f),
            hint="of a term, C.fix(f, argument, result) makes one",
        )  # fmt: skip
    whole("`max_depth`, of a recursion,", max_depth, 1)
    dom = tuple(map(strong, map(argument_type, domain)))
    cod = None if codomain is None else strong(argument_type(codomain))
    refuse(None, argument=dom, result=cod)
    check_parameters(f, 1, dom)

    def recursive(*x: Any) -> Any:
        return _recursion(f, dom, cod, max_depth)(*x)

    return _recursion(f, dom, cod, max_depth) if active_traces.get() else function(recursive, *dom)


def _recursion(f: Callable[..., Any], dom: tuple[Type, ...], cod: Type, max_depth: int) -> FunctionValue:
    """The recursive function inside a traced lambda: one of the step, which gets itself and the argument."""
    carrier, cod = _step(f, dom, cod)
    argument = pack(dom)
    x = [Proj(2)] if len(dom) == 1 else [compose(Proj(2), Proj(i)) for i in range(len(dom))]
    code = fixed(compose(prod(Proj(0), prod(Proj(1), *x)), Eval()), argument, cod, max_depth)
    type = Function(argument, cod)
    return FunctionValue(made(code, [carrier], type), type, active_traces.get()[-1])


def _step(f: Callable[..., Any], dom: tuple[Type, ...], cod: Type) -> tuple[Any, Type]:
    """The carrier of (self, x, ...) ↦ f(self, x, ...), and the type of its result."""
    itself = lambda cod: [Function(pack(dom), cod)]
    on_a_way = lambda: founded(lambda: strong(staged(f, itself(Unfounded(())), dom)[2]))
    way = on_a_way() if cod is None else (cod,)
    if way is None:
        raise endless(f)
    try:
        tracee, program, found = staged(f, itself(way[0]), dom)
    except Exception as error:
        if cod is None:
            raise
        with suppress(Exception):  # which may be the same one again
            way = on_a_way() or way
        if same_type(way[0], cod):
            raise
        raise differs(f, f"{cod}, the codomain that is stated", way[0]) from error
    _check(f, program, len(program.consts) + len(jax.tree.leaves(tracee.types)))
    if not same_type(found, way[0]):
        whose = "on a way without calls of itself" if cod is None else "the codomain that is stated"
        raise differs(f, f"{way[0]}, {whose}", found)
    return recorded(tracee, program, Function((*itself(way[0]), *dom), strong(found))), way[0]


def check_parameters(f: Callable[..., Any], own: int, dom: tuple[Type, ...]) -> None:
    """Raises `ArityError` if f does not take so many recursive functions, and then arguments of this domain."""
    if not binds(f, own + len(dom)):
        raise ArityError(
            "a recursive function has another number of parameters than it gets arguments",
            expected=f"{own + len(dom)}: {own} for what it may call, and {len(dom)} for its domain, {outline(dom)}",
            got=f"{getattr(f, '__name__', f)}{inspect.signature(f)}",
            hint="the domain lists one type for each argument, without those of the functions: fix(lambda self, x, n: "
            "..., type of x, type of n); mutual((lambda f, g, x: ..., type of x), ...)",
        )


def staged(f: Callable[..., Any], functions: list[Function], dom: tuple[Type, ...]) -> tuple[Tracee, Any, Type]:
    """The function f of these functions and this domain, its program, and the type of its result."""
    domain = (*functions, *dom)
    tracee = Tracee(f, captures(f), domain, len(domain))
    program, found, *_ = stage(tracee, active_traces.get()[-1])
    refuse(None, result=found)
    return tracee, program, found


def differs(f: Any, expected: str, got: Type) -> UntypedFunctionError:
    """The error for a recursive function that gives something else than its calls were taken to give."""
    return UntypedFunctionError(
        "a recursive function gives another type than its calls of itself give",
        expected=expected,
        got=got,
        line=definition_line(f),
        hint="convert what the branches give, or state another codomain, fix(f, ..., codomain=C.Tensor())",
    )


def _check(f: Any, program: Any, place: int) -> None:
    """Refuses a step that does more with the function at this place of its inputs than call it, or always calls it."""
    inputs = [jex.Var(v.aval) for v in program.jaxpr.invars]
    itself = inputs[place - len(program.consts)]
    assert is_carrier(itself.aval)
    body = unfolded(program, inputs, itself, {})
    if any(a is itself for a in body.results):
        raise more_than_called("it is returned", definition_line(f))
    if not body.ends:
        raise endless(f)


def strong(type: Type) -> Type:
    """The type without weak ones: a call of the function itself gives what is stated."""
    return jax.tree.map(lambda t: Tensor(t.shape, t.dtype) if isinstance(t, Tensor) else t, type)
