"""Operators by Python functions: where the functions that they are given are known, they are traced and read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from combinators import staging
from combinators.building import compose, prod
from combinators.context import Context
from combinators.memo import remembered
from combinators.records import as_records
from combinators.terms import Const, Curry, Proj
from combinators.types import Tensor, type_of
from combinators.values import Closure
from compile_ccc.tracing.function import seal


@dataclass(frozen=True)
class Instance:
    """What an operator of known functions is: direct(static, *arguments), as code over leaves."""

    name: str
    direct: Callable[..., Any]
    static: Any
    constant = False  # for derivatives

    def at(self, leaves: tuple[Tensor, ...], form: Any) -> tuple[Curry, Any]:
        """See `Operator`."""
        return _code(self, leaves, tuple(t.weak for t in leaves), form, staging.settings())

    def __str__(self) -> str:
        return self.name


@remembered(entries=512)
def _code(instance: Instance, leaves: tuple[Tensor, ...], _: Any, form: Any, __: Any) -> tuple[Curry, Any]:
    closure, _, result = on_leaves(lambda x: instance.direct(instance.static, *x), form.unflatten(leaves))
    captured = prod(Context(*map(Const, closure.environment), Proj(0)))
    return Curry(compose(captured, closure.code.body), closure.code.argument), result


def on_leaves(f: Callable[[Any], Any], x: Any) -> tuple[Closure, tuple[Any, ...], Any]:
    """f as a closure from the leaves of x to those of its result, with these leaves, and the form of the result.

    The functions in x are known where f is traced, and only their environments vary.  In the form, classes that take
    arrays alone are held open.
    """
    leaves, form = jax.tree.flatten(x)
    forms: list[Any] = []

    def flat(given: tuple[Any, ...]) -> tuple[Any, ...]:
        results, result_form = jax.tree.flatten(as_records(f(form.unflatten(given))))
        forms.append(result_form)
        return tuple(results)

    return seal(flat, tuple(map(type_of, leaves))), tuple(leaves), forms[-1]
