"""What a gradient costs, in operations: the cheap gradient principle as an assertion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from combinators.edges import real
from combinators.errors import ArgumentError, user_line
from combinators.types import Function
from compile_ccc.arrow import ccc
from compile_ccc.tracing.arguments import argument_type
from tangents.api.derivatives import value_and_grad
from tangents.checking.operations import operations

_SHOWN = 5  # primitives in a message


@dataclass(frozen=True)
class Cost:
    """The scalar operations that a function executes, and those of its value and gradient, by primitives."""

    function: Counter[str]
    gradient: Counter[str]

    @property
    def ratio(self) -> float:
        """How many times the function's operations the gradient takes, the value included."""
        return self.gradient.total() / max(1, self.function.total())

    def __str__(self) -> str:
        rows = [("", "function", "gradient")]
        rows += [(name, f"{self.function[name]:,}", f"{n:,}") for name, n in self.gradient.most_common(_SHOWN)]
        rows.append(("all", f"{self.function.total():,}", f"{self.gradient.total():,}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows)


class CostError(AssertionError):
    """A gradient is not cheap.  `error.cost` has the operations of both programs; the message shows most of them."""

    def __init__(self, cost: Cost, factor: float):
        self.cost, self.factor = cost, factor
        super().__init__(
            "the gradient executes too many operations\n"
            f"  expected: at most {factor:g} times those of the function\n"
            f"  got: {cost.ratio:.1f} times\n"
            f"  at: {user_line()}\n"
            "  hint: look at the primitives that the gradient has more of, and at derivatives of one's own\n\n"
            f"{cost}"
        )


def assert_cheap_gradient(
    f: Any,
    *arguments: Any,
    factor: float = 5.0,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    functions: str = "environment",
) -> Cost:
    """Asserts that value and gradient of f take at most `factor` times the scalar operations of f at these arguments.

    The program is that of `value_and_grad`, with the same f, argnums, has_aux and functions; only the types of the
    arguments count, and nothing is computed.  Operations are counted as `operations` says: entries of results,
    loops as often as they run, without dead code and without what only moves entries.  Gives both counts.

    The cheap gradient principle promises a small constant for programs of elementary operations: 5, whatever the number
    of arguments (W. Baur and V. Strassen, 1983; A. Griewank and A. Walther, *Evaluating Derivatives*, chapter 4).  What
    breaks it is a derivative of one's own that does more, or a primitive whose pullback is no elementary one.

    Raises `CostError` (an `AssertionError`), with both counts by primitives, and what `value_and_grad` raises.
    """
    real("the factor", factor)
    argument_type(arguments)  # raises for what is no value, and has no type either
    if any(isinstance(leaf, Function) for leaf in jax.tree.leaves(arguments)):
        raise ArgumentError(
            "a function is given by its type",
            expected="a function value: what it costs is in its code",
            got=arguments,
            hint="function(f, domain) makes a function value of a Python function",
        )
    gradient = value_and_grad(f, argnums, has_aux, functions=functions)
    cost = Cost(operations(ccc(f), *arguments), operations(gradient, *arguments))
    if cost.ratio > factor:
        raise CostError(cost, factor)
    return cost
