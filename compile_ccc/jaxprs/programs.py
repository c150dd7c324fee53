"""Programs as values: equations of JAX over places, ready to be copied, evaluated or called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count, filterfalse
from operator import attrgetter
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np

from combinators import staging
from combinators.memo import remembered
from compile_ccc.jaxprs import compat
from compile_ccc.jaxprs.flow import is_variable, needed


@dataclass(eq=False)
class Program:
    """A program over `constants`, which are values from outside, and inputs; `variables` stand for both, in this order.

    `form` is the pytree of its result, `name` that of its calls.  `is_high` says that JAX has yet to write some
    operation of it in terms of lower ones.
    """

    constants: list[Any]
    variables: list[Any]
    outputs: list[Any]
    equations: list[Any]
    form: Any = None
    name: str = "program"
    is_high: bool = False

    @classmethod
    def of(cls, jaxpr: Any, form: Any = None) -> Program:
        """The program of a jaxpr."""
        variables = [*jaxpr.constvars, *jaxpr.invars]
        return cls(list(jaxpr.consts), variables, jaxpr.outvars, jaxpr.eqns, form, is_high=jaxpr.is_high)

    @classmethod
    def pruned(
        cls,
        constants: Sequence[tuple[Any, Any]],
        inputs: list[Any],
        outputs: list[Any],
        equations: list[Any],
        form: Any,
        name: str,
        is_high: bool,
    ) -> Program:
        """A program of these equations, but for those, and constants, that no output and no effect depends on."""
        alive, read = needed(equations, outputs)
        kept = [(variable, value) for variable, value in constants if variable in read]
        variables = [*[variable for variable, _ in kept], *inputs]
        return cls([value for _, value in kept], variables, outputs, alive, form, name, is_high)

    def only(self, numbers: Sequence[int]) -> Program:
        """The program of its outputs with these numbers."""
        return self.giving([self.outputs[i] for i in numbers])

    def giving(self, values: Any) -> Program:
        """The program of these of its values, a pytree."""
        constants = list(zip(self.variables, self.constants, strict=False))
        outputs, form = jax.tree.flatten(values)
        facts = (form, self.name, self.is_high)
        return Program.pruned(constants, self.variables[len(constants) :], outputs, self.equations, *facts)

    def lean(self) -> tuple[Program, list[int]]:
        """The program without the inputs that it does not read, and the numbers of those that it reads."""
        read = {*filter(is_variable, chain(*map(_operands, self.equations), self.outputs))}
        count = len(self.constants)
        stay = [i for i, v in enumerate(self.variables[count:]) if v in read]
        return replace(self, variables=self.variables[:count] + [self.variables[count + i] for i in stay]), stay

    def between(self, known: Sequence[Any], wanted: Sequence[Any], form: Any = None) -> Program:
        """The program of some of its values from its constants and from others of its values, which are known."""
        return self._between(known, wanted, form, self.equations)

    def again(self, known: Sequence[Any], wanted: Sequence[Any]) -> Program:
        """The same, to be run beside the program: without its effects, on which none of these values depends."""
        return self._between(known, wanted, None, [e for e in self.equations if not e.effects])

    def _between(self, known: Sequence[Any], wanted: Sequence[Any], form: Any, equations: list[Any]) -> Program:
        given = set(known)
        others = lambda vs: [jex.Var(v.aval) if v in given else v for v in vs]
        equations = [e if given.isdisjoint(e.outvars) else e.replace(outvars=others(e.outvars)) for e in equations]
        constants = [(v, value) for v, value in zip(self.variables, self.constants, strict=False) if v not in given]
        return Program.pruned(constants, [*known], [*wanted], equations, form, self.name, self.is_high)

    def split(self) -> tuple[Program, list[Any]]:
        """The program of what depends on the constants alone, and the equations of the rest.

        The number of the platform is asked for in both: a choice by a number that is given is one for all platforms.
        """
        known = set(self.variables[: len(self.constants)])
        platform: set[Any] = set()
        before: list[Any] = []
        rest: list[Any] = []
        for equation in self.equations:
            operands = set(filter(is_variable, equation.invars))
            alone = not equation.effects and known.issuperset(operands)
            if equation.primitive.name == "platform_index" or (
                equation.primitive is jex.primitives.clamp_p and not platform.isdisjoint(operands)
            ):
                platform.update(equation.outvars)
                rest.append(equation)
            (before if alone else rest).append(equation)
            known.update(equation.outvars if alone else ())
        wanted = {*filter(is_variable, chain(*map(_operands, rest), self.outputs))}
        results = [v for equation in before for v in equation.outvars if v in wanted and v not in platform]
        variables = self.variables[: len(self.constants)]
        return Program(self.constants, variables, results, before, is_high=self.is_high), rest

    def fixed(self) -> dict[int, Any]:
        """The outputs that are constants: their values by their numbers."""
        values = dict(zip(self.variables, self.constants, strict=False))
        literals = {i: v.val for i, v in enumerate(self.outputs) if type(v) is jex.Literal}
        return literals | {i: values[v] for i, v in enumerate(self.outputs) if i not in literals and v in values}

    @cached_property
    def nonzero(self) -> list[int]:
        """The numbers of the outputs that are no zeros, where these are written out."""
        zeros = {e.outvars[0] for e in self.equations if e.primitive is _BROADCAST and writes_zeros(e)}
        zeros |= {id(v) for v in self.outputs if type(v) is jex.Literal and is_zero(v)}  # literals have no hash
        return [i for i, v in enumerate(self.outputs) if (id(v) if type(v) is jex.Literal else v) not in zeros]

    @cached_property
    def in_places(self) -> tuple[list[Any], list[tuple[Any, list[int], list[Any]]], list[int], set[str]]:
        """The literals that it reads, its steps, the places of its outputs, names of operations: what a copy takes.

        A step is an equation with the places of its operands and the types of its results.  Variables have the first
        places, then come literals, then results in their order.
        """
        literals = [*filterfalse(is_variable, chain(*map(_operands, self.equations), self.outputs))]
        values = chain(self.variables, literals, *map(_results, self.equations))
        place = dict(zip(map(id, values), count(), strict=False)).__getitem__
        steps = [(e, [*map(place, map(id, e.invars))], [*map(_type, e.outvars)]) for e in self.equations]
        return literals, steps, [*map(place, map(id, self.outputs))], {e.primitive.name for e in self.equations}

    @cached_property
    def jaxpr(self) -> Any:
        """The program for JAX: constants first, then inputs."""
        effects = frozenset().union(*map(_effects, self.equations))
        names = staging.names(self.name, len(self.variables), len(self.outputs))
        return jex.Jaxpr([], self.variables, self.outputs, self.equations, effects, names, is_high=self.is_high)

    def __call__(self, *leaves: Any) -> Any:
        """The result on the leaves of the arguments, by one call of the program's name."""
        return self.form.unflatten(self.call(leaves))

    def call(self, leaves: Sequence[Any]) -> list[Any]:
        """The results on these inputs, by one call of the program; operation by operation under `jax.disable_jit`.

        So it is where JAX looks for the operation that gave a NaN or an infinity, under `jax.debug_nans`.
        """
        if jax.config.jax_disable_jit or jax.config.jax_debug_nans or jax.config.jax_debug_infs:
            return stepwise(self.jaxpr, [*self.constants, *leaves])
        if not self.outputs and not self.jaxpr.effects:
            return []
        return jex.primitives.jit_p.bind(*self.constants, *leaves, **compat.call_parameters(self.jaxpr, self.name))


