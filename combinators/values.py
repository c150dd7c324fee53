"""Values.  A function value is a closure: a code pointer that never varies, and the values that it captured."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import jax

from combinators import origins, staging
from combinators.base import value_at
from combinators.context import Context
from combinators.depth import bottom_up
from combinators.edges import no_keywords
from combinators.errors import ArgumentError
from combinators.identity.kinds import Kind, kind_with
from combinators.origins import NOWHERE, Lent, Origin
from combinators.terms import Curry
from combinators.text.outline import outline, shapes
from combinators.types import Function, FunctionLike, Tensor, Type, children, require_values

_registry = jax.tree_util.default_registry  # whose functions take no detour through Python


class Closure(FunctionLike):
    """`Closure(code, environment)`: the value of `code = curry(f)` at `environment`, with f : Δ·τ ⇝ σ.

    A pytree whose leaves are the environment's: it crosses `jax.jit`, `jax.vmap` over the environment and
    `jax.tree.map`, and its gradient is a closure too, with cotangents as leaves.  Calling it is one jitted call of its
    code, and closures of equal code share what is compiled.  (Paper 003, section 5; types: docs of `Curry`.)

    `origin` knows the names of the captured variables.  They are for readers: closures of other names have equal code.
    `known_type`, `kind` and `depth` are kept by `function_type`, `kind_of` and `depth_of`, which find each once.
    """

    __slots__ = ("__weakref__", "_environment", "code", "depth", "kind", "known_type", "origin")

    def __init__(self, code: Curry, environment: Any, origin: Origin = NOWHERE):
        if not isinstance(code, Curry):
            raise ArgumentError(
                "this is no code of a function",
                expected="C.curry(f), with a term f",
                got=repr(code),
                hint="function(f, domain) makes a closure of a Python function",
            )
        self.code, self._environment, self.origin = code, environment, origin
        self.known_type: Any = None
        self.kind: Any = None
        self.depth = 0

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
                expected=f"{len(entries)} entries, as in {outline(self._environment)}",
                got=outline(environment) if not others else f"{len(others)}, {outline(environment)}",
                hint="C.Context(w, ...) has an entry for each captured variable; jax.tree.map gives another function",
            )
        require_values(environment)
        self._environment, self.known_type, self.kind, self.depth = environment, None, None, 0

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The function applied: `f(x, y)` and `f((x, y))` are one call.

        Raises `ArityError` or `ArgumentError` if the arguments are not of the annotated type, or given by name.
        """
        no_keywords(self, keywords)
        return value_at(self, arguments)

    @property
    def type(self) -> Function:
        """`Function(dom, cod)`, if the code says what its argument is; raises `UntypedFunctionError` if not."""
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
        return f"Closure({self.code!r}, {outline(self.environment, shapes)})"


is_closure = Closure.__instancecheck__  # of values or of types; in C, as pytrees ask it of each of their nodes


def key_of_type(type: Type) -> Hashable:
    """A key that types share if they are equal, weak types and all; closures in it count by their kinds."""
    leaves, form = _registry.flatten(type, is_closure)
    return form, tuple([(t, t.weak) if isinstance(t, Tensor) else kind_of(t) if is_closure(t) else t for t in leaves])


def kind_of(f: Closure) -> Kind:
    """What abstract closures of equal code and equal environments have in common; found once for each of them."""
    return bottom_up(f, lambda f: [] if f.kind else _captured_functions(f), _kind, {})


def depth_of(f: Closure) -> int:
    """How many functions are within each other, each captured by the next; found once for each of them."""
    return bottom_up(f, lambda f: [] if f.depth else _captured_functions(f), _depth, {})


def _depth(f: Closure, captured: list[int]) -> int:
    f.depth = f.depth or 1 + max(captured, default=0)
    return f.depth


def _captured_functions(f: Closure) -> list[Any]:
    return [g for g in jax.tree.leaves(f.environment, is_leaf=is_closure) if is_closure(g)]


@singledispatch
def function_type(f: Any) -> Function:
    """The exponential to which a closure belongs; `combinators.meaning.infer` finds it.

    Raises `UntypedFunctionError` if its code has no annotation.
    """
    raise NotImplementedError


@singledispatch
def accepts(expected: Type, got: Type) -> bool:
    """Whether a value of type `got` can stand where `expected` is stated: equal types, closures by what they do.

    What a closure does, `combinators.meaning.infer` knows.
    """
    raise NotImplementedError


def is_function(type: Type) -> bool:
    """Whether a type is that of a function: an exponential, or an abstract closure."""
    return isinstance(type, Function | Closure)


def _kind(f: Closure, _: list[Kind]) -> Kind:
    if f.kind is None:
        f.kind = kind_with((f.code, key_of_type(f.environment)))
    return f.kind


@dataclass(slots=True, unsafe_hash=True, repr=False)
class _Head:
    """What a closure is beside its captured values.  Its origin takes no part in equality, so no name makes a program.

    `is_flat` says that the parts are the entries of a context: so that a chain of functions, each captured by the next,
    is no deeper a pytree than it is long.
    """

    code: Curry
    origin: Origin = field(compare=False)
    is_flat: bool

    def __repr__(self) -> str:
        return repr(self.code)


def _flatten(f: Closure) -> tuple[tuple[Any, ...], _Head]:
    environment = f._environment  # pyright: ignore[reportPrivateUsage]
    is_flat, relabelling = type(environment) is Context, origins.relabelling.get()
    origin = f.origin if relabelling is None else relabelling(f)
    return environment.entries() if is_flat else (environment,), _Head(f.code, origin, is_flat)


def _flatten_with_keys(f: Closure) -> tuple[tuple[Any, ...], _Head]:
    parts, head = _flatten(f)
    names = [f"environment[{i}]" for i in range(len(parts))] if head.is_flat else ["environment"]
    return tuple((jax.tree_util.GetAttrKey(name), part) for name, part in zip(names, parts, strict=True)), head


def _unflatten(head: _Head, parts: Iterable[Any]) -> Closure:
    environment, f = Context(*parts) if head.is_flat else next(iter(parts)), object.__new__(Closure)
    f.code, f._environment = head.code, environment  # pyright: ignore[reportPrivateUsage]
    f.known_type, f.kind, f.depth = None, None, 0
    f.origin = origins.of_function(head.origin, lambda: _is_staged(environment))
    return f


def _is_staged(environment: Any) -> bool:
    """Whether JAX traces a program, and keeps it, for all functions that have such an environment."""

    def of(v: Any) -> bool:
        if isinstance(v, Closure):
            return isinstance(v.origin, Lent) or (type(v.origin) is Origin and _is_staged(v.environment))
        return staging.variable_of(v) is not None

    return any(map(of, jax.tree.leaves(environment, is_leaf=is_closure)))


jax.tree_util.register_pytree_with_keys(Closure, _flatten_with_keys, _unflatten, _flatten)
