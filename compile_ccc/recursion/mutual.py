"""`mutual`: functions that call each other, as one recursion over a sum of their arguments.

    f0 : Δ·(τ0 ⇝ σ0)·(τ1 ⇝ σ1)·τ0 ⇝ σ0,  f1 : Δ·(τ0 ⇝ σ0)·(τ1 ⇝ σ1)·τ1 ⇝ σ1
    fix (case f0 f1) : Δ·(τ0 + τ1) ⇝ (σ0, σ1)      where a call of function i is one at inject i

A sum is a tag and a place for each alternative here, and the result has a place for each type that they give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from combinators.edges import whole
from combinators.errors import ArgumentError
from combinators.meaning.conform import conform
from combinators.types import Function, Tensor, Type, pack, same_type
from compile_ccc.carriers import Unfounded
from compile_ccc.recursion.codomains import endless, founded
from compile_ccc.recursion.compiling import refuse
from compile_ccc.recursion.fix import check_parameters, differs, fix, staged, strong
from compile_ccc.tracing.arguments import argument_type
from compile_ccc.tracing.function import function


def mutual(*functions: Any, max_depth: int = 1024) -> tuple[Any, ...]:
    """The function values that call each other: `even, odd = mutual((f, C.Tensor((), int)), (g, C.Tensor((), int)))`.

    Each of `functions` is a tuple of a Python function and its domain, as for `function`.  Python gets the recursive
    functions, all of them and in this order, before its own arguments: f(even, odd, n).  It may call them as `fix` lets
    a function call itself.  The type of what each gives is found on a way through it that calls those alone of which it
    is known.  `max_depth` is as for `fix`.

    Raises what `fix` raises, and `ArgumentError` for what is no tuple of a function and its domain.
    """
    whole("`max_depth`, of a recursion,", max_depth, 1)
    if not functions or not all(isinstance(f, tuple) and f and callable(f[0]) for f in functions):
        raise ArgumentError(
            "functions that call each other are given by tuples",
            expected="mutual((f, *domain), (g, *domain), ...), with f(self_f, self_g, ..., x)",
            got=repr(functions),
            hint="for example mutual((lambda even, odd, n: ..., C.Tensor((), int)), (lambda even, odd, n: ..., ...))",
        )
    fs = [f for f, *_ in functions]
    domains = [tuple(strong(argument_type(t)) for t in domain) for _, *domain in functions]
    for f, dom in zip(fs, domains, strict=True):
        refuse(None, argument=dom)
        check_parameters(f, len(fs), dom)

    def entry(number: int) -> Callable[..., Any]:
        def recursive(*x: Any) -> Any:
            types = [Function(pack(dom), cod) for dom, cod in zip(domains, _codomains(fs, domains), strict=True)]
            joint = _Joint(types)
            return joint.calls(fix(joint.body(fs), _TAG, tuple(t.dom for t in types), max_depth=max_depth))[number](*x)

        return recursive

    return tuple(function(entry(number), *domain) for number, domain in enumerate(domains))


def _codomains(fs: Sequence[Any], domains: Sequence[tuple[Type, ...]]) -> list[Type]:
    """The types of what the functions give: of each, when those that it calls on some way through it are known."""
    found: dict[int, Type] = {}
    while len(found) < len(fs):
        types = [Function(pack(dom), found.get(i, Unfounded(()))) for i, dom in enumerate(domains)]
        more = {
            i: way[0]
            for i, f in enumerate(fs)
            if i not in found and (way := founded(partial(_gives, f, types, domains[i])))
        }
        if not more:
            raise endless(next(f for i, f in enumerate(fs) if i not in found))
        found |= more
    return [found[i] for i in range(len(fs))]


_TAG = Tensor((), jnp.int32)


def _gives(f: Any, types: list[Function], domain: tuple[Type, ...]) -> Type:
    return strong(staged(f, types, domain)[2])


@dataclass(frozen=True)
class _Joint:
    """The one recursion that functions of these types are."""

    types: list[Function]

    def calls(self, itself: Any) -> list[Callable[..., Any]]:
        """The functions, as calls of the recursion."""

        def call(number: int, type: Function) -> Callable[..., Any]:
            def of(*x: Any) -> Any:
                places = [_blank(t.dom) for t in self.types]
                places[number] = conform(x, type.dom, type)
                return itself(jnp.int32(number), tuple(places))[self._place(number)]

            return of

        return [call(number, type) for number, type in enumerate(self.types)]

    def body(self, fs: Sequence[Any]) -> Callable[..., Any]:
        """What the recursion does: the function of the alternative that is there."""

        def chosen(itself: Any, tag: Any, places: Any) -> Any:
            calls = self.calls(itself)
            return lax.switch(tag, [lambda i=i: self._given(i, fs[i], calls, places[i]) for i in range(len(fs))])

        return chosen

    def _given(self, number: int, f: Any, calls: Sequence[Any], x: Any) -> Any:
        type = self.types[number]
        y = f(*calls, *(x if isinstance(type.dom, tuple) and len(type.dom) != 1 else (x,)))
        if not same_type(found := strong(argument_type(y)), type.cod):
            raise differs(f, f"{type.cod}, on a way without calls of these functions", found)
        results = [_blank(cod) for cod in self._codomains()]
        results[self._place(number)] = y
        return tuple(results)

    def _codomains(self) -> list[Type]:
        """The types that they give, each once."""
        distinct: list[Type] = []
        for type in self.types:
            distinct += [] if any(same_type(type.cod, t) for t in distinct) else [type.cod]
        return distinct

    def _place(self, number: int) -> int:
        cod = self.types[number].cod
        return next(i for i, t in enumerate(self._codomains()) if same_type(cod, t))


def _blank(type: Type) -> Any:
    """A value of a type, where another alternative is there: zeros, and functions that give these."""

    def of(t: Any) -> Any:
        if isinstance(t, Tensor):
            return jnp.zeros(t.shape, t.dtype)
        domain = t.dom if isinstance(t.dom, tuple) and len(t.dom) != 1 else (t.dom,)
        return function(lambda *_: _blank(t.cod), *domain)

    return jax.tree.map(of, type)
