"""Values.  A function value is a closure: a code pointer that never varies, and the values that it captured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax

from combinators import origins, staging
from combinators.edges import no_keywords
from combinators.errors import ArgumentError
from combinators.origins import NOWHERE, Lent, Origin
from combinators.terms import Curry
from combinators.types import Function, FunctionLike, children, require_values


class Closure(FunctionLike):
    """`Closure(code, environment)`: the value of `code = curry(f)` at `environment`, with f : Δ·τ ⇝ σ.

    A pytree whose leaves are the environment's: it crosses `jax.jit`, `jax.vmap` over the environment and
    `jax.tree.map`, and its gradient is a closure too, with cotangents as leaves.  Calling it is one jitted call of its
    code, and closures of equal code share what is compiled.  (Paper 003, section 5; types: docs of `Curry`.)

    `origin` knows the names of the captured variables.  They are for readers: closures of other names have equal code.
    """

    __slots__ = ("__weakref__", "_environment", "code", "origin")

    def __init__(self, code: Curry, environment: Any, origin: Origin = NOWHERE):
        if not isinstance(code, Curry):
            raise ArgumentError(
                "this is no code of a function",
                expected="C.curry(f), with a term f",
                got=repr(code),
                hint="function(f, domain) makes a closure of a Python function",
            )
        self.code, self._environment, self.origin = code, environment, origin

    @property
    def environment(self) -> Any:
        """What the function captured.  It can be exchanged for another one with as many entries."""
        return self._environment

    @environment.setter
    def environment(self, environment: Any) -> None:
        (entries, form), (others, other) = map(children, (self._environment, environment))
        if form != other:
            raise ArgumentError(
                "this is no environment of the code of this function",
                expected=f"{len(entries)} entries, as in {self._environment!r}",
                got=f"{environment!r}" if not others else f"{len(others)}, {environment!r}",
                hint="C.Context(w, ...) has an entry for each captured variable; jax.tree.map gives another function",
            )
        require_values(environment)
        self._environment = environment

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The function applied: `f(x, y)` and `f((x, y))` are one call.

        Raises `ArityError` or `ArgumentError` if the arguments are not of the annotated type, or given by name.
        """
        from combinators.evaluate import apply_closure

        no_keywords(self, keywords)
        return apply_closure(self, arguments)

    @property
    def type(self) -> Function:
        """`Function(dom, cod)`, if the code says what its argument is; raises `UntypedFunctionError` if not."""
        from combinators.infer import function_type

        return function_type(self)

    @property
    def captured(self) -> dict[Any, Any]:
        """{name: value} of what this function captured; by position where the names of its variables are not known."""
        pairs, _ = children(self.environment)
        names = self.origin.names(self.code) or ()
        keys = names if len(names) == len(pairs) else [key for key, _ in pairs]
        return dict(zip(keys, (value for _, value in pairs), strict=True))

    def gradient(self, g: Any) -> dict[Any, Any]:
        """{name: cotangent}: a cotangent of this function, a closure over cotangents, read as `captured` reads values.

        Raises `ArgumentError` if g has not this function's code, as `Calls`, the list tangent, has not.
        """
        if not isinstance(g, Closure) or g.code is not self.code:
            raise ArgumentError(
                "this is no cotangent of the environment of this function",
                expected="a closure of the same code, over cotangents",
                got=repr(g),
                hint='take the gradient with functions="environment"; it has the structure of the function itself',
            )
        return Closure(self.code, g.environment, self.origin).captured

    def __repr__(self) -> str:
        return f"Closure({self.code!r}, {self.environment!r})"


class _Head:
    """What a closure is beside its environment.  Only the code takes part in equality, so no name makes a program."""

    __slots__ = ("code", "origin")

    def __init__(self, code: Curry, origin: Origin):
        self.code, self.origin = code, origin

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Head) and other.code is self.code

    def __hash__(self) -> int:
        return hash(self.code)

    def __repr__(self) -> str:
        return repr(self.code)


def _flatten(f: Closure) -> tuple[tuple[Any], _Head]:
    return (f.environment,), _Head(f.code, origins.of_head(f))


def _unflatten(head: _Head, parts: Iterable[Any]) -> Closure:
    (environment,), f = parts, object.__new__(Closure)
    f.code, f._environment = head.code, environment  # pyright: ignore[reportPrivateUsage]
    f.origin = origins.of_function(head.origin, lambda: _is_staged(environment))
    return f


def _is_staged(environment: Any) -> bool:
    """Whether JAX traces a program, and keeps it, for all functions that have such an environment."""

    def of(v: Any) -> bool:
        if isinstance(v, Closure):
            return isinstance(v.origin, Lent) or (type(v.origin) is Origin and _is_staged(v.environment))
        return staging.variable_of(v) is not None

    return any(map(of, jax.tree.leaves(environment, is_leaf=lambda v: isinstance(v, Closure))))


jax.tree_util.register_pytree_with_keys(
    Closure,
    lambda f: (((jax.tree_util.GetAttrKey("environment"), f.environment),), _flatten(f)[1]),
    _unflatten,
    _flatten,
)
