"""The body of a recursion as a program over arrays: operations, calls of itself, and choices in which it calls itself.

    p ::= x = operation; p | x = self(a); p | x = choice i of p | ... | p; p | results

Anything else in which the function itself turns up is refused: compiled code has no closure of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.extend.core as jex

from combinators.errors import UnsupportedError, user_line
from compile_ccc.carriers import eval_p
from compile_ccc.jaxprs import compat

type Atom = Any  # a variable or a literal of JAX


@dataclass(frozen=True, eq=False)
class Operation:
    """An equation of JAX in which the function itself does not come up."""

    equation: Any


@dataclass(frozen=True, eq=False)
class SelfCall:
    """x = self(a), by leaves."""

    arguments: tuple[Atom, ...]
    results: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """x = choice i of p | ... | p, where the function calls itself in one of the branches."""

    number: Atom
    branches: tuple[Body, ...]
    results: tuple[Any, ...]


type Step = Operation | SelfCall | Choice


@dataclass(frozen=True, eq=False)
class Body:
    """Steps, and what comes out."""

    steps: tuple[Step, ...]
    results: tuple[Atom, ...]

    @property
    def ends(self) -> bool:
        """Whether there is a way through it without a call of itself."""
        called = any(isinstance(step, SelfCall) for step in self.steps)
        choices = [step for step in self.steps if isinstance(step, Choice)]
        return not called and all(any(branch.ends for branch in choice.branches) for choice in choices)


def unfolded(program: Any, inputs: list[Any], itself: Any, constants: dict[Any, Any]) -> Body:
    """The body that a program is on these variables, of which one is the function itself.

    `constants` gets the values of the variables that are constant.

    Raises `UnsupportedError`, with the user's line, where the function itself is more than called.
    """
    jaxpr = program.jaxpr
    outer = [jex.Var(v.aval) for v in jaxpr.constvars]
    constants.update(zip(outer, program.consts, strict=True))
    env: dict[Any, Atom] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*outer, *inputs), strict=True))
    atom = lambda v: v if type(v) is jex.Literal else env[v]
    steps: list[Step] = []
    for equation in jaxpr.eqns:
        operands = [atom(v) for v in equation.invars]
        inside = compat.called(equation)
        if not any(a is itself for a in operands):
            results = [jex.Var(v.aval) for v in equation.outvars]
            steps.append(Operation(equation.replace(invars=operands, outvars=results)))
        elif equation.primitive is eval_p and _is_call(equation, operands, itself):
            results = [jex.Var(v.aval) for v in equation.outvars]
            steps.append(SelfCall(tuple(operands[1:]), tuple(results)))
        elif equation.primitive.name == "cond":
            branches = [unfolded(branch, operands[1:], itself, constants) for branch in compat.branches(equation)]
            if any(a is itself for branch in branches for a in branch.results):
                raise _refused(equation)
            results = [jex.Var(v.aval) for v in equation.outvars]
            steps.append(Choice(operands[0], tuple(branches), tuple(results)))
        elif inside is not None:
            body = unfolded(inside, operands, itself, constants)
            steps += body.steps
            results = list(body.results)
        else:
            raise _refused(equation)
        env.update(zip(equation.outvars, results, strict=True))
    return Body(tuple(steps), tuple([atom(v) for v in jaxpr.outvars]))


def _is_call(equation: Any, operands: list[Atom], itself: Any) -> bool:
    """Whether an application is one of the function itself, and not to itself."""
    return operands[0] is itself and not equation.params["batch"] and not any(a is itself for a in operands[1:])


def _refused(equation: Any) -> UnsupportedError:
    what = {"lam": "a function that captures it", "eval": "jax.vmap, or an argument"}
    taken = f"it is taken into {what.get(equation.primitive.name, equation.primitive.name)}"
    return more_than_called(taken, user_line(compat.frames(equation.source_info)))


def more_than_called(got: str, line: str) -> UnsupportedError:
    """The error for a function that does more with itself than call it."""
    return UnsupportedError(
        "a recursive function is more than called by itself, which cannot be compiled",
        expected="calls of it, also in the branches of lax.cond and lax.switch",
        got=got,
        line=line,
        hint="call it beside loops, maps and other functions, and hand them what it gives",
    )
