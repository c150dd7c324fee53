"""Values.  A function value is a closure: a code pointer that never varies, and the values that it captured."""

from __future__ import annotations

from typing import Any

import jax

from combinators.terms import Curry
from combinators.types import Function, FunctionLike


class Closure(FunctionLike):
    """`Closure(code, environment)`: the value of `code = curry(f)` at `environment`, with f : Δ·τ ⇝ σ.

    A pytree whose leaves are the environment's: it crosses `jax.jit`, `jax.vmap` over the environment and
    `jax.tree.map`, and its gradient is a closure too, with cotangents as leaves.  Calling it is one jitted call of its
    code, and closures of equal code share what is compiled.  (Paper 003, section 5; types: docs of `Curry`.)
    """

    __slots__ = ("code", "environment")

    def __init__(self, code: Curry, environment: Any):
        self.code, self.environment = code, environment

    def __call__(self, *arguments: Any) -> Any:
        """The function applied: `f(x, y)` and `f((x, y))` are one call.

        Raises `ArityError` or `ArgumentError` if the arguments are not of the annotated type.
        """
        from combinators.evaluate import apply_closure

        return apply_closure(self, arguments)

    @property
    def type(self) -> Function:
        """`Function(dom, cod)`, if the code says what its argument is; raises `UntypedFunctionError` if not."""
        from combinators.infer import function_type

        return function_type(self)

    def __repr__(self) -> str:
        return f"Closure({self.code!r}, {self.environment!r})"


jax.tree_util.register_pytree_with_keys(
    Closure,
    lambda f: (((jax.tree_util.GetAttrKey("environment"), f.environment),), f.code),
    lambda code, environment: Closure(code, *environment),
    lambda f: ((f.environment,), f.code),
)
