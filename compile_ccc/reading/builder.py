"""Blocks of a λ-term under construction: what every reader of a part of a program appends its bindings to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import jax.extend.core as jex
import numpy as np
from jax.dtypes import float0

from combinators import staging
from combinators.errors import FunctionArithmeticError, UnsupportedError, user_line
from combinators.types import LEAF, Function, Tensor, Type, children
from compile_ccc.carriers import is_carrier
from compile_ccc.jaxprs import compat
from compile_ccc.lambda_terms import Atom, Block, Component, Constant, Expression, Product, Var
from compile_ccc.reading.named_parts import Part, parts

type Levels = tuple[tuple[int, tuple[bool, ...]], ...]  # outermost first: the size, and which operands have the axis


@dataclass(eq=False, frozen=True)
class Made:
    """An array of functions, which an equation gives: what makes one of them from operands, these, and their levels."""

    eqn: Any
    type: Function
    make: Callable[[Builder, list[Any]], Atom]
    operands: list[Any]
    batch: Levels


class Builder:
    """A block under construction: `let` appends a binding and gives its variable."""

    def __init__(self, names: Iterator[str], functions: bool, rules_capture: bool):
        self.names, self.functions, self.rules_capture = names, functions, rules_capture
        self.bindings: list[tuple[Var, Expression]] = []
        self.calls: list[Any] = []  # of the programs that are being inlined
        self.scopes: list[dict[Any, Any]] = []  # the atoms of the variables of these, and of the programs around

    def let(self, e: Expression, type: Type) -> Var:
        x = Var(next(self.names), type)
        self.bindings.append((x, e))
        return x

    def close(self, result: Atom) -> Block:
        return Block(tuple(self.bindings), result)

    def inner(self) -> Self:
        """The builder of a block inside this one."""
        block = type(self)(self.names, self.functions, self.rules_capture)
        block.calls, block.scopes = list(self.calls), list(self.scopes)
        return block

    def leaves(self, a: Any, type: Type) -> list[Any]:
        """Binds the leaves of a value of this type, by projection."""
        pairs, form = ((), LEAF) if isinstance(type, Tensor) else children(type)
        if form == LEAF:
            return [a]
        return [leaf for key, t in pairs for leaf in self.leaves(self.let(Component(a, key), t), t)]

    def build(self, leaves: list[Any], type: Type) -> Atom:
        """Binds the value of this type that has these leaves, taking them from the list."""
        pairs, form = ((), LEAF) if isinstance(type, Tensor) else children(type)
        if form != LEAF:
            return self.let(Product(tuple([self.build(leaves, t) for _, t in pairs]), form), type)
        leaf = leaves.pop(0)
        if isinstance(leaf, Made):
            raise array_of_functions(leaf.eqn, leaf.batch[0][0], leaf.type)
        return leaf

    def run(self, program: Any, inputs: list[Any], names: int = 0) -> list[Any]:
        """Appends the equations of a program on these inputs, and gives the atoms of its outputs.

        So many `names` of parts are around it.
        """
        env: dict[Any, Any] = dict(zip((*program.constvars, *program.invars), inputs, strict=True))

        def literal(v: Any) -> Any:
            if self.functions and is_carrier(v.aval):
                raise FunctionArithmeticError(
                    "a number is put in the place of a function",
                    expected="a function of the program",
                    got=repr(v),
                    hint="zeros_like and the like have no meaning for functions that are not known yet",
                )
            return Constant(_literal(v))

        self.scopes.append(env)
        for eqn in parts(program, names):
            operands = [literal(v) if type(v) is jex.Literal else env[v] for v in eqn.invars]
            results = self.part(eqn, operands, names + 1) if type(eqn) is Part else self.equation(eqn, operands)
            env.update(zip(eqn.outvars, results, strict=True))
        self.scopes.pop()
        return [literal(v) if type(v) is jex.Literal else env[v] for v in program.outvars]

    def atom_of(self, tracer: Any) -> Any:
        """The atom that a tracer was in a program that is being read, or None."""
        variable = staging.variable_of(tracer)
        return next((scope[variable] for scope in reversed(self.scopes) if variable in scope), None)

    def equation(self, eqn: Any, operands: list[Any]) -> list[Any]:
        """Appends what an equation of a program stands for, at these operands, and gives the atoms of its results."""
        raise NotImplementedError

    def part(self, part: Part, operands: list[Any], names: int) -> list[Any]:
        """Appends a part of a program that has a name, inside of which there are so many around."""
        raise NotImplementedError

    def application(self, eqn: Any, operands: list[Any], batch: Levels) -> list[Any]:
        """Appends an application of a function to its arguments, and gives the leaves of the result."""
        raise NotImplementedError


def array_of_functions(eqn: Any, size: int, type: Type) -> UnsupportedError:
    """The error of functions that are to be one value, since `jax.vmap` made an equation one for all of its lanes."""
    return UnsupportedError(
        "an array of functions leaves the vmap that makes it, or is the state of a loop, one for each lane",
        expected="functions that are made and applied inside the vmap",
        got=f"{size} functions of type {type}",
        line=user_line(compat.frames(eqn.source_info)),
        hint="map by C.map instead of jax.vmap, which makes one loop for all lanes; or apply the functions inside",
    )


def _literal(v: Any) -> Any:
    value = np.asarray(v.val).astype(v.aval.dtype)
    if value.ndim or value.dtype == float0:  # an element of float0 would be no value of JAX's
        return value
    return value.item() if v.aval.weak_type else value[()]
