"""Users' pullbacks for functions of functions: what a function argument gets is stated as its calls.

    f : τ ⇝ σ  with the rule  (x, y, g) ↦ gx,    at function types in τ    gx = [(argument, cotangent of its result)]

The calls are the function's list tangent (paper 003, figure 3), and `curry`'s pullback of that figure makes of them the
cotangent of what the function captured, in the environment space too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from combinators.context import Context
from combinators.depth import users_own
from combinators.errors import ArityError, NotDifferentiableError
from combinators.records import from_records
from combinators.terms import Call
from tangents.control.stated import of_stated
from tangents.control.transposes import transposed
from tangents.cotangents.sparse import ZERO, Cotangent, Sparse, nothing, release
from tangents.duals import dual, pair
from tangents.spaces.environment import ENVIRONMENT
from tangents.spaces.space import Representation, Represented, Space


@dataclass(frozen=True)
class Rule:
    """What the `rule` of a `Call` at Δ·τ gives: the user's pullback, and how many arguments τ stands for.

    `known` is what computes the value, if that is not the body of the call, which then has its type alone.  `apart` is
    that of `custom`.
    """

    pullback: Callable[..., Any]
    arity: int
    known: Callable[..., Any] | None
    apart: Callable[..., Any] | None

    def groups(self, x: Context, y: Any) -> list[list[int]] | None:
        """The leaves of the result y that forward mode keeps apart, by their numbers; the others have no tangent."""
        return self.apart and self.apart((x[-1],) if self.arity == 1 else x[-1], y)

    def value(self, call: Call, x: Context) -> Any:
        """The value of the call at Δ·τ."""
        raise NotImplementedError

    def pull(
        self, rep: Representation, space: Space, x: Context, y: Any, g: Any, arrived: tuple[bool, ...]
    ) -> Cotangent:
        """The cotangent of Δ·τ at the marked x, from that of the result y, and which leaves of it are no zeros."""
        *outside, argument = x
        if space.is_active(outside):
            raise NotDifferentiableError(
                "a function with a pullback of its own captured what a derivative is asked for",
                expected="a function that depends on its arguments alone",
                got="captured values of which a derivative is asked",
                hint="make it an argument; what function arguments captured has its cotangents from their calls",
            )
        arguments = (argument,) if self.arity == 1 else argument
        wanted = tuple(space.is_active(a) for a in arguments)
        stated = self._stated((release(arguments), y, g), {"wanted": wanted, "arrived": arrived})
        found = [
            of_stated(rep, space, a, s, f"the cotangent that is stated for argument {i}") if w else ZERO
            for i, (a, s, w) in enumerate(zip(arguments, stated, wanted, strict=True))
        ]
        several = Sparse((i, c) for i, c in enumerate(found) if c is not ZERO) or ZERO
        whole = found[0] if self.arity == 1 else several
        return whole if whole is ZERO else Sparse({len(outside): whole})

    def _stated(self, given: tuple[Any, ...], facts: dict[str, Any]) -> Any:
        """What the user's pullback gives: one cotangent for each argument."""
        with users_own():
            stated = asking(self.pullback, facts)(*map(from_records, given))
        if isinstance(stated, tuple | list) and len(stated) == self.arity:
            return stated
        raise ArityError(
            "a pullback gives one cotangent for each argument",
            expected=f"a tuple of {self.arity}",
            got=repr(stated),
            hint="None stands for an argument without a cotangent",
        )


def asking(pullback: Callable[..., Any], facts: dict[str, Any]) -> Callable[..., Any]:
    """The pullback as a function of three arguments, that is told the facts for which it has names."""
    try:
        names = inspect.signature(pullback).parameters
    except (TypeError, ValueError):
        return pullback
    return partial(pullback, **{name: fact for name, fact in facts.items() if name in names})


def rule_of(call: Call) -> Rule:
    """The rule of a call that has one."""
    rule = None if call.rule is None else call.rule()
    assert isinstance(rule, Rule)
    return rule


def ruled(rep: Representation, space: Space, call: Call, x: Context) -> Represented:
    """custom(f, rule) x = (f x, λ g. the cotangents that the rule states, of functions by their calls)"""
    rule = rule_of(call)
    y = rule.value(call, release(x))
    if not space.is_active(x):
        return space.hold(y), nothing
    y = space.activate(y)

    def pullback(g: Cotangent) -> Cotangent:
        found = zip(space.gather(g, y), space.leaves(y), strict=True)
        arrived = tuple(c is not ZERO for c, leaf in found for _ in jax.tree.leaves(leaf))
        return rule.pull(rep, space, x, release(y), space.dense(g, y), arrived)

    return y, pullback


def pushed(rep: Representation, call: Call, x: Context) -> Any:
    """D[custom(f, rule)] x, on duals: what the rule states is the pullback, and the pushforward is its transpose."""
    rule = rule_of(call)
    known, given = pair(x)
    y = rule.value(call, known)
    if not given:
        return y
    marked = ENVIRONMENT.remark(known, tuple(i not in given for i in range(len(jax.tree.leaves(known)))))

    def pull(g: dict[int, Any], arrived: tuple[bool, ...]) -> dict[int, Any]:
        whole = ENVIRONMENT.dense(ENVIRONMENT.placed(g, ENVIRONMENT.activate(y)), y)
        return ENVIRONMENT.filled(rule.pull(rep, ENVIRONMENT, marked, y, whole, arrived), marked)

    like, found = ENVIRONMENT.structs(ENVIRONMENT.activate(y)), {}
    for group in rule.groups(known, y) or [list(like)]:
        arrived = tuple(i in group for i in range(len(jax.tree.leaves(y))))
        linear = lambda *g, i=group, arrived=arrived: tuple(pull(dict(zip(i, g, strict=True)), arrived).values())
        t = transposed(rep, linear, [like[i] for i in group])
        found.update(zip(group, t(*given.values()), strict=True))
    return dual(y, found)