_operands, _results, _effects = attrgetter("invars"), attrgetter("outvars"), attrgetter("effects")
_type = attrgetter("aval")
_BROADCAST = jex.primitives.broadcast_in_dim_p


def writes_zeros(equation: Any) -> bool:
    """Whether an equation of a program gives an array of zeros, written out."""
    return equation.primitive is _BROADCAST and is_zero(equation.invars[0])


def is_zero(v: Any) -> bool:
    """Whether a value of a program is a literal of zeros."""
    if type(v) is not jex.Literal:
        return False
    value = np.asarray(v.val)
    return value.dtype == jax.dtypes.float0 or bool(np.all(value == 0))


def written(f: Any, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """The equations of f, which gives a list, on these operands, with these results."""
    jaxpr = staging.program(f, [v.aval for v in operands])
    env: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
    return renamed(jaxpr.eqns, env | dict(zip(jaxpr.outvars, results, strict=True)))


def renamed(equations: Sequence[Any], env: dict[Any, Any]) -> list[Any]:
    """Equations on other variables: those that `env` says, and new ones, which are added to it."""
    atom = lambda v: v if type(v) is jex.Literal else env.setdefault(v, jex.Var(v.aval))
    return [e.replace(invars=[*map(atom, e.invars)], outvars=[*map(atom, e.outvars)]) for e in equations]


def stepwise(jaxpr: Any, values: Sequence[Any]) -> list[Any]:
    """The results of a program without constants, operation by operation, in the programs that it calls too."""
    env = dict(zip(jaxpr.invars, values, strict=True))
    of = lambda v: v.val if type(v) is jex.Literal else env[v]
    for equation in jaxpr.eqns:
        operands, inner = [of(v) for v in equation.invars], compat.called(equation)
        if inner is not None:
            results = stepwise(inner.jaxpr, [*inner.consts, *operands])
        else:
            with equation.ctx.manager:
                results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
            results = results if equation.primitive.multiple_results else [results]
        env.update(zip(equation.outvars, results, strict=True))
    return [of(v) for v in jaxpr.outvars]


def literal_of(value: Any) -> Any:
    """A scalar as JAX writes it."""
    return _literal(value, repr(value), type(value), jax.config.jax_enable_x64)  # 0.0 is not -0.0, and 1 is not True


@remembered(entries=4096)
def _literal(value: Any, *_: Any) -> Any:
    return staging.program(lambda: [value], []).outvars[0]
